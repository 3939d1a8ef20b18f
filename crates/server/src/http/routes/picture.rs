//! Pictures of released values.

use super::super::app::{App, Caller};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use super::releases::ReleasesQuery;
use crate::engine::{RowsQuery, StreamInfo};
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use evertally_declare::error::failure;
use evertally_declare::line::GroupLine;
use evertally_declare::stream::Coverage;
use evertally_plot::{Curve, MAX_SHOWN, Point, ReleasePlot, TimeLabels};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most points of a line.
const POINTS: u64 = 2000;

/// Pixels of a picture for each of its units.
const SCALE: f32 = 2.0;

/// A picture of released values with their intervals, as SVG.
#[utoipa::path(get, path = "/v1/streams/{stream}/picture.svg", tag = "reading",
    params(("stream" = String, Path)), responses(
    (status = 200, body = String, content_type = "image/svg+xml"),
    (status = 404, body = Document, content_type = "application/problem+json"),
))]
pub(in super::super) async fn svg(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ProblemAnswer> {
    let info = app.readable(&name, &caller)?;
    waiting(&app, Work::Report, move |app| {
        let svg = drawn(app, &info, query.as_deref())?;
        Ok(([(CONTENT_TYPE, "image/svg+xml"), (CACHE_CONTROL, "no-cache")], svg))
    })
    .await
}

/// A picture of released values with their intervals, as PNG.
#[utoipa::path(get, path = "/v1/streams/{stream}/picture.png", tag = "reading",
    params(("stream" = String, Path)), responses(
    (status = 200, body = Vec<u8>, content_type = "image/png"),
    (status = 404, body = Document, content_type = "application/problem+json"),
))]
pub(in super::super) async fn png(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ProblemAnswer> {
    let info = app.readable(&name, &caller)?;
    waiting(&app, Work::Report, move |app| {
        let svg = drawn(app, &info, query.as_deref())?;
        let bytes = evertally_plot::png(&svg, SCALE).map_err(|e| ProblemAnswer::from_error(&failure(e)))?;
        Ok(([(CONTENT_TYPE, "image/png"), (CACHE_CONTROL, "no-cache")], bytes))
    })
    .await
}

fn drawn(app: &App, info: &StreamInfo, query: Option<&str>) -> Result<String, ProblemAnswer> {
    let (mut wanted, _) = ReleasesQuery::read(query)?.of(info, u64::MAX)?;
    let places = wanted.places.take().unwrap_or_else(|| (0..info.line_count() as u32).collect()); // fits: places do
    wanted.places = Some(places.into_iter().take(MAX_SHOWN).collect());
    let count = (wanted.publications.end() + 1).saturating_sub(*wanted.publications.start());
    wanted.every = wanted.every.max(count.div_ceil(POINTS));
    plot(app, info, &wanted)?.svg().map_err(|_| nothing_yet())
}

fn plot(app: &App, info: &StreamInfo, wanted: &RowsQuery) -> Result<ReleasePlot, ProblemAnswer> {
    let (stream, report) = (&info.stream, info.report());
    let lines = stream.lines();
    let mut curves: BTreeMap<Vec<String>, Curve> = BTreeMap::new();
    app.service.rows(info, wanted, &mut |_, row| {
        if row.value.number.is_finite() {
            let names: Vec<String> = row.groups.iter().map(|text| (*text).to_owned()).collect();
            let line = lines.iter().find(|line| names.last() == Some(&line.label)).unwrap_or(&lines[0]);
            let curve = curves.entry(names).or_insert_with_key(|names| Curve {
                name: name_of(names, line),
                is_per_period: line.is_per_period,
                is_from_zero: line.is_from_zero,
                points: Vec::new(),
            });
            let at = line.seconds_in(row.span);
            let (value, lower, upper) = (row.value.number, row.lower, row.upper);
            curve.points.push(Point { at, value, lower, upper, truth: None });
        }
        Ok(())
    })?;
    Ok(ReleasePlot {
        title: stream.title.clone(),
        subtitle: report.headline(),
        y_label: stream.quantity_since(),
        footer: format!("{} {}", report.promise(), stream.points_in_words()),
        time_labels: TimeLabels::Calendar(stream.calendar.zone().time_zone().clone()),
        confidence: stream.confidence,
        at_once: stream.band == Coverage::Simultaneous,
        curves: curves.into_values().collect(),
        total_groups: info.line_count(),
        group_word: if stream.measures.is_some() { "line" } else { "group" },
        apart: stream.measures.is_some(),
        unsafe_truth: false,
    })
}

/// The name of a line for readers: its group, and its measure in words.
fn name_of(names: &[String], line: &GroupLine) -> String {
    let group = if line.label.is_empty() { names } else { &names[..names.len() - 1] };
    let title = (!line.title.is_empty()).then_some(&line.title);
    group.iter().chain(title).map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn nothing_yet() -> ProblemAnswer {
    ProblemAnswer::new(StatusCode::NOT_FOUND, "nothing-yet", "Nothing to draw yet")
        .because("there is no publication that could be drawn yet; try again after the next one")
}
