//! The path-sum tree: the noise of a step is a sum along the path from the root to its leaf.
//!
//! In the complete binary tree with `2^h ≥ T` leaves every block has one noise variable, and the noise of step `t` is
//! `Σ_l λ_l z_{l, block of t}`: the variance `Σ λ_l²` is the same at every step, and two steps share the levels above
//! the least block that holds both (Pagh, Sejer 2026, "An efficient Gaussian mechanism under continual observation",
//! appendix B, with unit weights). It has no 0/1 matrix `R`; only the covariance `C = L Lᵀ` counts, and `R = Lᵀ C⁻¹ A`,
//! the right factor of least norm, has the columns whose squared norms are the exact sensitivities `a_iᵀ C⁻¹ a_i`.
//!
//! **Sensitivity.** If `T = 2^h` the Haar basis makes `C` diagonal, and with `e_j = Σ_{l<j} 2^l λ_l²`,
//! `r = 2^h - i + 1`, `r_j = r mod 2^j`,
//!
//! ```text
//! a_iᵀ C⁻¹ a_i = Σ_{j=1..h} min(r_j, 2^j - r_j)² / (2^j e_j) + r² / (2^h e_{h+1}).
//! ```
//!
//! For any `T` the maximum over `i` follows from the leaves up, see [`trie`](crate::mechanism::accounting::trie):
//! complete blocks of a level are alike, so only two blocks per level have to be examined. For unit weights it grows
//! like `h/9`.
//!
//! **Weights.** They are whole numbers, and discrete Gaussian noise on a fine grid achieves the exact value (see
//! [`shift`](crate::mechanism::accounting::shift)); the grid is divided by their least common multiple. The best
//! weights are searched among the divisors of one number, see [`levels`].
//!
//! **Laplace noise** needs unit weights, with or without the root; its exact L1 sensitivity is in [`laplace`].

mod laplace;
mod levels;
mod participation;
mod walk;

use crate::mechanism::accounting::chain;
use crate::mechanism::accounting::trie::Subtree;
use crate::mechanism::accounting::trie_pairs::StepPairs;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::reach::Reach;
use crate::mechanism::{
    ColumnNorms, Cost, Criterion, Cursor, DensePair, GaussianShift, LaplaceShift, Lazy, LevelChoice, Levels,
    MAX_HORIZON, Mechanism, MechanismName, NoiseKind, Participation, RowLaw, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// A path-sum tree with integer level weights.
#[doc(alias = "path sum")]
#[doc(alias = "tree aggregation")]
#[derive(Clone, Debug)]
pub struct PathSum {
    horizon: u64,
    weights: Levels,
    weights_lcm: u64,
    /// The exact squared sensitivity, rounded up.
    squared: f64,
    /// The exact L1 sensitivity if all weights are 1.
    s1: Option<u32>,
}

/// Largest least common multiple of the weights: it divides the grid of the noise.
const MAX_LCM: u64 = 1 << 20;

impl PathSum {
    /// A tree over `horizon` steps (1 ..= 2^62) with the given weights of its levels, leaves first: one for every
    /// level, or one fewer to omit the root. `O(h²)`.
    ///
    /// # Errors
    /// If the number of weights does not fit the horizon, or their least common multiple is above 2^20.
    pub fn new(horizon: u64, weights: Levels) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "path-sum")?;
        let levels = height(horizon) as usize + 1;
        let given = weights.as_slice().len();
        if given != levels && given + 1 != levels {
            return Err(Error::invalid(format!(
                "`path-sum` over {horizon} steps has {levels} levels with the root, got {given} weights"
            )));
        }
        // fits: a multiple of at most 2^20 times a weight below 2^16.
        let multiple = |so_far: u64, w: &u16| (so_far <= MAX_LCM).then(|| lcm(so_far, u64::from(*w)));
        let weights_lcm = weights.as_slice().iter().try_fold(1, multiple).filter(|lcm| *lcm <= MAX_LCM);
        let weights_lcm = weights_lcm.ok_or_else(|| {
            Error::invalid(format!(
                "the level weights of `path-sum` need a least common multiple of at most {MAX_LCM}; \
                 use divisors of one number, such as 120:40:90:72"
            ))
        })?;
        let squared = trie(horizon, weights.as_slice()).sensitivity_squared();
        Ok(Self { horizon, weights, weights_lcm, squared, s1: s1(horizon, weights) })
    }

    /// The same with unit weights, with or without the root (a single step keeps it).
    ///
    /// # Errors
    /// If the horizon is out of range.
    pub fn uniform(horizon: u64, root: bool) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "path-sum")?;
        let height = height(horizon) as usize;
        Self::new(horizon, Levels::new(&vec![1; if root || height == 0 { height + 1 } else { height }])?)
    }

    /// The weights with the least variance under Gaussian noise; see
    /// [`best_for_laplace`](Self::best_for_laplace) for Laplace noise.
    ///
    /// # Errors
    /// If the horizon is out of range.
    pub fn best(horizon: u64) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "path-sum")?;
        Self::new(horizon, levels::best(horizon))
    }

    /// Unit weights with the least variance under Laplace noise, with or without the root.
    ///
    /// ```
    /// use evertally::mechanism::{Mechanism, PathSum};
    /// let best = PathSum::best_for_laplace(1024)?;
    /// assert_eq!((best.column_norms().l1, best.max_row_norm_squared()), (6.0, 10.0));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the horizon is out of range.
    pub fn best_for_laplace(horizon: u64) -> Result<Self> {
        let (with, without) = (Self::uniform(horizon, true)?, Self::uniform(horizon, false)?);
        let figure = |tree: &Self| tree.s1.map_or(f64::INFINITY, |s1| f64::from(s1 * s1) * tree.variance());
        Ok(if figure(&without) < figure(&with) { without } else { with })
    }

    fn variance(&self) -> f64 {
        // exact: 63 squares below 2^32.
        self.weights.as_slice().iter().map(|w| f64::from(*w) * f64::from(*w)).sum()
    }
}

