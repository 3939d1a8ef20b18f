//! Noise that is drawn in the background, while what it will be added to is computed.
//!
//! A thread draws the next step of one or more streams, each under its lock: whoever asks for the step meanwhile waits
//! for it, or draws it if the thread has not come so far. The thread holds no reference to anything of Python's, nor to
//! a stream that nobody else has: the process may end at any time, and objects may go.
//!
//! **Forks** copy memory and not threads: a stream that is being drawn would be locked in the copy for ever. So
//! [`wait`] is called before each fork of Python's.

use super::noise::Stream;
use crate::own::Own;
use pyo3::prelude::*;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// How many threads draw in this process.
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

/// A thread that draws, for as long as it does.
struct Counted;

impl Counted {
    fn new() -> Self {
        drawing().threads += 1;
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        drawing().threads -= 1; // fits: this one was counted
        ENDED.notify_all();
    }
}

/// Begins to draw the next step of streams, one after the other, and returns.
pub(super) fn begin(streams: Vec<Weak<Own<Stream>>>) {
    let counted = Counted::new();
    let work = move || {
        let _counted = counted;
        streams.iter().filter_map(Weak::upgrade).for_each(|stream| stream.lock_in_background().draw_ahead());
    };
    // A system that grants no thread makes it slower and nothing else.
    let _ = std::thread::Builder::new().name("evertally noise".into()).spawn(work);
}

/// Waits until nothing is drawn in the background. Called before forks.
#[pyfunction]
#[pyo3(name = "_wait_for_noise")]
pub(crate) fn wait(py: Python<'_>) {
    py.detach(|| {
        let all = ENDED.wait_while(drawing(), |drawing| drawing.threads > 0);
        drop(all.unwrap_or_else(PoisonError::into_inner));
    });
}

/// Has [`wait`] called before forks, where there are any.
pub(crate) fn wait_before_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let os = module.py().import("os")?;
    if let Ok(register) = os.getattr("register_at_fork") {
        let before = pyo3::types::PyDict::new(module.py());
        before.set_item("before", module.getattr("_wait_for_noise")?)?;
        register.call((), Some(&before))?;
    }
    Ok(())
}
