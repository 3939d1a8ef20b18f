//! The plans of several workloads of one stream.

use super::parts::Part;
use super::planned::{BegunPart, PlannedPart};
use evertally::Result;
use evertally::mechanism::Workload;
use evertally::plan::{Plan, PlanRequest, Readings};

/// A part for each workload of a request, in their order. If all are read from one release, the first has the whole
/// budget and the others need none.
pub(super) fn planned(request: &PlanRequest, began: &[BegunPart]) -> Result<Vec<PlannedPart>> {
    if let Some(begun) = as_begun(request, began)? {
        return Ok(begun);
    }
    let readings = Readings::plan(request.clone())?;
    let share = |place: usize| match readings.shares() {
        Some(shares) => Some(shares[place]),
        None => (place == 0).then_some(1.0),
    };
    let part = |(place, (workload, plan)): (usize, (Workload, &Plan))| PlannedPart {
        part: Part::Reading(workload),
        plan: plan.clone(),
        share: share(place),
    };
    Ok(readings.workloads().zip(readings.plans()).enumerate().map(part).collect())
}

/// The plan of the whole stream: that of the one release, or of the first workload if it had the whole budget.
pub(super) fn head(request: &PlanRequest, parts: &[PlannedPart]) -> Result<Plan> {
    let first = &parts[0].plan;
    if parts.iter().any(|planned| planned.share.is_none()) {
        return Ok(first.clone());
    }
    let request = request.clone().with_workload(first.request().workload());
    let name = request.mechanism().unwrap_or(first.mechanism().name());
    request.with_mechanism(name).with_noise(first.noise_kind()).plan()
}

/// The parts under the plans with which a stream began, if it began with exactly these.
fn as_begun(request: &PlanRequest, began: &[BegunPart]) -> Result<Option<Vec<PlannedPart>>> {
    let Some(mix) = request.mix() else { return Ok(None) };
    let parts: Vec<Part> = mix.workloads().map(Part::Reading).collect();
    let is_alike = parts.iter().map(Part::name).eq(began.iter().map(|begun| begun.name.clone()));
    if !is_alike {
        return Ok(None);
    }
    let under = |request: PlanRequest, begun: &BegunPart| {
        let request = request.with_budget(begun.budget).with_mechanism(begun.mechanism);
        request.with_noise(begun.noise.into()).plan()
    };
    let plans: Vec<Plan> = if began.iter().any(|begun| begun.share.is_none()) {
        under(request.clone(), &began[0])?.readings()
    } else {
        let own = |(workload, begun): (Workload, &BegunPart)| {
            let own = request.clone().with_workload(workload).with_meaning("workload", workload.to_string());
            under(own, begun)
        };
        mix.workloads().zip(began).map(own).collect::<Result<_>>()?
    };
    let planned = |((part, plan), begun): ((Part, Plan), &BegunPart)| PlannedPart { part, plan, share: begun.share };
    Ok(Some(parts.into_iter().zip(plans).zip(began).map(planned).collect()))
}
