//! Trees of arity `k`, with additions only or with subtraction: one digit system, three published mechanisms.
//!
//! Step `t` is written in base `k`; a positive digit `d` at level `l` adds the `d` blocks of `k^l` steps that follow
//! the part of `t` above that level, a negative digit subtracts the `|d|` blocks before it.
//!
//! * `binary` (Chan, Shi, Song 2011, doi 10.1145/2043621.2043626; Dwork, Naor, Pitassi, Rothblum 2010,
//!   doi 10.1145/1806689.1806787), left children only: base 2, digits 0 and 1;
//! * `kary(k)`: base `k`, digits `0 ..= k-1`;
//! * `subtract(k)` (k-ary trees with subtraction, Andersson, Pagh, Steiner, Torkamani, "Count on your elders: Laplace
//!   vs Gaussian noise"): digits `-(k-1)/2 ..= (k-1)/2` for odd `k`, `-k/2+1 ..= k/2` for even `k`.
//!
//! **Sensitivity.** A step lies in at most one node per level, so no column of `R` has more than `h` ones, `h` the
//! number of digits of `T`. Step 1 reaches `h`: its block at level `l < h` is first used at step
//! `max_l + 1` where `max_l ≤ T - 1` is the largest number of `l` digits. Hence `s1 = s2² = h` exactly.
//!
//! **Signs.** A node has one sign for all steps. With symmetric noise it could be dropped; it is kept so that
//! `L R = A`. Subtracted blocks cover steps that are still in the future when their noise is first used. Only their
//! noise is used: the release is `A x + L z`, and `z` does not depend on `x`.

mod walk;

use super::digits::DigitSystem;
use crate::mechanism::accounting::blocks::SharedBlocks;
use crate::mechanism::accounting::covariance;
use crate::mechanism::factorization;
use crate::mechanism::walk::MAX_DEPTH;
use crate::mechanism::{
    ColumnNorms, Cost, Cursor, LaplaceShift, Lazy, MAX_HORIZON, Mechanism, MechanismName, Participation, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use std::sync::Arc;

/// A k-ary tree mechanism: binary, k-ary, or k-ary with subtraction.
#[doc(alias = "binary")]
#[doc(alias = "kary")]
#[doc(alias = "subtract")]
#[doc(alias = "binary mechanism")]
#[doc(alias = "tree aggregation")]
#[doc(alias = "hierarchical")]
#[doc(alias = "DP-FTRL")]
#[derive(Clone, Debug)]
pub struct DigitTree {
    horizon: u64,
    digits: DigitSystem,
    variant: Variant,
}

#[derive(Clone, Copy, Debug)]
enum Variant {
    Binary,
    Additive,
    Subtractive,
}

/// The largest arity accepted.
const MAX_ARITY: u64 = 65_536;

impl DigitTree {
    /// The binary tree with left children only, over `horizon` steps (1 ..= 2^62).
    pub fn binary(horizon: u64) -> Result<Self> {
        Self::new(horizon, 2, 0, Variant::Binary)
    }

    /// The k-ary tree with additions only, arity 2 ..= 65536.
    pub fn additive(horizon: u64, arity: u64) -> Result<Self> {
        Self::new(horizon, arity, 0, Variant::Additive)
    }

    /// The k-ary tree with subtraction, arity 3 ..= 65536 (2 would be the binary tree).
    pub fn subtractive(horizon: u64, arity: u64) -> Result<Self> {
        if arity < 3 {
            return Err(Error::invalid(format!("`subtract` needs an arity k of at least 3, got {arity}")));
        }
        // Odd k: (k-1)/2 digits on either side. Even k: k/2 - 1 below and k/2 above.
        Self::new(horizon, arity, (arity - 1) / 2, Variant::Subtractive)
    }

    fn new(horizon: u64, arity: u64, below: u64, variant: Variant) -> Result<Self> {
        if !(2..=MAX_ARITY).contains(&arity) {
            return Err(Error::invalid(format!("the arity k must be between 2 and {MAX_ARITY}, got {arity}")));
        }
        check_horizon(horizon, MAX_HORIZON, variant.stem())?;
        Ok(Self { horizon, digits: DigitSystem::new(arity, below, horizon), variant })
    }
}

impl Variant {
    fn stem(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Additive => "kary",
            Self::Subtractive => "subtract",
        }
    }
}

