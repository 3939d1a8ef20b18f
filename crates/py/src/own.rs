//! Objects that belong to the process that made them: a fork would copy them with their noise, and both processes would
//! share it.

use crate::error::invalid;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::sync::{Mutex, MutexGuard};

/// A value that threads of one process share by turns, and that other processes may not use.
pub(crate) struct ProcessBound<T> {
    inner: Mutex<T>,
    process: u32,
}

impl<T> ProcessBound<T> {
    /// A value that belongs to this process.
    pub(crate) fn new(inner: T) -> Self {
        Self { inner: Mutex::new(inner), process: std::process::id() }
    }

    /// Locks the value, to inspect it.
    pub(crate) fn lock(&self, py: Python<'_>) -> MutexGuard<'_, T> {
        self.inner.lock_py_attached(py).expect("no holder panics")
    }

    /// The same in a thread that Python does not know.
    pub(crate) fn lock_in_background(&self) -> MutexGuard<'_, T> {
        self.inner.lock().expect("no holder panics")
    }

    /// Locks the value, to continue with it. Only the process that made it may.
    pub(crate) fn go_on(&self, py: Python<'_>, what: &str, name: &str) -> PyResult<MutexGuard<'_, T>> {
        self.check(what, name)?;
        Ok(self.lock(py))
    }

    /// Refuses to continue in a process that inherited the value through a fork.
    pub(crate) fn check(&self, what: &str, name: &str) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(invalid(format!(
            "this {what} {name:?} came into this process by a fork and has the same noise as the original: releases of \
             the two differ by exactly the difference of their data. Continue in the process that made it, or make a \
             new one here under another name"
        )))
    }
}
