//! The optimal factorization under Gaussian noise for units with events in several steps: at most `k` steps, at least
//! `b` apart.
//!
//! **Sensitivity.** `R` has no negative entries, so the [chains](crate::mechanism::accounting::chain) of steps apply,
//! with the inner products of a column with steps before it that are themselves `b` apart ([`spaced`]). They are
//! computed for the integer matrix that is released. The bound is exact for matrices of `b` bands, and for the other
//! optima it is that of brute force, in every case tested.
//!
//! **Optimum.** Least variance times this bound ([`search`]): a convex problem in `RᵀR`, which is Denisov et al.'s
//! (arXiv 2202.08312) with the constraints of Choquette-Choo et al. (arXiv 2211.06530, 2306.08153). For `k b ≥ T` the
//! optimum of [`b` bands](banded), with columns of any lengths; for fewer events matrices without bands. The
//! [lower bound](crate::plan::vector_lower_bound) for vectors of any direction is 0.1 to 1 % below in most cases
//! compared, and 3 % if a unit has events in many steps. Matrices with negative entries can be better only for changes
//! of one sign.
//!
//! **Vectors.** `RᵀR` has no negative entries, so the bound holds for vectors of norm 1 and any direction, too. Their
//! noise is `C⁻¹ z` for the increments, with `C = R`, from as many earlier increments as there are bands.
//!
//! **Exact release** as for the [optimum](super::dense) of one event: `R̃ = 2^30 R`, rounded to integers, and the
//! variances are those of `R̃` itself.

mod banded;
mod chains;
mod search;
mod spaced;
mod triangle;

use super::dense::integer::{MATRIX_BITS, NormBounds};
use crate::mechanism::accounting::chain::{self, Pattern};
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::accounting::row_norms::{RowNorms, row_norms_of_table};
use crate::mechanism::toeplitz::filter::frame::filters_one_node_a_step;
use crate::mechanism::toeplitz::filter::{FilterRows, TriangularCursor, packed};
use crate::mechanism::{
    ColumnNorms, Cost, Cursor, DensePair, Matrix, MatrixDigest, Mechanism, MechanismName, Objective, Optimum,
    Participation, SearchWatch, Streaming, TriangularSteps, check_horizon,
};
use crate::noise::Node;
use crate::number::lanes::dot;
use crate::privacy::Spread;
use crate::{Error, Result};
use spaced::SpacedColumns;
use std::sync::Arc;
use triangle::DenseProblem;
pub(crate) use triangle::weighted_gram;

/// Longest horizon: a step of the search takes `O(T³)`.
const MAX_HORIZON: u64 = 1024;
/// Longest horizon at which it competes for a unit: a search of at most a second.
pub(in crate::mechanism) const MAX_SEARCHED: u64 = 128;

/// Whether it competes for a unit.
pub(super) fn is_searched(horizon: u64, unit: Participation) -> bool {
    unit.within(horizon) > 1 && horizon <= MAX_SEARCHED
}

/// The factorization of least mean or least maximal variance under Gaussian noise for units with events in several
/// steps: the optimum of Denisov et al. 2022 (arXiv 2202.08312) under multiple participation (Choquette-Choo et al.
/// 2023, arXiv 2306.08153), without bands.
#[doc(alias = "multi-epoch matrix factorization")]
#[doc(alias = "min_separation")]
#[doc(alias = "DP-MF")]
#[derive(Clone, Debug)]
pub struct DenseRuns {
    objective: Objective,
    runs: Participation,
    /// `R̃`, its rows one after the other.
    matrix: Arc<[u32]>,
    /// The lower triangle of `RᵀR`, in units of 1.
    products: Arc<[f64]>,
    /// The rows of `L`.
    left: Arc<[f64]>,
    row_norms: RowNorms,
    column_norms: ColumnNorms,
    digest: MatrixDigest,
}

