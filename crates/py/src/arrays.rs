//! Conversions from and to NumPy arrays.

use crate::error::invalid;
use crate::units::{float_multiple, multiple, refused};
use evertally::number::{Grid, scale_integer};
use numpy::{Element, IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::slice::ChunksExactMut;

/// NumPy. It is loaded on first use, since it takes longer than the rest of an import of this package. Call this before
/// anything that uses arrays: it loads NumPy's C interface, and a failure of that (by Ctrl-C, if NumPy was not loaded
/// before) is a panic.
pub(crate) fn numpy(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    static INTERFACE: PyOnceLock<()> = PyOnceLock::new();
    let numpy = py.import("numpy")?;
    INTERFACE.get_or_init(py, || drop(PyArray1::from_vec(py, Vec::<f64>::new())));
    Ok(numpy)
}

/// Converts the argument to a one-dimensional array, and gives the kind letter of its dtype.
fn vector<'py>(values: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, String)> {
    let array = numpy(values.py())?.call_method1("asarray", (values,))?;
    if array.getattr("ndim")?.extract::<usize>()? != 1 {
        return Err(invalid("an array must have one dimension; pass a list or a vector"));
    }
    let kind = array.getattr("dtype")?.getattr("kind")?.extract()?;
    Ok((array, kind))
}

/// A copy of a vector with one element type: other threads may write to the array meanwhile.
fn copied<T: Element + Clone>(array: &Bound<'_, PyAny>, dtype: &str) -> PyResult<Vec<T>> {
    let array = array.call_method1("astype", (dtype,))?;
    let array: PyReadonlyArray1<'_, T> =
        array.extract().map_err(|_| PyTypeError::new_err("not an array of numbers"))?;
    Ok(array.as_array().to_vec())
}

/// Numbers in units of the data as multiples of the grid.
pub(crate) fn multiples(values: &Bound<'_, PyAny>, grid: Grid) -> PyResult<Vec<i64>> {
    let (array, kind) = vector(values)?;
    match kind.as_str() {
        "i" | "b" => {
            let of = |x: i64| scale_integer(x, grid).map_err(|problem| refused(&x.to_string(), problem));
            copied(&array, "int64")?.into_iter().map(of).collect()
        }
        "f" => {
            let of = |x: f64| float_multiple(x, grid).map_err(|problem| refused(&x.to_string(), problem));
            copied(&array, "float64")?.into_iter().map(of).collect()
        }
        _ => array.try_iter()?.map(|value| multiple(&value?, grid)).collect(),
    }
}

/// Indices of running sums, or items: whole numbers from 0 to 2^64 - 1.
pub(crate) fn naturals(values: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let (array, kind) = vector(values)?;
    let negative = || invalid("numbers must be whole and at least 0");
    match kind.as_str() {
        "u" => copied(&array, "uint64"),
        "i" => copied::<i64>(&array, "int64")?.into_iter().map(|x| u64::try_from(x).map_err(|_| negative())).collect(),
        // NumPy turns an empty list into an array of doubles.
        _ if array.len()? == 0 => Ok(Vec::new()),
        _ => Err(PyTypeError::new_err(format!("the array must hold whole numbers, not values of kind {kind:?}"))),
    }
}

/// Columns of equal length as a structured array.
pub(crate) fn structured<'py>(py: Python<'py>, columns: &[(&str, Bound<'py, PyAny>)]) -> PyResult<Bound<'py, PyAny>> {
    let numpy = numpy(py)?;
    let fields: Vec<_> =
        columns.iter().map(|(name, column)| Ok((*name, column.getattr("dtype")?))).collect::<PyResult<_>>()?;
    let length = columns.first().map_or(Ok(0), |(_, column)| column.len())?;
    let options = PyDict::new(py);
    options.set_item("dtype", fields)?;
    let array = numpy.call_method("empty", (length,), Some(&options))?;
    columns.iter().try_for_each(|(name, column)| array.set_item(*name, column))?;
    Ok(array)
}

/// A structured array of 8-byte fields (name and type), filled row by row by `fill`.
pub(crate) fn rows<'py>(
    py: Python<'py>,
    fields: &[(&str, &str)],
    count: usize,
    fill: impl FnOnce(ChunksExactMut<'_, u8>) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = PyDict::new(py);
    options.set_item("dtype", fields)?;
    let array = numpy(py)?.call_method("empty", (count,), Some(&options))?;
    let bytes: Bound<'py, PyArray1<u8>> = array.call_method1("view", ("u1",))?.extract()?;
    let mut bytes = bytes.try_readwrite()?;
    let bytes = bytes.as_slice_mut().map_err(|_| PyTypeError::new_err("not an array of bytes"))?;
    fill(bytes.chunks_exact_mut(8 * fields.len()))?;
    Ok(array)
}

/// One column.
pub(crate) fn column<T: Element>(py: Python<'_>, values: Vec<T>) -> PyResult<Bound<'_, PyAny>> {
    vector_of(py, values).map(Bound::into_any)
}

/// A new array of these values.
pub(crate) fn vector_of<T: Element>(py: Python<'_>, values: Vec<T>) -> PyResult<Bound<'_, PyArray1<T>>> {
    numpy(py)?;
    Ok(values.into_pyarray(py))
}
