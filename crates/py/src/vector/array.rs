//! NumPy arrays that noise is written to, without a copy.

use crate::error::invalid;
use evertally_training::Real;
use numpy::{
    BorrowError, Element, PyArrayDyn, PyArrayMethods, PyReadwriteArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The elements of an array, for as long as nobody else borrows them: of this type, one for each coordinate, one after
/// the other in memory.
pub(crate) fn writable<'py, F: Real + Element>(
    array: &Bound<'py, PyAny>,
    coordinates: usize,
) -> PyResult<PyReadwriteArrayDyn<'py, F>> {
    let Ok(untyped) = array.cast::<PyUntypedArray>() else {
        let found = array.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "noise is written to a numpy.ndarray, got {found}; of a PyTorch tensor on the CPU give tensor.numpy()"
        )));
    };
    let Ok(typed) = array.cast::<PyArrayDyn<F>>() else {
        let (bits, found) = (F::BITS, untyped.dtype());
        return Err(PyTypeError::new_err(format!(
            "the array must have dtype float{bits}, as the noise has, got {found}"
        )));
    };
    if typed.len() != coordinates {
        let (found, shape) = (typed.len(), array.getattr("shape")?);
        return Err(invalid(format!("the noise has {coordinates} coordinates, and the array {found} (shape {shape})")));
    }
    if !typed.is_c_contiguous() || !typed.is_aligned() {
        return Err(invalid(format!(
            "the array must be C-contiguous and aligned, got strides {}; give a contiguous copy",
            array.getattr("strides")?
        )));
    }
    typed.try_readwrite().map_err(|problem| {
        invalid(match problem {
            BorrowError::NotWriteable => "the array must be writeable, and is read-only; give a copy",
            _ => "another thread works on the array, or on one that shares its memory; give each thread one of its own",
        })
    })
}
