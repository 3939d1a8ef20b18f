//! Python numbers as multiples of a grid, exactly.

use crate::error::invalid;
use evertally::number::{DecimalError, Grid, Rounding, parse_scaled, scale_float, scale_integer};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyFloat;

/// Converts a number in units of the data (`int`, `float`, `Decimal` or their NumPy counterparts) to a multiple of the
/// grid, rounding half to even if the number is finer than the grid.
pub(crate) fn multiple(number: &Bound<'_, PyAny>, grid: Grid) -> PyResult<i64> {
    let scaled = if number.is_instance_of::<PyFloat>() {
        float_multiple(number.extract()?, grid)
    } else if number.hasattr("__index__")? {
        match number.extract::<i64>() {
            Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => Err(DecimalError::Overflow),
            whole => scale_integer(whole?, grid),
        }
    } else {
        parse_scaled(number.str()?.to_str()?, grid)
    };
    scaled
        .map_err(|problem| refused(&number.str().map_or_else(|_| "the value".into(), |text| text.to_string()), problem))
}

/// The same for a double.
pub(crate) fn float_multiple(number: f64, grid: Grid) -> Result<i64, DecimalError> {
    scale_float(number, grid, Rounding::HalfEven)
}

/// The exception for a number that cannot be converted to a multiple of the grid.
pub(crate) fn refused(number: &str, problem: DecimalError) -> PyErr {
    invalid(format!("{number} {problem}"))
}