impl DenseRuns {
    /// The factorization of least maximal or least mean variance over `horizon` steps, 1 ..= 1024, for units with
    /// events in the steps of `runs`. `O(T³ + T² k)` for each of some hundred evaluations: half a second for 128 steps,
    /// a minute or two for 1024; always with the same result.
    ///
    /// # Errors
    /// If the horizon is out of range.
    ///
    /// ```
    /// use evertally::mechanism::{DenseRuns, Mechanism, Objective, Participation};
    /// let unit = Participation::new(3, 4)?;
    /// let optimum = DenseRuns::solve(24, unit, Objective::Max)?;
    /// let figure = optimum.participation_squared(unit) * optimum.max_row_norm_squared();
    /// assert!(figure < 16.0); // the best of all other mechanisms has 19.08
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn solve(horizon: u64, runs: Participation, objective: Objective) -> Result<Self> {
        Self::searched(horizon, runs, (objective, SearchWatch::NONE))
    }

    /// The same in a search that a watch may cancel.
    pub(super) fn searched(
        horizon: u64,
        runs: Participation,
        (objective, watch): (Objective, SearchWatch<'_>),
    ) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "dense(run=…)")?;
        let steps = horizon as usize;
        let problem = DenseProblem { steps, runs: runs.over(horizon), objective, watch };
        let found = problem.search();
        watch.check()?;
        Self::frozen(&found, runs, objective)
    }

    /// The factorization with this digest.
    ///
    /// # Errors
    /// If the horizon is out of range, or this version of the library finds a factorization with another digest.
    pub fn with_digest(horizon: u64, runs: Participation, objective: Objective, digest: MatrixDigest) -> Result<Self> {
        Self::solve(horizon, runs, objective)?.checked(Some(digest))
    }

    /// The same factorization, if it has this digest.
    pub(super) fn checked(self, digest: Option<MatrixDigest>) -> Result<Self> {
        self.digest.check(digest, "the dense optimum")?;
        Ok(self)
    }

    /// The matrix in integers, so that the largest column has a length below 1.
    fn frozen(found: &[f64], runs: Participation, objective: Objective) -> Result<Self> {
        let steps = spaced::rows_of(found);
        let longest = (0..steps)
            .map(|j| (j..steps).map(|t| found[packed(t) + j] * found[packed(t) + j]).sum::<f64>().sqrt())
            .fold(0.0, f64::max);
        let unit = f64::from(1 << MATRIX_BITS);
        // Casts saturate. Where the optimum is 0, the descent may end slightly below.
        let matrix: Vec<u32> = found.iter().map(|c| (c / longest * unit).round().max(0.0) as u32).collect();
        if (0..steps).any(|t| matrix[packed(t) + t] == 0) {
            return Err(Error::invalid("the dense optimum for these units was not found; use another mechanism"));
        }
        let r: Vec<f64> = matrix.iter().map(|entry| f64::from(*entry) / unit).collect();
        let inverse = triangle::inverse(&r, steps);
        let left = triangle::running_sums(&inverse, steps);
        NormBounds::of(&r, &inverse, &left, steps).check()?;
        let products = triangle::gram(&r, steps);
        let squares = (0..steps).map(|t| products[packed(t) + t]).fold(0.0, f64::max);
        let sums = (0..steps).map(|j| (j..steps).map(|t| r[packed(t) + j]).sum::<f64>()).fold(0.0, f64::max);
        let rows = (0..steps).map(|t| &left[packed(t)..packed(t + 1)]).map(|row| dot(row, row)).collect();
        let operations = steps as u64 + 8;
        Ok(Self {
            objective,
            runs,
            digest: digest(steps as u64, runs, objective, &matrix),
            matrix: matrix.into(),
            products: products.into(),
            left: left.into(),
            row_norms: RowNorms::new(rows),
            column_norms: ColumnNorms { l1: rounded_up(sums, operations), l2_squared: rounded_up(squares, operations) },
        })
    }

    /// The BLAKE3 digest of the integer matrix, part of the name: a plan is bound to the matrix itself.
    pub fn digest(&self) -> MatrixDigest {
        self.digest
    }

    fn steps(&self) -> usize {
        spaced::rows_of(&self.left)
    }

    fn row(&self, step: u64) -> &[f64] {
        let t = step as usize - 1;
        &self.left[packed(t)..packed(t + 1)]
    }

    /// The columns for patterns of a separation and a limited number of steps.
    fn columns(&self, separation: u64, most: u64) -> SpacedColumns {
        let steps = self.steps() as u64;
        SpacedColumns::new(&self.products, separation.min(steps) as usize, most.min(steps) as usize)
    }

    /// Margin for the roundings of an inner product and of the increments of its sums.
    fn operations(&self) -> u64 {
        16 * self.steps() as u64 + 256
    }
}

