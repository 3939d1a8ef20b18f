//! The keyword arguments of a plan that cannot be declared, in a dictionary.
//!
//! Only `keywords.toml` lists which function takes which keyword. Here each is taken out by name. Unknown keywords are
//! refused, so none is silently ignored.

use crate::error::invalid;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Keyword arguments that have not been taken yet.
pub(crate) struct Options<'py>(Bound<'py, PyDict>);

impl<'py> Options<'py> {
    /// Copies the given arguments.
    pub(crate) fn new(given: &Bound<'py, PyDict>) -> PyResult<Self> {
        given.copy().map(Self)
    }

    /// Takes an argument; `None` counts as missing.
    pub(crate) fn take<T: for<'a> FromPyObject<'a, 'py>>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(value) = self.0.get_item(name)? else { return Ok(None) };
        self.0.del_item(name)?;
        if value.is_none() {
            return Ok(None);
        }
        value.extract::<T>().map(Some).map_err(|problem| of_argument(self.0.py(), name, problem.into()))
    }

    /// Takes a required argument.
    pub(crate) fn needed<T: for<'a> FromPyObject<'a, 'py>>(&self, name: &str) -> PyResult<T> {
        self.take(name)?.ok_or_else(|| PyTypeError::new_err(format!("argument {name} is required")))
    }

    /// Takes one of a small set of words, by its name in plan files.
    pub(crate) fn word<T: for<'de> serde::Deserialize<'de>>(&self, name: &str) -> PyResult<Option<T>> {
        let parse = |text: String| {
            let word = serde::de::value::StringDeserializer::<serde::de::value::Error>::new(text);
            T::deserialize(word).map_err(|problem| invalid(format!("{name}: {problem}")))
        };
        self.take::<String>(name)?.map(parse).transpose()
    }

    /// Refuses arguments that were not taken.
    pub(crate) fn finish(self) -> PyResult<()> {
        match self.0.keys().iter().next() {
            None => Ok(()),
            Some(name) => Err(PyTypeError::new_err(format!("there is no argument {}", name.cast::<PyString>()?))),
        }
    }
}

/// An exception of the same class whose message names the argument.
fn of_argument(py: Python<'_>, name: &str, problem: PyErr) -> PyErr {
    PyErr::from_type(problem.get_type(py), format!("argument {name}: {}", problem.value(py)))
}
