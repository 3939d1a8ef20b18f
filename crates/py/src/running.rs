//! Long work without the GIL, interruptible by Ctrl-C.

use crate::error::OrRaise;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often Python's signals are checked while other threads work.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs work that cannot be cancelled in a separate thread. After Ctrl-C the caller stops waiting for it.
pub(crate) fn abandonable<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (done, result) = channel();
    thread::spawn(move || done.send(work()));
    let result = Mutex::new(result);
    loop {
        match glance(py, &result) {
            Some(result) => return result,
            None => py.check_signals()?,
        }
    }
}

/// Runs work that watches a flag, which Ctrl-C sets. The work has ended when this returns.
pub(crate) fn cancellable<T: Send>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send) -> PyResult<T> {
    let cancelled = AtomicBool::new(false);
    thread::scope(|scope| {
        let (done, result) = channel();
        let flag = &cancelled;
        scope.spawn(move || done.send(work(flag)));
        let result = Mutex::new(result);
        let mut interrupted = None;
        loop {
            match (glance(py, &result), interrupted.take()) {
                (Some(_), Some(error)) => return Err(error),
                (Some(result), None) => return result,
                (None, Some(error)) => interrupted = Some(error),
                (None, None) => {
                    interrupted = py.check_signals().err();
                    cancelled.fetch_or(interrupted.is_some(), Ordering::Relaxed);
                }
            }
        }
    })
}

/// Waits a moment for the result.
fn glance<T: Send>(py: Python<'_>, result: &Mutex<Receiver<T>>) -> Option<PyResult<T>> {
    let wait = || result.lock().expect("used by one thread").recv_timeout(SIGNAL_CHECK_INTERVAL);
    match py.detach(wait) {
        Ok(result) => Some(Ok(result)),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => {
            Some(Err(PyRuntimeError::new_err("a computation failed; please report this with the steps that led to it")))
        }
    }
}

/// Items between two checks of Python's signals.
const CHUNK: usize = 4096;

/// Works on items in order, a few thousand at a time, without the GIL. After Ctrl-C the remaining items are not
/// processed.
pub(crate) fn in_chunks<I: Sync>(
    py: Python<'_>,
    items: &[I],
    mut work: impl FnMut(&I) -> evertally::Result<()> + Send,
) -> PyResult<()> {
    for chunk in items.chunks(CHUNK) {
        py.detach(|| chunk.iter().try_for_each(&mut work)).or_raise()?;
        py.check_signals()?;
    }
    Ok(())
}
