//! Honaker's estimation from below: the binary tree, every block estimated from all nodes inside it.
//!
//! Nodes are all complete dyadic blocks. The block of height `j` is estimated by inverse variance from its own noisy
//! sum (variance 1) and the sum of the estimates of its two halves (variance `2 v_{j-1}`), which gives
//! `v_j = 2^j / (2^{j+1} - 1)`: 1, 2/3, 4/7, … → 1/2. The weight of a node at depth `d` inside a block of height `j`
//! telescopes to `2^{j-d} / (2^{j+1} - 1)`, so with integer noise the numerator
//!
//! ```text
//! E_j = 2^j · own + E_left + E_right,      estimate = E_j / (2^{j+1} - 1)
//! ```
//!
//! is an integer, and the release is a sum of at most 41 exact fractions, one per 1-bit of the step. It is rounded
//! once, exactly, to `2^-16` of the grid. (Honaker 2015, "Efficient use of differentially private binary trees".)
//!
//! The weights give the variance back: `Σ_d 2^d · 4^{j-d} / (2^{j+1} - 1)² = 2^j / (2^{j+1} - 1)`. Intervals use them
//! as they are, `2^{j-l}` times `2^l / (2^{j+1} - 1)`. Fractions are added rounded down; if the total loss could change
//! the rounding, the exact rational decides. The running sum is a whole number, so rounding the noise rounds the
//! release.
//!
//! **Sensitivity.** A step lies in one complete block per height; step 1 lies in all of them: `s1 = s2² = ⌊log T⌋+1`.
//!
//! **Exact Gaussian sensitivity**, the least `‖v‖²` of node values `v` with `L v = a_i`. The blocks that are read are
//! the complete ones with an even number, and the condition is `E_b = 2^(j+1) - 1` for those that hold step `i`,
//! `E_b = 0` for the others. An odd block without `i` has `E = e` at the cost `3e²/(4^(j+1) - 1)`: only its right
//! children are free. Let the path from a read block of height `j` to `i` turn right until a block of height `m`, whose
//! left child, a read block, holds `i`: the nodes on the path and the free block to the right of `i` make up
//! `2^(j+1) - 2^m` between them, with one node of weight `2^l` for each `l ≤ j`. So the least norm for the worst `i`
//! below a read block is
//!
//! ```text
//! F_0 = 1,   F_j = max{ 3 (2^(j+1) - 1)²/(4^(j+1) - 1),  max_{1≤m≤j} 3 (2^(j+1) - 2^m)²/(4^(j+1) - 1) + F_{m-1} },
//! ```
//!
//! the first if `i` is the last step. It grows with `j`: for a horizon `T` it is `F_⌊log T⌋`. Plans spend the column
//! norm all the same: it also covers an adversary who chooses the event adaptively, for discrete noise too.

use super::digits::DigitSystem;
use crate::Result;
use crate::mechanism::accounting::blocks::SharedBlocks;
use crate::mechanism::accounting::covariance;
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::limits::Limits;
use crate::mechanism::{
    ColumnNorms, Cost, Criterion, Cursor, LaplaceShift, Mechanism, MechanismName, Participation, RowLaw, Streaming,
    check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use num_bigint::BigInt;
use std::sync::Arc;

/// The binary tree with estimation from below ("online" Honaker).
#[doc(alias = "Honaker")]
#[doc(alias = "tree aggregation")]
#[doc(alias = "DP-FTRL")]
#[derive(Clone, Debug)]
pub struct HonakerOnline {
    horizon: u64,
    digits: DigitSystem,
}

/// Longest horizon: numerators stay below `41 · 2^40 · max|z|`, which fits i128 for every |z| < 2^80.
const MAX_HORIZON: u64 = 1 << 40;
/// Releases are rounded to `2^-16` of the noise grid.
const FRACTION_BITS: u32 = 16;
/// Working precision of the running fraction.
const GUARD_BITS: u32 = 80;

impl HonakerOnline {
    /// Over `horizon` steps, 1 ..= 2^40.
    pub fn new(horizon: u64) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "honaker-online")?;
        Ok(Self { horizon, digits: DigitSystem::new(2, 0, horizon) })
    }
}

/// Variance of the estimate of a block of height `level`, in units of the node variance.
fn block_variance(level: u32) -> f64 {
    let size = libm::exp2(f64::from(level));
    size / (2.0 * size - 1.0)
}

impl Mechanism for HonakerOnline {
    fn name(&self) -> MechanismName {
        MechanismName::HonakerOnline
    }

    fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Estimates read only the nodes below a block.
    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        Some(Arc::new(Self { horizon: steps, digits: DigitSystem::new(2, 0, steps) }))
    }

    fn column_norms(&self) -> ColumnNorms {
        let levels = f64::from(self.digits.levels);
        ColumnNorms { l1: levels, l2_squared: levels }
    }

    fn is_causal(&self) -> bool {
        true
    }
    /// `O(log² T)`, see the header of this module.
    fn exact_l2_squared(&self) -> Option<f64> {
        let mut least = vec![1.0f64];
        for height in 1..self.digits.levels {
            let power = |bits: u32| libm::exp2(f64::from(bits));
            let share = |rest: f64| 3.0 * rest * rest / (power(2 * height + 2) - 1.0);
            let ends = share(power(height + 1) - 1.0);
            let turn = |m: u32| share(power(height + 1) - power(m)) + least[m as usize - 1];
            least.push((1..=height).map(turn).fold(ends, f64::max));
        }
        least.last().copied()
    }

    /// The exact value for a single step; for several steps, also the bounds by the complete blocks and, over a short
    /// horizon, by the covariance of the releases.
    fn participation_squared(&self, participation: Participation) -> f64 {
        let once = self.exact_l2_squared().map_or(f64::INFINITY, |exact| rounded_up(exact, 256));
        let blocks = (0..self.digits.levels).map(|height| (1 << height, self.horizon >> height));
        let levels = participation.of_levels(self.horizon, blocks);
        let (horizon, levels_of_blocks) = (self.horizon, self.digits.levels);
        let shared = SharedBlocks { horizon, base: 2, levels: levels_of_blocks, unread: None, complete: true };
        let by_nodes = participation.of_any(horizon, once).min(levels).min(shared.squared(participation));
        by_nodes.min(covariance::squared(self.horizon, participation, || self.dense().l))
    }

    /// By levels of disjoint blocks, the complete ones.
    fn spread_squared(&self, spread: Spread) -> u128 {
        spread.squares_of_levels((0..self.digits.levels).map(|height| (1 << height, self.horizon >> height)))
    }

    fn row_norm_squared(&self, step: u64) -> f64 {
        self.digits.weighted_size(step, &block_variance)
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.digits.max_weighted_size(self.horizon, &block_variance)
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.digits.total_weighted_size(self.horizon, &block_variance) / self.horizon as f64
    }

    /// The estimate of a block of height `j` gives each of its nodes of height `l` the weight `2^l / (2^(j+1) - 1)`.
    /// With a block of height `i` inside it, it shares `2^(i-l)` nodes for each `l ≤ i`, so that their covariance is
    /// `2^i / (2^(j+1) - 1)`: the steps that they share, over the denominator of the larger one. Two prefixes have
    /// their first blocks in common, and the rest of the earlier one lies in the next block of the later one.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        let share = |steps: u64, height: u32| steps as f64 / (libm::exp2(f64::from(height + 1)) - 1.0);
        let parted = u64::BITS - (earlier ^ later).leading_zeros();
        let common = (parted..self.digits.levels).filter(|height| earlier >> height & 1 == 1);
        let common: f64 = common.map(|height| share(1 << height, height)).sum();
        match parted.checked_sub(1) {
            None => common,
            Some(height) => common + share(earlier & ((1 << height) - 1), height),
        }
    }

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.digits.for_each_digit(step, |height, digit, lead| {
            if digit == 1 {
                let denominator = libm::exp2(f64::from(height + 1)) - 1.0;
                for level in 0..=height {
                    let first = (lead - 1) << (height - level);
                    let weight = libm::exp2(f64::from(level)) / denominator;
                    (first..lead << (height - level)).for_each(|index| visit(Node { level, index }, weight));
                }
            }
        });
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        ((node.index << node.level) + 1, (node.index + 1) << node.level)
    }

    fn streaming(&self) -> Option<Streaming> {
        Some(Streaming::Estimates)
    }

    fn fraction_bits(&self) -> u32 {
        FRACTION_BITS
    }

    fn row_law(&self, step: u64) -> RowLaw {
        let mut magnitudes = Vec::new();
        self.digits.for_each_digit(step, |height, digit, _| {
            if digit == 1 {
                let denominator = libm::exp2(f64::from(height + 1)) - 1.0;
                let weight = |level| libm::exp2(f64::from(level)) / denominator;
                magnitudes.extend((0..=height).map(|level| (weight(level), 1u64 << (height - level))));
            }
        });
        RowLaw::Sum(magnitudes)
    }

    fn cost(&self) -> Cost {
        Cost::from_draws(2.0, 8 * u64::from(self.digits.levels))
    }

    /// The blocks of one height do not overlap.
    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        Ok(LaplaceShift::from_single_nodes(self.digits.levels.into()))
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(HonakerCursor { step: 0, blocks: Vec::new() })
    }
}

struct HonakerCursor {
    step: u64,
    /// The blocks that make up the prefix, largest first: one per 1-bit of the step.
    blocks: Vec<NodeBlock>,
}

