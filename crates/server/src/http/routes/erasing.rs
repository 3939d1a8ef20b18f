//! Erasing a person from the open steps of a stream.

use super::super::app::{App, Caller};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use super::audit::audited;
use crate::engine::PersonCell;
use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// The person to erase.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Erasure {
    /// The person as the rows name them: a text, a number or a boolean.
    person: Value,
}

/// The extent of an erasure. It is the same whether the person had events.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct ErasedPerson {
    stream: String,
    /// The first step without events of the person: the steps before it are closed, and hold noisy sums only.
    from_step: u64,
    /// Files of refused rows that the service does not change: look for the person in them.
    side_files: Vec<String>,
}

/// Erases a person's events from open steps, and their late rows that were set aside, as though they had never been
/// sent. Closed steps do not change. The person's name is written nowhere.
#[utoipa::path(post, path = "/v1/streams/{stream}/erase", tag = "operating",
    params(("stream" = String, Path)), request_body = Erasure, responses(
    (status = 200, description = "Nothing of the person is left in open steps.", body = ErasedPerson),
    (status = 404, body = Document, content_type = "application/problem+json"),
    (status = 422, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn erase(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    query: RawQuery,
    body: Result<Json<Erasure>, axum::extract::rejection::JsonRejection>,
) -> Result<Response, ProblemAnswer> {
    audited(&app, &caller, "erase", name.clone(), async {
        caller.operates_stream(&name)?;
        ProblemAnswer::check_no_query(&query)?;
        let Json(Erasure { person }) = body.map_err(|e| ProblemAnswer::bad_json(&e))?;
        let person = match &person {
            Value::String(text) => PersonCell::text(text),
            Value::Number(number) if number.is_f64() => {
                return Err(ProblemAnswer::bad("write a `person` that is a long or broken number as a text"));
            }
            Value::Number(number) => PersonCell::number(&number.to_string()),
            Value::Bool(is_true) => PersonCell::text(if *is_true { "true" } else { "false" }),
            _ => return Err(ProblemAnswer::bad("`person` must be a text, a number or a boolean")),
        };
        waiting(&app, Work::Engine, move |app| {
            let from_step = app.service.erase(&name, person)?;
            let asides = app.feeds.asides(&name).into_iter().chain(app.syslog.asides(&name));
            let side_files = asides.flat_map(|path| evertally_feeds::asides(&path));
            let side_files = side_files.map(|path| path.display().to_string()).collect();
            Ok(Json(ErasedPerson { stream: name, from_step, side_files }))
        })
        .await
    })
    .await
}
