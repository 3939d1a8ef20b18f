//! Keyword arguments as a request for a plan.

use crate::budget::Budget;
use crate::error::{OrRaise, invalid};
use crate::options::Options;
use crate::units::decimal_text;
use crate::whole::Whole;
use evertally::mechanism::MechanismName;
use evertally::number::Grid;
use evertally::plan::{PlanRequest, Search};
use evertally::privacy::Budget as InnerBudget;
use evertally_declare::declaration::{Decimal, Declaration};
use evertally_declare::reading::Workloads;
use evertally_declare::steps::Period;
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// The request from the keyword arguments.
pub(crate) fn request(options: &Options<'_>) -> PyResult<PlanRequest> {
    let Whole(horizon) = options.needed("horizon")?;
    request_over(options, horizon)
}

/// The same for this horizon.
pub(crate) fn request_over(options: &Options<'_>, horizon: u64) -> PyResult<PlanRequest> {
    let declared = Declaration {
        max_events: whole(options, "max_events")?,
        max_events_per_step: whole(options, "max_events_per_step")?,
        max_events_per_group: whole(options, "max_events_per_group")?,
        max_groups: whole(options, "max_groups")?,
        min_gap: whole(options, "min_gap")?,
        per: period(options)?,
        neighbours: options.word("neighbours")?,
        bounds: bounds(options)?,
        grid: grid(options)?.map(Decimal),
        mechanism: mechanism(options)?,
        noise: options.word("noise")?,
        objective: options.word("objective")?,
        workload: workloads(options)?,
        ..Declaration::default().with_budget(budget(options)?)
    };
    Ok(declared
        .plan_request(horizon)
        .or_raise()?
        .with_sums_per_event(whole(options, "sums_per_event")?.unwrap_or(1))
        .with_search(Search::default().with_light_steps(options.take("light_steps")?.unwrap_or(false)))
        .with_meanings(meaning(options)?))
}

/// The budget, or the one that its numbers describe.
pub(crate) fn budget(options: &Options<'_>) -> PyResult<InnerBudget> {
    let (epsilon, delta, rho) = (options.take("epsilon")?, options.take("delta")?, options.take("rho")?);
    let allow_weak = options.take("allow_weak_budget")?.unwrap_or(false);
    let Some(budget) = options.take::<Bound<'_, Budget>>("budget")? else {
        return InnerBudget::from_numbers(epsilon, delta, rho, allow_weak).or_raise();
    };
    if epsilon.or(delta).or(rho).is_some() {
        return Err(invalid("pass either budget or its numbers (epsilon, delta, rho), not both"));
    }
    Ok(budget.get().inner)
}

/// The mechanism by its name, or `None` for the best one.
pub(crate) fn mechanism(options: &Options<'_>) -> PyResult<Option<MechanismName>> {
    options.take::<String>("mechanism")?.as_deref().map(str::parse::<MechanismName>).transpose().or_raise()
}

/// One workload, or a list of them.
fn workloads(options: &Options<'_>) -> PyResult<Option<Workloads>> {
    let Some(given) = options.take::<Bound<'_, PyAny>>("workload")? else { return Ok(None) };
    let texts = match given.extract::<String>() {
        Ok(one) => vec![one],
        Err(_) => given.extract::<Vec<String>>()?,
    };
    let read = texts.iter().map(|text| text.parse().map_err(invalid)).collect::<PyResult<_>>()?;
    Ok(Some(Workloads(read)))
}

/// Public text that becomes part of a plan.
pub(crate) fn meaning(options: &Options<'_>) -> PyResult<BTreeMap<String, String>> {
    Ok(options.take("meaning")?.unwrap_or_default())
}

fn whole(options: &Options<'_>, name: &str) -> PyResult<Option<u64>> {
    Ok(options.take(name)?.map(|Whole(number)| number))
}

/// A number of steps, or a text that may name a calendar period. Plans without a calendar refuse the latter.
fn period(options: &Options<'_>) -> PyResult<Option<Period>> {
    let Some(given) = options.take::<Bound<'_, PyAny>>("per")? else { return Ok(None) };
    let text = match given.extract::<Whole>() {
        Ok(Whole(steps)) => steps.to_string(),
        Err(_) => given.extract::<String>()?,
    };
    text.parse().map(Some).map_err(|problem| invalid(format!("per: {problem}")))
}

fn bounds(options: &Options<'_>) -> PyResult<Option<Vec<Decimal<String>>>> {
    let Some((lower, upper)) = options.take::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>("bounds")? else { return Ok(None) };
    Ok(Some(vec![Decimal(decimal_text(&lower)?), Decimal(decimal_text(&upper)?)]))
}

fn grid(options: &Options<'_>) -> PyResult<Option<Grid>> {
    let Some(grid) = options.take::<Bound<'_, PyAny>>("grid")? else { return Ok(None) };
    let text = decimal_text(&grid)?;
    text.parse().map(Some).map_err(|problem| invalid(format!("grid {text} {problem}")))
}
