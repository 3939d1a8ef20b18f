//! Threads for the reading and computing of requests: the threads of the runtime must never block.
//!
//! Every kind of work has its own number of threads, so that none takes the threads of another: many clients that send
//! slowly do not stop readers, and a slow report does not stop writers. A request waits for its turn without a thread.

use super::problem::ProblemAnswer;
use crate::engine::Refusal;
use axum::http::StatusCode;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The kind of work that occupies a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Reading a small file.
    Quick,
    /// Waiting for the engine, which may close large steps for seconds.
    Engine,
    /// Reading the store.
    Rows,
    /// Computing guarantees, reports and pictures.
    Report,
    /// Planning a stream, which may take minutes.
    Plan,
    /// Reading a body, as fast as its client sends it.
    Body,
}

/// The number of threads for each kind of work: in total fewer than the 512 that the runtime starts.
pub(super) struct Threads {
    quick: Arc<Semaphore>,
    engine: Arc<Semaphore>,
    rows: Arc<Semaphore>,
    reports: Arc<Semaphore>,
    plans: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl Default for Threads {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let of = |threads| Arc::new(Semaphore::new(threads));
        Self {
            quick: of(64),
            engine: of(32),
            rows: of(64),
            // More at a time would only compete for the processors.
            reports: of((2 * processors).clamp(8, 64)),
            plans: of(8),
            bodies: of(192),
        }
    }
}

impl Threads {
    fn of(&self, work: Work) -> &Arc<Semaphore> {
        match work {
            Work::Quick => &self.quick,
            Work::Engine => &self.engine,
            Work::Rows => &self.rows,
            Work::Report => &self.reports,
            Work::Plan => &self.plans,
            Work::Body => &self.bodies,
        }
    }

    /// Runs `what` in a thread that may block. If the client disconnects, work that has not begun is dropped; work that
    /// has begun keeps its thread until it ends.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: Work,
        what: impl FnOnce() -> Result<T, ProblemAnswer> + Send + 'static,
    ) -> Result<T, ProblemAnswer> {
        let permit = Arc::clone(self.of(work)).acquire_owned().await.expect("the semaphore is never closed");
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            what()
        });
        done.await.unwrap_or_else(|error| {
            if error.is_cancelled() {
                return Err(Refusal::Stopping.into());
            }
            Err(ProblemAnswer::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "Something went wrong here"))
        })
    }
}
