//! Late events that were set aside, for operators: they are exact data.

use super::super::app::{App, Caller};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// About the most events in one answer.
const MAX_EVENTS: usize = 100_000;

/// The position to continue from.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct LateQuery {
    /// The number of the last batch that you have, from the previous answer.
    #[serde(default)]
    behind: u64,
}

/// Late events of some batches.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct LateEvents {
    stream: String,
    /// The events as they were sent: one text per declared column.
    events: Vec<LateRow>,
    /// The position to continue from; `null` if there are no more.
    behind: Option<u64>,
}

/// A late event.
#[derive(Serialize, ToSchema)]
#[schema(value_type = Object)]
struct LateRow(Map<String, Value>);

/// Late events that were set aside, in the order of arrival.
#[utoipa::path(get, path = "/v1/streams/{stream}/late", tag = "operating",
    params(("stream" = String, Path), LateQuery), responses(
    (status = 200, body = LateEvents),
    (status = 404, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn late(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    query: Result<Query<LateQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, ProblemAnswer> {
    caller.operates_stream(&name)?;
    let Query(LateQuery { behind }) = query.map_err(|e| ProblemAnswer::bad(e.body_text()))?;
    waiting(&app, Work::Rows, move |app| {
        let info = app.service.stream(&name).ok_or_else(ProblemAnswer::no_stream)?;
        let (rows, behind) = app.service.late(&info, behind, MAX_EVENTS)?;
        let columns = &info.stream.columns;
        let names: Vec<&String> = columns.in_order().collect();
        let row = |texts: Vec<String>| {
            LateRow(names.iter().map(|name| (*name).clone()).zip(texts.into_iter().map(Value::String)).collect())
        };
        Ok(Json(LateEvents { stream: name, events: rows.into_iter().map(row).collect(), behind }))
    })
    .await
}
