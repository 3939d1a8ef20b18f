//! The L1 sensitivity of path sums with equal weights, which Laplace noise is scaled to.
//!
//! **The shift.** The releases of a stream with an event at step `i` under the noise `z` are those of the stream
//! without it under `z + v`, for any `v` with `L v = a_i`, `a_i` = ones from step `i` on. Under Laplace noise of scale
//! `λ`, continuous or discrete, the probabilities of `z` and `z + v` differ by a factor of at most `e^(‖v‖₁/λ)`. Equal
//! releases mean equal data, so this holds for data and events that depend on earlier releases. Hence the noise is
//! `s1/λ`-DP for `s1 = max_i min { ‖v‖₁ : L v = a_i }`, and shifts of several events add up.
//!
//! **No smaller number holds.** By duality the minimum is `y·a_i` for some `y` with `‖Lᵀ y‖_∞ ≤ 1`. Far out in a
//! direction in which `y` is the gradient of `min { ‖z‖₁ : L z = x }`, the density of `L z` at `x` falls like
//! `e^(-y·x/λ)` up to polynomial factors, so that the log-ratio of the densities at `x` and `x - a_i` tends to
//! `y·a_i/λ`.
//!
//! **The minimum.** Let `p_n` be the sum of `v` along the path to node `n`, 0 above the root. Then
//! `‖v‖₁ = Σ |p_n - p_parent(n)|`, and `p` is 0 or 1 at every leaf. For almost every `θ` the numbers `[p_n > θ]` are
//! possible, too, and the mean of their sums over `0 < θ < 1` is at most the sum for `p`: some `p` of zeros and ones
//! is best. Off the path to leaf `i` all leaves under a node have one target, so that the node itself takes it. On the
//! path a table of two costs, for a sum of 0 or 1 above, is enough: they differ by at most 1, and of the possible steps
//! `i` only the largest costs for each difference are kept. `O(log T)` in all.
//!
//! With the root and `T = 2^h` leaves this is `⌊h/2⌋ + 1`: the worst path alternates between left and right. The
//! published bound is `h + 1`, one for every level (Dwork, Naor, Pitassi, Rothblum 2010).

use super::height;

/// The cheapest shifts within a subtree: `cost + |x - nearest value of between|` for a sum of `x` above it.
#[derive(Clone, Copy)]
struct SubtreeShift {
    between: (f64, f64),
    cost: f64,
}

impl SubtreeShift {
    /// A leaf, whose sum is given.
    fn leaf(sum: f64) -> Self {
        Self { between: (sum, sum), cost: 0.0 }
    }

    /// Two blocks side by side under a node with noise. For a sum of `p` there, the cost of both has the slope -2 up to
    /// the first of four values, and then -1, 0, 1 and 2; a change at the node costs 1, so that slopes stay within 1.
    fn join(self, right: Self) -> Self {
        let starts_end = self.between.0.max(right.between.0);
        let ends_start = self.between.1.min(right.between.1);
        Self {
            between: (starts_end.min(ends_start), starts_end.max(ends_start)),
            cost: self.cost + right.cost + (starts_end - ends_start).max(0.0),
        }
    }

    /// With this sum above.
    fn cost_under(self, sum: f64) -> f64 {
        self.cost + (self.between.0 - sum).max(0.0) + (sum - self.between.1).max(0.0)
    }
}

/// The least L1 norm of a shift of the noise on the lowest `levels` levels that changes the running sums of the first
/// steps by these differences: `Σ |p_n - p_parent(n)|` for the best sums `p` of the inner nodes. `O(T)`.
///
/// ```text
/// min_p |p - x| + Σ_children cost_under(p)
/// ```
///
/// is convex in `x`, with slopes from -1 to 1 that change at two values, as for a leaf: so no subtree needs more.
pub(super) fn least_shift(differences: &[f64], levels: u32) -> f64 {
    let mut blocks: Vec<SubtreeShift> = differences.iter().copied().map(SubtreeShift::leaf).collect();
    for _ in 1..levels {
        blocks = blocks
            .chunks(2)
            .map(|pair| pair.iter().copied().reduce(SubtreeShift::join).expect("no chunk is empty"))
            .collect();
    }
    blocks.into_iter().map(|block| block.cost_under(0.0)).sum()
}

/// The cost of the cheapest shift within a subtree, for a sum of 0 and of 1 above it.
#[derive(Clone, Copy)]
struct ShiftCosts {
    /// With 0 above.
    from_zero: u32,
    /// With 1 above.
    from_one: u32,
}

/// The costs of the worst steps of a subtree: for each difference `from_one - from_zero`, -1, 0 or 1, the largest.
#[derive(Clone, Copy, Default)]
struct WorstCosts([Option<u32>; 3]);

impl WorstCosts {
    /// A leaf, whose own step is the event's: its sum must be 1.
    const LEAF: Self = Self([Some(1), None, None]);

    /// Under a node with noise, which may change the sum at a cost of 1; so costs differ by at most 1.
    fn under_noise(costs: impl Iterator<Item = ShiftCosts>) -> Self {
        let mut worst = Self::default();
        for ShiftCosts { from_zero, from_one } in costs {
            let (zero, one) = (from_zero.min(from_one + 1), from_one.min(from_zero + 1));
            let slot = &mut worst.0[(one + 1 - zero) as usize];
            *slot = (*slot).max(Some(zero));
        }
        worst
    }

    fn costs(self) -> impl Iterator<Item = ShiftCosts> {
        let of = |(slot, from_zero): (usize, Option<u32>)| {
            from_zero.map(|from_zero| ShiftCosts { from_zero, from_one: from_zero + slot as u32 - 1 })
        };
        self.0.into_iter().enumerate().filter_map(of)
    }
}

/// Two blocks side by side. With the event on the left, all sums on the right must be 1; with the event on the right,
/// those on the left must be 0.
fn side_by_side(left: WorstCosts, right: WorstCosts) -> impl Iterator<Item = ShiftCosts> {
    let on_left = left.costs().map(|c| ShiftCosts { from_zero: c.from_zero + 1, ..c });
    let on_right = right.costs().map(|c| ShiftCosts { from_one: c.from_one + 1, ..c });
    on_left.chain(on_right)
}

/// `s1` over `horizon` steps with noise of one scale on the lowest `levels` levels, of which at most the one above the
/// horizon's blocks is missing.
pub(super) fn sensitivity(horizon: u64, levels: u32) -> u32 {
    let height = height(horizon);
    // The complete blocks of a level, and the last one, cut at the horizon.
    let (mut complete, mut last) = (WorstCosts::LEAF, WorstCosts::LEAF);
    for level in 1..=height {
        let has_left = (horizon - 1) >> (level - 1) & 1 == 1;
        if level == levels {
            // Without the root, the sum above is 0. The horizon's highest bit is set: its tree has two halves.
            return side_by_side(complete, last).map(|costs| costs.from_zero).fold(0, u32::max);
        }
        last = if has_left {
            WorstCosts::under_noise(side_by_side(complete, last))
        } else {
            WorstCosts::under_noise(last.costs())
        };
        complete = WorstCosts::under_noise(side_by_side(complete, complete));
    }
    // One node on each level above is read by all of these steps.
    let top = (height + 1..levels).fold(last, |last, _| WorstCosts::under_noise(last.costs()));
    top.costs().map(|costs| costs.from_zero).fold(0, u32::max)
}