fn digest(horizon: u64, runs: Participation, objective: Objective, matrix: &[u32]) -> MatrixDigest {
    let mut hasher = blake3::Hasher::new_derive_key("evertally 1 dense matrix for several events");
    for number in [horizon, runs.most(), runs.separation()] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(&[(objective == Objective::Mean).into(), MATRIX_BITS as u8]);
    matrix.iter().for_each(|entry| {
        hasher.update(&entry.to_le_bytes());
    });
    MatrixDigest::new(&hasher.finalize())
}

impl Mechanism for DenseRuns {
    fn name(&self) -> MechanismName {
        MechanismName::Dense(Optimum::found(self.objective, self.digest), self.runs)
    }

    fn horizon(&self) -> u64 {
        self.steps() as u64
    }

    fn column_norms(&self) -> ColumnNorms {
        self.column_norms
    }

    fn noise_bits(&self) -> u32 {
        MATRIX_BITS
    }

    /// By chains, and never more than with all events in one column; rounded up.
    fn spread_squared(&self, spread: Spread) -> u128 {
        let total = spread.total as f64;
        let together = total * total * self.column_norms.l2_squared;
        let squared = if spread.per_step >= spread.total {
            together
        } else {
            let pattern = Pattern::new(spread);
            let columns = self.columns(spread.separation, pattern.full.saturating_add(1));
            // The full steps that fit the horizon.
            let operations = self.operations() + 8 * pattern.full.min(self.horizon());
            together.min(rounded_up(chain::largest(&columns, pattern), operations))
        };
        let unit = libm::exp2(f64::from(2 * MATRIX_BITS));
        // Casts saturate; the product with a power of two is exact.
        (squared * unit * (1.0 + 1e-15)).ceil() as u128
    }

    fn participation_squared(&self, participation: Participation) -> f64 {
        let most = participation.within(self.horizon());
        let columns = self.columns(participation.separation(), most);
        chain::of_steps(&columns, participation, chain::MAX_ADDITIONS, self.operations())
    }

    filters_one_node_a_step!();

    row_norms_of_table!();

    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        let row = self.row(earlier);
        dot(row, &self.row(later)[..row.len()])
    }

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.row(step).iter().zip(0..).for_each(|(entry, index)| visit(Node { level: 0, index }, *entry));
    }

    fn noise_path(&self, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
        let noise: Vec<f64> = (0..self.horizon()).map(|index| draw(Node { level: 0, index })).collect();
        (1..=self.horizon()).map(|step| dot(self.row(step), &noise[..step as usize])).collect()
    }

    /// The last increments, as many as the matrix has bands.
    fn streaming(&self) -> Option<Streaming> {
        Some(Streaming::Triangular(TriangularSteps::new(
            self.matrix.clone(),
            self.steps(),
            f64::from(1 << MATRIX_BITS),
        )))
    }

    /// A row of the matrix.
    fn cost(&self) -> Cost {
        Cost {
            draws_per_step: 1.0,
            work_per_step: self.horizon() as f64 / 2.0,
            memory_words: 4 * self.horizon() + self.matrix.len() as u64 * 5 / 2,
        }
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(TriangularCursor::new(FilterRows::Packed(self.matrix.clone()), None))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        let (steps, unit) = (self.steps(), f64::from(1 << MATRIX_BITS));
        pair.r = Matrix::zeros(steps, steps);
        for t in 0..steps {
            (0..=t).for_each(|j| pair.r.set(t, j, f64::from(self.matrix[packed(t) + j]) / unit));
        }
        pair
    }
}

#[cfg(test)]
mod tests;
