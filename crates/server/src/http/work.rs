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
    /// Looking at a small file.
    Quick,
    /// Waiting for the engine, which closes large steps for seconds.
    Engine,
    /// Reading the store.
    Rows,
    /// Computing what is promised, reports and pictures.
    Report,
    /// Planning a stream, which may take minutes.
    Plan,
    /// Reading a body, as fast as its client sends it.
    Body,
}

/// How many threads each kind of work may take: together fewer than the 512 that the runtime starts.
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
            // More at a time would only share the processors.
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
