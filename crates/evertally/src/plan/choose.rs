//! The search over mechanisms and laws, by their exact finite-T error.

use super::calibrate::{Calibration, calibrated};
use super::competitors::{attempts_with, competitors, competitors_of_mix};
use super::correlation::Correlation;
use super::{ComparedMechanisms, Guarantee, PlanRequest};
use crate::mechanism::{
    Criterion, Mechanism, MechanismName, Mix, NoiseKind, Objective, SearchWatch, Workload, check_steps,
};
use crate::noise::DiscreteLaw;
use crate::number::{Grid, power};
use crate::privacy::{Budget, Sensitivity, Values};
use crate::{Error, Result};
use std::sync::Arc;

/// A mechanism with a calibrated law, and its error under a request.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The factorization.
    pub mechanism: Arc<dyn Mechanism>,
    /// Laplace or Gaussian.
    pub kind: NoiseKind,
    /// The calibrated law of one noise variable, in units of the noise grid.
    pub law: DiscreteLaw,
    /// If the noise of groups is correlated: how, and the law of a variable that is common to all groups.
    pub common: Option<(Correlation, DiscreteLaw)>,
    /// The number of steps of the noise grid per step of the data's grid.
    pub noise_divisor: u64,
    /// Whether the noise is that of exact accounting, see [`Plan::exact_accounting`](super::Plan::exact_accounting).
    pub exact_accounting: bool,
    /// The guarantee of the noise.
    pub guarantee: Guarantee,
    /// Largest standard error of a step, in units of the data; infinite without an end.
    pub max_std_error: f64,
    /// Root of the mean variance, in units of the data; infinite without an end.
    pub mean_std_error: f64,
    /// The factorization as each of several workloads reads it, the first as `mechanism`, whose errors are those here;
    /// empty if there is only one workload.
    pub readings: Vec<Arc<dyn Mechanism>>,
}

/// Whether a search considers a competitor: heavy ones only if steps may cost that much.
fn is_searched(request: &PlanRequest, name: MechanismName) -> bool {
    is_looked_up(request, name) && !(request.search.light_steps && name.is_heavy())
}

/// The selection of keys checks every key, which must not take more draws than this unless a mechanism is requested by
/// name. Replayed windows may take more, because their noise is much smaller.
const MAX_SELECTION_DRAWS: u64 = 64;
const MAX_WINDOW_SELECTION_DRAWS: u64 = 1 << 10;

fn is_looked_up(request: &PlanRequest, name: MechanismName) -> bool {
    let abilities = name.family().abilities;
    let (has_access, replayed) = match request.workload.is_sum() {
        true => (abilities.random_access, MAX_SELECTION_DRAWS),
        false => (abilities.random_access || abilities.random_windows, MAX_WINDOW_SELECTION_DRAWS),
    };
    request.selection.is_none() || has_access || request.horizon <= replayed
}

pub(super) fn candidates(request: &PlanRequest) -> Result<Vec<Candidate>> {
    // Refuse invalid requests first: the search would report them as "no candidate".
    check_steps(request.horizon)?;
    // The sensitivity of a count is one grid step, which must be the one that an event adds.
    if request.values == Values::Count && request.grid != Grid::ONE {
        return Err(Error::invalid(format!(
            "events count 1 each, on the grid 1, not {}; a plan with another grid needs values between bounds",
            request.grid
        )));
    }
    let sensitivity = request.sensitivity()?;
    if request.selection.is_some() && matches!(request.workload, Workload::Decay(_)) {
        return Err(Error::invalid(format!(
            "undeclared groups are shown by their running sums or windows, not by `{}`; declare the groups \
             or use a window",
            request.workload
        )));
    }
    if request.selection.is_some() && request.groups.is_some() {
        return Err(Error::invalid(
            "the noise of discovered groups is independent: correlated noise depends on the number of all groups, \
             which is not known before the data; declare the groups",
        ));
    }
    if request.selection.is_some() && request.mix.is_some() {
        return Err(Error::invalid("undeclared groups are shown by one workload only; declare the groups"));
    }
    let kinds = match (request.noise, &request.budget) {
        (Some(kind), _) => vec![kind],
        (None, Budget::Pure(_)) => vec![NoiseKind::Laplace],
        (None, _) => vec![NoiseKind::Gaussian, NoiseKind::Laplace],
    };
    let mix = request.scaled_mix()?;
    let rivals: Vec<_> = kinds.into_iter().map(|kind| Rivals::new(request, kind, sensitivity, mix)).collect();
    let total = rivals.iter().map(|rivals| rivals.names.len()).sum();
    let mut compared = ComparedMechanisms::new(request.search.observer(), Some(total));
    let mut attempts = Vec::new();
    for rivals in rivals {
        attempts.extend(rivals.attempts(request, sensitivity, &mut compared)?);
    }
    ranked(attempts.into_iter(), request.objective, |candidate| request.errors(candidate, mix.as_ref()))
}