impl DigitTree {
    /// The blocks of every level that some step reads: the steps per block, and the number of blocks. Of every `k`
    /// consecutive blocks all but the one after the last positive digit are read.
    fn blocks(&self) -> impl Iterator<Item = (u64, u64)> {
        let DigitSystem { base, below, levels, .. } = self.digits;
        (0..levels).map(move |level| {
            let width = base.saturating_pow(level);
            let blocks = if below == 0 { self.horizon / width } else { self.horizon.div_ceil(width) };
            let unread = (blocks + below) / base; // those of number base - 1 - below, from 0, among base
            (width.min(self.horizon), blocks - unread)
        })
    }

    /// The squared sensitivity to a unit that takes part in several steps, by levels of nodes and by the blocks that
    /// pairs of steps share: of every `k` consecutive blocks all but the one after the last positive digit are read.
    pub(super) fn participation_by_nodes(&self, participation: Participation) -> f64 {
        let DigitSystem { base, below, levels, .. } = self.digits;
        let complete = below == 0; // only a subtracted block can reach beyond the horizon
        let unread = Some(base - 1 - below);
        let shared = SharedBlocks { horizon: self.horizon, base, levels, unread, complete };
        participation.of_levels(self.horizon, self.blocks()).min(shared.squared(participation))
    }
}

const UNIT_WEIGHT: &dyn Fn(u32) -> f64 = &|_| 1.0;

impl Mechanism for DigitTree {
    fn name(&self) -> MechanismName {
        match self.variant {
            Variant::Binary => MechanismName::Binary,
            Variant::Additive => MechanismName::Kary(Some(self.digits.base)),
            Variant::Subtractive => MechanismName::Subtract(Some(self.digits.base)),
        }
    }

    fn horizon(&self) -> u64 {
        self.horizon
    }

    fn has_random_access(&self) -> bool {
        true
    }

    /// The digits of a step do not depend on the horizon.
    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        let digits = DigitSystem::new(self.digits.base, self.digits.below, steps);
        Some(Arc::new(Self { horizon: steps, digits, variant: self.variant }))
    }

    fn column_norms(&self) -> ColumnNorms {
        let levels = f64::from(self.digits.levels);
        ColumnNorms { l1: levels, l2_squared: levels }
    }

    fn is_causal(&self) -> bool {
        self.digits.below == 0 // a subtracted block ends after the step that reads it
    }

    /// By levels of disjoint nodes: exact if the fullest nodes of all levels can occur together.
    fn spread_squared(&self, spread: Spread) -> u128 {
        spread.squares_of_levels(self.blocks())
    }

    /// Without subtraction exactly one node appears at each step, so `L` is square and the column norm is exact.
    /// Subtracted blocks near the end of the horizon can make it wider.
    fn exact_l2_squared(&self) -> Option<f64> {
        match self.variant {
            Variant::Binary | Variant::Additive => Some(self.column_norms().l2_squared),
            Variant::Subtractive => factorization::exact_by_dense_twin(self),
        }
    }

    /// By levels, and by the blocks that pairs of steps share. Subtracted blocks may reach beyond the horizon, where
    /// short horizons are accounted for by the covariance of the releases.
    fn participation_squared(&self, participation: Participation) -> f64 {
        let by_nodes = self.participation_by_nodes(participation);
        match self.variant {
            Variant::Binary | Variant::Additive => by_nodes,
            Variant::Subtractive => by_nodes.min(covariance::squared(self.horizon, participation, || self.dense().l)),
        }
    }

    /// Not if a path may have more than 128 blocks.
    fn lazy(&self) -> Option<Lazy> {
        let walk = walk::DigitWalk::new(&self.digits, self.horizon)?;
        (self.max_row_norm_squared() <= f64::from(MAX_DEPTH)).then(|| Lazy::Paths(Box::new(walk)))
    }

    fn row_norm_squared(&self, step: u64) -> f64 {
        self.digits.weighted_size(step, UNIT_WEIGHT)
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.digits.max_weighted_size(self.horizon, UNIT_WEIGHT)
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.digits.total_weighted_size(self.horizon, UNIT_WEIGHT) / self.horizon as f64
    }

    /// On every level, the blocks that both read: a block has one sign for all steps.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        let mut read = Vec::with_capacity(self.digits.levels as usize);
        self.digits.for_each_digit(earlier, |_, digit, lead| read.push(blocks_read(digit, lead)));
        let mut shared = 0;
        self.digits.for_each_digit(later, |level, digit, lead| {
            let (first, end) = read[level as usize];
            let (other_first, other_end) = blocks_read(digit, lead);
            shared += end.min(other_end).saturating_sub(first.max(other_first));
        });
        shared as f64
    }

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.digits.for_each_digit(step, |level, digit, lead| {
            let (first, end) = blocks_read(digit, lead);
            let sign = if digit < 0 { -1.0 } else { 1.0 };
            (first..end).for_each(|index| visit(Node { level, index }, sign));
        });
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        // Saturation only affects the end of a block that lies beyond the horizon.
        let width = self.digits.base.saturating_pow(node.level);
        (node.index * width + 1, node.index.saturating_add(1).saturating_mul(width))
    }

    fn cost(&self) -> Cost {
        // Of every k consecutive blocks of a level k-1 are read: (k-1)/k + (k-1)/k² + … ≤ 1.
        let draws = 1.0;
        let per_level = self.digits.below.max(self.digits.base - 1 - self.digits.below);
        let words = 2 * u64::from(self.digits.levels) * (per_level + 2);
        Cost::from_draws(draws, words)
    }

    /// The blocks of one level do not overlap.
    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        Ok(LaplaceShift::from_single_nodes(self.digits.levels.into()))
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(TreeCursor::new(&self.digits))
    }
}

