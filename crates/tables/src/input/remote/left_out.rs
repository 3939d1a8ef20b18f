//! Builds without the feature `object-stores` refuse URLs.

use evertally_declare::error::ReadProblem;
pub use std::convert::Infallible as ObjectStamp;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

fn refusal() -> io::Error {
    let problem = "this build does not read URLs: it lacks the feature `object-stores`; download the file, or pipe it \
                   into the standard input";
    ReadProblem(problem.into()).into()
}

/// # Errors
/// Always.
pub(in crate::input) fn open(_: &Path) -> io::Result<Box<dyn Read>> {
    Err(refusal())
}

/// # Errors
/// Always.
pub fn open_stamped(_: &Path) -> io::Result<(Box<dyn Read>, ObjectStamp)> {
    Err(refusal())
}

/// # Errors
/// Always.
pub(in crate::input) fn stamp(_: &Path) -> io::Result<Option<ObjectStamp>> {
    Err(refusal())
}

/// # Errors
/// Always.
pub fn list_objects(_: &Path, _: bool, _: &dyn Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    Err(refusal())
}

/// # Errors
/// Always.
pub fn object_exists(_: &Path) -> io::Result<bool> {
    Err(refusal())
}
