//! The optimum as a filter with few states, for long horizons.
//!
//! The [optimum](super) takes some thirty states because its inverse root is accurate to 10⁻¹². With eight or twelve
//! poles the root is off by 10⁻⁴ to 10⁻², and the factorization by the square of that: the variance is stationary at
//! the optimum. The columns must be equally long for *this* root, and the dual iteration achieves this, too
//! (`weights.rs`). Over `T = 2^20` steps twelve states are within 0.1 % of the lower bound, where the normalized square
//! root is 5 % above it.
//!
//! **Frozen.** Decays and outputs are rounded to integers ([frozen]), which define `R` exactly. Column norms, row norms
//! ([figures]) and the cost of truncation ([cursor]) are those of the frozen matrix, in `O(T n²)` by recursions over
//! the steps.
//!
//! **Exact release.** As for a BLT, the protected integers are computed from the data by a truncating filter, and the
//! release by the inverse filter from them alone. A release costs `O(n)`; the filter itself is a table of `8 n` bytes
//! per step.

mod cursor;
mod figures;
mod frozen;

use super::weights::Weights;
use crate::mechanism::MatrixDigest;
use crate::mechanism::accounting::row_norms::{RowNorms, row_norms_of_table};
use crate::mechanism::accounting::truncation::{ROUNDING, in_noise_steps, noise_bits};
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::toeplitz::filter::frame::filters_one_node_a_step;
use crate::mechanism::{
    ColumnNorms, Cost, Criterion, Cursor, DensePair, Matrix, Mechanism, MechanismName, Objective, Optimum, SearchWatch,
    check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use cursor::{FilterCursor, MAX_STATES};
use frozen::Frozen;
use std::fmt;
use std::sync::Arc;

/// Longest horizon: a table of 100 MB.
const MAX_HORIZON: u64 = 1 << 20;
/// The number of states is a multiple of this: sums over them run in lanes.
const LANES: usize = super::poles::LANES;
/// Tolerance of the iteration: columns are equally long up to this.
const SLACK: f64 = 1e-4;
/// Longest horizon for which 8 states are the default; 12 above.
const MAX_HORIZON_8_STATES: u64 = 1 << 13;
/// Largest variance inside the inverse filter that its fixed-point numbers can hold.
const MAX_VARIANCE: f64 = (1 << 20) as f64;

/// The factorization of least mean or least maximal variance under Gaussian noise among those that a time-varying
/// filter with a few states computes (after Denisov, McMahan, Rush, Smith, Thakurta 2022, arXiv 2202.08312).
#[doc(alias = "Denisov")]
#[doc(alias = "matrix mechanism")]
#[doc(alias = "matrix factorization")]
#[doc(alias = "filter")]
#[derive(Clone, Debug)]
pub struct Optimal {
    objective: Objective,
    frozen: Arc<Frozen>,
    columns: ColumnNorms,
    row_norms: RowNorms,
    /// The largest excess, over the matrix's value, of the L2 distance between the protected integers of two streams:
    /// `E √T`.
    slack: f64,
    /// Bits of the noise grid.
    noise_bits: u32,
    /// The name in the plan.
    digest: MatrixDigest,
}

impl Optimal {
    /// For the least maximal or the least mean variance over `horizon` steps, 1 ..= 2^20, with 4, 8, 12 or 16 states,
    /// or as many as bring it close to the optimum. `O(T n²)`: some 50 ms at 2^14 steps, seconds at 2^20; always with
    /// the same result.
    ///
    /// # Errors
    /// If the horizon or the number of states is out of range.
    ///
    /// ```
    /// use evertally::mechanism::{Mechanism, Objective, Optimal};
    /// let filter = Optimal::solve(1024, None, Objective::Max)?;
    /// assert!(filter.max_row_norm_squared() * filter.column_norms().l2_squared < 8.78); // the optimum has 8.7703
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn solve(horizon: u64, states: Option<usize>, objective: Objective) -> Result<Self> {
        Self::searched(horizon, states, (objective, SearchWatch::NONE))
    }

    /// The same in a search that a watch may cancel.
    fn searched(horizon: u64, states: Option<usize>, aim: (Objective, SearchWatch<'_>)) -> Result<Self> {
        let (objective, watch) = aim;
        check_horizon(horizon, MAX_HORIZON, "optimal")?;
        let states = states.unwrap_or(if horizon <= MAX_HORIZON_8_STATES { 8 } else { 12 });
        if states == 0 || states > MAX_STATES || !states.is_multiple_of(LANES) {
            return Err(Error::invalid(format!("an optimal filter must have 4, 8, 12 or 16 states, got {states}")));
        }
        let weights = Weights::with_few_poles(horizon as usize, aim, SLACK, states)?;
        let (frozen, columns) = Frozen::new(&weights)?;
        watch.check()?;
        let rows = figures::row_pass(&frozen);
        watch.check()?;
        let sound = rows.squared.iter().all(|variance| variance.is_finite() && *variance > 0.0);
        if !sound || rows.largest >= MAX_VARIANCE {
            return Err(Error::invalid("the optimal filter is not well conditioned at this horizon; use more states"));
        }
        let bound = cursor::truncation_bound(&frozen, noise_bits(horizon));
        Ok(Self {
            objective,
            columns,
            row_norms: RowNorms::new(rows.squared),
            slack: bound * libm::sqrt(horizon as f64) * (1.0 + ROUNDING),
            noise_bits: noise_bits(horizon),
            digest: frozen.digest(objective),
            frozen: Arc::new(frozen),
        })
    }

    /// The filter with this digest.
    ///
    /// # Errors
    /// As [`Optimal::solve`], or if this version of the library finds a filter with another digest.
    pub fn with_digest(
        horizon: u64,
        states: Option<usize>,
        objective: Objective,
        digest: MatrixDigest,
    ) -> Result<Self> {
        Self::solve(horizon, states, objective)?.checked(Some(digest))
    }

    /// The same filter, if it has this digest.
    fn checked(self, digest: Option<MatrixDigest>) -> Result<Self> {
        self.digest.check(digest, "the optimal filter")?;
        Ok(self)
    }

    /// The BLAKE3 digest of the frozen filter, part of the name: a plan is bound to the filter itself.
    pub fn digest(&self) -> MatrixDigest {
        self.digest
    }
}

impl Optimal {
    /// The largest L1 norm of a column of the integer matrix that is protected: an upper bound, which includes its
    /// rounding.
    pub fn l1_column_sum(&self) -> u128 {
        let slack = self.slack * libm::sqrt(self.horizon() as f64);
        in_noise_steps(self.columns.l1, 1, self.noise_bits(), slack)
    }
}

impl Mechanism for Optimal {
    fn name(&self) -> MechanismName {
        MechanismName::Optimal(Some(self.frozen.states()), Optimum::found(self.objective, self.digest))
    }

    fn horizon(&self) -> u64 {
        self.frozen.steps() as u64
    }

    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        let (frozen, columns) = self.frozen.through(steps as usize); // fits: at most 2^20
        let share = steps as f64 / self.horizon() as f64;
        Some(Arc::new(Self {
            frozen: Arc::new(frozen),
            columns,
            row_norms: self.row_norms.through(steps),
            slack: self.slack * libm::sqrt(share) * (1.0 + ROUNDING),
            ..self.clone()
        }))
    }

    fn column_norms(&self) -> ColumnNorms {
        self.columns
    }

    fn noise_bits(&self) -> u32 {
        self.noise_bits
    }

    /// An upper bound, which includes the rounding of the protected integers, as for a [`Blt`](crate::mechanism::Blt):
    /// `(total s2 + E √(T total))²`, where the second term bounds the rounding of all groups that a unit's change can
    /// touch: `total` of them, or twice as many if events are replaced, and then one event counts at least twice.
    fn spread_squared(&self, spread: Spread) -> u128 {
        let total = spread.total as f64;
        in_noise_steps(total * total * self.columns.l2_squared, 2, self.noise_bits(), self.slack * libm::sqrt(total))
    }

    filters_one_node_a_step!();

    row_norms_of_table!();

    /// `O(later · n)`.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        let row = |step: u64| figures::row(&self.frozen, step as usize);
        row(earlier).iter().zip(row(later)).map(|(a, b)| a * b).sum()
    }

    /// `O(step · n)`.
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let row = figures::row(&self.frozen, step as usize);
        row.into_iter().zip(0..).for_each(|(entry, index)| visit(Node { level: 0, index }, entry));
    }

    fn noise_path(&self, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
        figures::path(&self.frozen, |k| draw(Node { level: 0, index: k as u64 }))
    }

    /// The table and the states.
    fn cost(&self) -> Cost {
        let states = self.frozen.states() as u64;
        let words = states * self.horizon() + 8 * states + 8;
        Cost::from_draws(1.0, words)
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(FilterCursor::new(self.frozen.clone(), self.noise_bits()))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        let steps = self.frozen.steps();
        pair.r = Matrix::zeros(steps, steps);
        for t in 0..steps {
            self.frozen.row(t).into_iter().enumerate().for_each(|(j, entry)| pair.r.set(t, j, entry));
        }
        pair
    }
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::Optimal(parameters.number("states")?, Optimum::parse(parameters)?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, states: Option<usize>, optimum: Optimum) -> fmt::Result {
    match states {
        None => write!(f, "{optimum}"),
        Some(states) if optimum == Optimum::OPEN => write!(f, "(states={states})"),
        Some(states) => write!(f, "(states={states},{}", optimum.to_string().trim_start_matches('(')),
    }
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    states: Option<usize>,
    optimum: Optimum,
) -> Result<Arc<dyn Mechanism>> {
    let aim = (optimum.objective.unwrap_or(criterion.objective()), criterion.watch());
    Ok(Arc::new(Optimal::searched(horizon, states, aim)?.checked(optimum.digest)?))
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::Optimal(states, _) => MechanismName::Optimal(states, Optimum::OPEN),
        other => other,
    }
}

#[cfg(test)]
mod tests;
