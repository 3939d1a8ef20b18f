//! Arguments of noise streams.

use crate::arrays::numpy;
use crate::error::invalid;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use std::ops::Range;

/// A number of coordinates, or a half-open range of them.
pub(super) fn range(coordinates: &Bound<'_, PyAny>) -> PyResult<Range<u64>> {
    if let Ok(count) = coordinates.extract::<u64>() {
        return Ok(0..count);
    }
    let ends = coordinates.extract::<(u64, u64)>();
    ends.map(|(first, end)| first..end).map_err(|_| {
        invalid(format!("coordinates must be a number of coordinates or a range (first, end), got {coordinates}"))
    })
}

/// Whether a NumPy dtype, or its name, means `float64` rather than `float32`.
pub(super) fn is_double(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    let known = numpy(dtype.py())?.call_method1("dtype", (dtype,));
    let name = known.and_then(|dtype| dtype.getattr("str")?.extract::<String>());
    let native = if cfg!(target_endian = "little") { '<' } else { '>' };
    match name.as_deref().ok().and_then(|name| name.strip_prefix(native)) {
        Some("f4") => Ok(false),
        Some("f8") => Ok(true),
        _ => Err(invalid(format!("dtype must be \"float32\" or \"float64\", got {}", dtype.repr()?))),
    }
}

/// Refuses an array with a number that is not finite.
pub(super) fn check_finite(of: &Bound<'_, PyAny>) -> PyResult<()> {
    let kind = of.getattr("dtype").and_then(|dtype| dtype.getattr("kind")).and_then(|kind| kind.extract::<String>());
    if kind.is_ok_and(|kind| kind == "f") {
        let finite = numpy(of.py())?.call_method1("isfinite", (of,))?.call_method0("all")?;
        if !finite.is_truthy()? {
            return Err(invalid(
                "the data for the noise contain a number that is NaN or infinite: they are not a sum of clipped \
                 vectors",
            ));
        }
    }
    Ok(())
}

/// Refuses vectors that do not fit in memory: the library would abort the process.
pub(super) fn check_memory<F>(coordinates: usize) -> PyResult<()> {
    let mut vector = Vec::<F>::new();
    let reserved = vector.try_reserve_exact(coordinates);
    std::hint::black_box(&vector);
    reserved.map_err(|_| PyMemoryError::new_err(format!("no memory for a vector of {coordinates} coordinates")))
}
