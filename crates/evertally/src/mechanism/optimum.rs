//! The optimal factorization under Gaussian noise: as a dense matrix, and as a filter with few states.

pub(super) mod dense;
pub(super) mod dense_family;
mod dense_runs;
pub(super) mod optimal;
mod poles;
mod weights;

use super::Objective;
pub use dense::{Certificate, Dense};
pub use dense_runs::DenseRuns;
pub(super) use dense_runs::MAX_SEARCHED;
pub(crate) use dense_runs::weighted_gram;
pub use optimal::Optimal;

/// Longest horizon of a [`certified_bound`]: it is computed in less than a tenth of a second.
const MAX_CERTIFIED_STEPS: u64 = 2048;

/// A lower bound of the mean or the largest variance of every factorization (`s2² ‖L_t‖²`), within 10⁻⁵ of the optimum;
/// `None` for horizons above 2048 steps.
pub(crate) fn certified_bound(horizon: u64, objective: Objective) -> Option<f64> {
    (horizon <= MAX_CERTIFIED_STEPS).then(|| Dense::lower_bound(horizon, objective).ok())?
}
