//! Released rows, plans and reports.

use super::super::answers::Releases;
use super::super::app::{App, Caller};
use super::super::negotiation::{format_of, knows};
use super::super::pieces::{AnswerPieces, PiecewiseBody};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use super::range::{Page, RangeQuery, count_in};
use crate::engine::{RowsQuery, StreamInfo, next_name};
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LINK, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use evertally_declare::error::Result as PublishResult;
use evertally_declare::format::Format;
use std::sync::Arc;

/// The most rows of one answer.
const MAX_ROWS: u64 = 2_000_000;
/// The most rows of an answer that is built in memory.
const MAX_ROWS_IN_MEMORY: u64 = 250_000;

/// The most rows of an answer in a format.
pub(super) fn most_rows(format: Format) -> u64 {
    if format.is_streamable() { MAX_ROWS } else { MAX_ROWS_IN_MEMORY }
}

/// The parameters of a request for releases.
#[derive(Debug, Default)]
pub(super) struct ReleasesQuery {
    range: RangeQuery,
    every: Option<u64>,
    groups: Vec<String>,
    measures: Vec<String>,
    format: Option<String>,
    /// The parameters that do not select publications, as they were sent.
    others: Vec<(String, String)>,
    /// The stream that continues this one.
    next_part: Option<String>,
}

