//! Requests of operators.

use super::super::answers;
use super::super::app::{App, Caller};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use super::audit::audited;
use crate::backup::BackupFile;
use crate::engine::{StreamState, is_behind};
use crate::feeds::FeedProgress;
use crate::sinks::SinkProgress;
use crate::tokens::{Role, TokenEntry, expiry_from};
use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use evertally_declare::error::{PipelineError, Result as PublishResult};
use evertally_ledger::source::{BudgetState as Budgeted, Costs, SourceBudget};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use utoipa::ToSchema;

/// The health of the service: exact, and for its operators alone.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct Operator {
    now: String,
    started: String,
    version: String,
    folder: String,
    folder_id: String,
    /// Why nothing is accepted or published, if so.
    read_only: Option<String>,
    disk: DiskHealth,
    /// When the newest backup was made, as far as is known.
    last_backup: Option<String>,
    witness: Option<WitnessInfo>,
    clock: ClockHealth,
    key: KeyInfo,
    rates: EventRates,
    watchers: usize,
    streams: Vec<OperatorStream>,
    /// The sources that the service follows.
    feeds: Vec<OperatorFeed>,
    /// Places to which the service writes publications.
    sinks: Vec<OperatorSink>,
    /// Current problems, in words.
    problems: Vec<String>,
}

#[derive(Serialize, ToSchema)]
struct DiskHealth {
    store_bytes: u64,
    free_bytes: Option<u64>,
}

