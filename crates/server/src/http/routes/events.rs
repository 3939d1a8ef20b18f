//! Batches of events.

use super::super::app::{App, Caller};
use super::super::body::{BodyLimits, Incoming, sha256_of};
use super::super::body_fault::Coding;
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use evertally_declare::format::Format;
use evertally_declare::header_text::is_batch_id;
use evertally_declare::words::any_of;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The receipt of an accepted batch: it is durable.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct ReceiptAnswer {
    /// The id chosen by the client.
    batch: String,
    /// The number of its rows.
    rows: u64,
    /// Whether it had been accepted before.
    repeated: bool,
    /// The keyed digest of its bytes, in hexadecimal.
    digest: String,
}

/// Accepts a batch of events completely or not at all. Repeating the same id with the same bytes gives the same answer.
#[utoipa::path(post, path = "/v1/streams/{stream}/events", tag = "writing",
    params(
        ("stream" = String, Path),
        ("Idempotency-Key" = String, Header, description = "An id of your choice, of 1 to 200 visible ASCII \
            characters."),
        ("Content-Digest" = Option<String>, Header, description = "`sha-256=:BASE64:` of the body, which is checked."),
    ),
    request_body(
        description = "Rows with the declared columns, optionally compressed with gzip or zstd.",
        content = String, content_type = "*/*",
    ),
    responses(
        (status = 200, body = ReceiptAnswer),
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
pub(in super::super) async fn take(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ProblemAnswer> {
    caller.writes(&name)?;
    let info = app.service.stream(&name).ok_or_else(ProblemAnswer::no_stream)?;
    let id = id_of(&headers)?;
    let (format, incoming) = sent(&app, &headers, body)?;
    waiting(&app, Work::Body, move |app| {
        app.require_free_disk()?;
        let reader = incoming.open(&app.service.decoding())?;
        let receipt = app.service.accept(&info, &id, (format, reader))?;
        let digest = blake3::Hash::from_bytes(receipt.digest).to_hex().to_string();
        Ok(Json(ReceiptAnswer { batch: receipt.batch, rows: receipt.rows, repeated: receipt.repeated, digest }))
    })
    .await
}

/// The format of a request's rows, and its body.
pub(super) fn sent(app: &App, headers: &HeaderMap, body: Body) -> Result<(Format, Incoming), ProblemAnswer> {
    let format = format_of(headers)?;
    let sha256 =
        headers.get("content-digest").and_then(|text| text.to_str().ok()).map(sha256_of).transpose()?.flatten();
    let limits = &app.settings().limits;
    let (bytes, decoded) = (limits.body_bytes, limits.decoded_bytes);
    let expected = BodyLimits { coding: coding_of(headers)?, bytes, decoded, sha256 };
    Ok((format, Incoming::new(body, expected)))
}

fn id_of(headers: &HeaderMap) -> Result<String, ProblemAnswer> {
    let id = headers.get("idempotency-key").and_then(|id| id.to_str().ok()).unwrap_or("");
    if is_batch_id(id) {
        return Ok(id.to_owned());
    }
    Err(ProblemAnswer::bad(
        "every batch needs its own id: send `Idempotency-Key: ID` with 1 to 200 visible ASCII characters, and the same \
         one when you send the batch again",
    ))
}

/// Media types have no case (RFC 9110, section 8.3.1).
fn format_of(headers: &HeaderMap) -> Result<Format, ProblemAnswer> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("").to_ascii_lowercase();
    Format::from_request_type(kind.split(';').next().unwrap_or("").trim()).ok_or_else(|| {
        let types = Format::ALL.into_iter().filter(|format| format.is_for_requests()).map(Format::media_type);
        ProblemAnswer::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "format", "No such format")
            .because(format!("send Content-Type: {}", any_of(types)))
    })
}

/// Codings have no case, and `x-gzip` is gzip (RFC 9110, section 8.4.1).
fn coding_of(headers: &HeaderMap) -> Result<Coding, ProblemAnswer> {
    let coding = headers.get(CONTENT_ENCODING).map(|coding| coding.as_bytes().trim_ascii().to_ascii_lowercase());
    match coding.as_deref() {
        None | Some(b"" | b"identity") => Ok(Coding::None),
        Some(b"gzip" | b"x-gzip") => Ok(Coding::Gzip),
        Some(b"zstd") => Ok(Coding::Zstd),
        Some(_) => Err(ProblemAnswer::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "coding", "No such compression")
            .because("compress with gzip or zstd and set Content-Encoding, or do not compress")),
    }
}
