//! Whole numbers as arguments.

use crate::error::invalid;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyBool;

/// A whole number from 0 to 2^64 - 1. Anything outside is an `InvalidError` that states this range, instead of Python's
/// `OverflowError`.
#[derive(Clone, Copy)]
pub(crate) struct Whole(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if number.is_instance_of::<PyBool>() {
            return Err(invalid(format!("{} is not a whole number: pass a number", number.str()?)));
        }
        number.extract().map(Self).map_err(|problem| beyond(&number, problem))
    }
}

/// An index into a sequence, from its end if it is negative. Values that do not fit are clamped to the range of `i64`.
#[derive(Clone, Copy)]
pub(crate) struct SequenceIndex(pub(crate) i64);

impl<'py> FromPyObject<'_, 'py> for SequenceIndex {
    type Error = PyErr;

    fn extract(place: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match place.extract::<i64>() {
            Err(problem) if problem.is_instance_of::<PyOverflowError>(place.py()) => {
                Ok(Self(if place.lt(0)? { i64::MIN } else { i64::MAX }))
            }
            found => found.map(Self),
        }
    }
}

/// The exception for a number that does not fit in 64 bits; other exceptions are returned unchanged.
fn beyond(number: &Bound<'_, PyAny>, problem: PyErr) -> PyErr {
    if !problem.is_instance_of::<PyOverflowError>(number.py()) {
        return problem;
    }
    let shown: String = number.str().map_or_else(|_| "the number".into(), |text| text.to_string());
    let shown = if shown.chars().count() > 24 { shown.chars().take(24).chain(['…']).collect() } else { shown };
    invalid(format!("{shown} is not a whole number from 0 to 2^64 - 1"))
}
