//! Problems of requests, as defined in [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457).

use super::body_fault::Exceeded;
use crate::engine::{Refusal, RowProblem};
use axum::extract::RawQuery;
use axum::extract::rejection::JsonRejection;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use evertally_declare::error::{InputError, PipelineError, Unreadable};
use evertally_declare::problem::Wording;
use serde::Serialize;
use utoipa::ToSchema;

/// A problem document.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Document {
    /// The kind of problem: `urn:evertally:problem:` and a word.
    #[serde(rename = "type")]
    kind: String,
    /// The kind, in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// The cause, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The problems of rows of a batch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<RowError>,
    /// The number of rows of the batch that was accepted under the same id.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_rows: Option<u64>,
    /// The position in the source up to which its rows were accepted; null if none were.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<Option<String>>,
    /// The first row of the part that is not open yet: the rows before it can be sent now. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    before_row: Option<u64>,
    /// The number of further rows with problems.
    #[serde(skip_serializing_if = "is_zero")]
    more: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The problem of a row.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RowError {
    /// The line of a text, including its header, or the row of a table; from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<u64>,
    /// The column.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The problem.
    problem: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// A problem as an answer.
#[derive(Clone, Debug)]
pub(super) struct ProblemAnswer {
    status: StatusCode,
    document: Box<Document>,
    retry_after: Option<u32>,
    /// Whether a missing token may also be sent as a password.
    accepts_password: bool,
}

impl ProblemAnswer {
    pub(super) fn new(status: StatusCode, word: &str, title: &str) -> Self {
        let kind = format!("urn:evertally:problem:{word}");
        let document = Document {
            kind,
            title: title.to_owned(),
            status: status.as_u16(),
            detail: None,
            errors: Vec::new(),
            taken_rows: None,
            position: None,
            before_row: None,
            more: 0,
        };
        Self { status, document: Box::new(document), retry_after: None, accepts_password: false }
    }

    #[cfg(test)]
    pub(super) fn document(&self) -> &Document {
        &self.document
    }

    /// The kind of problem in one word.
    pub(super) fn word(&self) -> &str {
        self.document.kind.rsplit(':').next().unwrap_or_default()
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// The same with another status.
    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self.document.status = status.as_u16();
        self
    }

    /// The problem as one text, without the problems of rows beyond the first.
    pub(super) fn text(&self) -> String {
        let Document { title, detail, errors, .. } = &*self.document;
        let mut text = detail.as_ref().map_or(title.clone(), |detail| format!("{title}: {detail}"));
        if let Some(RowError { row, field, problem, .. }) = errors.first() {
            let row = row.map(|row| format!("; row {row}")).unwrap_or_default();
            let field = field.as_ref().map(|field| format!(", {field}")).unwrap_or_default();
            text.push_str(&format!("{row}{field}: {problem}"));
        }
        text
    }

    pub(super) fn because(mut self, detail: impl Into<String>) -> Self {
        self.document.detail = Some(detail.into());
        self
    }

    pub(super) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The same for a path to which no browser sends anything by itself: clients that send a password only if they are
    /// asked for one are asked.
    pub(super) fn or_password(self) -> Self {
        Self { accepts_password: true, ..self }
    }

    pub(super) fn no_stream() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no-stream", "No such stream")
            .because("there is no stream with this name that you may read; a token may give access to more")
    }

    pub(super) fn no_page() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no-page", "There is nothing here")
            .because("the service has no such path; /openapi.json lists all paths")
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "A token is needed")
            .because("send `Authorization: Bearer TOKEN` with a token that is valid")
    }

    /// For a caller with a certificate that has no role.
    pub(super) fn unnamed_certificate() -> Self {
        Self::unauthorized().because(
            "your certificate is valid, but no [[client]] of the service names it; ask the operator for one, or send \
             `Authorization: Bearer TOKEN`",
        )
    }

    pub(super) fn no_keys() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no-keys", "The token cannot be checked now")
            .because(
                "the key of the token is not known yet: the service asks the issuer for new keys at most once a \
                 minute; send the request again later",
            )
            .retry_after(5)
    }

    pub(super) fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not for this token")
            .because("the token is valid, but does not allow this; ask the operator for one that does")
    }

    /// For a caller who is known by a certificate.
    pub(super) fn forbidden_certificate() -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not for this certificate").because(
            "your certificate is valid, but the roles of its [[client]] do not allow this; ask the operator for \
             another role",
        )
    }

    /// Refuses the query of a request that has no parameters: a caller who adds, say, `dry-run=true` expects that it is
    /// heeded.
    pub(super) fn check_no_query(RawQuery(query): &RawQuery) -> Result<(), Self> {
        match query.as_deref() {
            None | Some("") => Ok(()),
            Some(query) => Err(Self::bad(format!("unexpected query `{query}`: this request has no parameters"))),
        }
    }

    pub(super) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "Invalid request").because(detail)
    }

    pub(super) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Too large").because(detail)
    }

    /// For a body of JSON that cannot be used.
    pub(super) fn bad_json(rejection: &JsonRejection) -> Self {
        let detail = rejection.body_text();
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Self::too_large(detail),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "format", "Unknown format").because(detail)
            }
            _ => Self::bad(detail),
        }
    }

    pub(super) fn damaged(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "damaged", "The body cannot be read").because(detail)
    }

    /// From an error: the caller sees the details of errors that they can correct; other errors are only logged.
    pub(super) fn from_error(error: &PipelineError) -> Self {
        if let Some(limit) = error.io().and_then(Exceeded::new) {
            return limit.into();
        }
        match error.input().and_then(InputError::unreadable) {
            Some(Unreadable::Damaged) => return Self::damaged(error.worded(Wording::Json)),
            Some(Unreadable::TooLarge) => return Self::too_large(too_much(error)),
            None => {}
        }
        if error.is_usage() {
            return Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", "This cannot be done")
                .because(error.worded(Wording::Json));
        }
        tracing::error!(error = %error, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "Something went wrong here")
            .because("the operator can see the error in the log")
    }
}