impl ReleasesQuery {
    /// Reads a query; `group` and `measure` may be repeated.
    pub(super) fn read(query: Option<&str>) -> Result<Self, ProblemAnswer> {
        let mut asked = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or("").as_bytes()).into_owned() {
            if asked.range.read(&name, &value)? {
                continue;
            }
            asked.others.push((name.clone(), value.clone()));
            match name.as_str() {
                "every" => asked.every = Some(count_in(&name, &value)?),
                "group" => asked.groups.push(value),
                "measure" | "workload" => asked.measures.push(value),
                "format" => asked.format = Some(value),
                _ => {
                    let problem = format!(
                        "unknown parameter `{name}`: use from, to, last, limit, every, group, measure or format"
                    );
                    return Err(ProblemAnswer::bad(problem));
                }
            }
        }
        Ok(asked)
    }

    /// The query for the latest publication.
    fn read_latest(query: Option<&str>) -> Result<Self, ProblemAnswer> {
        let mut asked = Self::read(query)?;
        if !asked.range.is_empty() {
            let problem = "the latest publication needs no range: omit from, to, last and limit";
            return Err(ProblemAnswer::bad(problem));
        }
        asked.range = RangeQuery::latest();
        Ok(asked)
    }

    /// The query for a stream, and its page of publications, with at most `most_rows` rows.
    pub(super) fn of(&self, info: &StreamInfo, most_rows: u64) -> Result<(RowsQuery, Page), ProblemAnswer> {
        let places = self.places(info)?;
        let every = self.every.unwrap_or(1);
        let lines = places.as_ref().map_or(info.line_count(), Vec::len).max(1) as u64;
        let shown = info.progress().publications;
        let range = self.range.of(info.stream.rows(), shown)?;
        let page = range.page(every, self.range.limit(), most_rows / lines);
        let (publications, kept) = (page.publications.clone(), Some(page.range_end));
        Ok((RowsQuery { publications, places, every, kept }, page))
    }

    /// The `Link` header of a page (RFC 8288). `path` is the address of the releases relative to that of the request.
    /// `is_end`: the page reaches the end of the stream.
    fn links(&self, page: &Page, path: &str, is_end: bool) -> Option<String> {
        let limit = page.has_limit.then_some(page.limit);
        let link = |from: u64, to: Option<u64>, limit: Option<u64>, rel: &str| {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("from", &from.to_string());
            query.extend_pairs(to.map(|to| ("to", to.to_string())));
            query.extend_pairs(limit.map(|limit| ("limit", limit.to_string())));
            query.extend_pairs(&self.others);
            format!("<{path}?{}>; rel=\"{rel}\"", query.finish())
        };
        let next = page.next.map(|(from, to)| link(from, to, limit, "next"));
        let prev = page.prev(self.every.unwrap_or(1)).map(|(from, to)| link(from, Some(to), limit, "prev"));
        let part = self.next_part.as_ref().filter(|_| is_end).map(|name| {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.extend_pairs(self.range.times()).extend_pairs(&self.others);
            let query = query.finish();
            let name = form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20");
            let mark = if query.is_empty() { "" } else { "?" };
            // Relative to the address of releases, which the path leads to.
            let up = path.strip_suffix("releases").unwrap_or("");
            format!("<{up}../{name}/releases{mark}{query}>; rel=\"next-part\"")
        });
        let links: Vec<String> = next.into_iter().chain(prev).chain(part).collect();
        (!links.is_empty()).then(|| links.join(", "))
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
///
/// `from`, `to` and `last` select publications by number or by time. A time selects the publications whose steps end
/// after `from`, and not after `to`: adjacent ranges such as `from=2026-03-01&to=2026-04-01` and
/// `from=2026-04-01&to=2026-05-01` share no publication and miss none. Without `from` and `last`, the answer has the
/// last publications through `to`, at most 1000 or `limit`.
///
/// An answer with a part of the range has a header `Link` (RFC 8288): `rel="next"` is the rest of the range, and
/// `rel="prev"` are the publications before the answer. At the end of the horizon of a stream that was extended,
/// `rel="next-part"` are the releases of the stream that continues it.
#[utoipa::path(get, path = "/v1/streams/{stream}/releases", tag = "reading",
    params(
        ("stream" = String, Path),
        ("from" = Option<String>, Query, example = "2026-03-01", description = "The first publication: its number, \
            from 1; or a time, which its step ends after. A date is its first instant, and a time without an offset \
            is on the clock of the stream's zone."),
        ("to" = Option<String>, Query, example = "2026-04-01", description = "The last publication: its number; or a \
            time, by which its step has ended."),
        ("last" = Option<String>, Query, example = "7d", description = "A number of publications, or a duration such \
            as `90m`, `24h`, `7d` or `1mo`, that ends at `to`, or with the latest publication. Excludes `from`."),
        ("limit" = Option<u64>, Query, minimum = 1, description = "The most publications of an answer."),
        ("every" = Option<u64>, Query, minimum = 1, description = "Only steps whose number is a multiple, and the \
            last."),
        ("group" = Option<Vec<String>>, Query, description = "Groups by name: parts joined by `/`, or a JSON list of \
            them; may be repeated."),
        ("measure" = Option<Vec<String>>, Query, description = "Measures or workloads, if there are several."),
        ("format" = Option<String>, Query, description = "csv, jsonl, parquet, arrow or json, instead of `Accept`."),
    ),
    responses(
        (status = 200, description = "The rows.", content((Releases = "application/json"), (String = "*/*")),
            headers(("ETag" = String, description = "Changes if the rows change."),
                ("Link" = String, description = "The next and the previous page, and the next part of an \
                    extended stream, if there are any."))),
        (status = 304, description = "The rows are unchanged."),
        (status = 400, description = "A parameter is invalid.", body = Document,
            content_type = "application/problem+json"),
        (status = 404, description = "There is no such stream or group.", body = Document,
            content_type = "application/problem+json"),
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
    let next = next_part(&app, &info, &caller);
    waiting(&app, Work::Rows, move |_| {
        let asked = ReleasesQuery { next_part: next, ..ReleasesQuery::read(query.as_deref())? };
        answer(&own, &info, &asked, "", &headers)
    })
    .await
}

/// Released rows of the latest publication; none before the first one.
#[utoipa::path(get, path = "/v1/streams/{stream}/releases/latest", tag = "reading",
    params(
        ("stream" = String, Path),
        ("group" = Option<Vec<String>>, Query, description = "Groups by name, as for all releases."),
        ("measure" = Option<Vec<String>>, Query, description = "Measures or workloads, if there are several."),
        ("format" = Option<String>, Query, description = "csv, jsonl, parquet, arrow or json, instead of `Accept`."),
    ),
    responses(
        (status = 200, description = "The rows.", content((Releases = "application/json"), (String = "*/*")),
            headers(("ETag" = String, description = "Changes if the rows change."))),
        (status = 304, description = "The rows are unchanged."),
        (status = 400, description = "A parameter is invalid.", body = Document,
            content_type = "application/problem+json"),
        (status = 404, description = "There is no such stream or group.", body = Document,
            content_type = "application/problem+json"),
    ))]
