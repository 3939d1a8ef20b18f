//! Long work without the GIL, interruptible by Ctrl-C.

use crate::error::OrRaise;
use evertally::plan::{SearchObserver, SearchProgress};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// How often Python's signals are checked while other threads work.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs work that cannot be cancelled in a separate thread. After Ctrl-C the caller stops waiting for it.
pub(crate) fn abandonable<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    awaited(py, work, || Ok(()))
}

/// The same, with a call in this thread at every check of Python's signals. After an error of that call, too, the
/// caller stops waiting.
fn awaited<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    mut meanwhile: impl FnMut() -> PyResult<()>,
) -> PyResult<T> {
    let (done, result) = channel();
    thread::spawn(move || done.send(work()));
    let result = Mutex::new(result);
    loop {
        match glance(py, &result) {
            Some(result) => return result,
            None => {
                py.check_signals()?;
                meanwhile()?;
            }
        }
    }
}

/// Runs a search in a separate thread. After Ctrl-C the caller stops waiting, and the search ends when it next reports
/// to its observer.
pub(crate) fn searching<T: Send + 'static>(
    py: Python<'_>,
    search: impl FnOnce(&SearchObserver) -> T + Send + 'static,
) -> PyResult<T> {
    searching_with(py, None, search)
}

/// The result of a search that runs at most once for an object, which keeps it. A search that Ctrl-C ends leaves
/// nothing.
pub(crate) fn searched_once<'a, T: Send + 'static>(
    py: Python<'_>,
    kept: &'a OnceLock<T>,
    search: impl FnOnce(&SearchObserver) -> T + Send + 'static,
) -> PyResult<&'a T> {
    if let Some(known) = kept.get() {
        return Ok(known);
    }
    let found = searching(py, search)?;
    // Another thread may have found the same.
    Ok(kept.get_or_init(|| found))
}

/// The same as [`searching`], with a Python function that is called with the number of compared mechanisms and that of
/// all.
pub(crate) fn searching_with<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    search: impl FnOnce(&SearchObserver) -> T + Send + 'static,
) -> PyResult<T> {
    let (cancelled, reached) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
    let (flag, latest) = (Arc::clone(&cancelled), Arc::clone(&reached));
    let observer = SearchObserver::new(move |progress| {
        *latest.lock().expect("no panic while it is written") = Some(progress);
        if flag.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let mut shown = None;
    let meanwhile = || {
        let now = *reached.lock().expect("no panic while it is written");
        if let (Some(progress), Some(SearchProgress::Mechanisms { done, total })) = (progress, now)
            && now != shown
        {
            shown = now;
            progress.call1((done, total))?;
        }
        Ok(())
    };
    awaited(py, move || search(&observer), meanwhile).inspect_err(|_| cancelled.store(true, Ordering::Relaxed))
}

/// Runs work that watches a flag, which Ctrl-C sets. The work has ended when this returns.
pub(crate) fn cancellable<T: Send>(py: Python<'_>, work: impl FnOnce(&Arc<AtomicBool>) -> T + Send) -> PyResult<T> {
    let cancelled = Arc::new(AtomicBool::new(false));
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