impl PlanRequest {
    /// The largest and the mean error by which candidates are ranked.
    fn errors(&self, candidate: &Candidate, mix: Option<&Mix>) -> (f64, f64) {
        let node_variance = candidate.node_variance(self);
        match mix {
            Some(mix) => candidate.weighted_errors(mix, node_variance),
            None if self.grows_without_end() => {
                let figure = candidate.endless_figure(node_variance);
                (figure, figure)
            }
            None => (candidate.max_std_error, candidate.mean_std_error),
        }
    }
}

/// A factorization as each of several workloads reads it.
fn as_read(head: Arc<dyn Mechanism>, criterion: &Criterion) -> Result<Vec<Arc<dyn Mechanism>>> {
    let Some(mix) = criterion.mix() else { return Ok(Vec::new()) };
    let (horizon, name) = (head.horizon(), head.name());
    let others = mix.workloads().skip(1).map(|workload| name.build(horizon, &criterion.with_workload(workload)));
    let readings: Vec<_> = std::iter::once(Ok(head)).chain(others).collect::<Result<_>>()?;
    let protected = |read: &dyn Mechanism| (read.name(), read.noise_bits(), read.column_norms());
    let is_one = readings.iter().all(|read| protected(&**read) == protected(&*readings[0]));
    assert!(is_one, "all workloads are read from the same noisy integers");
    Ok(readings)
}

impl Candidate {
    /// Variance of one noise variable of a sum in squared units of the data.
    pub(super) fn node_variance(&self, request: &PlanRequest) -> f64 {
        let unit = request.grid.to_f64(1) / self.noise_divisor as f64;
        (self.law.variance() + self.common.map_or(0.0, |(_, common)| common.variance())) * unit * unit
    }

    /// The roots of the weighted sums of the largest, and of the mean variances of all readings.
    fn weighted_errors(&self, mix: &Mix, node_variance: f64) -> (f64, f64) {
        let sum = |squared: fn(&dyn Mechanism) -> f64| {
            let of = |(read, (_, weight)): (&Arc<dyn Mechanism>, &(Workload, f64))| weight * squared(&**read);
            (node_variance * self.readings.iter().zip(mix.readings()).map(of).sum::<f64>()).sqrt()
        };
        (sum(|read| read.max_row_norm_squared()), sum(|read| read.mean_row_norm_squared()))
    }
}

/// The candidates found, smallest error first, by largest and mean error. A family may not support the horizon, the
/// law or the noise scale; that is an error only if no other does.
pub fn ranked<C>(
    attempts: impl Iterator<Item = Result<C>>,
    objective: Objective,
    errors: impl Fn(&C) -> (f64, f64),
) -> Result<Vec<C>> {
    let (mut found, mut refusal) = (Vec::new(), None);
    for attempt in attempts {
        match attempt {
            Ok(candidate) => found.push(candidate),
            Err(error) => {
                refusal.get_or_insert(error);
            }
        }
    }
    if found.is_empty() {
        return Err(refusal.expect("a search that finds nothing was refused by the first it tried"));
    }
    let order = |candidate: &C| {
        let (max, mean) = errors(candidate);
        (if objective == Objective::Max { max } else { mean }, max + mean)
    };
    found.sort_by(|a, b| {
        let ((a, a_both), (b, b_both)) = (order(a), order(b));
        a.total_cmp(&b).then(a_both.total_cmp(&b_both))
    });
    Ok(found)
}

/// The mechanisms that compete under a law: the requested one, or the searched families.
struct Rivals {
    kind: NoiseKind,
    criterion: Criterion<'static>,
    names: Vec<MechanismName>,
}

impl Rivals {
    fn new(request: &PlanRequest, kind: NoiseKind, sensitivity: Sensitivity, mix: Option<Mix>) -> Self {
        let criterion = Criterion::new(kind, request.objective).exact().with_spread(sensitivity.spread);
        let criterion = criterion.with_workload(request.workload).with_mix(mix);
        let names = match (request.mechanism, mix) {
            (Some(name), _) => return Self { kind, criterion, names: vec![name] },
            (None, Some(mix)) => competitors_of_mix(request.horizon, kind, &criterion, &mix),
            (None, None) => competitors(request.horizon, kind, &criterion),
        };
        let names = names.into_iter().filter(|name| is_searched(request, *name)).collect();
        Self { kind, criterion, names }
    }

