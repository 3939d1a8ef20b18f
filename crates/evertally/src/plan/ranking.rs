//! The mechanisms that fit a request, ranked by exact error, with lower bounds for every mechanism.

mod windows;

use super::lower_bound::unit_lower_bound_watched;
use super::unbounded::{LOOKED_AT, largest_ratio_watched};
use super::{Candidate, NoiseKind, Objective, PlanRequest, SearchProgress, gaussian_lower_bound, workload_lower_bound};
use crate::Result;
use crate::mechanism::{MAX_HORIZON, MechanismName, SearchWatch, Workload, certified_bound};
use crate::number::power;
use crate::privacy::conversions::mu_for;
use crate::privacy::{Budget, Delta, Neighbours, Spread};
use serde::Serialize;
pub use windows::WindowRow;

/// Ranked candidates of a request, and the bounds.
#[derive(Debug, Serialize)]
pub struct Ranking {
    /// Number of steps.
    pub horizon: u64,
    /// The published workload.
    pub workload: Workload,
    /// The error that decides the order.
    pub objective: Objective,
    /// The best.
    pub chosen: RankingRow,
    /// All, the best first.
    pub ranking: Vec<RankingRow>,
    /// Proven for Gaussian noise and every factorization by the nuclear norm; under pure ε for all unbiased mechanisms.
    /// Null for replaced counts.
    pub lower_bound_max_std: Option<f64>,
    /// The same by the certificate of the optimal factorization, to a few parts in 10⁵; null for horizons above 2048,
    /// and for units with events in several steps, whose optimum is not known.
    pub optimum_max_std: Option<f64>,
    /// Under (ε, δ): below this δ the best Laplace noise is better than the best Gaussian, above it worse; null if one
    /// is better at every δ.
    pub crossover_delta: Option<f64>,
    /// For requests for running sums: the errors of windows read from them.
    pub windows: Vec<WindowRow>,
}

/// One candidate.
#[doc(alias = "Row")]
#[derive(Clone, Debug, Serialize)]
pub struct RankingRow {
    /// Full name of the mechanism.
    pub mechanism: MechanismName,
    /// The calibrated noise.
    pub noise: NoiseRow,
    /// Largest standard error of a step, in units of the data; infinite, and null in JSON, without an end.
    pub max_std: f64,
    /// Root of the mean variance, in units of the data.
    pub mean_std: f64,
    /// The guarantee of the noise.
    pub guarantee: GuaranteeRow,
    /// Approximate number of noise variables or multiplications per step.
    pub time_per_step: f64,
    /// Words of memory per running sum.
    pub memory_words: u64,
    /// Whether the noise is an exact discrete law.
    pub exact: bool,
    /// Whether noise can be drawn only where it is read (lazily).
    pub lazy: bool,
    /// `max_std` over the lower bound.
    pub above_lower_bound: Option<f64>,
    /// For endless plans: the errors of some steps. Omitted otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<AtStep>,
    /// For endless plans: a proven upper bound of the largest ratio, from step 16 to 2^40, of the variance to the
    /// smallest possible maximal variance of a mechanism that ends at that step; null for Laplace noise and for units
    /// of several events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_ratio: Option<f64>,
}

/// The error of one step of an endless plan.
#[derive(Clone, Debug, Serialize)]
pub struct AtStep {
    /// The step.
    pub step: u64,
    /// Its standard error, in units of the data.
    pub std: f64,
    /// No mechanism that ends there has a smaller largest standard error; null as for `lower_bound_max_std`.
    pub lower_bound: Option<f64>,
}

/// Law and scale of noise.
#[derive(Clone, Debug, Serialize)]
pub struct NoiseRow {
    /// Laplace or Gaussian.
    pub law: NoiseKind,
    /// Scale of the Laplace law or standard deviation parameter of the Gaussian, in units of the data.
    pub scale: f64,
}

/// A guarantee in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct GuaranteeRow {
    /// ε, if the guarantee is stated in ε.
    pub epsilon: Option<f64>,
    /// The δ of that ε; 0 for pure ε.
    pub delta: Option<f64>,
    /// ρ of zCDP.
    pub rho: f64,
}

impl Ranking {
    /// The ranking of a request's candidates, which must be in order; `None` if there are none.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the observer of the request cancels the computation of
    /// bounds, or the search for windows.
    pub fn new(request: &PlanRequest, candidates: &[Candidate]) -> Result<Option<Self>> {
        let ranked = |watch: SearchWatch<'_>| Self::watched(request, candidates, watch);
        request.search().observer().watched(SearchProgress::Share(1.0), ranked)?
    }

