//! Errors of the library and of the other crates as Python exceptions.
//!
//! The classes are defined in Python (`evertally/_errors.py`), where a class may have two parents.

use evertally::ErrorKind;
use evertally_declare::error::PipelineError;
use evertally_declare::problem::{Problem, Wording};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Results whose errors become Python exceptions.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception that describes the error.
    fn or_raise(self) -> PyResult<T>;
}

/// Results whose errors name parameters, in the caller's words.
pub(crate) trait OrRaiseWorded<T> {
    /// The value, or the exception that describes the error in these words.
    fn or_raise_in(self, wording: Wording) -> PyResult<T>;
}

impl<T> OrRaise<T> for evertally::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| from_library(&error))
    }
}

impl<T> OrRaise<T> for Result<T, Problem> {
    fn or_raise(self) -> PyResult<T> {
        self.or_raise_in(Wording::Keywords)
    }
}

impl<T> OrRaiseWorded<T> for Result<T, Problem> {
    fn or_raise_in(self, wording: Wording) -> PyResult<T> {
        self.map_err(|problem| exception("InvalidError", problem.worded(wording)))
    }
}

impl<T> OrRaise<T> for Result<T, PipelineError> {
    fn or_raise(self) -> PyResult<T> {
        self.or_raise_in(Wording::Keywords)
    }
}

impl<T> OrRaiseWorded<T> for Result<T, PipelineError> {
    fn or_raise_in(self, wording: Wording) -> PyResult<T> {
        self.map_err(|error| from_program(&error, wording))
    }
}

/// A parameter outside its documented range.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    exception("InvalidError", message.into())
}

/// An object that cannot continue from its current state.
pub(crate) fn state(message: impl Into<String>) -> PyErr {
    exception("StateError", message.into())
}

fn from_library(error: &evertally::Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::WeakBudget => return exception("InvalidError", format!("{error} (allow_weak, allow_weak_budget)")),
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::Overflow => "SumOverflowError",
        ErrorKind::HorizonExhausted => "HorizonExhausted",
        ErrorKind::State => "StateError",
        ErrorKind::Randomness => "RandomnessError",
        _ => "EvertallyError",
    };
    exception(class, error.to_string())
}

fn from_program(error: &PipelineError, wording: Wording) -> PyErr {
    let message = error.worded(wording);
    if error.is_cancelled() {
        PyKeyboardInterrupt::new_err(message)
    } else if let Some(error) = error.library() {
        from_library(error)
    } else if error.input().is_some() {
        exception("TableError", message)
    } else if error.problem().is_some() {
        exception("InvalidError", message)
    } else if error.io().is_some() {
        PyOSError::new_err(message)
    } else {
        exception("EvertallyError", message)
    }
}

fn exception(class: &str, message: String) -> PyErr {
    Python::attach(|py| {
        let class = py.import("evertally._errors").and_then(|module| module.getattr(class));
        match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
            Ok(class) => PyErr::from_type(class, message),
            Err(error) => error,
        }
    })
}
