//! Long work: without the interpreter's lock, and with an ear for Ctrl-C.

use crate::error::OrRaise;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often Python's signals are looked at while other threads work.
const GLANCE: Duration = Duration::from_millis(50);

/// Does work that cannot be stopped in a thread of its own. After Ctrl-C nobody waits for it any more.
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

/// Does work that watches a flag, which Ctrl-C raises. The work has ended when this returns.
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

/// The result, if it comes within a moment.
fn glance<T: Send>(py: Python<'_>, result: &Mutex<Receiver<T>>) -> Option<PyResult<T>> {
    let wait = || result.lock().expect("used by one thread").recv_timeout(GLANCE);
    match py.detach(wait) {
        Ok(result) => Some(Ok(result)),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => {
            Some(Err(PyRuntimeError::new_err("a computation has failed; please report this with what led to it")))
        }
    }
}

/// Items between two looks at Python's signals.
const CHUNK: usize = 4096;

/// Does work on items in order, a few thousand at a time without the interpreter's lock. After Ctrl-C the rest is not
/// done.
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
