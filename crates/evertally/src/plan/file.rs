//! Plans as readable files. Reading one goes through the constructor: the noise is calibrated again and must agree.

use super::correlation::{Correlation, GroupChoice};
use super::{NoiseKind, Objective, Plan, PlanKind, PlanRequest, Search, plan_digest};
use crate::mechanism::{MechanismName, Mix, Workload};
use crate::noise::DiscreteLaw;
use crate::number::Grid;
use crate::privacy::Budget;
use crate::privacy::selection::Selection;
use crate::privacy::{Neighbours, Unit, Values};
use crate::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The version this library writes.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    version: u32,
    horizon: u64,
    mechanism: MechanismName,
    objective: Objective,
    neighbours: Neighbours,
    grid: Grid,
    unit: Unit,
    values: Values,
    budget: Budget,
    noise: DiscreteLaw,
    /// Omitted if it is 1.
    sums_per_event: u64,
    selection: Option<Selection>,
    /// The running sum if there are several.
    workload: Workload,
    /// Several workloads that are read from one release, with their weights; empty if there is one.
    workloads: Vec<WeightedWorkload>,
    meaning: BTreeMap<String, String>,
    /// Last, so that its bytes follow those of a complete plan, and the digests of plans without it are as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation: Option<Correlation>,
}

/// One of several workloads.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WeightedWorkload {
    workload: Workload,
    weight: f64,
}

impl WeightedWorkload {
    fn new((workload, weight): (Workload, f64)) -> Self {
        Self { workload, weight }
    }
}

impl From<&Plan> for PlanFile {
    fn from(plan: &Plan) -> Self {
        let request = &plan.request;
        Self {
            version: VERSION,
            horizon: request.horizon,
            mechanism: request.mechanism.expect("a plan names its mechanism"),
            objective: request.objective,
            neighbours: request.neighbours,
            grid: request.grid,
            unit: request.unit,
            values: request.values,
            budget: request.budget,
            noise: plan.law,
            sums_per_event: request.sums_per_event,
            selection: request.selection,
            workload: request.mix.map_or(request.workload, |_| Workload::Sum),
            workloads: request.mix.iter().flat_map(|mix| mix.readings().to_vec()).map(WeightedWorkload::new).collect(),
            meaning: request.meaning.clone(),
            correlation: plan.correlation,
        }
    }
}

impl TryFrom<PlanFile> for Plan {
    type Error = Error;

    fn try_from(file: PlanFile) -> Result<Self> {
        if file.version != VERSION {
            return Err(Error::invalid(format!(
                "this plan has version {}, and this program reads version {VERSION}",
                file.version
            )));
        }
        let mix = match file.workloads.as_slice() {
            [] => None,
            several => Some(Mix::new(&several.iter().map(|own| (own.workload, own.weight)).collect::<Vec<_>>())?),
        };
        if mix.is_some() && !file.workload.is_sum() {
            return Err(Error::invalid("a plan has either `workload` or `workloads`, not both"));
        }
        let plan = PlanRequest {
            horizon: file.horizon,
            budget: file.budget,
            unit: file.unit,
            neighbours: file.neighbours,
            values: file.values,
            sums_per_event: file.sums_per_event,
            selection: file.selection,
            workload: mix.map_or(file.workload, |mix| mix.readings()[0].0),
            mix,
            grid: file.grid,
            mechanism: Some(file.mechanism),
            noise: Some(file.noise.into()),
            objective: file.objective,
            search: Search::default(),
            groups: file.correlation.map(GroupChoice::Fixed),
            meaning: file.meaning,
        }
        .plan()?;
        if plan.law != file.noise {
            return Err(Error::invalid(format!(
                "the plan's noise ({}) is not the one its budget needs ({}); the file was changed by hand or by \
                 another version",
                file.noise, plan.law
            )));
        }
        Ok(plan)
    }
}

impl From<DiscreteLaw> for NoiseKind {
    fn from(law: DiscreteLaw) -> Self {
        match law {
            DiscreteLaw::Laplace(_) => Self::Laplace,
            DiscreteLaw::Gaussian(_) => Self::Gaussian,
        }
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        PlanFile::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        PlanFile::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

/// The digest of a plan.
pub(super) fn digest(plan: &Plan) -> [u8; 32] {
    plan_digest(PlanKind::Stream, &PlanFile::from(plan))
}
