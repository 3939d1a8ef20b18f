//! Runs the work of a request in a thread that may block.

use super::app::App;
use super::problem::ProblemAnswer;
use super::threads::Work;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Runs `what` in a thread that may block, and builds the answer there, too. If the client disconnects, work that has
/// not begun is dropped; work that has begun keeps its thread until it ends.
pub(super) async fn waiting<T: IntoResponse>(
    app: &Arc<App>,
    work: Work,
    what: impl FnOnce(&App) -> Result<T, ProblemAnswer> + Send + 'static,
) -> Result<Response, ProblemAnswer> {
    in_thread(app, work, move |app| what(app).map(IntoResponse::into_response)).await
}

/// The same for a result that is not the answer.
pub(super) async fn in_thread<T: Send + 'static>(
    app: &Arc<App>,
    work: Work,
    what: impl FnOnce(&App) -> Result<T, ProblemAnswer> + Send + 'static,
) -> Result<T, ProblemAnswer> {
    let shared = Arc::clone(app);
    app.threads.run(work, move || what(&shared)).await
}