    /// The attempts with them, and with the prepared mechanisms.
    fn attempts(
        self,
        request: &PlanRequest,
        sensitivity: Sensitivity,
        compared: &mut ComparedMechanisms<'_>,
    ) -> Result<Vec<Attempt>> {
        let (Self { kind, criterion, names }, horizon) = (self, request.horizon);
        let attempt = |head: Arc<dyn Mechanism>, watch: SearchWatch<'_>| {
            let readings = as_read(head.clone(), &criterion.with_watch(watch))?;
            Ok(Candidate { readings, ..candidate(request, sensitivity, (kind, head), watch)? })
        };
        if let Some(name) = request.mechanism {
            let prepared = request.search.prepared.named(name, horizon, request.objective);
            return Ok(vec![compared.compare(|watch| {
                let built = prepared.map_or_else(|| name.build(horizon, &criterion.with_watch(watch)), Ok);
                built.and_then(|built| attempt(built, watch))
            })?]);
        }
        let mix = criterion.mix();
        let figure = |candidate: &Candidate| {
            let (max, mean) = request.errors(candidate, mix.as_ref());
            power(request.objective.of(max, mean), 2)
        };
        let build = |name: MechanismName, watch: SearchWatch<'_>| {
            name.build(horizon, &criterion.with_watch(watch)).and_then(|built| attempt(built, watch))
        };
        let families = attempts_with(names, compared, build, figure)?;
        let prepared = request.search.prepared.of_horizon(horizon).filter(|mechanism| {
            let name = mechanism.name();
            name.serves(kind) && is_looked_up(request, name)
        });
        let prepared = prepared.map(|mechanism| attempt(mechanism.clone(), SearchWatch::NONE));
        Ok(families.into_iter().chain(prepared).collect())
    }
}

/// A mechanism with its law, or the reason why there is none.
type Attempt = Result<Candidate>;

/// The same mechanism and law under the budget of another request.
pub(super) fn recalibrated(request: &PlanRequest, found: &Candidate, watch: SearchWatch<'_>) -> Result<Candidate> {
    let sensitivity = request.sensitivity()?;
    candidate(request, sensitivity, (found.kind, found.mechanism.clone()), watch)
}

fn candidate(
    request: &PlanRequest,
    sensitivity: Sensitivity,
    (kind, mechanism): (NoiseKind, Arc<dyn Mechanism>),
    watch: SearchWatch<'_>,
) -> Result<Candidate> {
    let calibration = calibrated(request, sensitivity, kind, &*mechanism, watch)?;
    let guarantee = Guarantee::new(&request.budget, &calibration);
    let Calibration { law, common, noise_divisor, exact_accounting, .. } = calibration;
    let mut candidate = Candidate {
        mechanism,
        kind,
        law,
        common,
        noise_divisor,
        exact_accounting,
        guarantee,
        max_std_error: f64::INFINITY,
        mean_std_error: f64::INFINITY,
        readings: Vec::new(),
    };
    if !request.grows_without_end() {
        let (node, growth) = (candidate.node_variance(request), candidate.mechanism.row_growth_watched(watch)?);
        let error = |row: f64| (node * (row * growth)).sqrt();
        candidate.max_std_error = error(candidate.mechanism.max_row_norm_squared());
        candidate.mean_std_error = error(candidate.mechanism.mean_row_norm_squared());
    }
    Ok(candidate)
}

#[cfg(test)]
mod tests {
    use crate::plan::PlanRequest;
    use crate::privacy::{Budget, Rho, RollingWindow, Unit, Values};

    /// An event adds 1 to a count. On a finer grid that would be more than the one grid step that the noise hides.
    #[test]
    fn a_count_is_on_the_grid_of_one() {
        for grid in ["0.001", "0.5", "10"] {
            let budget = Budget::Zcdp(Rho::new(0.5).unwrap());
            let request = PlanRequest::count(10, budget).with_grid(grid.parse().unwrap());
            let refused = request.clone().plan().unwrap_err().to_string();
            assert!(refused.contains("grid 1"), "{grid}: {refused}");
            assert!(request.with_values(Values::Sum { lower: 0, upper: 1 }).plan().is_ok());
        }
    }

    #[test]
    fn a_window_touches_as_many_periods_as_it_does() {
        for (steps, period, periods) in [(30, 7, 6), (30, 30, 2), (2, 5, 2), (1, 5, 1)] {
            let request = |periods| {
                let unit = Unit::person(2).per_period(period).in_any(RollingWindow { steps, periods });
                PlanRequest::count(60, Budget::Zcdp(Rho::new(0.5).unwrap())).with_unit(unit)
            };
            assert!(request(periods).plan().is_ok() && request(periods + 1).plan().is_ok());
            let refused = request(periods - 1).plan().unwrap_err().to_string();
            assert!(refused.contains(if periods > 1 { "can touch" } else { "at least 1" }), "{refused}");
        }
    }
}
