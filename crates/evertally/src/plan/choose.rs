//! The search over mechanisms and laws: exact finite-T error decides.

use super::calibrate::{Calibration, calibrated};
use super::{Guarantee, PlanRequest, node_variance};
use crate::Result;
use crate::mechanism::{Mechanism, MechanismName, NamedShape};
use crate::noise::DiscreteLaw;
use crate::privacy::Budget;
use crate::privacy::Sensitivity;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The two noise laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseKind {
    /// Discrete Laplace: pure ε-DP.
    Laplace,
    /// Discrete Gaussian: zCDP.
    Gaussian,
}

/// Which error a plan minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The largest variance of any step.
    Max,
    /// The mean variance over the steps.
    Mean,
}

/// A mechanism with a calibrated law, and its error under a request.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The factorization.
    pub mechanism: Arc<dyn Mechanism>,
    /// Laplace or Gaussian.
    pub kind: NoiseKind,
    /// The calibrated law of one noise variable, in units of the noise grid.
    pub law: DiscreteLaw,
    /// How many steps of the noise grid make one step of the data's grid.
    pub noise_divisor: u64,
    /// Whether the noise is that of exact accounting, see [`Plan::exact_accounting`](super::Plan::exact_accounting).
    pub exact_accounting: bool,
    /// What the noise gives.
    pub guarantee: Guarantee,
    /// Largest standard error of a step, in units of the data.
    pub max_std: f64,
    /// Root of the mean variance, in units of the data.
    pub mean_std: f64,
}

/// The longest horizon at which weights of a consistent tree are searched for Gaussian noise, where others are far better.
const CONSISTENT_GAUSSIAN: u64 = 1 << 12;

/// Whether a search considers a family: heavy ones only up to their horizon, and some for one law only.
fn is_searched(request: &PlanRequest, kind: NoiseKind, name: MechanismName) -> bool {
    let short_enough = request.horizon <= name.longest_searched() && !(request.search.light_steps && name.is_heavy());
    short_enough && serves(name, kind, request.horizon)
}

/// Whether a family is worth considering under a law.
fn serves(name: MechanismName, kind: NoiseKind, horizon: u64) -> bool {
    use MechanismName::*;
    match name {
        Sqrt | NormalizedSqrt | BandedSqrt(_) | BandedInverseSqrt(_) | PathSum(_) | Blt(_) | NormalizedBlt(_)
        | Dense(_) | Optimal(..) => kind == NoiseKind::Gaussian,
        Hats(_) | DensePure(_) => kind == NoiseKind::Laplace,
        Consistent(..) => kind == NoiseKind::Laplace || horizon <= CONSISTENT_GAUSSIAN,
        _ => true,
    }
}

pub(super) fn candidates(request: &PlanRequest) -> Result<Vec<Candidate>> {
    // Refuse senseless requests before any search hides them behind "no candidate".
    let sensitivity = request.sensitivity()?;
    let kinds = match (request.noise, &request.budget) {
        (Some(kind), _) => vec![kind],
        (None, Budget::Pure(_)) => vec![NoiseKind::Laplace],
        (None, _) => vec![NoiseKind::Gaussian, NoiseKind::Laplace],
    };
    let attempts = kinds.into_iter().flat_map(|kind| {
        let shape = kind.shape().exact().by_mean(request.objective == Objective::Mean).with_spread(sensitivity.spread);
        let of = move |m| candidate(request, sensitivity, kind, m);
        built(request, kind, &shape).into_iter().map(move |built| built.and_then(of))
    });
    ranked(attempts, request.objective, |candidate| (candidate.max_std, candidate.mean_std))
}

/// What was found, least error first, by largest and mean error. A family may not reach the horizon, the law or the noise scale;
/// that matters if nothing else does.
pub(crate) fn ranked<C>(
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

/// The mechanisms that compete under a law: the one that is asked for, or the searched families and the prepared ones.
fn built(request: &PlanRequest, kind: NoiseKind, shape: &NamedShape) -> Vec<Result<Arc<dyn Mechanism>>> {
    let horizon = request.horizon;
    if let Some(name) = request.mechanism {
        let prepared = request.search.prepared.named(name, horizon, request.objective == Objective::Mean);
        return vec![prepared.map_or_else(|| name.build(horizon, shape), Ok)];
    }
    let families = MechanismName::FAMILIES.iter().filter(|name| is_searched(request, kind, **name));
    let prepared = request.search.prepared.of_horizon(horizon).filter(|(name, _)| serves(*name, kind, horizon));
    families.map(|name| name.build(horizon, shape)).chain(prepared.map(|(_, m)| Ok(m.clone()))).collect()
}

/// The same mechanism and law under the budget of another request.
pub(super) fn recalibrated(request: &PlanRequest, found: &Candidate) -> Result<Candidate> {
    let sensitivity = request.sensitivity()?;
    candidate(request, sensitivity, found.kind, found.mechanism.clone())
}

fn candidate(
    request: &PlanRequest,
    sensitivity: Sensitivity,
    kind: NoiseKind,
    mechanism: Arc<dyn Mechanism>,
) -> Result<Candidate> {
    let calibration = calibrated(request, sensitivity, kind, &*mechanism)?;
    let guarantee = Guarantee::of(&request.budget, &calibration);
    let Calibration { law, noise_divisor, exact_accounting, .. } = calibration;
    let unit = node_variance(request, noise_divisor, &law).sqrt();
    let max_std = unit * mechanism.max_row_norm_squared().sqrt();
    let mean_std = unit * mechanism.mean_row_norm_squared().sqrt();
    Ok(Candidate { mechanism, kind, law, noise_divisor, exact_accounting, guarantee, max_std, mean_std })
}

impl NoiseKind {
    /// The figure that decides open parameters of a mechanism under this law.
    pub fn shape(self) -> NamedShape {
        match self {
            Self::Laplace => NamedShape::laplace_max(),
            Self::Gaussian => NamedShape::gaussian_max(),
        }
    }
}

impl std::fmt::Display for NoiseKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Laplace => "discrete Laplace",
            Self::Gaussian => "discrete Gaussian",
        })
    }
}