/// The blocks that a digit adds or subtracts, as a half-open range; `lead` is the step rounded to blocks of its level.
fn blocks_read(digit: i64, lead: u64) -> (u64, u64) {
    (lead.saturating_sub_signed(digit.max(0)), lead.saturating_add_signed((-digit).max(0)))
}

/// One stack per level: partial noise sums over the level's active blocks, and the sum over all levels above.
struct TreeCursor {
    step: u64,
    digits: DigitSystem,
    levels: Vec<DigitLevel>,
    /// `from[l]` = noise of levels `l` and up; one more entry, 0, at the top.
    from: Vec<i128>,
}

struct DigitLevel {
    digit: i64,
    /// `Σ_{j ≥ l} d_j k^{j-l}`: the step, rounded to blocks of this level.
    lead: u64,
    /// Entry `i` is the signed noise of the `i+1` blocks nearest to the part of the step above this level, so a
    /// growing digit pushes and a shrinking one pops.
    sums: Vec<i128>,
}

impl TreeCursor {
    fn new(digits: &DigitSystem) -> Self {
        let level = || DigitLevel { digit: 0, lead: 0, sums: Vec::new() };
        Self {
            step: 0,
            digits: digits.clone(),
            levels: (0..digits.levels).map(|_| level()).collect(),
            from: vec![0; digits.levels as usize + 1],
        }
    }

    /// Sets the digit of a level from scratch; `lead_above` is the lead of the level above.
    fn enter(&mut self, level: usize, digit: i64, draw: &mut dyn FnMut(Node) -> i128) {
        let start = self.levels.get(level + 1).map_or(0, |up| up.lead) * self.digits.base;
        let here = &mut self.levels[level];
        here.digit = digit;
        here.lead = start.wrapping_add_signed(digit); // not negative: see DigitSystem::for_each_digit
        here.sums.clear();
        for i in 0..digit.unsigned_abs() {
            let index = if digit > 0 { start + i } else { start - 1 - i };
            let value = draw(Node { level: level as u32, index });
            let last = here.sums.last().copied().unwrap_or(0);
            here.sums.push(if digit > 0 { last + value } else { last - value });
        }
        self.settle(level);
    }

    fn settle(&mut self, level: usize) {
        let here = self.levels[level].sums.last().copied().unwrap_or(0);
        self.from[level] = self.from[level + 1] + here;
    }
}

impl Cursor for TreeCursor {
    fn step(&self) -> u64 {
        self.step
    }

    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.step += 1;
        let below = self.digits.below as i64;
        let above = self.digits.base as i64 - 1 - below;
        let mut top = 0;
        while self.levels[top].digit == above {
            top += 1; // within the horizon the highest level never overflows
        }
        let level = &mut self.levels[top];
        if level.digit < 0 {
            level.sums.pop();
        } else {
            let last = level.sums.last().copied().unwrap_or(0);
            level.sums.push(last + draw(Node { level: top as u32, index: level.lead }));
        }
        level.digit += 1;
        level.lead += 1;
        self.settle(top);
        for lower in (0..top).rev() {
            self.enter(lower, -below, draw);
        }
        self.from[0]
    }

    /// `O(k log T)` draws.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.step = step;
        let mut digits = Vec::with_capacity(self.levels.len());
        self.digits.for_each_digit(step, |_, digit, _| digits.push(digit));
        for (level, digit) in digits.into_iter().enumerate().rev() {
            self.enter(level, digit, draw);
        }
        self.from[0]
    }
}
