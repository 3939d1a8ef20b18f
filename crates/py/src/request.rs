//! Keyword arguments as the request for a plan.

use crate::budget::Budget;
use crate::error::{OrRaise, invalid};
use crate::units::decimal_text;
use evertally::mechanism::MechanismName;
use evertally::number::Grid;
use evertally::plan::{NoiseKind, Objective, PlanRequest};
use evertally::privacy::Budget as InnerBudget;
use evertally::privacy::{Neighbours, Unit, Values};
use evertally_cli::publish::declared_values;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;

/// What every function that plans takes besides the horizon.
const NAMES: [&str; 16] = [
    "epsilon",
    "delta",
    "rho",
    "budget",
    "allow_weak_budget",
    "mechanism",
    "noise",
    "objective",
    "bounds",
    "grid",
    "max_events",
    "max_events_per_step",
    "neighbours",
    "sums_per_event",
    "light_steps",
    "meaning",
];

/// The request that the keyword arguments make.
pub(crate) fn request(py: Python<'_>, horizon: u64, options: Option<&Bound<'_, PyDict>>) -> PyResult<PlanRequest> {
    Options::of(py, options, &NAMES)?.request(horizon)
}

/// Keyword arguments.
pub(crate) struct Options<'py>(Bound<'py, PyDict>);

impl<'py> Options<'py> {
    /// Those that were given, none of them with another name than these.
    pub(crate) fn of(py: Python<'py>, given: Option<&Bound<'py, PyDict>>, names: &[&str]) -> PyResult<Self> {
        let given = given.cloned().unwrap_or_else(|| PyDict::new(py));
        for name in given.keys() {
            let name: String = name.extract()?;
            if !names.contains(&name.as_str()) {
                let known = names.join(", ");
                return Err(PyTypeError::new_err(format!(
                    "there is no argument {name}; besides the horizon there are {known}"
                )));
            }
        }
        Ok(Self(given))
    }

    /// An argument; `None` is as good as none.
    pub(crate) fn get<T: for<'a> FromPyObject<'a, 'py>>(&self, name: &str) -> PyResult<Option<T>> {
        let value = self.0.get_item(name)?.filter(|value| !value.is_none());
        value.map(|value| value.extract::<T>().map_err(|problem| of_argument(name, problem.into()))).transpose()
    }

    fn request(&self, horizon: u64) -> PyResult<PlanRequest> {
        let grid = match self.get::<Bound<'_, PyAny>>("grid")? {
            None => Grid::ONE,
            Some(grid) => {
                let text = decimal_text(&grid)?;
                text.parse().map_err(|problem| invalid(format!("grid {text} {problem}")))?
            }
        };
        let mechanism = self.get::<String>("mechanism")?;
        Ok(PlanRequest::count(horizon, self.privacy()?)
            .with_unit(self.unit()?)
            .with_values(self.values(grid)?)
            .with_grid(grid)
            .with_neighbours(self.word("neighbours")?.unwrap_or(Neighbours::AddRemove))
            .with_sums_per_event(self.get("sums_per_event")?.unwrap_or(1))
            .with_optional_mechanism(mechanism.as_deref().map(str::parse::<MechanismName>).transpose().or_raise()?)
            .with_optional_noise(self.word::<NoiseKind>("noise")?)
            .with_objective(self.word("objective")?.unwrap_or(Objective::Max))
            .with_search(Search::default().with_light_steps(self.get("light_steps")?.unwrap_or(false)))
            .with_meanings(self.get::<BTreeMap<String, String>>("meaning")?.unwrap_or_default()))
    }

    /// The budget, or the one that its numbers make.
    pub(crate) fn privacy(&self) -> PyResult<InnerBudget> {
        let (epsilon, delta, rho) = (self.get("epsilon")?, self.get("delta")?, self.get("rho")?);
        let budget = self.0.get_item("budget")?.filter(|budget| !budget.is_none());
        let Some(budget) = budget else {
            let allow_weak = self.get("allow_weak_budget")?.unwrap_or(false);
            return InnerBudget::from_numbers(epsilon, delta, rho, allow_weak).or_raise();
        };
        if epsilon.or(delta).or(rho).is_some() {
            return Err(invalid("give either budget or its numbers (epsilon, delta, rho), not both"));
        }
        Ok(budget.cast::<Budget>()?.get().0)
    }

    fn unit(&self) -> PyResult<Unit> {
        match (self.get("max_events")?, self.get("max_events_per_step")?) {
            (Some(max_events), max_events_per_step) => {
                Ok(Unit::person(max_events).with_optional_per_step(max_events_per_step))
            }
            (None, None) => Ok(Unit::Event),
            (None, Some(_)) => Err(invalid("max_events_per_step needs max_events beside it")),
        }
    }

    fn values(&self, grid: Grid) -> PyResult<Values> {
        match self.get::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>("bounds")? {
            Some((lower, upper)) => declared_values(&[decimal_text(&lower)?, decimal_text(&upper)?], grid).or_raise(),
            None if self.get::<Bound<'_, PyAny>>("grid")?.is_some() => {
                Err(invalid("grid needs bounds=(low, high): counts are whole numbers"))
            }
            None => Ok(Values::Count),
        }
    }

    /// A word of a small set, by its name in plan files.
    pub(crate) fn word<T: for<'de> serde::Deserialize<'de>>(&self, name: &str) -> PyResult<Option<T>> {
        let parse = |text: String| {
            let word = serde::de::value::StringDeserializer::<serde::de::value::Error>::new(text);
            T::deserialize(word).map_err(|problem| invalid(format!("{name}: {problem}")))
        };
        self.get::<String>(name)?.map(parse).transpose()
    }
}

/// An exception of the same class that says which argument it is about.
fn of_argument(name: &str, problem: PyErr) -> PyErr {
    Python::attach(|py| PyErr::from_type(problem.get_type(py), format!("argument {name}: {}", problem.value(py))))
}
