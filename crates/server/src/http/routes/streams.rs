//! Streams: listing, opening, closing and retiring them.

use super::super::answers::{Description, errors};
use super::super::app::{App, Caller, Side};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use super::audit::audited;
use crate::config::{Closer, StepsConfig, TimeSpan};
use crate::engine::{Opening, Preview};
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, VARY};
use axum::response::Response;
use axum::{Extension, Json};
use evertally_declare::error::usage;
use evertally_plot::{Curve, Point, ReleasePlot, TimeLabels};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// All streams that the caller may read.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct StreamList {
    streams: Vec<Description>,
    /// Whether this listener also answers operators.
    operated: bool,
}

/// The streams that the caller may read.
#[utoipa::path(get, path = "/v1/streams", tag = "reading", responses((status = 200, body = StreamList)))]
pub(in super::super) async fn list(
    State(app): State<Arc<App>>,
    Extension(side): Extension<Side>,
    caller: Caller,
) -> Result<Response, ProblemAnswer> {
    waiting(&app, Work::Report, move |app| {
        let streams = app.all_readable(&caller).iter().map(|info| Description::new(info)).collect();
        let own = [(CACHE_CONTROL, "no-cache"), (VARY, "authorization")];
        Ok((own, Json(StreamList { streams, operated: side == Side::Private })))
    })
    .await
}

/// One stream.
#[utoipa::path(get, path = "/v1/streams/{stream}", tag = "reading", params(("stream" = String, Path)), responses(
    (status = 200, body = Description),
    (status = 404, body = Document, content_type = "application/problem+json"),
))]
pub(in super::super) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, ProblemAnswer> {
    let info = app.readable(&name, &caller)?;
    waiting(&app, Work::Report, move |_| Ok(([(CACHE_CONTROL, "no-cache")], Json(Description::new(&info))))).await
}

/// The stream to open.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in super::super) struct OpenRequest {
    /// The declaration, with the names of configuration files.
    declaration: Map<String, Value>,
    /// Whether anybody may read it.
    #[serde(default)]
    public: bool,
    /// The data source whose budget it spends.
    #[serde(default)]
    source: Option<String>,
    /// Who closes its steps: `schedule` (the clock), `operator`, or `sums` (an external counter that sends the sums of
    /// complete steps).
    #[serde(default)]
    closing: Closer,
    /// The column with the ids of its rows, if rows are counted once by their id while their step is open.
    #[serde(default)]
    id: Option<String>,
    /// How long a step stays open after its end, such as `90s`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    grace: Option<TimeSpan>,
    /// How long rows are ready before they are shown.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    delay: Option<TimeSpan>,
}

impl OpenRequest {
    fn opening(self, steps: &StepsConfig) -> Result<Opening, ProblemAnswer> {
        if self.declaration.get("allow-weak-budget").is_some_and(|weak| *weak != Value::Bool(false)) {
            let why = "a budget that protects next to nothing can only be declared in the configuration of the service";
            return Err(ProblemAnswer::from_error(&usage(why)));
        }
        let closing = self.closing.with(steps, self.grace, self.delay);
        let declaration = serde_json::to_string(&self.declaration).expect("it was JSON");
        Ok(Opening { declaration, public: self.public, source: self.source, closing, id: self.id })
    }
}

/// Options of opening a stream.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in super::super) struct How {
    /// Whether to plan only, without opening the stream.
    #[serde(default)]
    dry_run: bool,
}

/// The stream that was opened, or would be.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct OpenedStream {
    name: String,
    /// Whether it is open now.
    opened: bool,
    mechanism: String,
    max_std_error: f64,
    mean_std_error: f64,
    /// The budget, in words.
    budget: String,
    unit: String,
    /// The remaining budget of its data source after it.
    left: Option<String>,
    /// The plan, as text.
    plan: String,
    /// The error over time, as SVG.
    picture: Option<String>,
}

