//! Batches of events.

use super::super::app::{App, Caller};
use super::super::body::{BodyLimits, Incoming, sha256_of};
use super::super::body_fault::Coding;
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use crate::engine::{BatchId, Receipt, SourceRange};
use crate::extensions::SentBatch;
use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use evertally_declare::format::Format;
use evertally_declare::header_text::is_batch_id;
use evertally_declare::words::any_of;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// The receipt of an accepted batch: it is durable.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct ReceiptAnswer {
    /// The stream that has accepted it: that of the request, or the one that continues it if all of its steps are
    /// closed.
    stream: String,
    /// Its id: the client's, or `content:` and a digest of its bytes, or its source, partition and position.
    batch: String,
    /// The number of its rows.
    rows: u64,
    /// How many of them were not counted, because rows with their ids had been counted in the same step.
    duplicates: u64,
    /// The step that was open. A client that keeps it can send the batch again with `open-step` after the service was
    /// restored from a copy.
    open_step: u64,
    /// Whether it had been accepted before.
    repeated: bool,
    /// The keyed digest of the declared columns of its rows, in hexadecimal. It does not depend on the format.
    digest: String,
}

/// The options of a batch.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[into_params(parameter_in = Query)]
pub(in super::super) struct BatchOptions {
    /// `content`: the id of the batch is the digest of its bytes after decompression, so that clients that cannot set a
    /// header deliver it once. Two batches with equal bytes are one batch.
    #[serde(default)]
    #[param(inline)]
    batch_id: Option<BatchIdSource>,
    /// The source of the rows, such as a topic or a file, instead of an id. Its positions are stored with its rows, and
    /// only rows that begin at the stored position are accepted.
    #[serde(default)]
    source: Option<String>,
    /// The partition of the source, if it has several, each with its own position.
    #[serde(default)]
    partition: Option<String>,
    /// The position before the rows, which is the stored one; omitted at the beginning.
    #[serde(default)]
    after: Option<String>,
    /// The position after the rows: a text of at most 4096 bytes that the service does not interpret.
    #[serde(default)]
    position: Option<String>,
    /// The step that was open when the batch was accepted before the service was restored from an older copy, from its
    /// receipt: so that late rows are treated as they were then.
    #[serde(default)]
    open_step: Option<u64>,
}

/// The source of the id of a batch.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum BatchIdSource {
    /// The bytes of the batch.
    Content,
}

/// Accepts a batch of events completely or not at all. Repeating the same id with the same rows gives the same answer.
#[utoipa::path(post, path = "/v1/streams/{stream}/events", tag = "writing",
    params(
        ("stream" = String, Path),
        BatchOptions,
        ("Idempotency-Key" = Option<String>, Header, description = "An id of your choice, of 1 to 200 visible ASCII \
            characters. It is required unless `batch-id` or `source` is set."),
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
    options: Result<Query<BatchOptions>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ProblemAnswer> {
    caller.writes(&name).map_err(ProblemAnswer::or_password)?;
    let info = app.service.stream(&name).ok_or_else(ProblemAnswer::no_stream)?;
    let Query(options) = options.map_err(|e| ProblemAnswer::bad(e.body_text()))?;
    let open_step = options.open_step;
    let id = id_of(options, &headers)?;
    let (format, incoming) = sent(&app, &headers, body)?;
    waiting(&app, Work::Body, move |app| {
        app.require_free_disk()?;
        let bytes = incoming.open(&app.service.decoding())?;
        let sent = SentBatch { id, open_step, format, bytes };
        let (info, receipt) = app.extensions.accept(&app.service, info, sent)?;
        let stream = info.name().to_owned();
        let digest = blake3::Hash::from_bytes(receipt.digest).to_hex().to_string();
        let Receipt { batch, rows, duplicates, open_step, repeated, .. } = receipt;
        Ok(Json(ReceiptAnswer { stream, batch, rows, duplicates, open_step, repeated, digest }))
    })
    .await
}

/// The source whose positions are asked for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct OfSource {
    /// Its name.
    source: String,
}

/// Up to where a source was accepted.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct SourcePositions {
    /// The name of the source.
    source: String,
    /// The position of each partition, by its name; the only partition of a source has the name ``.
    positions: BTreeMap<String, String>,
}

