//! NumPy arrays that noise is written to, without a copy.

use crate::arrays::numpy;
use crate::error::invalid;
use evertally_training::Real;
use numpy::{
    BorrowError, Element, PyArrayDyn, PyArrayMethods, PyReadwriteArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// Borrows the elements of an array exclusively. They must have this type, number one per coordinate, and be contiguous
/// in memory.
pub(crate) fn writable<'py, F: Real + Element>(
    array: &Bound<'py, PyAny>,
    coordinates: usize,
) -> PyResult<PyReadwriteArrayDyn<'py, F>> {
    numpy(array.py())?;
    let Ok(untyped) = array.cast::<PyUntypedArray>() else {
        let found = array.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "noise is written to a numpy.ndarray, got {found}; for a PyTorch tensor on the CPU, pass tensor.numpy()"
        )));
    };
    let Ok(typed) = array.cast::<PyArrayDyn<F>>() else {
        let (bits, found) = (F::BITS, untyped.dtype());
        return Err(PyTypeError::new_err(format!(
            "the array must have the dtype of the noise, float{bits}, got {found}"
        )));
    };
    if typed.len() != coordinates {
        let (found, shape) = (typed.len(), array.getattr("shape")?);
        return Err(invalid(format!(
            "the noise has {coordinates} coordinates, but the array has {found} (shape {shape})"
        )));
    }
    if !typed.is_c_contiguous() || !typed.is_aligned() {
        return Err(invalid(format!(
            "the array must be C-contiguous and aligned, got strides {}; pass a contiguous copy",
            array.getattr("strides")?
        )));
    }
    typed.try_readwrite().map_err(|problem| {
        invalid(match problem {
            BorrowError::NotWriteable => "the array is read-only; pass a writeable copy",
            _ => "another thread is using this array, or one that shares its memory; give each thread a separate array",
        })
    })
}
