//! What belongs to the process that made it: a fork copies it with its noise, and two of them would share that.

use crate::error::invalid;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::sync::{Mutex, MutexGuard};

/// Something for which threads take turns, and processes do not.
pub(crate) struct Own<T> {
    inner: Mutex<T>,
    process: u32,
}

impl<T> Own<T> {
    /// Of this process.
    pub(crate) fn new(inner: T) -> Self {
        Self { inner: Mutex::new(inner), process: std::process::id() }
    }

    /// To look at it.
    pub(crate) fn lock(&self, py: Python<'_>) -> MutexGuard<'_, T> {
        self.inner.lock_py_attached(py).expect("no holder panics")
    }

    /// To go on with it: in the process that made it.
    pub(crate) fn go_on(&self, py: Python<'_>, what: &str, name: &str) -> PyResult<MutexGuard<'_, T>> {
        if self.process == std::process::id() {
            return Ok(self.lock(py));
        }
        Err(invalid(format!(
            "this {what} {name:?} came into this process by a fork, and has the noise of the one that it was copied from: what the two \
             release differs by exactly what they count. Go on in the process that made it, or make one here under another name"
        )))
    }
}
