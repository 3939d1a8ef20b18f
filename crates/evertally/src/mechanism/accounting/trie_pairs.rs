//! The information that two steps of a trie reveal together, and so the sensitivity to a unit in several steps.
//!
//! `G_st = a_sᵀ C⁻¹ a_t` for `s ≤ t`, in the notation of [`trie`](super::trie), along the paths from the leaf of each
//! step up to the root. As long as the paths are disjoint, only `b_s = 1ᵀC⁻¹a_s` is followed: next to a later subtree
//! it grows by the subtree's `α`, under an edge of variance `v` it is divided by `d = 1 + vα`. Where the paths meet,
//! `a_s` is 1 on all of the subtree of `t`, so that `G_st = b_t` there. From then on a later subtree adds its `α` to
//! `G_st`, `b_s` and `b_t`, and an edge subtracts `v b_s b_t/d` from `G_st` (Sherman–Morrison). `O(height)`.
//!
//! **Chains.** `u = C⁻¹ a_t` is not negative from `t` on and not positive before, and `G_st ≥ 0` (header of
//! [`shift`](super::shift)). As `G_st = a_sᵀ u` is the sum of `u` from `s` on, it falls as `s` moves away from `t`, to
//! either side. [`chain`](super::chain) requires this. In blocks: no pair of a step up to `s` with one from `t ≥ s` on
//! has more than `G_st`.
//!
//! **Never too small.** As in [`trie`](super::trie): `b` is carried as a lower bound wherever it is subtracted, and
//! every operation is followed by one step outwards.

use super::chain::ColumnProducts;

/// A node on the path from a leaf to the root, with the edge above it.
#[derive(Clone, Copy, Debug)]
pub(in crate::mechanism) struct Rung {
    /// The information of all steps below, without the edge.
    pub(in crate::mechanism) inside: Alpha,
    /// The variance of the edge.
    pub(in crate::mechanism) variance: f64,
    /// The information of the later steps next to it, with their edge.
    pub(in crate::mechanism) later: Alpha,
}

/// `α = 1ᵀC⁻¹1` of the steps of a subtree: a lower and an upper bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::mechanism) enum Alpha {
    /// No steps.
    Empty,
    /// One step whose edge has not added noise yet.
    Bare,
    /// Steps, all with noise.
    Noisy(f64, f64),
}

impl Alpha {
    /// Under an edge.
    pub(in crate::mechanism) fn under(self, variance: f64) -> Self {
        match self {
            Self::Noisy(least, most) if variance > 0.0 => {
                // α/(1 + vα) rises with α.
                let least = (least / (1.0 + (variance * least).next_up()).next_up()).next_down();
                let most = (most / (1.0 + (variance * most).next_down()).next_down()).next_up();
                Self::Noisy(least, most)
            }
            Self::Bare if variance > 0.0 => Self::Noisy((1.0 / variance).next_down(), (1.0 / variance).next_up()),
            unchanged => unchanged,
        }
    }

    /// The sum for both subtrees.
    ///
    /// # Panics
    /// If one of two is a step without noise.
    pub(in crate::mechanism) fn beside(self, other: Self) -> Self {
        match (self, other) {
            (Self::Empty, only) | (only, Self::Empty) => only,
            (Self::Noisy(a, b), Self::Noisy(c, d)) => Self::Noisy((a + c).next_down(), (b + d).next_up()),
            _ => unreachable!("a step without its own noise has no sibling"),
        }
    }

    /// As numbers to add: zero if there is no step.
    fn bounds(self) -> (f64, f64) {
        match self {
            Self::Noisy(least, most) => (least, most),
            Self::Empty | Self::Bare => (0.0, 0.0),
        }
    }
}

/// `b` of a step on its way up, as bounds; `None` as long as it has no noise.
#[derive(Clone, Copy)]
struct Climber(Option<(f64, f64)>);

impl Climber {
    fn pass(&mut self, rung: &Rung) {
        self.0 = match self.0 {
            None if rung.variance > 0.0 => Some(((1.0 / rung.variance).next_down(), (1.0 / rung.variance).next_up())),
            Some((least, most)) if rung.variance > 0.0 => {
                let (d, e) = denominators(rung);
                Some(((least / e).next_down(), (most / d).next_up()))
            }
            unchanged => unchanged,
        };
    }

