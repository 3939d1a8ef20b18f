//! Sums of complete steps that were counted elsewhere.

use super::super::app::{App, Caller};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use super::events::sent;
use crate::engine::SumsRange;
use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// The steps that the sums cover.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct CoveredSteps {
    /// The first step, from 1: at most the one after the last accepted step. The steps of a stream that was extended
    /// are counted on from those of the stream of the request.
    #[param(minimum = 1)]
    from: u64,
    /// The last step. Steps without rows add nothing.
    #[param(minimum = 1)]
    through: u64,
    /// A text of at most 200 bytes that stands for the counted events, if one step is sent; the service does not
    /// interpret it. Repeating the step requires the same text.
    #[serde(default)]
    evidence: Option<String>,
}

/// The receipt of accepted sums: the steps are closed.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct TakenSums {
    /// The stream that has accepted them: that of the request, or the one that continues it and has these steps.
    stream: String,
    /// The last step whose sums were accepted.
    through: u64,
    /// The number of rows sent.
    rows: u64,
    /// Whether all of the steps had been accepted before.
    repeated: bool,
}

/// Accepts the sums of complete steps, counted and bounded elsewhere, and publishes them; for streams with `closing` =
/// `sums`. A step is accepted once: repeating the same sums gives the same answer, and different sums are refused.
#[utoipa::path(put, path = "/v1/streams/{stream}/sums", tag = "writing",
    params(
        ("stream" = String, Path),
        CoveredSteps,
        ("Content-Digest" = Option<String>, Header, description = "`sha-256=:BASE64:` of the body, which is checked."),
    ),
    request_body(description = "Rows with the declared group columns, `step` and `sum` (exact, in units of the data), \
                                optionally compressed with gzip or zstd.", content = String, content_type = "*/*"),
    responses(
        (status = 200, body = TakenSums),
        (status = 400, body = Document, content_type = "application/problem+json"),
        (status = 403, body = Document, content_type = "application/problem+json"),
        (status = 409, body = Document, content_type = "application/problem+json"),
        (status = 413, body = Document, content_type = "application/problem+json"),
        (status = 415, body = Document, content_type = "application/problem+json"),
        (status = 422, body = Document, content_type = "application/problem+json"),
        (status = 503, body = Document, content_type = "application/problem+json"),
        (status = 507, body = Document, content_type = "application/problem+json"),
    ),
    security(("token" = [])))]
pub(in super::super) async fn put(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    steps: Result<Query<CoveredSteps>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ProblemAnswer> {
    caller.writes(&name)?;
    let info = app.service.stream(&name).ok_or_else(ProblemAnswer::no_stream)?;
    let Query(CoveredSteps { from, through, evidence }) = steps.map_err(|e| ProblemAnswer::bad(e.body_text()))?;
    let (format, incoming) = sent(&app, &headers, body)?;
    waiting(&app, Work::Body, move |app| {
        app.require_free_disk()?;
        let reader = incoming.open(&app.service.decoding())?;
        let range = SumsRange { steps: from..=through, before: 0, evidence };
        let (info, taken) = app.extensions.accept_sums(&app.service, info, range, (format, reader))?;
        let stream = info.name().to_owned();
        Ok(Json(TakenSums { stream, through: taken.through, rows: taken.rows, repeated: taken.repeated }))
    })
    .await
}

/// Everything that an external counter needs to know: none of it is secret.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct SumsDeclaration {
    /// The declaration, with the names of configuration files.
    declaration: serde_json::Value,
    /// The plan, as JSON.
    #[schema(value_type = Object)]
    plan: evertally::plan::Plan,
    /// The digest of both, in hexadecimal.
    digest: String,
    /// Who closes its steps.
    closing: String,
    /// The column with the ids of its rows, if rows are counted once by their id.
    id: Option<String>,
}

/// The declaration and plan of a stream, for its writers.
#[utoipa::path(get, path = "/v1/streams/{stream}/declaration", tag = "writing",
    params(("stream" = String, Path)), responses(
    (status = 200, body = SumsDeclaration),
    (status = 404, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn declaration(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, ProblemAnswer> {
    caller.writes(&name)?;
    let info = app.service.stream(&name).ok_or_else(ProblemAnswer::no_stream)?;
    waiting(&app, Work::Quick, move |_| {
        let record = info.record();
        let digest = blake3::Hash::from_bytes(info.stream.plan_digest()).to_hex().to_string();
        let declaration = serde_json::from_str(&record.declaration).expect("it was read as JSON");
        let (plan, closing) = (info.stream.plan.clone(), record.closing.word().to_owned());
        Ok(Json(SumsDeclaration { declaration, plan, digest, closing, id: record.id }))
    })
    .await
}
