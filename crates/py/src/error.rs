//! Errors of the library and of the program's parts as Python exceptions.
//!
//! The classes are written in Python (`evertally/_errors.py`), where a class may have two parents.

use evertally::ErrorKind;
use evertally_publish::error::{InputError, UsageError, is_cancelled};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Results that end in a Python exception.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception that says what is wrong.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for evertally::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| of_library(&error))
    }
}

impl<T> OrRaise<T> for anyhow::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| of_program(&error))
    }
}

/// A parameter that is out of its documented range.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    exception("InvalidError", in_python(&message.into()))
}

fn of_library(error: &evertally::Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::WeakBudget => return exception("InvalidError", format!("{error} (allow_weak, allow_weak_budget)")),
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::Overflow => "SumOverflowError",
        ErrorKind::HorizonExhausted => "HorizonExhausted",
        ErrorKind::State => "StateError",
        ErrorKind::Randomness => "RandomnessError",
        _ => "EvertallyError",
    };
    exception(class, in_python(&error.to_string()))
}

fn of_program(error: &anyhow::Error) -> PyErr {
    let message = in_python(&format!("{error:#}"));
    if is_cancelled(error) {
        PyKeyboardInterrupt::new_err(message)
    } else if let Some(error) = error.downcast_ref::<evertally::Error>() {
        of_library(error)
    } else if error.downcast_ref::<InputError>().is_some() {
        exception("TableError", message)
    } else if error.downcast_ref::<UsageError>().is_some() {
        exception("InvalidError", message)
    } else if error.downcast_ref::<std::io::Error>().is_some() {
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

/// What the program says, and what that is in Python.
const WORDS: [(&str, &str); 6] = [
    ("--stream name", "name"),
    ("--groups, --groups-file and --rest", "--groups and --rest"),
    ("--groups or --groups-file", "--groups"),
    ("put names that hold a comma into a --groups-file", "give a list of names"),
    ("--bounds LOW,HIGH", "--bounds=(low, high)"),
    ("`evertally key new ", "`SecretKey.generate().save(path)` or `evertally key new "),
];

/// A message of the program with its flags as keyword arguments: `--group-by` is `group`, `--outside skip` is
/// `outside="skip"`.
fn in_python(message: &str) -> String {
    let message = WORDS.iter().fold(message.to_owned(), |text, (program, python)| text.replace(program, python));
    let mut parts = message.split("--");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(part.len());
        let (flag, rest) = part.split_at(end);
        if flag.is_empty() || flag.starts_with('-') {
            text.push_str("--");
            text.push_str(part);
            continue;
        }
        text.push_str(&match flag {
            "group-by" => "group".to_owned(),
            "stream" => "name".to_owned(),
            _ => flag.replace('-', "_"),
        });
        let word = ["skip", "clamp", "refuse"]
            .into_iter()
            .find(|word| rest.strip_prefix(' ').is_some_and(|r| r.starts_with(word)));
        match word {
            Some(word) => {
                text.push_str(&format!("=\"{word}\"{}", &rest[word.len() + 1..]));
            }
            None => text.push_str(rest),
        }
    }
    text
}
