//! Watching a stream: server-sent events.

use super::super::app::{App, Caller};
use super::super::hub::Permission;
use super::super::problem::{Document, ProblemAnswer};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Reports new publications: events `published` with the number of the publication as their id, and `state`. It ends
/// when the caller may not read the stream any more.
#[utoipa::path(get, path = "/v1/streams/{stream}/watch", tag = "reading",
    params(("stream" = String, Path), ("Last-Event-ID" = Option<u64>, Header, description = "The last publication that \
        you know.")),
    responses(
        (status = 200, body = String, content_type = "text/event-stream"),
        (status = 404, body = Document, content_type = "application/problem+json"),
        (status = 503, body = Document, content_type = "application/problem+json"),
    ))]
pub(in super::super) async fn watch(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ProblemAnswer> {
    let info = app.readable(&name, &caller)?;
    let missed = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
    // A watch may last longer than the service's other parts, which it must not keep alive.
    let weak = Arc::downgrade(&app);
    let may_read: Permission = Arc::new(move |info| weak.upgrade().is_some_and(|app| caller.reads_now(&app, info)));
    let Some(messages) = app.hub.watch(info, missed, may_read) else {
        return Err(ProblemAnswer::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "watchers",
            "Too many watch this stream already",
        )
        .because("poll the releases instead, or try again later")
        .retry_after(60));
    };
    let own = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((own, Body::from_stream(messages)).into_response())
}