pub(in super::super) async fn latest(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ProblemAnswer> {
    let info = app.readable(&name, &caller)?;
    let own = Arc::clone(&app);
    waiting(&app, Work::Rows, move |_| {
        answer(&own, &info, &ReleasesQuery::read_latest(query.as_deref())?, "../releases", &headers)
    })
    .await
}

/// The stream that continues another after its horizon, if the caller may read it.
fn next_part(app: &App, info: &StreamInfo, caller: &Caller) -> Option<String> {
    let next = app.readable(next_name(info).ok()?.as_str(), caller).ok()?;
    let continues = next.stream.follows.as_ref().is_some_and(|follows| follows.stream == info.name());
    continues.then(|| next.name().to_owned())
}

fn answer(
    app: &Arc<App>,
    info: &Arc<StreamInfo>,
    asked: &ReleasesQuery,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response, ProblemAnswer> {
    let format = format_of(asked.format.as_deref(), headers)?;
    let most_rows = most_rows(format);
    let (wanted, page) = asked.of(info, most_rows)?;
    let lines = wanted.places.as_ref().map_or(info.line_count(), Vec::len) as u64;
    if lines > most_rows {
        let problem = format!("one publication has more than {most_rows} rows; request fewer groups (`group`)");
        return Err(ProblemAnswer::too_large(problem));
    }
    let tag = tag_of(app, info, &wanted, format)?;
    let is_end = page.next.is_none() && page.range_end == info.stream.rows().steps();
    // The next part of a stream may come later.
    let is_closed = page.is_closed && (!is_end || asked.next_part.is_some());
    let cache = match (is_closed, info.is_public()) {
        (true, true) => "public, max-age=31536000, immutable",
        (true, false) => "private, max-age=31536000, immutable",
        (false, _) => "no-cache",
    };
    let mut own = HeaderMap::new();
    let text = |text: &str| HeaderValue::from_str(text).expect("visible ASCII");
    own.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    own.insert(ETAG, text(&tag));
    if asked.format.is_none() {
        own.insert(VARY, HeaderValue::from_static("accept"));
    }
    if let Some(links) = asked.links(&page, path, is_end) {
        own.insert(LINK, text(&links));
    }
    if knows(headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, own).into_response());
    }
    own.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    Ok((own, write(app, info, wanted, lines, format)?).into_response())
}

/// The tag of an answer: a digest of everything that its bytes depend on. It is weak, because a compressed answer has
/// the same tag.
fn tag_of(app: &App, info: &StreamInfo, wanted: &RowsQuery, format: Format) -> PublishResult<String> {
    let RowsQuery { publications, places, every, kept } = wanted;
    let is_cut = kept.is_some_and(|kept| kept > *publications.end());
    // The digest of the rows themselves: a new folder may publish other rows under the same name and plan.
    let progress = info.progress();
    let head = match *publications.end() {
        0 => [0; 32],
        last if last == progress.publications => progress.head,
        last => app.service.head_of(info, last)?,
    };
    let (name, version) = (info.name(), env!("CARGO_PKG_VERSION"));
    let text = format!("{version} {name} {publications:?} {places:?} {every} {is_cut} {}", format.word());
    let mut hasher = blake3::Hasher::new_derive_key("evertally serve 2 tag");
    hasher.update(&info.stream.plan_digest()).update(&head).update(text.as_bytes());
    Ok(format!("W/\"{}\"", &hasher.finalize().to_hex()[..24]))
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
