//! Lower bounds on the noise of every factorization: for single events, and for units with events in several steps.

mod coarse;
mod eigenvalues;
mod event;
mod lifted;
mod nuclear;
mod patterns;
mod symmetric;
mod waves;
mod workload;

pub use event::gaussian_lower_bound;
pub use lifted::vector_lower_bound;
pub use workload::workload_lower_bound;

use crate::Result;
use crate::mechanism::{Objective, Participation, SearchWatch, certified_bound};
use crate::privacy::Spread;

/// A proven lower bound of `√(2ρ · max variance)` for Gaussian noise, any factorization of the prefix sums over
/// `horizon` steps and a unit with events of size 1 in one running sum or in several, each with the same factorization.
///
/// Whatever the factorization `A = L R` and the weights `p` of steps and `v` of patterns, all summing to 1, and `Q` the
/// matrix of the patterns, one column each: because `‖R q‖ ≤ s` for every pattern `q`,
///
/// ```text
/// ‖P^½ A Q V^½‖_* ≤ ‖P^½ L‖_F ‖R Q V^½‖_F ≤ max ‖L_t‖ · s
/// ```
///
/// (a nuclear norm is at most the product of the Frobenius norms of two factors). The best of four choices is used:
/// all events in one step ([`gaussian_lower_bound`], or that of the optimum); rows of events around every step, with
/// equal weights, by sines and cosines ([`waves`]); few patterns with the best weights ([`coarse`]); and, over at most
/// 1024 steps, those of most weight among all patterns of one event per step ([`patterns`], [`lifted`]).
///
/// `O(T log T)` up to 2^17 steps, a tenth of a second, and hardly more beyond; up to a second for at most 1024 steps
/// and one event per step.
///
/// ```
/// use evertally::plan::unit_lower_bound;
/// use evertally::privacy::Spread;
/// // 300 events in a year of hours, three per hour.
/// let bound = unit_lower_bound(8760, Spread::new(300, 3));
/// assert!(bound > 630.0 && bound < 660.0);
/// ```
pub fn unit_lower_bound(horizon: u64, spread: Spread) -> f64 {
    unit_lower_bound_watched(horizon, spread, SearchWatch::NONE).expect("nothing cancels it")
}

/// The same in a search that a watch may cancel.
///
/// # Errors
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the search.
pub(super) fn unit_lower_bound_watched(horizon: u64, spread: Spread, watch: SearchWatch<'_>) -> Result<f64> {
    let of_step = spread.per_step.min(spread.per_group);
    let groups = (spread.total / spread.per_group).max(1);
    // As many groups as may have events in one step, whatever the weights of the steps; or all groups, in different
    // steps.
    let in_one = libm::sqrt(groups.min(spread.per_step / of_step) as f64);
    let apart = several_groups(horizon, spread);
    let single = of_step as f64 * (event_bound(horizon) * in_one).max(gaussian_lower_bound(horizon) * apart);
    if spread.per_step >= spread.per_group {
        return Ok(single);
    }
    let waves = waves::bound(horizon, spread) * apart;
    // Over long horizons the waves leave out terms that matter if events are far apart.
    let first = if spread.separation > 1 && horizon > waves::MAX_TERMS {
        unit_lower_bound_watched(waves::MAX_TERMS, spread, watch)?
    } else {
        0.0
    };
    let patterns = by_patterns(horizon, spread, watch)?;
    Ok(single.max(waves).max(coarse::bound(horizon, spread)).max(first).max(patterns))
}

/// The bound by patterns of one event per step, 0 for other units.
fn by_patterns(horizon: u64, spread: Spread, watch: SearchWatch<'_>) -> Result<f64> {
    let is_single = spread.per_step == 1 && spread.total == spread.per_group;
    let runs = Participation::new(spread.total, spread.separation).ok().filter(|_| is_single);
    let Some(runs) = runs else { return Ok(0.0) };
    let found = lifted::bound(horizon, runs, (Objective::Max, watch), patterns::Directions::One)?;
    Ok(found.unwrap_or(0.0))
}

/// The same for one event of size 1.
pub(super) fn event_bound(horizon: u64) -> f64 {
    certified_bound(horizon, Objective::Max).map_or_else(|| gaussian_lower_bound(horizon), f64::sqrt)
}

/// The effect of several groups if all steps count equally. Let a pattern have its events of group `g` around the step
/// `s + g k b`, cyclically over the horizon: in different steps for different groups. As `s` runs over all steps, so
/// does the place in every group, and the mean of `Σ_g ‖R q_g‖²` is that of one group times the number of groups.
fn several_groups(horizon: u64, spread: Spread) -> f64 {
    let long = spread.per_group.div_ceil(spread.per_step).saturating_mul(spread.separation);
    let groups = (spread.total / spread.per_group).min(horizon / long.max(1)).max(1);
    libm::sqrt(groups as f64)
}

#[cfg(test)]
mod tests;
