//! Log records in the protocols of OpenTelemetry and Loki.

use super::super::app::{App, Caller};
use super::super::body::{BodyLimits, Incoming, decode_snappy};
use super::super::body_fault::Coding;
use super::super::problem::{Document, ProblemAnswer};
use super::super::records::{RowBuffer, ToRows, charge_parsing, from_loki, from_otlp, protobuf};
use super::super::threads::Work;
use super::super::work::waiting;
use super::events::{coding_of, named_id};
use crate::engine::BatchId;
use crate::extensions::SentBatch;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use evertally_declare::error::PipelineError;
use evertally_declare::format::Format;
use std::io::{Cursor, Read};
use std::sync::Arc;

/// The most bytes of a request after decompression: it is converted in memory.
const MAX_BYTES: u64 = 8 << 20;

/// Bytes that are read before their memory is charged.
const PIECE: u64 = 64 << 10;

/// A protocol of log records.
struct LogProtocol {
    json: ToRows,
    protobuf: ToRows,
    /// Whether the binary encoding is compressed with snappy, as a block without a frame.
    is_snappy: bool,
}

const OTLP: LogProtocol = LogProtocol { json: from_otlp, protobuf: protobuf::from_otlp, is_snappy: false };
const LOKI: LogProtocol = LogProtocol { json: from_loki, protobuf: protobuf::from_loki, is_snappy: true };

/// The encoding of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyEncoding {
    Json,
    Protobuf,
}

const PROTOBUF: &str = "application/x-protobuf";

/// Accepts log records of an OpenTelemetry exporter (OTLP/HTTP) completely or not at all. Columns:
/// `time`, `observed_time`, `severity`, `severity_number`, `event_name`, `body`, `trace_id`, `span_id`, `scope`, and
/// `attributes.KEY` and `resource.KEY` for each attribute. Without an `Idempotency-Key`, the digest of the records is
/// the id of the batch.
#[utoipa::path(post, path = "/v1/streams/{stream}/otlp/v1/logs", tag = "writing",
    params(("stream" = String, Path)),
    request_body(description = "An ExportLogsServiceRequest in JSON or protobuf (`application/x-protobuf`), optionally \
                 compressed with gzip or zstd. Answers have the same encoding.",
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
    let encoding = encoding_of(&headers);
    let accepted = move || match encoding {
        // The binary encoding of a response without fields is empty.
        Some(BodyEncoding::Protobuf) => ([(CONTENT_TYPE, PROTOBUF)], ()).into_response(),
        _ => Json(serde_json::json!({})).into_response(),
    };
    let answer = take((app, caller, name), &headers, body, &OTLP, accepted).await;
    // Of the statuses for errors of a server, exporters send again after this one, but not after 507.
    let answer = answer.map_err(|problem| match problem.status() {
        StatusCode::INSUFFICIENT_STORAGE => problem.with_status(StatusCode::SERVICE_UNAVAILABLE),
        _ => problem,
    });
    match answer {
        Err(problem) if encoding == Some(BodyEncoding::Protobuf) => Ok(status_of(problem)),
        answer => answer,
    }
}

/// A problem as the message `Status` of the protocol, whose field 2 is the text.
fn status_of(problem: ProblemAnswer) -> Response {
    let text = problem.text();
    let mut message = vec![0x12];
    let mut length = text.len();
    while length >= 0x80 {
        message.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8); // fits: less than 0x80
    message.extend(text.as_bytes());
    let (mut parts, _) = problem.into_response().into_parts();
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(message))
}

/// Accepts log lines of a client of Loki completely or not at all. Columns: `time`, `line`, and
/// `labels.KEY` and `metadata.KEY` for each label and each part of the structured metadata. Without an
/// `Idempotency-Key`, the digest of the lines is the id of the batch.
#[utoipa::path(post, path = "/v1/streams/{stream}/loki/api/v1/push", tag = "writing",
    params(("stream" = String, Path)),
    request_body(description = "A push request of Loki: in JSON, optionally compressed with gzip or zstd, or in \
                 protobuf (`application/x-protobuf`), always compressed with snappy.",
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
    take((app, caller, name), &headers, body, &LOKI, || StatusCode::NO_CONTENT.into_response()).await
}

/// The encoding of a request, if it is known.
fn encoding_of(headers: &HeaderMap) -> Option<BodyEncoding> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    match kind.split(';').next().unwrap_or("").trim() {
        kind if kind.eq_ignore_ascii_case("application/json") => Some(BodyEncoding::Json),
        kind if kind.eq_ignore_ascii_case(PROTOBUF) => Some(BodyEncoding::Protobuf),
        _ => None,
    }
}

async fn take(
    (app, caller, name): (Arc<App>, Caller, String),
    headers: &HeaderMap,
    body: Body,
    protocol: &'static LogProtocol,
    accepted: impl Fn() -> Response + Send + 'static,
) -> Result<Response, ProblemAnswer> {
    caller.writes(&name).map_err(ProblemAnswer::or_password)?;
    let info = app.service.stream(&name).ok_or_else(ProblemAnswer::no_stream)?;
    let id = if headers.contains_key("idempotency-key") { named_id(headers)? } else { BatchId::Content };
    let encoding = encoding_of(headers).ok_or_else(|| {
        ProblemAnswer::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "format", "No such format").because(
            "this protocol is read as Content-Type: application/json or application/x-protobuf; set the encoding of \
             the client to one of them",
        )
    })?;
    let is_snappy = protocol.is_snappy && encoding == BodyEncoding::Protobuf;
    // Some clients name this compression, and others do not.
    let is_named =
        headers.get(CONTENT_ENCODING).is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"snappy"));
    let coding = if is_snappy && is_named { Coding::None } else { coding_of(headers)? };
    let limits = &app.settings().limits;
    let (bytes, decoded) = (limits.body_bytes.min(MAX_BYTES), limits.decoded_bytes.min(MAX_BYTES));
    let incoming = Incoming::new(body, BodyLimits { coding, bytes, decoded, sha256: None });
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
        drop(reader); // its memory counts, too
        if is_snappy {
            request = decode_snappy(&request, decoded, &mut memory)?;
        }
        let to_rows = match encoding {
            BodyEncoding::Json => {
                charge_parsing(&request, &mut memory)?;
                protocol.json
            }
            BodyEncoding::Protobuf => protocol.protobuf,
        };
        let mut rows = RowBuffer::new(&mut memory);
        to_rows(&request, &mut rows)?;
        drop(request);
        let rows = rows.into_rows();
        let bytes = Box::new(Cursor::new(rows));
        let sent = SentBatch { id, open_step: None, format: Format::JsonLines, bytes };
        app.extensions.accept(&app.service, info, sent)?;
        Ok(accepted())
    })
    .await
}