/// The least `h` with `2^h ≥ horizon`.
fn height(horizon: u64) -> u32 {
    horizon.next_power_of_two().trailing_zeros()
}

/// The exact L1 sensitivity under unit weights.
fn s1(horizon: u64, weights: Levels) -> Option<u32> {
    is_unit(weights).then(|| laplace::sensitivity(horizon, weights.as_slice().len() as u32))
}

fn is_unit(weights: Levels) -> bool {
    weights.as_slice().iter().all(|w| *w == 1)
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// What steps `1 ..= horizon` reveal under these weights, leaves first. Levels above the height have one node, which
/// all of these steps read.
fn trie(horizon: u64, weights: &[u16]) -> Subtree {
    let variance = |level: u32| weights.get(level as usize).map_or(0.0, |w| f64::from(*w) * f64::from(*w));
    // The complete blocks of a level, and the last one, cut at the horizon.
    let mut complete = Subtree::Bare.under(variance(0));
    let mut last = complete.clone();
    for level in 1..=height(horizon) {
        if (horizon - 1) >> (level - 1) & 1 == 1 {
            last = complete.clone().next_to(&last);
        }
        last = last.under(variance(level));
        complete = complete.clone().next_to(&complete).under(variance(level));
    }
    (height(horizon) + 1..weights.len() as u32).fold(last, |last, level| last.under(variance(level)))
}

impl Mechanism for PathSum {
    fn name(&self) -> MechanismName {
        MechanismName::PathSum(LevelChoice::Given(self.weights))
    }

    fn horizon(&self) -> u64 {
        self.horizon
    }

    fn has_random_access(&self) -> bool {
        true
    }

    /// The path of a step does not depend on the horizon.
    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        let squared = trie(steps, self.weights.as_slice()).sensitivity_squared();
        Some(Arc::new(Self { horizon: steps, squared, s1: s1(steps, self.weights), ..self.clone() }))
    }

    /// The norms of the right factors of least L2 norm and, under unit weights, of least L1 norm; the L1 norm of others
    /// is of no use, and returned as infinite.
    fn column_norms(&self) -> ColumnNorms {
        ColumnNorms { l1: self.s1.map_or(f64::INFINITY, f64::from), l2_squared: self.squared }
    }

    /// No integer sums are protected, so no finite bound applies.
    fn spread_squared(&self, _spread: Spread) -> u128 {
        u128::MAX
    }

    fn exact_l2_squared(&self) -> Option<f64> {
        Some(self.squared)
    }

    /// The exact value for a single step; for several, a bound by chains of pairs, `O(h 2^17)`.
    fn participation_squared(&self, participation: Participation) -> f64 {
        let once = participation.of_any(self.horizon, self.squared);
        if participation.within(self.horizon) == 1 {
            return once;
        }
        let blocks = participation::LevelBlocks::new(self.horizon, self.weights.as_slice());
        let pairs = StepPairs { trie: &blocks, horizon: self.horizon, largest: self.squared };
        let by_levels = participation::squared(self.horizon, self.weights.as_slice(), participation);
        once.min(by_levels).min(chain::of_steps(&pairs, participation, chain::MAX_VECTOR_ADDITIONS, 64))
    }

    fn gaussian_shift(&self) -> Option<GaussianShift> {
        let weights = self.weights.as_slice();
        let least = weights.iter().copied().min().map_or(1, u64::from);
        Some(GaussianShift::from_trie(self.squared, self.weights_lcm, least, weights.len() as u32, self.variance()))
    }

    fn lazy(&self) -> Option<Lazy> {
        Some(Lazy::Paths(Box::new(walk::LevelWalk::new(self.weights))))
    }

    fn row_norm_squared(&self, _step: u64) -> f64 {
        self.variance()
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.variance()
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.variance()
    }

    fn row_law(&self, _step: u64) -> RowLaw {
        RowLaw::Sum(self.weights.as_slice().iter().map(|w| (f64::from(*w), 1)).collect())
    }

    /// The levels above the highest bit in which the numbers of the leaves differ.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        let apart = (u64::BITS - ((earlier - 1) ^ (later - 1)).leading_zeros()) as usize;
        let shared = self.weights.as_slice().iter().skip(apart);
        shared.map(|w| f64::from(*w) * f64::from(*w)).sum() // exact, as in `variance`
    }

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        for (level, weight) in (0..).zip(self.weights.as_slice()) {
            visit(Node { level, index: (step - 1) >> level }, f64::from(*weight));
        }
    }

    /// The block of a node. No row of `R` is 1 on it: see [`dense`](Mechanism::dense).
    fn node_span(&self, node: Node) -> (u64, u64) {
        ((node.index << node.level) + 1, (node.index + 1) << node.level)
    }

    fn cost(&self) -> Cost {
        Cost::from_draws(2.0, 2 * self.weights.as_slice().len() as u64 + 20)
    }

    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        let refusal = "the shifts of its nodes are whole numbers only if all weights are 1 (`levels=unit`)";
        self.s1.map(|s1| LaplaceShift::together(s1.into())).ok_or(refusal)
    }

    fn least_shift(&self, differences: &[f64]) -> Option<f64> {
        self.s1.map(|_| laplace::least_shift(differences, self.weights.as_slice().len() as u32))
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(PathSumCursor { step: 0, weights: self.weights, sums: vec![0; self.weights.as_slice().len() + 1] })
    }

    /// With `R = Lᵀ (L Lᵀ)⁻¹ A`.
    fn dense(&self) -> DensePair {
        crate::mechanism::factorization::dense_pair(self).with_least_right_factor()
    }
}

