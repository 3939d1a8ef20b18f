//! Whether the service is up, alive and ready.

use super::super::app::{App, Side};
use super::super::problem::{Document, ProblemAnswer};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Whether the service answers requests: `ok`.
#[utoipa::path(get, path = "/healthz", tag = "health", responses(
    (status = 200, description = "It is up.", body = String),
))]
pub(in super::super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the process is alive: it answers requests, and its counting thread runs. If not, restart it.
#[utoipa::path(get, path = "/livez", tag = "health", responses(
    (status = 200, description = "It is alive.", body = String),
    (status = 503, description = "It should be restarted.", body = Document, content_type = "application/problem+json"),
))]
pub(in super::super) async fn livez(State(app): State<Arc<App>>, Extension(side): Extension<Side>) -> Response {
    answer(side, app.readiness.lifelessness(&app.service).into_iter().collect(), None)
}

/// Whether the service is ready to accept events and to publish. It is not while it shuts down, while it is read-only,
/// while its counting thread makes no progress, while its witness cannot be updated, and after a start until all
/// publications are shown again. The private listener names the reasons, and warns of a clock that is not synchronised.
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = 200, description = "It is ready.", body = String),
    (status = 503, description = "It is not ready.", body = Document, content_type = "application/problem+json"),
))]
pub(in super::super) async fn readyz(State(app): State<Arc<App>>, Extension(side): Extension<Side>) -> Response {
    answer(side, app.readiness.unreadiness(&app.service), app.synchronisation.problem())
}

fn answer(side: Side, reasons: Vec<&'static str>, warning: Option<String>) -> Response {
    if reasons.is_empty() {
        let warning = warning.filter(|_| side == Side::Private).map_or(String::new(), |text| format!("{text}\n"));
        return ([(CACHE_CONTROL, "no-store")], format!("ok\n{warning}")).into_response();
    }
    let problem = ProblemAnswer::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", "Not ready");
    let detail = match side {
        Side::Public => "try again later".to_owned(),
        Side::Private => reasons.join("; "),
    };
    problem.because(detail).retry_after(5).into_response()
}