impl OpenedStream {
    fn new(preview: &Preview, opened: bool) -> Result<Self, ProblemAnswer> {
        let (stream, errors) = (preview.stream(), errors(preview.stream()));
        Ok(Self {
            name: stream.name.to_string(),
            opened,
            mechanism: stream.plan.mechanism().name().brief().to_string(),
            max_std_error: errors.max_std_error,
            mean_std_error: errors.mean_std_error,
            budget: stream.plan.request().budget().to_string(),
            unit: stream.unit(),
            left: preview.left.clone(),
            plan: stream.plan_text()?,
            picture: picture_of_error(preview),
        })
    }
}

/// The number of points in the picture of the error.
const POINTS: u64 = 400;

/// A picture of an empty stream: intervals around zero.
fn picture_of_error(preview: &Preview) -> Option<String> {
    let (stream, calendar) = (preview.stream(), preview.stream().rows());
    if stream.measures.is_some() {
        return None;
    }
    let intervals = stream.plan.intervals(stream.confidence).ok()?;
    let last = if stream.plan.is_unbounded() { 1000 } else { calendar.steps() };
    let (mut intervals, grid) = (intervals, stream.plan.request().grid());
    let point = |row: u64| {
        let half = grid.to_f64(i128::try_from(intervals.half_width(stream.slot_of_row(row))).unwrap_or(i128::MAX));
        let at = calendar.end_of(row).micros() as f64 / 1e6;
        Point { at, value: 0.0, lower: -half, upper: half, truth: None }
    };
    let points = (1..=last).step_by(usize::try_from(last.div_ceil(POINTS)).ok()?).map(point).collect();
    ReleasePlot {
        title: stream.title.clone(),
        subtitle: "How far a released value may be from the true value".to_owned(),
        y_label: "error".to_owned(),
        footer: "Nothing is opened and no budget is spent until you confirm.".to_owned(),
        time_labels: TimeLabels::Calendar(calendar.zone().time_zone().clone()),
        confidence: stream.confidence,
        at_once: false,
        curves: vec![Curve { name: "error".to_owned(), points, ..Curve::default() }],
        total_groups: 1,
        group_word: "line",
        apart: false,
        unsafe_truth: false,
    }
    .svg()
    .ok()
}

/// Opens a stream; with `dry-run=true` only plans it and reports its cost.
#[utoipa::path(post, path = "/v1/streams", tag = "operating", params(How), request_body = OpenRequest, responses(
    (status = 200, description = "The stream that would be opened.", body = OpenedStream),
    (status = 201, description = "The stream that was opened.", body = OpenedStream),
    (status = 422, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn open(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(how): Query<How>,
    body: Result<Json<OpenRequest>, axum::extract::rejection::JsonRejection>,
) -> Result<Response, ProblemAnswer> {
    let declared = body.as_ref().ok().and_then(|Json(wanted)| wanted.declaration.get("stream"));
    let name = declared.and_then(Value::as_str).unwrap_or_default().to_owned();
    let opened = async {
        caller.operates()?;
        let Json(wanted) = body.map_err(|e| ProblemAnswer::bad_json(&e))?;
        let opening = wanted.opening(&app.settings().steps)?;
        waiting(&app, Work::Plan, move |app| {
            let preview = app.service.preview(opening.clone())?;
            let answer = OpenedStream::new(&preview, !how.dry_run)?;
            if how.dry_run {
                return Ok((StatusCode::OK, Json(answer)));
            }
            app.service.open(opening)?;
            Ok((StatusCode::CREATED, Json(answer)))
        })
        .await
    };
    if how.dry_run { opened.await } else { audited(&app, &caller, "open", name, opened).await }
}

/// The description of a stream after a change.
fn described(app: &App, name: &str) -> Result<Json<Description>, ProblemAnswer> {
    let info = app.service.stream(name).ok_or_else(ProblemAnswer::no_stream)?;
    Ok(Json(Description::new(&info)))
}

/// The last step to close.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Through {
    /// The step, from 1.
    #[schema(minimum = 1)]
    through: u64,
}