/// The problem of a batch that exceeds its memory: the limit is the operator's setting, not part of the text.
fn too_much(error: &PipelineError) -> String {
    let input = error.input().map(|input| format!("{}: {}", input.file(), input.problem().worded(Wording::Json)));
    let what = input.unwrap_or_else(|| error.worded(Wording::Json));
    format!("{what}; send it in parts, or with smaller pages and record batches")
}

impl From<Exceeded> for ProblemAnswer {
    fn from(limit: Exceeded) -> Self {
        match limit {
            Exceeded::Bytes(_) | Exceeded::Decoded(_) => Self::too_large(limit.to_string()),
            Exceeded::Slow => Self::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "Too slow").because(limit.to_string()),
            Exceeded::Damaged(_) => Self::damaged(limit.to_string()),
            Exceeded::Digest | Exceeded::Cut => Self::bad(limit.to_string()),
        }
    }
}

impl From<Refusal> for ProblemAnswer {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            Refusal::Rows { rows, more } => {
                let problem =
                    Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-rows", "Rows of the batch cannot be accepted");
                let mut problem = problem.because(detail);
                let error = |RowProblem { row, field, problem, remedy }| RowError { row, field, problem, remedy };
                problem.document.errors = rows.into_iter().map(error).collect();
                problem.document.more = more;
                problem
            }
            Refusal::Differs(rows) => {
                let problem = Self::new(StatusCode::CONFLICT, "batch-differs", "Another batch has this id");
                let mut problem = problem.because(detail);
                problem.document.taken_rows = Some(rows);
                problem
            }
            Refusal::Elsewhere(position) => {
                let mut problem = Self::new(StatusCode::CONFLICT, "other-position", "Other rows of the source follow")
                    .because(detail);
                problem.document.position = Some(position);
                problem
            }
            Refusal::Conflict(_) => {
                Self::new(StatusCode::CONFLICT, "sums-differ", "These sums cannot follow").because(detail)
            }
            Refusal::NoStream => Self::no_stream(),
            Refusal::WrongStep(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", "This cannot be done").because(detail)
            }
            Refusal::ReadOnly(_) => {
                Self::new(StatusCode::FORBIDDEN, "read-only", "Nothing is accepted").because(detail)
            }
            Refusal::NotOpen { wait, row, .. } => {
                let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-open", "The next part is not open yet");
                let mut problem = problem.because(detail).retry_after(wait);
                problem.document.before_row = row;
                problem
            }
            Refusal::Halted(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "halted", "The service has halted")
                .because(detail)
                .retry_after(60),
            Refusal::Busy => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Overloaded").because(detail).retry_after(1)
            }
            Refusal::Stopping => Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "The service shuts down")
                .because(detail)
                .retry_after(5),
            Refusal::TooManyIds(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-ids", "Too many ids of rows")
                    .because(detail)
                    .retry_after(60)
            }
            Refusal::DiskFull(_) => Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk-full", "The disk is full")
                .because(detail)
                .retry_after(60),
            Refusal::Other(error) => Self::from_error(&error),
        }
    }
}

impl From<PipelineError> for ProblemAnswer {
    fn from(error: PipelineError) -> Self {
        Self::from_error(&error)
    }
}

/// The most bytes of a refusal that become the detail of a problem.
const MAX_DETAIL_BYTES: usize = 4096;

/// Makes a refusal of a library, such as a path or a query that cannot be read, a problem document.
pub(super) async fn with_document(response: Response) -> Response {
    let (status, kind) = (response.status(), response.headers().get(CONTENT_TYPE));
    let is_refusal = status.is_client_error() || status.is_server_error();
    if !is_refusal || kind.is_some_and(|kind| kind.as_bytes() == PROBLEM.as_bytes()) {
        return response;
    }
    // A problem in the encoding of another protocol.
    if response.extensions().get::<ProblemKind>().is_some() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, MAX_DETAIL_BYTES).await.unwrap_or_default();
    let title = status.canonical_reason().unwrap_or("Refused");
    let mut problem = ProblemAnswer::new(status, &title.to_ascii_lowercase().replace(' ', "-"), title);
    // The cause of an error of the service is in its log only.
    if let Some(detail) = std::str::from_utf8(&bytes).ok().filter(|text| status.is_client_error() && !text.is_empty()) {
        problem = problem.because(detail);
    }
    let mut answer = problem.into_response();
    for (name, value) in &parts.headers {
        if ![CONTENT_TYPE, CONTENT_LENGTH].contains(name) {
            answer.headers_mut().append(name, value.clone());
        }
    }
    answer
}

/// The media type of problem documents.
const PROBLEM: &str = "application/problem+json";

/// The kind of problem of an answer, for counting.
#[derive(Clone, Debug)]
pub(super) struct ProblemKind(pub(super) String);

impl IntoResponse for ProblemAnswer {
    fn into_response(self) -> Response {
        let kind = self.document.kind.rsplit(':').next().unwrap_or_default().to_owned();
        let body = serde_json::to_vec(&*self.document).expect("a document is plain data");
        let mut response = (self.status, body).into_response();
        response.extensions_mut().insert(ProblemKind(kind));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            if self.accepts_password {
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"evertally\""));
            }
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