    fn step_beside(&mut self, later: (f64, f64)) {
        if let Some((least, most)) = &mut self.0
            && later.1 > 0.0
        {
            (*least, *most) = ((*least + later.0).next_down(), (*most + later.1).next_up());
        }
    }
}

/// Bounds of `d = 1 + vα`.
fn denominators(rung: &Rung) -> (f64, f64) {
    let (least, most) = rung.inside.bounds();
    ((1.0 + (rung.variance * least).next_down()).next_down(), (1.0 + (rung.variance * most).next_up()).next_up())
}

/// An upper bound of `G_st`, from the paths of `s ≤ t` upwards, which are disjoint on the first `apart` rungs.
fn product(earlier: &[Rung], later: &[Rung], apart: usize) -> f64 {
    let (mut s, mut t) = (Climber(None), Climber(None));
    let mut product: Option<f64> = None;
    for (level, (own, other)) in earlier.iter().zip(later).enumerate() {
        let together = level >= apart;
        if together
            && own.variance > 0.0
            && let (Some(g), Some((b, _)), Some((c, _))) = (product, s.0, t.0)
        {
            let taken = ((own.variance * (b * c).next_down()).next_down() / denominators(own).1).next_down();
            product = Some((g - taken.max(0.0)).next_up());
        }
        s.pass(own);
        t.pass(other);
        if product.is_none() && level + 1 >= apart {
            product = t.0.map(|(_, most)| most);
        }
        let (_, beside) = own.later.bounds();
        if together && beside > 0.0 {
            product = product.map(|g| (g + beside).next_up());
        }
        s.step_beside(own.later.bounds());
        t.step_beside(other.later.bounds());
    }
    product.unwrap_or(f64::INFINITY)
}

/// A trie whose leaves are steps, reduced to what this module needs. All leaves are equally deep.
pub(in crate::mechanism) trait Trie {
    /// The index of a step's leaf; its binary digits are the path down to it.
    fn leaf(&self, step: u64) -> u128;

    /// Writes the nodes from the leaf of a step upwards, replacing the previous contents.
    fn climb(&self, step: u64, rungs: &mut Vec<Rung>);
}

/// The steps up to a horizon.
pub(in crate::mechanism) struct StepPairs<'a, T> {
    pub(in crate::mechanism) trie: &'a T,
    pub(in crate::mechanism) horizon: u64,
    /// An upper bound of every `G_tt`.
    pub(in crate::mechanism) largest: f64,
}

impl<T: Trie> StepPairs<'_, T> {
    /// An upper bound of `G_st` for steps `1 ≤ s ≤ t ≤ T`.
    pub(in crate::mechanism) fn product(&self, earlier: u64, later: u64) -> f64 {
        let (mut own, mut other) = (Vec::new(), Vec::new());
        self.trie.climb(earlier, &mut own);
        self.trie.climb(later, &mut other);
        let apart = 128 - (self.trie.leaf(earlier) ^ self.trie.leaf(later)).leading_zeros();
        product(&own, &other, apart as usize)
    }
}

impl<T: Trie> ColumnProducts for StepPairs<'_, T> {
    fn steps(&self) -> usize {
        usize::try_from(self.horizon).unwrap_or(usize::MAX)
    }

    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        for (t, into) in into.iter_mut().enumerate().skip(distance) {
            *into = self.product((t - distance) as u64 + 1, t as u64 + 1);
        }
    }

    fn between(&self, distance: usize, earlier: (usize, usize), later: (usize, usize)) -> f64 {
        let last = earlier.1.min(later.1.saturating_sub(distance));
        match distance {
            0 => self.largest,
            // No step lies this far before these.
            _ if last == 0 => 0.0,
            // If both are in one block, a step may be at either end.
            _ if last >= later.0 => self.largest,
            _ => self.product(last as u64, later.0 as u64),
        }
    }
}

#[cfg(test)]
pub(in crate::mechanism) mod tests {
    use super::*;
    use crate::mechanism::accounting::chain;
    use crate::mechanism::{Mechanism, Participation};
    use nalgebra::DMatrix;

