//! Keyword arguments as the request for a plan.

use crate::budget::Budget;
use crate::error::{OrRaise, invalid};
use crate::options::Options;
use crate::units::decimal_text;
use crate::whole::Whole;
use evertally::mechanism::MechanismName;
use evertally::number::Grid;
use evertally::plan::{NoiseKind, Objective, PlanRequest, Search};
use evertally::privacy::Budget as InnerBudget;
use evertally::privacy::{Neighbours, Unit, Values};
use evertally_cli::stream::declared_values;
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// The request that the keyword arguments make.
pub(crate) fn request(options: &Options<'_>) -> PyResult<PlanRequest> {
    let Whole(horizon) = options.needed("horizon")?;
    let (grid, bounds) = (options.take("grid")?, options.take("bounds")?);
    let (grid, values) = values(grid, bounds)?;
    Ok(PlanRequest::count(horizon, budget(options)?)
        .with_unit(unit(options)?)
        .with_values(values)
        .with_grid(grid)
        .with_neighbours(options.word("neighbours")?.unwrap_or(Neighbours::AddRemove))
        .with_sums_per_event(options.take("sums_per_event")?.map_or(1, |Whole(sums)| sums))
        .with_optional_mechanism(mechanism(options)?)
        .with_optional_noise(options.word::<NoiseKind>("noise")?)
        .with_objective(options.word("objective")?.unwrap_or(Objective::Max))
        .with_search(Search::default().with_light_steps(options.take("light_steps")?.unwrap_or(false)))
        .with_meanings(meaning(options)?))
}

/// The budget, or the one that its numbers make.
pub(crate) fn budget(options: &Options<'_>) -> PyResult<InnerBudget> {
    let (epsilon, delta, rho) = (options.take("epsilon")?, options.take("delta")?, options.take("rho")?);
    let allow_weak = options.take("allow_weak_budget")?.unwrap_or(false);
    let Some(budget) = options.take::<Bound<'_, Budget>>("budget")? else {
        return InnerBudget::from_numbers(epsilon, delta, rho, allow_weak).or_raise();
    };
    if epsilon.or(delta).or(rho).is_some() {
        return Err(invalid("give either budget or its numbers (epsilon, delta, rho), not both"));
    }
    Ok(budget.get().0)
}

/// The mechanism by its name, or `None` for the best.
pub(crate) fn mechanism(options: &Options<'_>) -> PyResult<Option<MechanismName>> {
    options.take::<String>("mechanism")?.as_deref().map(str::parse::<MechanismName>).transpose().or_raise()
}

/// Public text that becomes part of a plan.
pub(crate) fn meaning(options: &Options<'_>) -> PyResult<BTreeMap<String, String>> {
    Ok(options.take("meaning")?.unwrap_or_default())
}

fn unit(options: &Options<'_>) -> PyResult<Unit> {
    match (options.take("max_events")?, options.take("max_events_per_step")?) {
        (Some(Whole(max_events)), per_step) => {
            Ok(Unit::person(max_events).with_optional_per_step(per_step.map(|Whole(events)| events)))
        }
        (None, None) => Ok(Unit::Event),
        (None, Some(_)) => Err(invalid("max_events_per_step needs max_events beside it")),
    }
}

fn values(
    grid: Option<Bound<'_, PyAny>>,
    bounds: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
) -> PyResult<(Grid, Values)> {
    let parsed = match &grid {
        None => Grid::ONE,
        Some(grid) => {
            let text = decimal_text(grid)?;
            text.parse().map_err(|problem| invalid(format!("grid {text} {problem}")))?
        }
    };
    match bounds {
        Some((lower, upper)) => {
            let values = declared_values(&[decimal_text(&lower)?, decimal_text(&upper)?], parsed).or_raise()?;
            Ok((parsed, values))
        }
        None if grid.is_some() => Err(invalid("grid needs bounds=(low, high): counts are whole numbers")),
        None => Ok((parsed, Values::Count)),
    }
}