struct PathSumCursor {
    step: u64,
    weights: Levels,
    /// For every level the noise of the path from the root down to it, leaves first; 0 above the highest.
    sums: Vec<i128>,
}

impl PathSumCursor {
    /// Redraws the path of the step from a level down.
    fn draw_from(&mut self, top: usize, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        for level in (0..=top).rev() {
            let node = Node { level: level as u32, index: (self.step - 1) >> level };
            // fits: noise of one node stays below 2^80, times a weight below 2^16, on at most 63 levels.
            self.sums[level] = self.sums[level + 1] + i128::from(self.weights.as_slice()[level]) * draw(node);
        }
        self.sums[0]
    }
}

impl Cursor for PathSumCursor {
    fn step(&self) -> u64 {
        self.step
    }

    /// A block ends where the number of steps is a multiple of its size.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let top = self.weights.as_slice().len() - 1;
        let ended = if self.step == 0 { top } else { top.min(self.step.trailing_zeros() as usize) };
        self.step += 1;
        self.draw_from(ended, draw)
    }

    /// `O(h)` draws.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.step = step;
        if step == 0 { 0 } else { self.draw_from(self.weights.as_slice().len() - 1, draw) }
    }
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::PathSum(LevelChoice::parse(parameters, "unit")?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, levels: LevelChoice) -> fmt::Result {
    match levels {
        LevelChoice::Best => Ok(()),
        LevelChoice::Uniform { root: true } => f.write_str("(levels=unit)"),
        LevelChoice::Uniform { root: false } => f.write_str("(levels=unit,root=false)"),
        LevelChoice::Given(levels) => write!(f, "(levels={})", levels.in_runs()),
    }
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    levels: LevelChoice,
) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(match levels {
        LevelChoice::Best if criterion.law() == NoiseKind::Laplace => PathSum::best_for_laplace(horizon)?,
        LevelChoice::Best => PathSum::best(horizon)?,
        LevelChoice::Uniform { root } => PathSum::uniform(horizon, root)?,
        LevelChoice::Given(weights) => PathSum::new(horizon, weights)?,
    }))
}

/// Other weights than 1 have no Laplace noise.
pub(in crate::mechanism) fn reach(name: MechanismName) -> Reach {
    match name {
        MechanismName::PathSum(LevelChoice::Given(levels)) if !is_unit(levels) => Reach::ANY_GAUSSIAN,
        _ => Reach::ANY,
    }
}

pub(in crate::mechanism) fn brief(_: MechanismName) -> MechanismName {
    MechanismName::PathSum(LevelChoice::Best)
}

#[cfg(test)]
mod tests;
