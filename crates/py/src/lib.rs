//! The Python package `evertally`: plans, counters, vectors, sketches and tables over the Rust library.
#![forbid(unsafe_code)]

use pyo3::prelude::*;

/// The compiled half of the package; `evertally` re-exports what is public.
#[pymodule]
mod _evertally {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