    fn watched(request: &PlanRequest, candidates: &[Candidate], watch: SearchWatch<'_>) -> Result<Option<Self>> {
        let Some(chosen) = candidates.first() else { return Ok(None) };
        let lower_bound_max_std = lower_bound_max_std(request, watch)?;
        let at_steps = bounds_at_steps(request, watch)?;
        let row = |candidate| row(request, candidate, (lower_bound_max_std, &at_steps), watch);
        let rows: Vec<RankingRow> = candidates.iter().map(row).collect::<Result<_>>()?;
        Ok(Some(Self {
            horizon: request.horizon(),
            workload: request.workload(),
            objective: request.objective(),
            chosen: rows[0].clone(),
            ranking: rows,
            lower_bound_max_std,
            optimum_max_std: if request.grows_without_end() { None } else { optimum(request) },
            windows: windows::of(request, chosen)?,
            crossover_delta: crossover(request, candidates, watch).map(Delta::get),
        }))
    }

    /// The better of the two lower bounds of the largest standard error.
    pub fn bound(&self) -> Option<f64> {
        self.optimum_max_std.or(self.lower_bound_max_std)
    }
}

impl Ranking {
    /// Whether the ranking is of endless running sums.
    pub fn is_unbounded(&self) -> bool {
        self.horizon == MAX_HORIZON && self.workload.is_sum()
    }
}

/// The spread of a unit's events and the standard deviation of Gaussian noise on one node that one event requires.
///
/// Of the unit of a window only the part in one period is used: all of it certainly occurs, wherever the window lies.
fn unit_and_noise(request: &PlanRequest) -> Option<(Spread, f64)> {
    let request = &request.clone().with_unit(request.unit().in_part_of_window());
    let spread = request.sensitivity().ok()?.spread;
    let spread = if counts_one_sum(request) { spread.in_one_sum(spread.per_group) } else { spread };
    Some((spread, least_node_std(request)?))
}

/// The length of all events of a unit in one step, over all its groups, if they may be in one step.
fn in_one_step(spread: Spread) -> Option<f64> {
    let groups = (spread.total / spread.per_group).max(1) as f64;
    (spread.per_step >= spread.total).then(|| spread.per_group as f64 * groups.sqrt())
}

fn lower_bound_max_std(request: &PlanRequest, watch: SearchWatch<'_>) -> Result<Option<f64>> {
    if request.grows_without_end() { Ok(None) } else { lower_bound_at(request, request.horizon(), watch) }
}

/// No mechanism that ends at this step has a smaller largest standard error.
fn lower_bound_at(request: &PlanRequest, horizon: u64, watch: SearchWatch<'_>) -> Result<Option<f64>> {
    watch.check()?;
    let Some((spread, noise)) = unit_and_noise(request) else { return Ok(None) };
    let bound = match in_one_step(spread) {
        _ if !request.workload().is_sum() => workload_lower_bound(request.workload(), horizon, spread),
        Some(events) => gaussian_lower_bound(horizon) * events,
        None => unit_lower_bound_watched(horizon, spread.over(horizon), watch)?,
    };
    Ok(Some(bound * noise))
}

fn optimum(request: &PlanRequest) -> Option<f64> {
    let horizon = request.horizon();
    if !request.workload().over(horizon).is_sum() {
        return None;
    }
    let (spread, noise) = unit_and_noise(request)?;
    let events = in_one_step(spread)?;
    let bound = certified_bound(horizon, Objective::Max)?;
    Some(bound.sqrt() * events * noise)
}

/// The smallest standard deviation of noise on one node of a factorization with columns of norm 1: of Gaussian noise
/// under any accounting; under pure ε of an unbiased mechanism, which need not add noise at all.
///
/// **Pure ε.** Let `Σ` be the covariance of the releases on a data set, and `a` the shift of their mean by a unit's
/// change. For every linear combination the chi-squared divergence of the two laws is at least the squared shift over
/// the variance (Hammersley and Robbins, Chapman), so `aᵀΣ⁻¹a ≤ χ²`. The likelihood ratio lies between `e^-ε` and `e^ε`
/// and has mean 1, so `χ² ≤ (e^ε - 1)(1 - e^-ε) = 4 sinh²(ε/2)`. Gaussian noise with `2ρ` of that size has the same
/// condition on `Σ`, for all changes at once.
///
/// Every event may be of the largest size, or, if events are replaced, change by the whole span: noise that hides less
/// is too small. Counts of replaced events change in two steps at once, for which nothing is proven here, nor is it for
/// a cap on all values if events are replaced. If an event is in several sums, Gaussian noise has the same
/// factorization in each and is independent, and squared shifts add up. Only one sum counts if others may be
/// correlated.
fn least_node_std(request: &PlanRequest) -> Option<f64> {
    let (lower, upper) = request.values().bounds();
    let size = match request.neighbours() {
        Neighbours::AddRemove => lower.unsigned_abs().max(upper.unsigned_abs()),
        Neighbours::ReplaceOne => Some(upper.abs_diff(lower)).filter(|span| *span > 0)?,
    };
    let sensitivity = request.sensitivity().ok()?;
    let size = match (request.neighbours(), request.unit().bounds().and_then(|bounds| bounds.max_total)) {
        (_, None) => size,
        // If the cap binds, events are counted in steps of the grid.
        (Neighbours::AddRemove, Some(_)) => sensitivity.largest_event(),
        (Neighbours::ReplaceOne, Some(_)) => return None,
    };
    let sums = if counts_one_sum(request) { 1 } else { request.sums_per_event() };
    let of_step = request.grid().to_f64(size.into()) * (sums as f64).sqrt();
    let in_grid_steps = size as f64 * (sums as f64).sqrt();
    match request.budget() {
        Budget::Pure(epsilon) => Some(of_step / (2.0 * libm::sinh(epsilon.get() / 2.0))),
        Budget::Zcdp(rho) => {
            let noise = libm::sqrt(2.0 * rho.get());
            Some(of_step / noise * discrete_over_continuous(in_grid_steps / noise))
        }
        // Of small noise the exact δ is less than that of continuous noise.
        Budget::Approximate(epsilon, delta) => {
            let mu = mu_for(epsilon, delta);
            Some(of_step / mu).filter(|_| in_grid_steps / mu >= 1.0)
        }
    }
}

