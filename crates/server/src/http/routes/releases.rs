//! Released rows, plans and reports.

use super::super::answers::Releases;
use super::super::app::{App, Caller};
use super::super::pieces::{AnswerPieces, PiecewiseBody};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use crate::engine::{RowsQuery, StreamInfo};
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use evertally_declare::error::Result as PublishResult;
use evertally_declare::format::Format;
use std::sync::Arc;

/// The number of publications in an answer to a request without a range.
const DEFAULT_PUBLICATIONS: u64 = 1000;

/// The most rows of one answer.
const MAX_ROWS: u64 = 2_000_000;
/// The most rows of an answer that is built in memory.
const MAX_ROWS_IN_MEMORY: u64 = 250_000;

/// The format of an answer: the requested one, or the first known media type that the reader accepts.
fn format_of(asked: Option<&str>, headers: &HeaderMap) -> Result<Format, ProblemAnswer> {
    if let Some(asked) = asked {
        return Format::from_word(asked).filter(|format| format.is_for_answers()).ok_or_else(|| {
            let words = Format::any_word_of(Format::is_for_answers);
            ProblemAnswer::bad(format!("`{asked}` is not a format: use {words}"))
        });
    }
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
    let mut types = accept.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim());
    Ok(types.find_map(Format::from_accept_type).unwrap_or(Format::Json))
}

/// The parameters of a request for releases.
#[derive(Debug, Default)]
pub(super) struct ReleasesQuery {
    from: Option<u64>,
    to: Option<u64>,
    every: Option<u64>,
    groups: Vec<String>,
    measures: Vec<String>,
    format: Option<String>,
}

impl ReleasesQuery {
    /// Reads a query; `group` and `measure` may be repeated.
    pub(super) fn read(query: Option<&str>) -> Result<Self, ProblemAnswer> {
        let mut asked = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or("").as_bytes()).into_owned() {
            let number = || {
                let number = value.parse().ok().filter(|number| *number > 0);
                number.ok_or_else(|| ProblemAnswer::bad(format!("`{name}={value}`: must be a whole number, from 1")))
            };
            match name.as_str() {
                "from" => asked.from = Some(number()?),
                "to" => asked.to = Some(number()?),
                "every" => asked.every = Some(number()?),
                "group" => asked.groups.push(value),
                "measure" | "workload" => asked.measures.push(value),
                "format" => asked.format = Some(value),
                _ => {
                    let problem = format!("unknown parameter `{name}`: use from, to, every, group, measure or format");
                    return Err(ProblemAnswer::bad(problem));
                }
            }
        }
        Ok(asked)
    }

    /// The query for a stream, and whether its answer never changes.
    pub(super) fn of(&self, info: &StreamInfo) -> Result<(RowsQuery, bool), ProblemAnswer> {
        let shown = info.progress().publications;
        let to = self.to.unwrap_or(shown);
        let from = self.from.unwrap_or(to.min(shown).saturating_sub(DEFAULT_PUBLICATIONS - 1).max(1));
        if from > to.max(1) {
            return Err(ProblemAnswer::bad(format!("`from` ({from}) is greater than `to` ({to})")));
        }
        let is_closed = self.to.is_some_and(|to| to <= shown) && self.from.is_some();
        let (publications, every) = (from..=to.min(shown), self.every.unwrap_or(1));
        Ok((RowsQuery { publications, places: self.places(info)?, every, kept: None }, is_closed))
    }

    fn places(&self, info: &StreamInfo) -> Result<Option<Vec<u32>>, ProblemAnswer> {
        if self.groups.is_empty() && self.measures.is_empty() {
            return Ok(None);
        }
        let labels = info.stream.measures.as_ref().map_or(Vec::new(), |bundle| bundle.labels());
        if let Some(unknown) = self.measures.iter().find(|measure| !labels.contains(measure)) {
            return Err(ProblemAnswer::bad(format!("the stream has no measure or workload `{unknown}`")));
        }
        let groups = self.groups.iter().map(|text| names_in(text, &info.stream.columns.labels));
        let groups = groups.collect::<Result<Vec<Vec<String>>, ProblemAnswer>>()?;
        let is_wanted = |names: &[String]| {
            let (group, measure) = match labels.is_empty() {
                true => (names, None),
                false => (&names[..names.len() - 1], names.last()),
            };
            (groups.is_empty() || groups.iter().any(|wanted| wanted == group))
                && (self.measures.is_empty() || measure.is_some_and(|measure| self.measures.contains(measure)))
        };
        let mut places = Vec::new();
        if labels.is_empty() {
            places.extend(groups.iter().filter_map(|group| info.place_of(group)));
            places.sort_unstable();
            places.dedup();
        } else {
            let names = info.names(usize::MAX);
            places.extend((0u32..).zip(&names).filter(|(_, names)| is_wanted(names)).map(|(place, _)| place));
        }
        if places.is_empty() {
            return Err(ProblemAnswer::new(StatusCode::NOT_FOUND, "no-group", "No such group")
                .because("this stream releases none of the requested groups"));
        }
        Ok(Some(places))
    }
}

/// The names of a group: a JSON list, or one text per column, separated by `/`.
fn names_in(text: &str, columns: &[String]) -> Result<Vec<String>, ProblemAnswer> {
    if let Some(names) = text.starts_with('[').then(|| serde_json::from_str(text).ok()).flatten() {
        return Ok(names);
    }
    let names: Vec<String> = match columns.len() {
        0 | 1 => vec![text.to_owned()],
        _ => text.split('/').map(str::to_owned).collect(),
    };
    if names.len() == columns.len() {
        return Ok(names);
    }
    Err(ProblemAnswer::bad(match columns {
        [] => "the stream has no groups".to_owned(),
        columns => format!(
            "`group={text}`: a group of this stream has {} names, {}: separate them by `/`, or write a JSON list",
            columns.len(),
            columns.join(", ")
        ),
    }))
}