/// Closes steps of a stream that an operator closes, and publishes them.
#[utoipa::path(post, path = "/v1/streams/{stream}/close", tag = "operating",
    params(("stream" = String, Path)), request_body = Through, responses(
    (status = 200, body = Description),
    (status = 403, body = Document, content_type = "application/problem+json"),
    (status = 422, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn close(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    query: RawQuery,
    body: Result<Json<Through>, axum::extract::rejection::JsonRejection>,
) -> Result<Response, ProblemAnswer> {
    let subject = body.as_ref().map_or(name.clone(), |Json(Through { through })| format!("{name} through {through}"));
    audited(&app, &caller, "close", subject, async {
        caller.operates_stream(&name)?;
        ProblemAnswer::check_no_query(&query)?;
        let Json(Through { through }) = body.map_err(|e| ProblemAnswer::bad_json(&e))?;
        waiting(&app, Work::Engine, move |app| {
            app.service.close_through(&name, through)?;
            described(app, &name)
        })
        .await
    })
    .await
}

/// Retires a stream: it accepts and publishes nothing more; its spent budget stays spent.
#[utoipa::path(post, path = "/v1/streams/{stream}/retire", tag = "operating",
    params(("stream" = String, Path)), responses(
    (status = 200, body = Description),
    (status = 404, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn retire(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    query: RawQuery,
) -> Result<Response, ProblemAnswer> {
    audited(&app, &caller, "retire", name.clone(), async {
        caller.operates_stream(&name)?;
        ProblemAnswer::check_no_query(&query)?;
        waiting(&app, Work::Engine, move |app| {
            app.service.retire(&name)?;
            described(app, &name)
        })
        .await
    })
    .await
}

/// Continues a stream after its horizon in another stream, `NAME #2`, with the same number of steps and values that
/// continue from the last released ones. It spends the budget again for anyone who is in both. It has its own batches
/// and tokens.
#[utoipa::path(post, path = "/v1/streams/{stream}/extend", tag = "operating",
    params(("stream" = String, Path)), responses(
    (status = 201, description = "The new stream.", body = Description),
    (status = 404, body = Document, content_type = "application/problem+json"),
    (status = 422, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn extend(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    query: RawQuery,
) -> Result<Response, ProblemAnswer> {
    audited(&app, &caller, "extend", name.clone(), async {
        caller.operates_stream(&name)?;
        ProblemAnswer::check_no_query(&query)?;
        waiting(&app, Work::Plan, move |app| {
            let next = app.service.extend(&name)?;
            Ok((StatusCode::CREATED, described(app, &next)?))
        })
        .await
    })
    .await
}

/// The groups to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Joining {
    /// Their names: a text per group, or a list of texts if groups have several columns.
    groups: Vec<GroupNames>,
}

/// The names of a group.
#[derive(Deserialize, ToSchema)]
#[serde(untagged, expecting = "a group is a text, or a list of texts if groups have several columns")]
enum GroupNames {
    One(String),
    Several(Vec<String>),
}

/// Adds groups to a stream after the existing ones; they have rows from its open step on. The decision to add a group
/// must never depend on the data.
#[utoipa::path(post, path = "/v1/streams/{stream}/groups", tag = "operating",
    params(("stream" = String, Path)), request_body = Joining, responses(
    (status = 200, body = Description),
    (status = 404, body = Document, content_type = "application/problem+json"),
    (status = 422, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn join(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    query: RawQuery,
    body: Result<Json<Joining>, axum::extract::rejection::JsonRejection>,
) -> Result<Response, ProblemAnswer> {
    let names = |names| match names {
        GroupNames::One(name) => vec![name],
        GroupNames::Several(names) => names,
    };
    audited(&app, &caller, "add-groups", name.clone(), async {
        caller.operates_stream(&name)?;
        ProblemAnswer::check_no_query(&query)?;
        let Json(Joining { groups }) = body.map_err(|e| ProblemAnswer::bad_json(&e))?;
        waiting(&app, Work::Engine, move |app| {
            app.service.join_groups(&name, groups.into_iter().map(names).collect())?;
            described(app, &name)
        })
        .await
    })
    .await
}