    /// Every pair against `Aᵀ (L Lᵀ)⁻¹ A` from another library's linear algebra: never below it, and hardly above.
    pub(in crate::mechanism) fn products_are_those_of_dense_algebra(trie: &impl Trie, mechanism: &dyn Mechanism) {
        let l = mechanism.dense().l;
        let (rows, columns) = l.shape();
        let l = DMatrix::from_fn(rows, columns, |i, j| l.row(i)[j]);
        let sums = DMatrix::from_fn(rows, rows, |t, i| f64::from(u8::from(t >= i)));
        let covariance = (&l * l.transpose()).cholesky().expect("releases are linearly independent");
        let gram = sums.transpose() * covariance.solve(&sums);
        let pairs = StepPairs { trie, horizon: mechanism.horizon(), largest: mechanism.exact_l2_squared().unwrap() };
        for s in 0..rows {
            for t in s..rows {
                let (ours, want) = (pairs.product(s as u64 + 1, t as u64 + 1), gram[(s, t)]);
                let place = format!("{} at {rows}, steps {s} and {t}: {ours}, {want}", mechanism.name());
                assert!(ours >= want - 1e-9 * (1.0 + want) && ours <= want + 1e-9 * (1.0 + want), "{place}");
                assert!(s == 0 || gram[(s - 1, t)] <= want + 1e-9, "grows with the distance: {place}");
                assert!(t + 1 == rows || gram[(s, t + 1)] <= want + 1e-9, "grows with the distance: {place}");
            }
        }
    }

    /// Over a million steps, where blocks of steps represent them: not far above the value reached by moving steps of a
    /// row by powers of two, alone or with all steps after them.
    pub(in crate::mechanism) fn long_horizons_are_close(trie: &impl Trie, mechanism: &dyn Mechanism) {
        let horizon = mechanism.horizon();
        let pairs = StepPairs { trie, horizon, largest: mechanism.exact_l2_squared().unwrap() };
        for (most, separation) in [(4, horizon / 4), (12, horizon / 13), (20, horizon / 60)] {
            let participation = Participation::new(most as u64, separation).unwrap();
            let product = |s: u64, t: u64| pairs.product(s.min(t), s.max(t));
            let with = |pattern: &[u64], j: usize| {
                let others = pattern.iter().enumerate().filter(|(i, _)| *i != j);
                product(pattern[j], pattern[j]) + 2.0 * others.map(|(_, s)| product(*s, pattern[j])).sum::<f64>()
            };
            let whole = |pattern: &[u64]| -> f64 {
                pattern.iter().map(|s| pattern.iter().map(|t| product(*s, *t)).sum::<f64>()).sum()
            };
            let mut pattern: Vec<u64> = (0..most as u64).map(|j| 1 + j * separation).collect();
            for _ in 0..2 {
                for j in (0..most).rev() {
                    for (power, sign) in (0..horizon.ilog2()).rev().flat_map(|power| [(power, true), (power, false)]) {
                        let by = if sign { 1i64 << power } else { -(1i64 << power) };
                        for end in [j + 1, most] {
                            let mut moved = pattern.clone();
                            moved[j..end].iter_mut().for_each(|t| *t = t.saturating_add_signed(by));
                            let fits = moved[0] >= 1 && moved[most - 1] <= horizon;
                            if !fits || moved.windows(2).any(|pair| pair[1] < pair[0].saturating_add(separation)) {
                                continue;
                            }
                            let gain = if end == j + 1 {
                                with(&moved, j) - with(&pattern, j)
                            } else {
                                whole(&moved) - whole(&pattern)
                            };
                            if gain > 0.0 {
                                pattern = moved;
                            }
                        }
                    }
                }
            }
            let bound = chain::of_steps(&pairs, participation, chain::MAX_VECTOR_ADDITIONS, 64);
            let share = whole(&pattern) / bound;
            println!("LONG {} {most} steps {separation} apart: share {share:.4}", mechanism.name());
            assert!(share <= 1.0 && share > 0.75, "{} {most} steps {separation} apart: {share}", mechanism.name());
        }
    }
}
