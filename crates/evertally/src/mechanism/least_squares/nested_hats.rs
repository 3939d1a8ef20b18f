//! Nested hats: single steps and overlapping hats, read from the measurements around a step.
//!
//! As for `hats`, every step is measured alone, and at every scale sums with overlapping triangular weights. Here each
//! spacing is 8 to 64 times the one before, and as all levels end with the knot `T + 1`, the knots of a level are among
//! those of the finer ones. So a hat is a sum of finer hats, exactly, and a release needs no measurement of the fine
//! levels far from its step: where `hats` solves for all steps at once, any release is reached with `O(k log T)` draws
//! for factors `k`.
//!
//! **Matrix.** Hat `b` of level `l` with spacing `s` has the entry `slope_b · Λ_b(j)` at step `j`, where `Λ_b` falls
//! from `s` at its knot to 0 at both neighbours; the first hat of a level is constant before its knot. Slopes are whole
//! numbers that follow a straight line of shares from the first to the last step. The single step's weight is the
//! remainder of the column sum `s1`: every column of `R` has L1 norm `s1` exactly.
//!
//! **Estimate.** On a level the functions that are straight between knots, constant before the first knot and 0 at
//! `T + 1` are the sums `Σ_b ρ(b) Λ_b / s` over its hats, and the functions of a level belong to all finer ones. For
//! functions `ρ_l` of each level (the *ramps*, [`estimate`]) the indicator of the steps up to `t` is
//!
//! ```text
//! a_t = ρ_L + (ρ_{L-1} - ρ_L) + … + (ρ_1 - ρ_2) + (a_t - ρ_1),
//! ```
//!
//! and term `l` is a sum over the hats of level `l`, the last one over single steps. Hence `L` has the entries
//! `(ρ_l(b) - ρ_{l+1}(knot b)) / (s_l · slope_b)`, and `L R = A` whatever the ramps are. Ramps that are 1 left of a few
//! knots around `t` and 0 right of them leave `O(k)` entries a level. Those nearest to `a_t` in least squares have
//! variances within 7 % of `A R⁺` with the same `R` (T = 4096, dense algebra): neighbouring levels hardly correct each
//! other, as a finer level has `k` measurements where the coarser one has one.
//!
//! **Exact release.** `y_b = slope_b S_b + z_b` with the whole number `S_b = Σ_j Λ_b(j) x_j`. Let `e_b` be `2^g z_b /
//! slope_b` rounded: `2^g S_b + e_b` is `2^g y_b / slope_b` rounded, a function of the protected sum `y_b`. Spacings
//! are powers of two and ramps multiples of `2^-12`, so `Σ c_b (S_b + 2^-g e_b)` with the exact `c_b` is a sum of
//! multiples of a power of two, `A x` plus `Σ c_b 2^-g e_b` identically. It is rounded to `2^-8` of the grid, and as
//! `A x` is a whole number, rounding the noise is rounding the release. Ramps are computed in floating point, with the
//! four basic operations only: the same on every machine.

mod cursor;
mod estimate;
mod search;
mod shape;
mod variance;

use crate::Result;
use crate::mechanism::name::nested_levels;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::{
    ColumnNorms, Cost, Criterion, Cursor, DensePair, LaplaceShift, Matrix, Mechanism, MechanismName, NestedLevels,
    RowLaw, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use cursor::{NestedCursor, hat_node, node, step_node};
use estimate::weights;
use shape::NestedHatShape;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Single steps and nested levels of overlapping hats.
#[doc(alias = "hierarchical")]
#[doc(alias = "wavelet")]
#[derive(Clone, Debug)]
pub struct NestedHats {
    shape: Arc<NestedHatShape>,
    /// The largest and the mean squared row norm, computed on first use.
    norms: Arc<OnceLock<(f64, f64)>>,
}

/// Longest horizon: that of the widest spacing for which a column sum leaves room for noise.
pub(in crate::mechanism) const MAX_HORIZON: u64 = 1 << 40;
impl NestedHats {
    /// Nested hats over `horizon` steps (up to 2^40) with these levels. `O(l)` for `l` levels; the first request for
    /// the largest or the mean variance takes up to a tenth of a second. Over more than 2^14 steps both are upper
    /// bounds; the mean is within 3 % in the tests.
    ///
    /// # Errors
    /// If the widest spacing is not between 1/64 and 5/6 of the horizon, or the shares leave a single step less than
    /// 1/256 of its budget.
    ///
    /// ```
    /// use evertally::mechanism::{Mechanism, NestedHats};
    /// let hats = NestedHats::new(16384, "spacing=16/256/4096,first=205/242/312,last=321/358/161".parse()?)?;
    /// let s1 = hats.column_norms().l1;
    /// assert!(2.0 * s1 * s1 * hats.max_row_norm_squared() < 330.0); // `smooth`: 736
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(horizon: u64, levels: NestedLevels) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "nested-hats")?;
        Ok(Self { shape: Arc::new(NestedHatShape::new(horizon, levels)?), norms: Arc::default() })
    }

    /// The sums of squares and of fourth powers of a row of `L`.
    pub(in crate::mechanism) fn moments(&self, step: u64) -> (f64, f64) {
        let (mut squares, mut fourth) = (0.0, 0.0);
        self.visit_row(step, &mut |_, weight| {
            squares += weight * weight;
            fourth += weight * weight * weight * weight;
        });
        (squares, fourth)
    }

    fn norms(&self) -> (f64, f64) {
        *self.norms.get_or_init(|| variance::largest_and_mean(self))
    }
}

