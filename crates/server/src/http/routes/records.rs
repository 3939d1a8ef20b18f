//! Log records in the protocols of OpenTelemetry and Loki.

use super::super::app::{App, Caller};
use super::super::body::{BodyLimits, Incoming};
use super::super::problem::{Document, ProblemAnswer};
use super::super::records::{RowBuffer, ToRows, charge_parsing, from_loki, from_otlp};
use super::super::threads::Work;
use super::super::work::waiting;
use super::events::{coding_of, named_id};
use crate::engine::BatchId;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use evertally_declare::error::PipelineError;
use evertally_declare::format::Format;
use std::io::{Cursor, Read};
use std::sync::Arc;

/// The most bytes of a request after decompression: it is converted in memory.
const MAX_BYTES: u64 = 8 << 20;

/// Bytes that are read before their memory is charged.
const PIECE: u64 = 64 << 10;

/// Accepts log records of an OpenTelemetry exporter (OTLP/HTTP with JSON encoding) completely or not at all. Columns:
/// `time`, `observed_time`, `severity`, `severity_number`, `event_name`, `body`, `trace_id`, `span_id`, `scope`, and
/// `attributes.KEY` and `resource.KEY` for each attribute. Without an `Idempotency-Key`, the digest of the records is
/// the id of the batch.
#[utoipa::path(post, path = "/v1/streams/{stream}/otlp/v1/logs", tag = "writing",
    params(("stream" = String, Path)),
    request_body(description = "An ExportLogsServiceRequest in JSON, optionally compressed with gzip or zstd.",
                 content = Object, content_type = "application/json"),
    responses(
        (status = 200, description = "All records are durable.", body = Object),
        (status = 400, body = Document, content_type = "application/problem+json"),
        (status = 403, body = Document, content_type = "application/problem+json"),
        (status = 409, body = Document, content_type = "application/problem+json"),
        (status = 413, body = Document, content_type = "application/problem+json"),
        (status = 415, body = Document, content_type = "application/problem+json"),
        (status = 422, body = Document, content_type = "application/problem+json"),
        (status = 503, body = Document, content_type = "application/problem+json"),
    ),
    security(("token" = [])))]
pub(in super::super) async fn otlp(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ProblemAnswer> {
    let accepted = || Json(serde_json::json!({})).into_response();
    take((app, caller, name), &headers, body, from_otlp, accepted).await
}

/// Accepts log lines of a client of Loki (JSON encoding) completely or not at all. Columns: `time`, `line`, and
/// `labels.KEY` and `metadata.KEY` for each label and each part of the structured metadata. Without an
/// `Idempotency-Key`, the digest of the lines is the id of the batch.
#[utoipa::path(post, path = "/v1/streams/{stream}/loki/api/v1/push", tag = "writing",
    params(("stream" = String, Path)),
    request_body(description = "A push request of Loki in JSON, optionally compressed with gzip or zstd.",
                 content = Object, content_type = "application/json"),
    responses(
        (status = 204, description = "All lines are durable."),
        (status = 400, body = Document, content_type = "application/problem+json"),
        (status = 403, body = Document, content_type = "application/problem+json"),
        (status = 409, body = Document, content_type = "application/problem+json"),
        (status = 413, body = Document, content_type = "application/problem+json"),
        (status = 415, body = Document, content_type = "application/problem+json"),
        (status = 422, body = Document, content_type = "application/problem+json"),
        (status = 503, body = Document, content_type = "application/problem+json"),
    ),
    security(("token" = [])))]
pub(in super::super) async fn loki(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ProblemAnswer> {
    take((app, caller, name), &headers, body, from_loki, || StatusCode::NO_CONTENT.into_response()).await
}

async fn take(
    (app, caller, name): (Arc<App>, Caller, String),
    headers: &HeaderMap,
    body: Body,
    to_rows: ToRows,
    accepted: impl Fn() -> Response + Send + 'static,
) -> Result<Response, ProblemAnswer> {
    caller.writes(&name).map_err(ProblemAnswer::or_password)?;
    let info = app.service.stream(&name).ok_or_else(ProblemAnswer::no_stream)?;
    let id = if headers.contains_key("idempotency-key") { named_id(headers)? } else { BatchId::Content };
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    if !kind.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json") {
        return Err(ProblemAnswer::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "format", "No such format").because(
            "only the JSON encoding of this protocol is read: set the exporter's encoding to json, which sends \
             Content-Type: application/json",
        ));
    }
    let limits = &app.settings().limits;
    let (bytes, decoded) = (limits.body_bytes.min(MAX_BYTES), limits.decoded_bytes.min(MAX_BYTES));
    let incoming = Incoming::new(body, BodyLimits { coding: coding_of(headers)?, bytes, decoded, sha256: None });
    waiting(&app, Work::Body, move |app| {
        app.require_free_disk()?;
        let decoding = app.service.decoding();
        let (mut reader, mut memory, mut request) = (incoming.open(&decoding)?, decoding.share(0)?, Vec::new());
        loop {
            let read = (&mut reader).take(PIECE).read_to_end(&mut request).map_err(PipelineError::from)?;
            memory.use_more(read as u64)?;
            if read == 0 {
                break;
            }
        }
        charge_parsing(&request, &mut memory)?;
        let mut rows = RowBuffer::new(&mut memory);
        to_rows(&request, &mut rows)?;
        let rows = rows.into_rows();
        app.service.accept(&info, id, (Format::JsonLines, Box::new(Cursor::new(rows))))?;
        Ok(accepted())
    })
    .await
}