/// The standard deviation of a discrete Gaussian over its parameter σ, rounded down. It grows with σ, so nodes with
/// more noise, and those on finer grids, have at least this ratio.
fn discrete_over_continuous(sigma: f64) -> f64 {
    if sigma > 3.0 {
        return 1.0 - 1e-12; // the variance is smaller by 8π²σ² e^(-2π²σ²) of it
    }
    let weight = |k: u32| libm::exp(-power(f64::from(k) / sigma, 2) / 2.0);
    let (mut mass, mut squares) = (0.5, 0.0);
    for k in 1..64 {
        mass += weight(k);
        squares += weight(k) * power(f64::from(k), 2);
    }
    libm::sqrt(squares / mass) / sigma * (1.0 - 1e-12)
}

fn crossover(request: &PlanRequest, candidates: &[Candidate], watch: SearchWatch<'_>) -> Option<Delta> {
    if request.grows_without_end() { None } else { request.crossover_watched(candidates, watch) }
}

/// For an endless plan, the tabulated steps and the lower bound at each.
fn bounds_at_steps(request: &PlanRequest, watch: SearchWatch<'_>) -> Result<Vec<(u64, Option<f64>)>> {
    if !request.grows_without_end() {
        return Ok(vec![]);
    }
    LOOKED_AT.into_iter().map(|step| Ok((step, lower_bound_at(request, step, watch)?))).collect()
}

/// For single events, and for all events in one step, which are equivalent.
fn ratio_to_best(request: &PlanRequest, candidate: &Candidate, watch: SearchWatch<'_>) -> Result<Option<f64>> {
    let spread = request.sensitivity()?.spread;
    let single =
        request.grows_without_end() && candidate.kind == NoiseKind::Gaussian && spread.per_step >= spread.total;
    single.then(|| largest_ratio_watched(&*candidate.mechanism, LOOKED_AT[0], watch)).transpose()
}

/// Whether the lower bounds are proven for this noise.
fn covers(request: &PlanRequest, kind: NoiseKind) -> bool {
    kind == NoiseKind::Gaussian || is_pure(request)
}

/// Whether bounds are those of one running sum, because the noise of several may be correlated.
fn counts_one_sum(request: &PlanRequest) -> bool {
    is_pure(request) || request.groups.is_some()
}

fn is_pure(request: &PlanRequest) -> bool {
    matches!(request.budget(), Budget::Pure(_))
}

/// With the lower bound of the largest error, and those at the tabulated steps.
fn row(
    request: &PlanRequest,
    candidate: &Candidate,
    (bound, at_steps): (Option<f64>, &[(u64, Option<f64>)]),
    watch: SearchWatch<'_>,
) -> Result<RankingRow> {
    let m = &candidate.mechanism;
    let common = candidate.common.map_or(0.0, |(_, law)| law.scale());
    let scale = libm::hypot(candidate.law.scale(), common) / candidate.noise_divisor as f64 * request.grid().to_f64(1);
    let (guarantee, promise) = (candidate.guarantee, candidate.guarantee.epsilon_delta());
    let node = candidate.node_variance(request);
    let std = |step: u64| (node * m.row_norm_squared(step)).sqrt();
    let at_step =
        |(step, lower_bound): &(u64, Option<f64>)| AtStep { step: *step, std: std(*step), lower_bound: *lower_bound };
    Ok(RankingRow {
        mechanism: m.name(),
        noise: NoiseRow { law: candidate.kind, scale },
        max_std: candidate.max_std_error,
        mean_std: candidate.mean_std_error,
        guarantee: GuaranteeRow {
            epsilon: promise.map(|(epsilon, _)| epsilon.get()),
            delta: promise.map(|(_, delta)| delta.map_or(0.0, Delta::get)),
            rho: guarantee.rho.get(),
        },
        time_per_step: m.cost().work_per_step,
        memory_words: m.cost().memory_words,
        exact: true,
        lazy: m.name().family().abilities.lazy,
        above_lower_bound: bound.filter(|_| covers(request, candidate.kind)).map(|b| candidate.max_std_error / b),
        at: at_steps.iter().map(at_step).collect(),
        largest_ratio: ratio_to_best(request, candidate, watch)?,
    })
}

#[cfg(test)]
mod tests;