/// Released rows of some publications: the same bytes that `evertally release` writes. JSON also has the end of each
/// step.
#[utoipa::path(get, path = "/v1/streams/{stream}/releases", tag = "reading",
    params(
        ("stream" = String, Path),
        ("from" = Option<u64>, Query, minimum = 1, description = "The first publication, from 1."),
        ("to" = Option<u64>, Query, minimum = 1, description = "The last one."),
        ("every" = Option<u64>, Query, minimum = 1, description = "Only steps whose number is a multiple, and the \
            last."),
        ("group" = Option<Vec<String>>, Query, description = "Groups by name: parts joined by `/`, or a JSON list of \
            them; may be repeated."),
        ("measure" = Option<Vec<String>>, Query, description = "Measures or workloads, if there are several."),
        ("format" = Option<String>, Query, description = "csv, jsonl, parquet, arrow or json, instead of `Accept`."),
    ),
    responses(
        (status = 200, content((Releases = "application/json"), (String = "*/*"))),
        (status = 304, description = "The rows are unchanged."),
        (status = 400, body = Document, content_type = "application/problem+json"),
        (status = 404, body = Document, content_type = "application/problem+json"),
    ))]
pub(in super::super) async fn releases(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ProblemAnswer> {
    let info = app.readable(&name, &caller)?;
    let own = Arc::clone(&app);
    waiting(&app, Work::Rows, move |_| answer(&own, &info, query.as_deref(), &headers)).await
}

fn answer(
    app: &Arc<App>,
    info: &Arc<StreamInfo>,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response, ProblemAnswer> {
    let asked = ReleasesQuery::read(query)?;
    let format = format_of(asked.format.as_deref(), headers)?;
    let (wanted, is_closed) = asked.of(info)?;
    let lines = wanted.places.as_ref().map_or(info.line_count(), Vec::len) as u64;
    let publications = (wanted.publications.end() + 1).saturating_sub(*wanted.publications.start());
    let publications = publications.div_ceil(wanted.every);
    let most_rows = if format.is_streamable() { MAX_ROWS } else { MAX_ROWS_IN_MEMORY };
    if publications.saturating_mul(lines.max(1)) > most_rows {
        let most = most_rows / lines.max(1);
        let problem =
            format!("more than {most_rows} rows; request at most {most} publications at once, or fewer groups");
        return Err(ProblemAnswer::too_large(problem));
    }
    // Published rows never change: the range and the last publication identify an answer.
    let tag = tag_of(info, &wanted, format);
    let cache = match (is_closed, info.is_public()) {
        (true, true) => "public, max-age=31536000, immutable",
        (true, false) => "private, max-age=31536000, immutable",
        (false, _) => "no-cache",
    };
    let own =
        [(CACHE_CONTROL, cache.to_owned()), (ETAG, tag.clone()), (CONTENT_TYPE, format.content_type().to_owned())];
    if headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Ok((StatusCode::NOT_MODIFIED, own).into_response());
    }
    Ok((own, write(app, info, wanted, lines, format)?).into_response())
}

fn tag_of(info: &StreamInfo, wanted: &RowsQuery, format: Format) -> String {
    let RowsQuery { publications, places, every, .. } = wanted;
    let text = format!("{} {publications:?} {places:?} {every} {}", info.name(), format.word());
    let mut hasher = blake3::Hasher::new_derive_key("evertally serve 1 tag");
    hasher.update(text.as_bytes()).update(&info.stream.plan_digest());
    format!("\"{}\"", &hasher.finalize().to_hex()[..24])
}

/// The first piece of the rows, and the rest.
fn write(app: &Arc<App>, info: &Arc<StreamInfo>, wanted: RowsQuery, lines: u64, format: Format) -> PublishResult<Body> {
    let mut pieces = AnswerPieces::new(Arc::clone(info), wanted, lines, format);
    let first = pieces.next(app)?;
    if pieces.is_over() {
        return Ok(first.into());
    }
    Ok(Body::new(PiecewiseBody::new(Arc::clone(app), first, pieces)))
}

/// The plan: everything that was decided before the first event. It is public and reveals nothing about the events.
#[utoipa::path(get, path = "/v1/streams/{stream}/plan", tag = "reading", params(("stream" = String, Path)), responses(
    (status = 200, body = String, content_type = "text/plain"),
    (status = 404, body = Document, content_type = "application/problem+json"),
))]
pub(in super::super) async fn plan(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<String, ProblemAnswer> {
    Ok(app.readable(&name, &caller)?.plan.clone())
}

/// The privacy guarantee, and what a reader may conclude.
#[utoipa::path(get, path = "/v1/streams/{stream}/report", tag = "reading", params(("stream" = String, Path)), responses(
    (status = 200, body = String, content_type = "text/markdown"),
    (status = 404, body = Document, content_type = "application/problem+json"),
))]
pub(in super::super) async fn report(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, ProblemAnswer> {
    let info = app.readable(&name, &caller)?;
    waiting(&app, Work::Report, move |_| {
        Ok(([(CONTENT_TYPE, "text/markdown; charset=utf-8")], info.report().markdown()))
    })
    .await
}
