//! The consistent tree: every block of a k-ary tree is measured, and every prefix is estimated from all of them.
//!
//! Level `l` has the blocks of `k^l` steps, the last one cut at `T`; levels go up to the first with a single block, the
//! root. The root, and more levels below it, may be omitted. A block of level `l` is measured with weight `W_l` (a row
//! of `R` is `W_l` on its steps), so a step costs `s1 = Σ W_l` whatever it is. The release is the best linear unbiased
//! estimate of the prefix from all measurements, `L = A R⁺` (Hay, Rastogi, Miklau, Suciu 2010, arXiv 0904.0942; Honaker
//! 2015, "full" estimation): it needs noise of blocks that are still open, and no data from the future.
//!
//! **Estimation in two passes.** Let `1/W²` be the variance of a measurement (`z/W`). Upwards, a block with children of
//! total variance `V` and total estimate `S` has the estimate `u = (V W² · z/W + S) / (1 + V W²)` of variance
//! `V / (1 + V W²)`. Downwards, a child's estimate moves by its share `var/V` of the difference between its parent's
//! final estimate and `S`.
//!
//! **Variance of a prefix.** Inside a block let `β` be the regression of the prefix on the block's total and `c` its
//! variance given the total; both follow from the child that holds the end of the prefix. At the top the variance is
//! `c + β² · var(total)`.
//!
//! **Memory.** All complete blocks of a level are alike, so the inside estimate of one is a fixed combination of the
//! sums of its measurements, level by level. A cursor keeps the estimates of the children of the blocks around its
//! step, `O(k log_k T)` numbers, and draws the noise below a block again when it enters it: `log_k T` times in all.
//!
//! **Exact release.** `W` are integers, noise is integer, and `L` is rational: the noise of a release is computed with
//! enough digits to make its rounding to `2^-8` of the grid certain (as for the square roots, `⌊x + √2 - 1⌋`). `A x` is
//! a whole number, so rounding the noise rounds the release.

mod estimate;
mod path;
mod variance;

