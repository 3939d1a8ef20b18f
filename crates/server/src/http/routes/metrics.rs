//! Metrics for Prometheus: released values, and for operators the health of the service.

mod operating;
mod text;

use super::super::app::{App, Caller};
use super::super::problem::{Document, ProblemAnswer};
use super::super::readiness::ReplicaState;
use super::super::samples::{RELEASED, RELEASED_STEP, label_names, released_of};
use super::super::threads::Work;
use super::super::work::waiting;
use crate::engine::{RowsQuery, StreamInfo};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use std::sync::Arc;
use text::MetricsText;

/// The most lines of one stream; clients request further ones as releases.
const MAX_LINES: usize = 10_000;

/// The released values of public streams; nothing exact.
pub(super) async fn of_public(State(app): State<Arc<App>>) -> Result<Response, ProblemAnswer> {
    let streams = app.all_readable(&Caller::nobody());
    answer(&app, streams, false).await
}

/// The released values of all streams, and exact operational counts.
#[utoipa::path(get, path = "/metrics", tag = "operating", responses(
    (status = 200, body = String, content_type = "text/plain"),
    (status = 401, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn metrics(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, ProblemAnswer> {
    caller.monitors()?;
    let streams = app.service.streams();
    answer(&app, streams, true).await
}

async fn answer(app: &Arc<App>, streams: Vec<Arc<StreamInfo>>, with_counts: bool) -> Result<Response, ProblemAnswer> {
    let work = if with_counts { Work::Engine } else { Work::Rows };
    waiting(app, work, move |app| {
        let mut text = MetricsText::default();
        streams.iter().try_for_each(|info| released(&mut text, app, info))?;
        if let Some(lag) = app.readiness.replica().and_then(ReplicaState::lag) {
            let help = "How long the service that this replica follows has not answered.";
            text.add("evertally_replica_lag_seconds", help, &[], lag.as_secs_f64());
        }
        if with_counts {
            operating::add(&mut text, app, &streams)?;
        }
        let own = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"), (CACHE_CONTROL, "no-store")];
        Ok((own, text.finish()))
    })
    .await
}

/// The last released values of a stream.
fn released(text: &mut MetricsText, app: &App, info: &StreamInfo) -> Result<(), ProblemAnswer> {
    let last = info.progress().publications;
    if last == 0 {
        return Ok(());
    }
    let columns = label_names(info);
    let places = (info.line_count() > MAX_LINES).then(|| (0..MAX_LINES as u32).collect()); // fits: 10⁴
    let query = RowsQuery { places, ..RowsQuery::new(last..=last) };
    app.service.rows(info, &query, &mut |_, row| {
        if row.step != last + info.stream.steps_before() {
            return Ok(()); // an earlier step of a newly discovered group
        }
        let groups = columns.iter().map(String::as_str).zip(row.groups.iter().copied());
        let labels: Vec<(&str, &str)> = [("stream", info.name())].into_iter().chain(groups).collect();
        for ((name, help), value) in RELEASED.into_iter().zip(released_of(row)) {
            text.add(name, help, &labels, value);
        }
        Ok(())
    })?;
    let (labels, end) = ([("stream", info.name())], info.stream.rows().end_of(last).micros() as f64 / 1e6);
    let step = last + info.stream.steps_before();
    text.add(RELEASED_STEP, "The number of the last publication, as in its rows.", &labels, step as f64);
    text.add("evertally_released_time_seconds", "The end of its step.", &labels, end);
    Ok(())
}
