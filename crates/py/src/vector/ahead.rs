//! Draws noise in the background while the vectors it will be added to are computed.
//!
//! A thread draws the next step of one or more streams, each under its lock. A caller that asks for the step meanwhile
//! waits for it, or draws it itself if the thread has not reached that stream. The thread holds no reference to a
//! Python object, and only weak references to streams: the process may end at any time, and objects may be dropped.
//!
//! **Forks** copy memory but no threads: a stream that is being drawn would stay locked forever in the copy. So
//! [`wait`] is called before each fork by Python.

use super::stream::TypedStream;
use crate::own::ProcessBound;
use pyo3::prelude::*;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// The number of threads in this process that are drawing.
static DRAWING: Mutex<Drawing> = Mutex::new(Drawing { process: 0, threads: 0 });
static ENDED: Condvar = Condvar::new();

struct Drawing {
    process: u32,
    threads: usize,
}

fn drawing() -> MutexGuard<'static, Drawing> {
    let mut drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    if drawing.process != std::process::id() {
        *drawing = Drawing { process: std::process::id(), threads: 0 };
    }
    drawing
}

/// Counts a drawing thread for as long as it exists.
struct DrawingGuard;

impl DrawingGuard {
    fn new() -> Self {
        drawing().threads += 1;
        Self
    }
}

impl Drop for DrawingGuard {
    fn drop(&mut self) {
        drawing().threads -= 1; // fits: this one was counted
        ENDED.notify_all();
    }
}

/// Starts to draw the next step of the streams, one after the other, and returns at once.
pub(super) fn begin(streams: Vec<Weak<ProcessBound<TypedStream>>>) {
    let counted = DrawingGuard::new();
    let work = move || {
        let _counted = counted;
        streams.iter().filter_map(Weak::upgrade).for_each(|stream| stream.lock_in_background().draw_ahead());
    };
    // If the system grants no thread, this only costs time.
    let _ = std::thread::Builder::new().name("evertally noise".into()).spawn(work);
}

/// Waits until no noise is being drawn in the background. Called before forks.
#[pyfunction]
#[pyo3(name = "_wait_for_noise")]
pub(crate) fn wait(py: Python<'_>) {
    py.detach(|| {
        let all = ENDED.wait_while(drawing(), |drawing| drawing.threads > 0);
        drop(all.unwrap_or_else(PoisonError::into_inner));
    });
}

/// Registers [`wait`] to run before forks, on systems that have them.
pub(crate) fn wait_before_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let os = module.py().import("os")?;
    if let Ok(register) = os.getattr("register_at_fork") {
        let before = pyo3::types::PyDict::new(module.py());
        before.set_item("before", module.getattr("_wait_for_noise")?)?;
        register.call((), Some(&before))?;
    }
    Ok(())
}