use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::{
    ColumnNorms, Cost, Criterion, Cursor, LaplaceShift, LevelChoice, Levels, Mechanism, MechanismName, RowLaw,
    check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// A consistent k-ary tree with integer level weights.
#[doc(alias = "hierarchical")]
#[doc(alias = "Hay")]
#[doc(alias = "constrained inference")]
#[doc(alias = "Honaker")]
#[derive(Clone, Debug)]
pub struct Consistent {
    shape: Arc<ConsistentShape>,
    /// Of the squared row norms.
    max: f64,
    mean: f64,
}

/// Arity, horizon and weights.
#[derive(Clone, Debug)]
struct ConsistentShape {
    horizon: u64,
    arity: u64,
    /// `W_l`, leaves first.
    weights: Levels,
    /// Number of blocks of every level, including the root's level even if it is not measured.
    blocks: Vec<u64>,
}

/// Longest horizon: the first release reads the noise of all blocks.
const MAX_HORIZON: u64 = 1 << 20;

impl Consistent {
    /// A tree of `arity` (2 and more) over `horizon` steps (1 ..= 2^20) with the given weights of its levels, leaves
    /// first: one for every level, or fewer to omit the topmost. `O(T h)`.
    ///
    /// # Errors
    /// If there are more weights than levels.
    pub fn new(horizon: u64, arity: u64, weights: Levels) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "consistent")?;
        if !(2..=MAX_HORIZON).contains(&arity) {
            return Err(Error::invalid(format!("`consistent` needs an arity k from 2 to {MAX_HORIZON}, got {arity}")));
        }
        let blocks = block_counts(horizon, arity);
        let levels = blocks.len();
        let given = weights.as_slice().len();
        if given > levels {
            return Err(Error::invalid(format!(
                "`consistent(k={arity})` over {horizon} steps has {levels} levels with the root, got {given} weights"
            )));
        }
        let shape = Arc::new(ConsistentShape { horizon, arity, weights, blocks });
        let (max, mean) = variance::Prefixes::new(&shape).largest_and_mean();
        Ok(Self { shape, max, mean })
    }

    /// The same with equal weights, with or without the root.
    pub fn uniform(horizon: u64, arity: u64, root: bool) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "consistent")?;
        let levels = block_counts(horizon, arity.max(2)).len();
        let kept = if root || levels == 1 { levels } else { levels - 1 };
        Self::new(horizon, arity, Levels::new(&vec![1; kept])?)
    }

    /// The best weights for an arity under a criterion: a deterministic descent on the logarithms of the weights,
    /// started from equal ones, with the root, without it, and without the level below it.
    pub fn optimised(horizon: u64, arity: u64, criterion: &Criterion) -> Result<Self> {
        let start = Self::starts(horizon, arity)?.into_iter();
        let best = start.map(|tree| tree.descend(criterion)).min_by(|a, b| a.0.total_cmp(&b.0));
        Ok(best.expect("one start keeps every level").1)
    }

    /// The best arity from 2 to 64 with optimised weights, chosen among the six best with equal weights. `O(T h)` per
    /// trial.
    pub fn best(horizon: u64, criterion: &Criterion) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "consistent")?;
        // A figure takes most of the time: it is computed once per tree.
        let mut uniform: Vec<(f64, Self)> = Vec::new();
        for k in 2..=64 {
            uniform.extend(Self::starts(horizon, k)?.into_iter().map(|tree| (criterion.figure(&tree), tree)));
        }
        uniform.sort_by(|a, b| a.0.total_cmp(&b.0));
        uniform.dedup_by(|a, b| a.0 == b.0);
        let best = uniform.into_iter().take(6).map(|(_, tree)| tree.descend(criterion));
        Ok(best.min_by(|a, b| a.0.total_cmp(&b.0)).expect("some arity fits").1)
    }

    /// Equal weights on all levels, all but the root, and all but the two topmost.
    fn starts(horizon: u64, arity: u64) -> Result<Vec<Self>> {
        check_horizon(horizon, MAX_HORIZON, "consistent")?;
        let levels = block_counts(horizon, arity.max(2)).len();
        let kept = (levels.saturating_sub(2).max(1)..=levels).rev();
        kept.map(|count| Self::new(horizon, arity, Levels::new(&vec![1; count])?)).collect()
    }

    /// Coordinate descent with shrinking steps; ends on integer weights with about 8 bits, and returns the figure, too.
    fn descend(self, criterion: &Criterion) -> (f64, Self) {
        let count = self.shape.weights.as_slice().len();
        let build = |logs: &[f64]| {
            let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<u16> = logs.iter().map(|x| (256.0 * libm::exp(x - top)).round().max(1.0) as u16).collect();
            let levels = Levels::new(&weights).expect("the number of levels is unchanged");
            Self::new(self.shape.horizon, self.shape.arity, levels).expect("the number of levels is unchanged")
        };
        let mut logs = vec![0.0; count];
        let mut best = build(&logs);
        let mut least = criterion.figure(&best);
        let mut step = 0.4;
        while step > 0.01 && count > 1 {
            let before = least;
            for level in 0..count {
                for change in [step, -step] {
                    let mut tried = logs.clone();
                    tried[level] += change;
                    let candidate = build(&tried);
                    let figure = criterion.figure(&candidate);
                    if figure < least {
                        (least, best, logs) = (figure, candidate, tried);
                    }
                }
            }
            if least >= before * (1.0 - 1e-4) {
                step /= 2.0;
            }
        }
        (least, best)
    }
}

/// Number of blocks of every level, from the steps to the root.
fn block_counts(horizon: u64, arity: u64) -> Vec<u64> {
    std::iter::successors(Some(horizon), |blocks| (*blocks > 1).then(|| blocks.div_ceil(arity))).collect()
}

impl ConsistentShape {
    /// `W_l`, and `None` for an omitted level.
    fn weight(&self, level: usize) -> Option<u16> {
        self.weights.as_slice().get(level).copied()
    }

