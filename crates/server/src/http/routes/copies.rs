//! Copies of streams, for replicas.

use super::super::app::{App, Caller};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// What the replica has.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Known {
    /// The last publication that it has.
    #[serde(default)]
    after: u64,
    /// The number of names of lines that it has.
    #[serde(default)]
    names: u32,
}

/// A stream as a replica stores it: the declaration, and the rows of publications after one. Only programs of the same
/// version read it.
#[utoipa::path(get, path = "/v1/streams/{stream}/copy", tag = "reading", params(("stream" = String, Path), Known),
    responses(
    (status = 200, description = "A part of the stream.", body = String, content_type = "application/octet-stream"),
    (status = 404, body = Document, content_type = "application/problem+json"),
))]
pub(in super::super) async fn copy(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    known: Result<Query<Known>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, ProblemAnswer> {
    let info = app.readable(&name, &caller)?;
    let Query(known) = known.map_err(|error| ProblemAnswer::bad(error.body_text()))?;
    waiting(&app, Work::Rows, move |app| {
        let copy = app.service.copy_of(&info, known.after, known.names as usize)?;
        let own = [(CONTENT_TYPE, "application/octet-stream"), (CACHE_CONTROL, "no-cache")];
        Ok((own, copy.to_bytes()?))
    })
    .await
}
