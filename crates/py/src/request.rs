//! Plans of counters, lazy vectors and sketches: a declaration in JSON, and the keywords that only Python has.

use crate::error::{OrRaise, OrRaiseWorded, invalid};
use crate::options::Options;
use crate::whole::Whole;
use evertally::plan::{PlanRequest, Search, SearchObserver};
use evertally_declare::declaration::Declaration;
use evertally_declare::problem::Wording;
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// A declaration from its JSON. Errors are worded for the caller.
pub(crate) fn declaration(json: &str, wording: Wording) -> PyResult<Declaration> {
    Declaration::from_json(json).or_raise_in(wording)
}

/// The same from keywords.
pub(crate) fn declared(json: &str) -> PyResult<Declaration> {
    declaration(json, Wording::Keywords)
}

/// The request for a plan of this many steps.
pub(crate) fn request(declared: &Declaration, options: &Options<'_>, horizon: u64) -> PyResult<PlanRequest> {
    let sums_per_event = options.take("sums_per_event")?.map_or(1, |Whole(sums)| sums);
    let light_steps = options.take("light_steps")?.unwrap_or(false);
    let request = declared.plan_request(horizon).or_raise()?;
    let group_count = options.take("group_count")?.map(|Whole(groups)| groups);
    let request = match (declared.correlate_groups, group_count) {
        (None, None) => request,
        (Some(aim), Some(groups)) => request.with_groups(groups, aim),
        _ => return Err(invalid("group_count and correlate_groups go together: pass both, or neither")),
    };
    Ok(request
        .with_sums_per_event(sums_per_event)
        .with_search(Search::default().with_light_steps(light_steps))
        .with_meanings(meaning(options)?))
}

/// The request, whose search reports to this observer.
pub(crate) fn observed(request: PlanRequest, observer: &SearchObserver) -> PlanRequest {
    let search = request.search().clone().with_observer(observer.clone());
    request.with_search(search)
}

/// Public text that becomes part of a plan.
pub(crate) fn meaning(options: &Options<'_>) -> PyResult<BTreeMap<String, String>> {
    Ok(options.take("meaning")?.unwrap_or_default())
}