    /// `W_l²`, 0 for an omitted level. fits: 65535² < 2^32
    fn weight_squared(&self, level: usize) -> u32 {
        self.weight(level).map_or(0, |w| u32::from(w).pow(2))
    }

    /// Number of levels with the root, measured or not.
    fn levels(&self) -> usize {
        self.blocks.len()
    }

    /// The children of a block: their indices one level down.
    fn children(&self, level: usize, index: u64) -> std::ops::Range<u64> {
        let below = self.blocks[level - 1];
        (index * self.arity).min(below)..((index + 1) * self.arity).min(below)
    }
}

/// Inside a block that holds the ends of two prefixes: their covariance given the block's total, and their regressions
/// on the total.
#[derive(Clone, Copy)]
struct PrefixPair {
    covariance: f64,
    earlier: f64,
    later: f64,
}

impl ConsistentShape {
    /// Covariance of two prefixes, over that of a node: the recursion of the variances for one pair, along the blocks
    /// that hold their last steps. All blocks of a level but the last one are alike.
    fn prefix_covariance(&self, earlier: u64, later: u64) -> f64 {
        let precision = |level| f64::from(self.weight_squared(level));
        // Variances of the inside estimates of a complete block, and of the last one.
        let (mut complete, mut cut) = (1.0 / precision(0), 1.0 / precision(0));
        // Indices of the blocks that contain the ends; regressions of the prefixes on their totals.
        let mut places = [earlier - 1, later - 1];
        let mut pair = PrefixPair { covariance: 0.0, earlier: 1.0, later: 1.0 };
        for level in 1..self.levels() {
            let last = self.blocks[level - 1] - 1;
            let variance = |place: u64| if place == last { cut } else { complete };
            let total_of = |parent: u64| {
                let children = self.children(level, parent);
                let whole = (children.end - children.start) as f64 * complete;
                if children.contains(&last) { whole - complete + cut } else { whole }
            };
            // Covariance of the part of a prefix that lies in the parent with the parent's total.
            let with_total = |place: u64, slope: f64| (place % self.arity) as f64 * complete + slope * variance(place);
            let [s, t] = places;
            let with = [with_total(s, pair.earlier), with_total(t, pair.later)];
            let parents = places.map(|place| place / self.arity);
            let totals = parents.map(total_of);
            let covariance = if s == t {
                (s % self.arity) as f64 * complete + pair.covariance + pair.earlier * pair.later * variance(s)
            } else {
                with[0] // the later prefix holds all of the child in which the earlier one ends
            };
            let given_total = covariance - with[0] * with[1] / totals[0];
            pair = PrefixPair {
                covariance: if parents[0] == parents[1] { given_total } else { 0.0 },
                earlier: with[0] / totals[0],
                later: with[1] / totals[1],
            };
            places = parents;
            let of = |total: f64| total / (1.0 + total * precision(level));
            (complete, cut) = (of(self.arity as f64 * complete), of(total_of(self.blocks[level] - 1)));
        }
        pair.covariance + pair.earlier * pair.later * cut
    }
}

impl Mechanism for Consistent {
    fn name(&self) -> MechanismName {
        MechanismName::Consistent(Some(self.shape.arity), LevelChoice::Given(self.shape.weights))
    }

    fn horizon(&self) -> u64 {
        self.shape.horizon
    }

    /// Every step lies in one block of each level.
    fn column_norms(&self) -> ColumnNorms {
        let weights = self.shape.weights.as_slice().iter().map(|w| f64::from(*w));
        ColumnNorms { l1: weights.clone().sum(), l2_squared: weights.map(|w| w * w).sum() }
    }

