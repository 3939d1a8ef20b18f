//! Threads for what requests read and compute: those of the runtime must answer at any time.
//!
//! Every kind of work has its own number of threads, so that none of them takes the threads of another: many clients that
//! send slowly do not stop readers, and a report that takes long does not stop writers. A request waits for its turn
//! without a thread.

use super::app::App;
use super::problem::Problem;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What a request keeps a thread busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Reading the store or a small file, or waiting for the engine.
    Quick,
    /// Reports, pictures, plans and large answers: as many at a time as the machine has processors, twice.
    Heavy,
    /// Reading a body, as fast as its client sends it.
    Body,
}

/// Threads for quick work. The sum of all is below the 512 threads that the runtime starts.
const QUICK: usize = 128;
/// Threads for bodies.
const BODIES: usize = 192;
/// Threads for heavy work, at most.
const MOST_HEAVY: usize = 64;

/// How many threads each kind of work may take.
pub(super) struct Threads {
    quick: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl Default for Threads {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let of = |threads| Arc::new(Semaphore::new(threads));
        Self { quick: of(QUICK), heavy: of((2 * processors).clamp(2, MOST_HEAVY)), bodies: of(BODIES) }
    }
}

impl Threads {
    fn of(&self, work: Work) -> &Arc<Semaphore> {
        match work {
            Work::Quick => &self.quick,
            Work::Heavy => &self.heavy,
            Work::Body => &self.bodies,
        }
    }
}

/// Does something in a thread that may wait, and makes the answer there, too. If the client goes away, work that has not
/// begun is not done; work that has begun keeps its place until it is over.
pub(super) async fn waiting<T: IntoResponse>(
    app: &Arc<App>,
    work: Work,
    what: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    in_thread(app, work, move |app| what(app).map(IntoResponse::into_response)).await
}

/// The same where the result is not the answer.
pub(super) async fn in_thread<T: Send + 'static>(
    app: &Arc<App>,
    work: Work,
    what: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let permit = Arc::clone(app.threads.of(work)).acquire_owned().await.expect("it is never closed");
    let app = Arc::clone(app);
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        what(&app)
    });
    done.await
        .unwrap_or_else(|_| Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "Something went wrong here")))
}