impl Mechanism for NestedHats {
    fn name(&self) -> MechanismName {
        MechanismName::NestedHats(Some(self.shape.levels))
    }

    fn horizon(&self) -> u64 {
        self.shape.horizon
    }

    /// The L2 norm is that of a step with its whole budget alone; the last step is close to it.
    fn column_norms(&self) -> ColumnNorms {
        let total = self.shape.total as f64;
        ColumnNorms { l1: total, l2_squared: total * total }
    }

    /// As for `hats`: `‖R u‖² ≤ Σ_n c_n Σ_i u_i R_ni` with `c_n` the most that a unit's events add to node `n`. A level
    /// has at most `s1` of a column, weighted by its largest `c_n`; here the levels' largest shares are added up.
    fn spread_squared(&self, spread: Spread) -> u128 {
        let (total, per_step) = (u128::from(spread.total), u128::from(spread.per_step));
        let sum = u128::from(self.shape.total);
        let of_level = |level: usize| {
            let (height, mass) = self.shape.bounds(level);
            height.saturating_mul(total.saturating_mul(height).min(per_step.saturating_mul(mass)))
        };
        let alone = (sum * sum).saturating_mul(total.min(per_step));
        let levels = (0..self.shape.level_count()).map(of_level).fold(alone, u128::saturating_add);
        levels.min((sum * sum).saturating_mul(total)).saturating_mul(total)
    }

    fn has_random_access(&self) -> bool {
        true
    }

    /// `O(k log T)`, as for every row.
    fn row_norm_squared(&self, step: u64) -> f64 {
        self.moments(step).0
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.norms().0
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.norms().1
    }

    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        let mut row = BTreeMap::new();
        self.visit_row(earlier, &mut |node, weight| {
            row.insert(node, weight);
        });
        let mut sum = 0.0;
        self.visit_row(later, &mut |node, weight| sum += weight * row.get(&node).copied().unwrap_or(0.0));
        sum
    }

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        for (level, weights) in weights(&self.shape, step).into_iter().enumerate() {
            let divisors = self.shape.divisors(level, weights.first, weights.weights.len());
            for (number, (weight, divisor)) in (weights.first..).zip(weights.weights.iter().zip(divisors)) {
                if *weight != 0 {
                    visit(node(level, number), weights.value(*weight) / divisor as f64);
                }
            }
        }
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        match (node.level as usize).checked_sub(1) {
            None => (node.index + 1, node.index + 1),
            Some(level) => self.shape.support(level, node.index),
        }
    }

    /// The largest entry: a hat's row of `R` is not constant.
    fn node_weight(&self, node: Node) -> f64 {
        match (node.level as usize).checked_sub(1) {
            None => self.shape.single(node.index + 1) as f64,
            Some(level) => self.shape.height(level, node.index) as f64,
        }
    }

    fn fraction_bits(&self) -> u32 {
        FRACTION_BITS
    }

    fn row_law(&self, step: u64) -> RowLaw {
        let (norm_squared, fourth) = self.moments(step);
        RowLaw::Like { norm_squared, terms: (norm_squared * norm_squared / fourth).max(1.0) as u64 }
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(NestedCursor::new(self.shape.clone()))
    }

    fn cost(&self) -> Cost {
        let read = |step| -> usize { weights(&self.shape, step).iter().map(|level| level.weights.len()).sum() };
        let read = read(self.shape.horizon / 2 + 1).max(read(self.shape.horizon));
        let per_step = (0..self.shape.level_count()).map(|level| 1.0 / self.shape.grid(level).spacing() as f64);
        Cost {
            draws_per_step: 1.0 + per_step.sum::<f64>(),
            work_per_step: read as f64,
            memory_words: 3 * read as u64, // a measurement has two words, and a weight one while a release is made
        }
    }

    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        Ok(LaplaceShift::together(self.shape.total))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        pair.r = Matrix::zeros(pair.nodes.len(), self.horizon() as usize);
        for step in 1..=self.horizon() {
            let hats = self.shape.over(step).map(|(level, hat, entry)| (hat_node(level, hat), entry));
            for (node, entry) in hats.chain([(step_node(step), self.shape.single(step))]) {
                if let Ok(row) = pair.nodes.binary_search(&node) {
                    pair.r.set(row, step as usize - 1, entry as f64);
                }
            }
        }
        pair
    }
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::NestedHats(nested_levels::parse(parameters)?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, levels: Option<NestedLevels>) -> fmt::Result {
    levels.map_or(Ok(()), |levels| write!(f, "({levels})"))
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    levels: Option<NestedLevels>,
) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(match levels {
        Some(levels) => NestedHats::new(horizon, levels)?,
        None => NestedHats::best(horizon, criterion.objective())?,
    }))
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::NestedHats(_) => MechanismName::NestedHats(None),
        other => other,
    }
}

#[cfg(test)]
mod tests;
