//! Sums of whole steps that were counted elsewhere.

use super::super::app::{App, Caller};
use super::super::problem::{Document, Problem};
use super::super::work::{Work, waiting};
use super::events::sent;
use crate::engine::Whole;
use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Which steps the sums are of.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Steps {
    /// The first step, from 1: at most the one behind the last that was taken.
    #[param(minimum = 1)]
    from: u64,
    /// The last step. Those of them without rows add nothing.
    #[param(minimum = 1)]
    through: u64,
    /// What stands for who was counted, where one step is sent: a text that means nothing here, of at most 200 bytes. The step is
    /// the same again only with the same.
    #[serde(default)]
    evidence: Option<String>,
}

/// What is said of sums that were taken: the steps are closed.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct TakenSums {
    /// The last step whose sums were taken.
    through: u64,
    /// How many rows were sent.
    rows: u64,
    /// Whether all of the steps were taken before.
    repeated: bool,
}

/// Takes what whole steps add to each group, as it was counted and bounded elsewhere, and publishes it: of streams with
/// `closing` = `sums`. A step is taken once. The same sums again are answered the same; others are refused.
#[utoipa::path(put, path = "/v1/streams/{stream}/sums", tag = "writing",
    params(
        ("stream" = String, Path),
        Steps,
        ("Content-Digest" = Option<String>, Header, description = "`sha-256=:BASE64:` of the body, which is checked."),
    ),
    request_body(description = "Rows with the declared group columns, `step` and `sum` (exact, in units of the data), also \
                                compressed with gzip or zstd.", content(
        (String = "application/x-ndjson"),
        (String = "text/csv"),
        (Vec<u8> = "application/vnd.apache.arrow.stream"),
        (Vec<u8> = "application/vnd.apache.parquet"),
    )),
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
    steps: Result<Query<Steps>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    caller.writes(&name)?;
    let info = app.service.stream(&name).ok_or_else(Problem::no_stream)?;
    let Query(Steps { from, through, evidence }) = steps.map_err(|e| Problem::bad(e.body_text()))?;
    let (format, incoming) = sent(&app, &headers, body)?;
    waiting(&app, Work::Body, move |app| {
        app.has_room()?;
        let reader = incoming.open(app.service.decoding())?;
        let taken = app.service.take_sums(&info, Whole { steps: from..=through, evidence }, (format, reader))?;
        Ok(Json(TakenSums { through: taken.through, rows: taken.rows, repeated: taken.repeated }))
    })
    .await
}

/// All that whoever counts elsewhere has to know: nothing of it is secret.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct Declared {
    /// The declaration, with the names of configuration files.
    declaration: serde_json::Value,
    /// The plan, as JSON.
    #[schema(value_type = Object)]
    plan: evertally::plan::Plan,
    /// Their digest, in hexadecimal.
    digest: String,
    /// Who closes its steps.
    closing: String,
}

/// How a stream is declared and planned, for whoever writes to it.
#[utoipa::path(get, path = "/v1/streams/{stream}/declaration", tag = "writing", params(("stream" = String, Path)), responses(
    (status = 200, body = Declared),
    (status = 404, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn declaration(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    caller.writes(&name)?;
    let info = app.service.stream(&name).ok_or_else(Problem::no_stream)?;
    waiting(&app, Work::Quick, move |_| {
        let record = info.record();
        let digest = blake3::Hash::from_bytes(info.stream.plan_digest()).to_hex().to_string();
        let declaration = serde_json::from_str(&record.declaration).expect("it was read as JSON");
        let (plan, closing) = (info.stream.plan.clone(), record.closing.word().to_owned());
        Ok(Json(Declared { declaration, plan, digest, closing }))
    })
    .await
}
