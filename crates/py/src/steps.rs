//! Steps for which errors are requested.

use crate::arrays::naturals;
use crate::error::invalid;
use pyo3::prelude::*;

/// The maximum number of steps for which all errors are listed by default.
const MAX_LISTED_STEPS: u64 = 1 << 27;

/// Refuses a step outside the horizon.
pub(crate) fn check_step(horizon: u64, step: u64) -> PyResult<u64> {
    if (1..=horizon).contains(&step) {
        return Ok(step);
    }
    Err(invalid(format!("there is no step {step}: they are numbered 1 to {horizon}")))
}

/// The steps of an array, or all steps if none is given.
pub(crate) fn steps_or_all(horizon: u64, steps: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<u64>> {
    let steps = match steps {
        Some(steps) => naturals(steps)?,
        None if horizon <= MAX_LISTED_STEPS => (1..=horizon).collect(),
        None => return Err(invalid(format!("there are {horizon} steps; ask for some of them: std_errors(steps)"))),
    };
    steps.iter().try_for_each(|step| check_step(horizon, *step).map(drop))?;
    Ok(steps)
}