/// Lists up to where the rows of a source were accepted.
#[utoipa::path(get, path = "/v1/streams/{stream}/positions", tag = "writing",
    params(("stream" = String, Path), OfSource),
    responses(
        (status = 200, body = SourcePositions),
        (status = 400, body = Document, content_type = "application/problem+json"),
        (status = 403, body = Document, content_type = "application/problem+json"),
    ),
    security(("token" = [])))]
pub(in super::super) async fn positions(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    options: Result<Query<OfSource>, QueryRejection>,
) -> Result<Response, ProblemAnswer> {
    caller.writes(&name)?;
    let Query(OfSource { source }) = options.map_err(|e| ProblemAnswer::bad(e.body_text()))?;
    waiting(&app, Work::Engine, move |app| {
        let asked = source.clone();
        let positions = app.service.ask(move |core| core.positions(&name, &asked))?;
        Ok(Json(SourcePositions { source, positions }))
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

fn id_of(options: BatchOptions, headers: &HeaderMap) -> Result<BatchId, ProblemAnswer> {
    let BatchOptions { batch_id, source, partition, after, position, .. } = options;
    if source.is_none() && (partition.is_some() || after.is_some() || position.is_some()) {
        return Err(ProblemAnswer::bad("`partition`, `after` and `position` are places in a `source`: name it, too"));
    }
    match (batch_id, source, headers.contains_key("idempotency-key")) {
        (None, None, _) => named_id(headers),
        (Some(BatchIdSource::Content), None, false) => Ok(BatchId::Content),
        (None, Some(source), false) => {
            let (partition, position) = (partition.unwrap_or_default(), position.unwrap_or_default());
            let range = SourceRange::new(&source, &partition, after.as_deref(), &position)?;
            Ok(BatchId::Source(Box::new(range)))
        }
        _ => Err(ProblemAnswer::bad(
            "a batch has one id: send `Idempotency-Key`, or `batch-id=content`, or `source` and `position`",
        )),
    }
}

/// The id in the header.
pub(super) fn named_id(headers: &HeaderMap) -> Result<BatchId, ProblemAnswer> {
    let id = headers.get("idempotency-key").and_then(|id| id.to_str().ok()).unwrap_or("");
    if is_batch_id(id) {
        return Ok(BatchId::from(id));
    }
    Err(ProblemAnswer::bad(
        "every batch needs its own id: send `Idempotency-Key: ID` with 1 to 200 visible ASCII characters, and the same \
         one when you send the batch again. Clients that cannot do so may write `?batch-id=content` after the address",
    ))
}

/// Further media types of JSON: clients use them for lines, for arrays and for single objects alike, and the reader
/// finds out which it is.
const JSON_TYPES: [&str; 4] =
    ["application/json", "application/ndjson", "application/x-jsonlines", "application/json-lines"];

/// Media types and the names of their parameters have no case (RFC 9110, section 8.3.1).
fn format_of(headers: &HeaderMap) -> Result<Format, ProblemAnswer> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("").to_ascii_lowercase();
    let (kind, parameters) = kind.split_once(';').unwrap_or((&kind, ""));
    let unsupported = || ProblemAnswer::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "format", "No such format");
    let format = match kind.trim() {
        kind if JSON_TYPES.contains(&kind) => Some(Format::JsonLines),
        kind => Format::from_request_type(kind),
    };
    let Some(format) = format else {
        let types = Format::ALL.into_iter().filter(|format| format.is_for_requests()).map(Format::media_type);
        let types = any_of(["application/json"].into_iter().chain(types));
        return Err(unsupported().because(format!("send Content-Type: {types}")));
    };
    // RFC 4180, section 3.
    if format == Format::Csv && parameters.split(';').any(|parameter| parameter.trim() == "header=absent") {
        return Err(unsupported().because("CSV without a header is not read: send the names of the columns first"));
    }
    Ok(format)
}

/// Codings have no case, and `x-gzip` is gzip (RFC 9110, section 8.4.1).
pub(super) fn coding_of(headers: &HeaderMap) -> Result<Coding, ProblemAnswer> {
    let coding = headers.get(CONTENT_ENCODING).map(|coding| coding.as_bytes().trim_ascii().to_ascii_lowercase());
    match coding.as_deref() {
        None | Some(b"" | b"identity") => Ok(Coding::None),
        Some(b"gzip" | b"x-gzip") => Ok(Coding::Gzip),
        Some(b"zstd") => Ok(Coding::Zstd),
        Some(_) => Err(ProblemAnswer::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "coding", "No such compression")
            .because("compress with gzip or zstd and set Content-Encoding, or do not compress")),
    }
}