struct NodeBlock {
    height: u32,
    numerator: i128,
    /// Sum of the estimates of this block and all before it: whole part, then fraction in `2^-GUARD_BITS` rounded
    /// down once per block.
    whole: i128,
    fraction: u128,
}

impl HonakerCursor {
    fn push(&mut self, height: u32, numerator: i128) {
        let denominator = (1i128 << (height + 1)) - 1;
        let (mut whole, mut fraction) = self.blocks.last().map_or((0, 0), |b| (b.whole, b.fraction));
        whole += numerator.div_euclid(denominator);
        // fits: the remainder is below 2^41, shifted by 80; at most 41 fractions below 2^80 are added.
        fraction += ((numerator.rem_euclid(denominator) as u128) << GUARD_BITS) / denominator as u128;
        self.blocks.push(NodeBlock { height, numerator, whole, fraction });
    }

    /// The exact sum rounded to the nearest multiple of `2^-FRACTION_BITS`, halves up.
    fn rounded(&self) -> i128 {
        let Some(last) = self.blocks.last() else { return 0 };
        let half = 1u128 << (GUARD_BITS - FRACTION_BITS - 1);
        let least = (last.fraction + half) >> (GUARD_BITS - FRACTION_BITS);
        // Each block was rounded down by less than one unit, so the truth lies in [fraction, fraction + blocks).
        let most = (last.fraction + self.blocks.len() as u128 + half) >> (GUARD_BITS - FRACTION_BITS);
        if least == most { (last.whole << FRACTION_BITS) + least as i128 } else { self.rounded_exactly() }
    }

    #[cold]
    fn rounded_exactly(&self) -> i128 {
        let (mut numerator, mut denominator) = (BigInt::from(0), BigInt::from(1));
        for block in &self.blocks {
            let d = BigInt::from((1u128 << (block.height + 1)) - 1);
            numerator = numerator * &d + BigInt::from(block.numerator) * &denominator;
            denominator *= d;
        }
        // ⌊x + 1/2⌋ with x in units of 2^-FRACTION_BITS.
        let scaled: BigInt = (numerator << (FRACTION_BITS + 1)) + &denominator;
        let twice = &denominator * 2;
        let quotient: BigInt = &scaled / &twice;
        let floor = if (&quotient * &twice) > scaled { quotient - 1 } else { quotient };
        i128::try_from(floor).expect("fits: |estimate| · 2^16 is bounded as the numerators are")
    }

    /// Numerator `E_j` of one block from all the nodes inside it.
    fn estimate(height: u32, index: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let own = draw(Node { level: height, index }) << height;
        if height == 0 {
            return own;
        }
        own + Self::estimate(height - 1, 2 * index, draw) + Self::estimate(height - 1, 2 * index + 1, draw)
    }
}

impl Cursor for HonakerCursor {
    fn step(&self) -> u64 {
        self.step
    }

    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let mut index = self.step;
        let mut height = 0;
        let mut numerator = draw(Node { level: 0, index });
        // Equal neighbours merge into their parent, as a binary counter carries.
        while index & 1 == 1 {
            index >>= 1;
            height += 1;
            let left = self.blocks.pop().expect("a set bit of the step has its block");
            numerator += (draw(Node { level: height, index }) << height) + left.numerator;
        }
        self.step += 1;
        self.push(height, numerator);
        self.rounded()
    }

    /// `O(step)` draws: an estimate from below reads every node of its block.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.step = step;
        self.blocks.clear();
        for height in (0..u64::BITS).rev().filter(|height| step >> height & 1 == 1) {
            let numerator = Self::estimate(height, (step >> height) - 1, draw);
            self.push(height, numerator);
        }
        self.rounded()
    }
}

pub(in crate::mechanism) fn build(horizon: u64, _: &Criterion) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(HonakerOnline::new(horizon)?))
}

/// Half of the binary tree's value: each block is estimated with half the variance.
pub(in crate::mechanism) fn limits(_: MechanismName) -> Limits {
    Limits { zcdp: Some(0.5), pure: Some(0.5) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounding near a tie goes through the exact path and agrees with plain rational arithmetic.
    #[test]
    fn exact_rounding_agrees_with_the_fast_path() {
        let mut state = 1u64;
        for magnitude in [3u32, 20, 40, 60] {
            let mut cursor = HonakerCursor { step: 0, blocks: Vec::new() };
            for _ in 0..300 {
                let rounded = cursor.advance(&mut |_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    i128::from(state as i64 >> (63 - magnitude))
                });
                assert_eq!(rounded, cursor.rounded_exactly());
            }
        }
    }

    /// A single block of height 0 with noise z: the release is z exactly, also for negative z.
    #[test]
    fn first_step_is_its_own_noise() {
        for z in [-5i128, 0, 7] {
            let mut cursor = HonakerCursor { step: 0, blocks: Vec::new() };
            assert_eq!(cursor.advance(&mut |_| z), z << FRACTION_BITS);
        }
    }
}