#[derive(Serialize, ToSchema)]
struct WitnessInfo {
    place: String,
    /// How often the witness was updated.
    told: u64,
    /// Whether the witness lacks committed publications.
    behind: bool,
    problem: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct ClockHealth {
    /// Whether the machine's clock is `synchronised`, `unsynchronised`, or `unknown`.
    state: &'static str,
    /// Its estimated error, if that is known.
    error_seconds: Option<f64>,
}

#[derive(Serialize, ToSchema)]
struct KeyInfo {
    id: String,
    sealed: bool,
}

#[derive(Serialize, ToSchema)]
struct EventRates {
    /// The average since the start.
    events_per_second: f64,
    batches_per_second: f64,
}

#[derive(Serialize, ToSchema)]
struct OperatorFeed {
    stream: String,
    source: String,
    /// Rows accepted since the start.
    rows: u64,
    /// Rows set aside since the start.
    aside: u64,
    /// Why nothing is accepted from it now.
    problem: Option<String>,
}

impl OperatorFeed {
    fn new(feed: &FeedProgress) -> Self {
        let (rows, aside) = feed.rows();
        Self { stream: feed.stream.clone(), source: feed.source.clone(), rows, aside, problem: feed.problem() }
    }
}

#[derive(Serialize, ToSchema)]
struct OperatorSink {
    stream: String,
    sink: String,
    /// The last publication that is known to be written.
    written: u64,
    /// Why nothing is written now.
    problem: Option<String>,
}

impl OperatorSink {
    fn new(sink: &SinkProgress) -> Self {
        let (stream, place) = (sink.stream.clone(), sink.sink.clone());
        Self { stream, sink: place, written: sink.last(), problem: sink.problem() }
    }
}

#[derive(Serialize, ToSchema)]
struct OperatorStream {
    name: String,
    state: String,
    public: bool,
    /// Since the start.
    events: u64,
    batches: u64,
    late: u64,
    refused: u64,
    /// Events of steps that are not open yet.
    waiting_events: u64,
    open_step: u64,
    published: u64,
    closes_at: Option<String>,
    /// How long ago the open step should have been closed.
    lag_seconds: f64,
    problem: Option<String>,
    /// How many more extensions its settings and its source allow, at most 12; `null` if it is not extended
    /// automatically.
    extensions_left: Option<u32>,
}

/// The health of the service.
#[utoipa::path(get, path = "/v1/operator", tag = "operating", responses(
    (status = 200, body = Operator),
    (status = 401, body = Document, content_type = "application/problem+json"),
    (status = 403, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn operator(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, ProblemAnswer> {
    caller.monitors()?;
    waiting(&app, Work::Engine, move |app| {
        let health = app.service.health()?;
        let (started, since) = app.started;
        let now = app.service.now();
        let (clock, extensions) = (app.synchronisation.report(), app.extensions.states());
        let streams: Vec<OperatorStream> = app
            .service
            .streams()
            .iter()
            .map(|info| {
                let (progress, counts) = (info.progress(), &info.counts);
                let lag = progress.closes_at.map_or(0, |at| (now.micros() - at.micros()).max(0));
                OperatorStream {
                    name: info.name().to_owned(),
                    state: progress.state.word().to_owned(),
                    public: info.is_public(),
                    events: counts.events.load(Ordering::Relaxed),
                    batches: counts.batches.load(Ordering::Relaxed),
                    late: counts.late.load(Ordering::Relaxed),
                    refused: counts.refused.load(Ordering::Relaxed),
                    waiting_events: counts.waiting.load(Ordering::Relaxed),
                    open_step: progress.closed + 1,
                    published: progress.publications,
                    closes_at: progress.closes_at.map(|at| answers::time(&info.stream, at)),
                    lag_seconds: lag as f64 / 1e6,
                    problem: match progress.state {
                        StreamState::Failed(why) => Some(why),
                        StreamState::Recovering(step) => Some(is_behind(info.closing(), progress.closed, step)),
                        _ => None,
                    },
                    extensions_left: extensions.values().find(|own| own.last == info.name()).map(|own| own.left),
                }
            })
            .collect();
        let seconds = since.elapsed().as_secs_f64().max(1e-3);
        let rate = |of: fn(&OperatorStream) -> u64| streams.iter().map(of).sum::<u64>() as f64 / seconds;
        let rates = EventRates { events_per_second: rate(|s| s.events), batches_per_second: rate(|s| s.batches) };
        let witness = health.witness.map(|place| WitnessInfo {
            place,
            told: health.witness_counter,
            behind: health.witness_behind,
            problem: health.witness_problem,
        });
        let now = now.timestamp().map_or(String::new(), |now| now.to_string());
        Ok(Json(Operator {
            now,
            started: started.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            folder: app.folder.display().to_string(),
            folder_id: app.service.folder_id.clone(),
            read_only: health.read_only,
            disk: DiskHealth {
                store_bytes: crate::folder::store_bytes(&app.folder),
                free_bytes: crate::folder::free_bytes(&app.folder),
            },
            last_backup: app.backups.newest().map(|time| time.to_string()),
            witness,
            clock: ClockHealth { state: clock.state.word(), error_seconds: clock.error_seconds },
            key: KeyInfo { id: app.service.key_id.clone(), sealed: app.is_sealed },
            rates,
            watchers: app.hub.count(),
            streams,
            feeds: app.feeds.progress().iter().map(|feed| OperatorFeed::new(feed)).collect(),
            sinks: app.sinks.progress().iter().map(|sink| OperatorSink::new(sink)).collect(),
            problems: health.problems.into_iter().chain(app.troubles()).collect(),
        }))
    })
    .await
}

/// The budgets of data sources.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct SourceList {
    sources: Vec<SourceInfo>,
}

#[derive(Serialize, ToSchema)]
struct SourceInfo {
    name: String,
    /// The budget declared for the source, in words.
    total: String,
    /// The spent budget: for operators the total of all streams of the source, for other readers the total of `streams`
    /// alone.
    spent: String,
    /// The remaining budget, for operators; `null` for others, since it depends on streams that they may not read.
    left: Option<String>,
    /// The share of the total that is not left, from 0 to 1; for operators, like `left`.
    spent_share: Option<f64>,
    /// The streams of the source that the caller may read.
    streams: Vec<String>,
}

impl SourceInfo {
    /// A source for an operator.
    fn whole(name: &str, state: &Budgeted, streams: Vec<String>) -> Self {
        let (cap, left) = (state.cap.main(), state.left.main());
        Self {
            name: name.to_owned(),
            total: state.cap.to_string(),
            spent: state.spent.to_string(),
            left: Some(state.left.to_string()),
            spent_share: Some(if cap > 0.0 { 1.0 - left / cap } else { 1.0 }),
            streams,
        }
    }

    /// A source for a reader of some of its streams: a sum over other streams would reveal them.
    fn from_readable(name: &str, state: &Budgeted, streams: Vec<String>, key_id: &str) -> Self {
        let own = |cost: &&Costs| cost.key_id == key_id && streams.contains(&cost.stream);
        let spent = state.amount_of(state.costs.iter().filter(own)).to_string();
        Self { name: name.to_owned(), total: state.cap.to_string(), spent, left: None, spent_share: None, streams }
    }
}

/// The budgets of data sources with streams that the caller may read. Only operators see the spending of streams that
/// the caller may not read.
#[utoipa::path(get, path = "/v1/sources", tag = "reading", responses((status = 200, body = SourceList)))]
pub(in super::super) async fn sources(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, ProblemAnswer> {
    waiting(&app, Work::Quick, move |app| {
        if app.service.is_replica() {
            let body = app.service.copied_sources()?.unwrap_or_else(|| br#"{"sources":[]}"#.to_vec());
            return Ok(([(CONTENT_TYPE, "application/json")], body).into_response());
        }
        let readable = app.all_readable(&caller);
        let is_operator = caller.may(Role::monitors);
        let mut sources = Vec::new();
        for (name, path) in &app.service.intake().sources {
            let own = readable.iter().filter(|info| info.record().source.as_ref() == Some(name));
            let streams: Vec<String> = own.map(|info| info.name().to_owned()).collect();
            if streams.is_empty() && !is_operator {
                continue;
            }
            let state = SourceBudget::from_file(path).and_then(|budget| budget.state());
            sources.push(if is_operator {
                SourceInfo::whole(name, &state?, streams)
            } else {
                SourceInfo::from_readable(
                    name,
                    &state.map_err(|error| unreadable(&error))?,
                    streams,
                    &app.service.key_id,
                )
            });
        }
        Ok(Json(SourceList { sources }).into_response())
    })
    .await
}

/// The problem of an unreadable budget: its path is only logged.
fn unreadable(error: &PipelineError) -> ProblemAnswer {
    tracing::error!(error = %error, "cannot read the budget of a source");
    ProblemAnswer::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "Something went wrong here")
        .because("the operator can see the error in the log")
}

/// A token, without its secret.
#[derive(Serialize, ToSchema)]
struct Token {
    id: String,
    role: String,
    label: String,
    made: String,
    /// When it ends by itself; `null` if it does not.
    expires: Option<String>,
    /// When it was last used, at most a minute ago; `null` if it was not.
    last_used: Option<String>,
}

/// All tokens, without their secrets.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct AllTokens {
    tokens: Vec<Token>,
}

/// All tokens; their secrets are never shown again.
#[utoipa::path(get, path = "/v1/tokens", tag = "operating", responses(
    (status = 200, body = AllTokens),
    (status = 401, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn tokens(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, ProblemAnswer> {
    caller.monitors()?;
    waiting(&app, Work::Quick, move |app| {
        let all = app.tokens.all()?;
        let uses = app.tokens.last_uses();
        let shown = |TokenEntry { id, role, label, made, expires, .. }: TokenEntry| Token {
            last_used: uses.get(&id).map(ToString::to_string),
            id,
            role,
            label,
            made: made.to_string(),
            expires: expires.map(|expires| expires.to_string()),
        };
        Ok(Json(AllTokens { tokens: all.into_iter().map(shown).collect() }))
    })
    .await
}

/// The requested token.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct WantedToken {
    /// `write:STREAM`, `read:STREAM`, `read:*`, `operate:STREAM`, `monitor` or `operate`.
    #[schema(pattern = r"^(operate|monitor|operate:.+|read:.+|write:.+)$")]
    role: String,
    /// The owner of the token, for people.
    #[serde(default)]
    label: String,
    /// When it ends by itself: a span such as `90d`, a date, or a time. Without it, the token is valid until revoked.
    #[serde(default)]
    expires: Option<String>,
}

/// A token, shown once.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct MadeToken {
    id: String,
    /// Shown in this answer only.
    token: String,
}

/// Creates a token. It is shown once.
#[utoipa::path(post, path = "/v1/tokens", tag = "operating", request_body = WantedToken, responses(
    (status = 201, body = MadeToken),
    (status = 400, body = Document, content_type = "application/problem+json"),
    (status = 401, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn make_token(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: RawQuery,
    body: Result<Json<WantedToken>, axum::extract::rejection::JsonRejection>,
) -> Result<Response, ProblemAnswer> {
    let subject = body.as_ref().map_or(String::new(), |Json(WantedToken { role, label, .. })| {
        if label.is_empty() { role.clone() } else { format!("{role} for {label}") }
    });
    audited(&app, &caller, "make-token", subject, async {
        caller.operates()?;
        ProblemAnswer::check_no_query(&query)?;
        let Json(WantedToken { role, label, expires }) = body.map_err(|e| ProblemAnswer::bad_json(&e))?;
        let role: Role = role.parse().map_err(ProblemAnswer::bad)?;
        let expires = expires.map(|text| expiry_from(&text, jiff::Timestamp::now())).transpose();
        let expires = expires.map_err(ProblemAnswer::bad)?;
        waiting(&app, Work::Quick, move |app| {
            let made: PublishResult<_> = app.tokens.make_until(&role, &label, expires);
            let (id, token) = made?;
            Ok((StatusCode::CREATED, Json(MadeToken { id, token: token.to_string() })))
        })
        .await
    })
    .await
}

/// Revokes a token immediately; the last token that operates the service is refused.
#[utoipa::path(delete, path = "/v1/tokens/{id}", tag = "operating", params(("id" = String, Path)), responses(
    (status = 204, description = "The token is revoked."),
    (status = 401, body = Document, content_type = "application/problem+json"),
    (status = 422, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn revoke_token(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    query: RawQuery,
) -> Result<Response, ProblemAnswer> {
    audited(&app, &caller, "revoke-token", id.clone(), async {
        caller.operates()?;
        ProblemAnswer::check_no_query(&query)?;
        waiting(&app, Work::Quick, move |app| {
            app.tokens.revoke(&id)?;
            Ok(StatusCode::NO_CONTENT)
        })
        .await
    })
    .await
}

/// A copy of the folder.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct Backup {
    /// The file's path on the machine of the service.
    file: String,
    bytes: u64,
}

/// Writes a snapshot of the folder's database into the configured folder for backups.
#[utoipa::path(post, path = "/v1/backup", tag = "operating", responses(
    (status = 201, body = Backup),
    (status = 401, body = Document, content_type = "application/problem+json"),
    (status = 403, body = Document, content_type = "application/problem+json"),
    (status = 422, body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn backup(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: RawQuery,
) -> Result<Response, ProblemAnswer> {
    audited(&app, &caller, "backup", String::new(), async {
        caller.operates()?;
        ProblemAnswer::check_no_query(&query)?;
        waiting(&app, Work::Rows, move |app| {
            let BackupFile { path, bytes } = app.backups.make(&app.service)?;
            Ok((StatusCode::CREATED, Json(Backup { file: path.display().to_string(), bytes })))
        })
        .await
    })
    .await
}
