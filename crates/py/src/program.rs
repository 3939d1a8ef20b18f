//! The program `evertally` inside the package, so that one file serves `import evertally` and the command line.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the program with its arguments, of which the first is its name; the exit status.
#[pyfunction]
#[pyo3(name = "_run_program")]
pub(crate) fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| evertally_cli::run(arguments))
}