    /// By levels of disjoint blocks.
    fn spread_squared(&self, spread: Spread) -> u128 {
        let horizon = self.horizon();
        let width = |level: usize| self.shape.arity.saturating_pow(level as u32).min(horizon);
        let squares = |level| {
            let squares = spread.squares(width(level), horizon.div_ceil(width(level)));
            squares.saturating_mul(self.shape.weight_squared(level).into())
        };
        (0..self.shape.levels()).map(squares).fold(0, u128::saturating_add)
    }

    /// `L = A R⁺`, so that `C⁻¹ = A⁻ᵀ RᵀR A⁻¹` and `a_iᵀ C⁻¹ a_i` is the column norm: exact accounting gains nothing.
    fn exact_l2_squared(&self) -> Option<f64> {
        Some(self.column_norms().l2_squared)
    }

    fn row_norm_squared(&self, step: u64) -> f64 {
        variance::Prefixes::new(&self.shape).at(step)
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.max
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.mean
    }

    fn fraction_bits(&self) -> u32 {
        FRACTION_BITS
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(path::PathCursor::new(self.shape.clone()))
    }

    /// No weight of the row exceeds `1 / min W`, so its fourth moment is at most that of `variance · min W²` equal
    /// terms.
    fn row_law(&self, step: u64) -> RowLaw {
        let least = self.shape.weights.as_slice().iter().copied().min().map_or(1.0, f64::from);
        let norm_squared = self.row_norm_squared(step);
        if self.horizon() == 1 && self.shape.weights.as_slice().len() == 1 {
            return RowLaw::Sum(vec![(1.0 / least, 1)]); // one measurement
        }
        RowLaw::Like { norm_squared, terms: (norm_squared * least * least).floor().max(1.0) as u64 }
    }

    /// `O(log T)`.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        self.shape.prefix_covariance(earlier, later)
    }

    /// `O(T h)`: the estimate of one prefix reads every block.
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.shape.visit_row(step, visit);
    }

    fn noise_path(&self, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
        self.shape.path(draw)
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        let width = self.shape.arity.saturating_pow(node.level);
        (node.index * width + 1, (node.index + 1).saturating_mul(width))
    }

    fn node_weight(&self, node: Node) -> f64 {
        f64::from(self.shape.weight(node.level as usize).expect("a measured level"))
    }

    fn cost(&self) -> Cost {
        let k = self.shape.arity as f64;
        let blocks_entered = (self.shape.levels() - 1).max(1) as u64;
        let children = self.shape.arity.min(self.horizon());
        let draws = blocks_entered as f64 * k / (k - 1.0);
        Cost::from_draws(draws, blocks_entered * (children + 1) * path::WORDS)
    }

    /// The blocks of one level do not overlap.
    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        Ok(LaplaceShift::from_weights(self.shape.weights.as_slice().iter().map(|weight| u64::from(*weight))))
    }
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::Consistent(parameters.number("k")?, LevelChoice::parse(parameters, "uniform")?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, arity: Option<u64>, levels: LevelChoice) -> fmt::Result {
    let Some(k) = arity else { return Ok(()) };
    match levels {
        LevelChoice::Best => write!(f, "(k={k})"),
        LevelChoice::Uniform { root: true } => write!(f, "(k={k},levels=uniform)"),
        LevelChoice::Uniform { root: false } => write!(f, "(k={k},levels=uniform,root=false)"),
        LevelChoice::Given(levels) => write!(f, "(k={k},levels={levels})"),
    }
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    arity: Option<u64>,
    levels: LevelChoice,
) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(match (arity, levels) {
        (None, LevelChoice::Best) => Consistent::best(horizon, criterion)?,
        (Some(k), LevelChoice::Best) => Consistent::optimised(horizon, k, criterion)?,
        (Some(k), LevelChoice::Uniform { root }) => Consistent::uniform(horizon, k, root)?,
        (Some(k), LevelChoice::Given(weights)) => Consistent::new(horizon, k, weights)?,
        (None, _) => {
            return Err(Error::invalid(
                "`consistent` with level weights needs an arity: consistent(k=12,levels=uniform)",
            ));
        }
    }))
}

#[cfg(test)]
mod tests;
