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

    /// The same in a thread that Python does not know.
    pub(crate) fn lock_in_background(&self) -> MutexGuard<'_, T> {
        self.inner.lock().expect("no holder panics")
    }

    /// To go on with it: in the process that made it.
    pub(crate) fn go_on(&self, py: Python<'_>, what: &str, name: &str) -> PyResult<MutexGuard<'_, T>> {
        self.check(what, name)?;
        Ok(self.lock(py))
    }

    /// Refuses to go on with it in a process that has it by a fork.
    pub(crate) fn check(&self, what: &str, name: &str) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(invalid(format!(
            "this {what} {name:?} came into this process by a fork, and has the noise of the one that it was copied from: what the two \
             release differs by exactly what they count. Go on in the process that made it, or make one here under another name"
        )))
    }
}
