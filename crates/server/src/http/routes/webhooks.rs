//! Webhooks: accepted publications, and refused ones for an operator to settle.

use super::super::app::{App, Caller};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use super::audit::audited;
use crate::engine::DeadLetter;
use crate::webhook::{DeadLetterAction, WebhookState, WebhookStream};
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// All webhooks.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct WebhookList {
    webhooks: Vec<WebhookAnswer>,
}

/// A webhook.
#[derive(Serialize, ToSchema)]
struct WebhookAnswer {
    /// Its `name`; by default its URL without password and query.
    webhook: String,
    streams: Vec<WebhookStreamAnswer>,
}

/// The deliveries of a stream to a webhook.
#[derive(Serialize, ToSchema)]
struct WebhookStreamAnswer {
    stream: String,
    /// The last publication that was accepted or set aside; `null` before the first attempt.
    delivered: Option<u64>,
    /// The last publication shown.
    published: u64,
    /// Why the next one is not accepted, if so.
    problem: Option<String>,
    /// Publications whose content was refused for too long: they were set aside.
    dead_letters: Vec<DeadLetterAnswer>,
}

/// A publication that was set aside.
#[derive(Serialize, ToSchema)]
struct DeadLetterAnswer {
    publication: u64,
    /// The HTTP status of the last refusal.
    status: u16,
    /// When it was set aside.
    time: Option<String>,
}

impl From<WebhookState> for WebhookAnswer {
    fn from(state: WebhookState) -> Self {
        let letter = |DeadLetter { publication, status, at }| {
            let time = jiff::Timestamp::from_microsecond(at).ok().map(|time| time.to_string());
            DeadLetterAnswer { publication, status, time }
        };
        let stream = |WebhookStream { name, delivered, published, problem, dead }| WebhookStreamAnswer {
            stream: name,
            delivered,
            published,
            problem,
            dead_letters: dead.into_iter().map(letter).collect(),
        };
        Self { webhook: state.name, streams: state.streams.into_iter().map(stream).collect() }
    }
}

/// The webhooks and their deliveries.
#[utoipa::path(get, path = "/v1/webhooks", tag = "operating", responses(
    (status = 200, description = "All webhooks.", body = WebhookList),
    (status = 401, description = "A token is needed.", body = Document, content_type = "application/problem+json"),
    (status = 403, description = "Not for this token.", body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn webhooks(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, ProblemAnswer> {
    caller.monitors()?;
    waiting(&app, Work::Rows, move |app| {
        let states = app.webhooks.states(&app.service)?;
        Ok(Json(WebhookList { webhooks: states.into_iter().map(WebhookAnswer::from).collect() }))
    })
    .await
}

/// What to do with dead letters.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct DeadLetterRequest {
    /// The webhook, as `GET /v1/webhooks` names it.
    webhook: String,
    /// The stream.
    stream: String,
    /// The publication; all of the stream if omitted.
    #[serde(default)]
    publication: Option<u64>,
    /// `resend` sends them again, at most 100 at a time, and removes those that are accepted; `discard` removes them.
    action: ActionWord,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ActionWord {
    Resend,
    Discard,
}

/// The dead letters that are left.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct DeadLettersLeft {
    left: usize,
}

/// Sends publications again that a webhook has refused for too long, or discards them.
#[utoipa::path(post, path = "/v1/webhooks/dead-letters", tag = "operating", request_body = DeadLetterRequest, responses(
    (status = 200, description = "They were accepted, or discarded.", body = DeadLettersLeft),
    (status = 401, description = "A token is needed.", body = Document, content_type = "application/problem+json"),
    (status = 403, description = "Not for this token.", body = Document, content_type = "application/problem+json"),
    (status = 404, description = "No such stream.", body = Document, content_type = "application/problem+json"),
    (status = 422, description = "There are none, or the receiver refuses again.", body = Document,
        content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn dead_letters(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: RawQuery,
    body: Result<Json<DeadLetterRequest>, axum::extract::rejection::JsonRejection>,
) -> Result<Response, ProblemAnswer> {
    caller.operates()?;
    ProblemAnswer::check_no_query(&query)?;
    let Json(DeadLetterRequest { webhook, stream, publication, action }) =
        body.map_err(|e| ProblemAnswer::bad_json(&e))?;
    let (action, word) = match action {
        ActionWord::Resend => (DeadLetterAction::Resend, "resend-dead-letters"),
        ActionWord::Discard => (DeadLetterAction::Discard, "discard-dead-letters"),
    };
    audited(&app, &caller, word, stream.clone(), async {
        let info = app.service.stream(&stream).ok_or_else(ProblemAnswer::no_stream)?;
        waiting(&app, Work::Rows, move |app| {
            let left = app.webhooks.settle_dead_letters(&app.service, &webhook, &info, publication, action)?;
            Ok(Json(DeadLettersLeft { left }))
        })
        .await
    })
    .await
}
