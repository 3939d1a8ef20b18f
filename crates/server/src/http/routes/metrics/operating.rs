//! Metrics for operators: exact counts, and the state of the process and its surroundings.

use super::super::super::app::App;
use super::super::super::problem::ProblemAnswer;
use super::text::MetricsText;
use crate::descriptors;
use crate::engine::{Health, StreamInfo, StreamState};
use crate::folder::{free_bytes, store_bytes};
use crate::store::ClosedBy;
use crate::synchronisation::ClockState;
use crate::syslog::SyslogRefusal;
use crate::webhook::WebhookState;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// Adds everything that an operator may know.
pub(super) fn add(text: &mut MetricsText, app: &App, streams: &[Arc<StreamInfo>]) -> Result<(), ProblemAnswer> {
    let health = app.service.health()?;
    let doubted = app.readiness.clock_doubted();
    streams.iter().for_each(|info| counts(text, info, app.service.now().micros(), doubted));
    problems(text, app, &health, streams);
    flag(text, "evertally_read_only", "1 if nothing is accepted or published.", health.read_only.is_some());
    text.add("evertally_watchers", "Open watches of all streams.", &[], app.hub.count() as f64);
    witness(text, app, &health);
    feeds(text, app);
    syslog(text, app);
    standby(text, app);
    sinks(text, app);
    extensions(text, app);
    synchronisation(text, app);
    app.webhooks.states(&app.service)?.iter().for_each(|hook| webhook(text, hook));
    storage(text, app);
    requests(text, app);
    process(text, app);
    Ok(())
}

fn flag(text: &mut MetricsText, name: &'static str, help: &'static str, is_set: bool) {
    text.add(name, help, &[], f64::from(u8::from(is_set)));
}

fn counts(text: &mut MetricsText, info: &StreamInfo, now: i64, doubted: Option<Duration>) {
    let (labels, counts) = ([("stream", info.name())], &info.counts);
    for (name, help, count) in [
        ("evertally_events_taken_total", "Events accepted since the start: exact, not private.", &counts.events),
        ("evertally_batches_taken_total", "Batches accepted since the start.", &counts.batches),
        ("evertally_events_late_total", "Events of closed steps since the start.", &counts.late),
        ("evertally_batches_refused_total", "Batches refused since the start.", &counts.refused),
    ] {
        text.count(name, help, &labels, count.load(Ordering::Relaxed));
    }
    let waiting = counts.waiting.load(Ordering::Relaxed) as f64;
    text.add("evertally_events_waiting", "Events of steps that are not open yet.", &labels, waiting);
    text.add("evertally_closed_step", "The last closed step.", &labels, info.progress().closed as f64);
    if !info.stream.plan.is_unbounded() {
        let steps = info.stream.calendar.steps() as f64;
        text.add("evertally_horizon_steps", "The number of steps of a stream with an end.", &labels, steps);
    }
    let lag = lag(info, now, doubted).as_secs_f64();
    text.add("evertally_lag_seconds", "How long ago the open step should have been closed.", &labels, lag);
}

/// How long ago the clock should have closed the open step. If the clock is before a step that it closed, or in doubt,
/// it closes nothing: then how long it lacks, or has been in doubt.
fn lag(info: &StreamInfo, now: i64, doubted: Option<Duration>) -> Duration {
    if !matches!(info.closing(), ClosedBy::Schedule { .. }) {
        return Duration::ZERO;
    }
    let progress = info.progress();
    let Some(closes_at) = progress.closes_at.filter(|_| progress.state == StreamState::Open) else {
        return Duration::ZERO;
    };
    let last_end = match progress.closed {
        0 => i64::MIN,
        closed => info.stream.calendar.end_of(closed).micros(),
    };
    let micros = now.saturating_sub(closes_at.micros()).max(last_end.saturating_sub(now)).max(0);
    Duration::from_micros(micros.unsigned_abs()).max(doubted.unwrap_or_default())
}

/// The problems by kind. The operator's page describes each.
fn problems(text: &mut MetricsText, app: &App, health: &Health, streams: &[Arc<StreamInfo>]) {
    let is_failing =
        |info: &&Arc<StreamInfo>| matches!(info.progress().state, StreamState::Failed(_) | StreamState::Recovering(_));
    let has = |is_set: bool| usize::from(is_set);
    let troubles = app.troubles().len();
    let is_full = has(!app.has_free_disk());
    // Each of them is a problem in words.
    let clocks = [&app.service.clock_doubt(), &health.slow_clock, &app.synchronisation.problem()];
    let wrong_clocks = clocks.iter().filter(|problem| problem.is_some()).count();
    let mut kinds = BTreeMap::from([
        ("backup", has(app.backups.problem().is_some())),
        ("clock", wrong_clocks),
        ("disk", is_full),
        ("extension", app.extensions.problems().len()),
        ("feed", app.feeds.problems().len()),
        ("issuer", app.issuers.problems().len()),
        ("standby", app.service.shipping().map_or(0, |shipping| shipping.problems().len())),
        ("sink", app.sinks.problems().len()),
        ("read-only", has(health.read_only.is_some())),
        ("stream", streams.iter().filter(is_failing).count()),
        ("syslog", app.syslog.problems().len()),
        ("webhook", app.webhooks.problems().len()),
        ("witness", has(health.witness_problem.is_some())),
    ]);
    let known: usize = kinds.values().sum();
    kinds.insert("other", (health.problems.len() + troubles).saturating_sub(known));
    for (kind, count) in kinds {
        let help = "Current problems by kind, as described at the operator's page.";
        text.add("evertally_problems", help, &[("kind", kind)], count as f64);
    }
}

fn witness(text: &mut MetricsText, app: &App, health: &Health) {
    if health.witness.is_none() {
        return;
    }
    text.count("evertally_witness_updates_total", "Records sent to the witness.", &[], health.witness_counter);
    let help = "How long the witness has lacked committed publications.";
    let lag = app.readiness.witness_lag().as_secs_f64();
    text.add("evertally_witness_lag_seconds", help, &[], lag);
    let is_failing = health.witness_problem.is_some();
    flag(text, "evertally_witness_failing", "1 if the witness cannot be read or written.", is_failing);
}

fn standby(text: &mut MetricsText, app: &App) {
    let Some(shipping) = app.service.shipping() else { return };
    let state = shipping.state();
    let mut add = |name: &'static str, help: &'static str, value: f64| text.add(name, help, &[], value);
    let help = "How long the oldest change has waited that is not shipped to the standby folder.";
    add("evertally_standby_lag_seconds", help, state.lag.as_secs_f64());
    let help = "Bytes of changes that are not shipped; 0 also if the whole database has to be shipped again.";
    add("evertally_standby_lag_bytes", help, state.lag_bytes as f64);
    let help = "Commits, and other flushes of the database, that are not shipped.";
    add("evertally_standby_lag_commits", help, state.lag_syncs as f64);
    let help = "1 if the standby folder holds a whole database that a follower can take over with.";
    add("evertally_standby_whole", help, f64::from(u8::from(state.is_whole)));
    let help = "1 if a follower has given a sign of life lately.";
    add("evertally_standby_follower_up", help, f64::from(u8::from(state.follower_lag.is_some())));
    if let Some(lag) = state.follower_lag {
        let help = "Shipped segments that the most advanced follower has not applied.";
        add("evertally_standby_follower_lag_segments", help, lag as f64);
    }
    let help = "1 if no events are accepted, because another machine may have taken over.";
    add("evertally_standby_paused", help, f64::from(u8::from(state.is_paused)));
    text.count("evertally_standby_shipped_bytes_total", "Compressed bytes shipped.", &[], state.shipped_bytes);
}

fn feeds(text: &mut MetricsText, app: &App) {
    for feed in app.feeds.progress() {
        let (stream, source, name) = (feed.stream.as_str(), feed.source.as_str(), feed.name.as_str());
        let labels = [("stream", stream), ("source", source), ("name", name)];
        let (rows, aside) = feed.rows();
        text.count("evertally_feed_rows_total", "Rows accepted from a source.", &labels, rows);
        text.count("evertally_feed_aside_total", "Rows of a source that were set aside.", &labels, aside);
        let help = "1 if nothing is accepted from a source now.";
        text.add("evertally_feed_failing", help, &labels, f64::from(u8::from(feed.problem().is_some())));
    }
}

fn syslog(text: &mut MetricsText, app: &App) {
    for own in app.syslog.progress() {
        let address = own.address.to_string();
        let labels = [("stream", own.stream.as_str()), ("listener", address.as_str())];
        let (open, closed) = own.connections();
        text.add("evertally_syslog_connections", "Open connections of a listener for syslog.", &labels, open as f64);
        let help = "Connections that a listener for syslog did not admit.";
        text.count("evertally_syslog_connections_refused_total", help, &labels, closed);
        text.count(
            "evertally_syslog_rows_total",
            "Messages committed from a listener for syslog.",
            &labels,
            own.rows(),
        );
        let help = "Messages of a listener for syslog that were read and wait to be committed.";
        text.add("evertally_syslog_waiting", help, &labels, own.waiting() as f64);
        for reason in SyslogRefusal::ALL {
            let labels = [labels[0], labels[1], ("reason", reason.word())];
            let help = "Messages that a listener for syslog refused.";
            text.count("evertally_syslog_refused_total", help, &labels, own.refused(reason));
        }
        let help = "1 if nothing is committed from a listener for syslog now.";
        text.add("evertally_syslog_failing", help, &labels, f64::from(u8::from(own.problem().is_some())));
    }
}

fn sinks(text: &mut MetricsText, app: &App) {
    for sink in app.sinks.progress() {
        let labels = [("stream", sink.stream.as_str()), ("sink", sink.sink.as_str())];
        let published = app.service.stream(&sink.stream).map_or(0, |info| info.progress().publications);
        let lag = published.saturating_sub(sink.last()) as f64;
        text.add("evertally_sink_lag_publications", "Publications that a sink lacks.", &labels, lag);
        text.count("evertally_sink_publications_total", "Publications written to a sink.", &labels, sink.written());
        let help = "1 if a sink cannot be written now.";
        text.add("evertally_sink_failing", help, &labels, f64::from(u8::from(sink.problem().is_some())));
    }
}

fn extensions(text: &mut MetricsText, app: &App) {
    for (name, state) in app.extensions.states() {
        let labels = [("stream", name.as_str()), ("last", state.last.as_str())];
        let help = "Extensions of a stream that its settings and its source still allow, at most 12.";
        text.add("evertally_extensions_left", help, &labels, f64::from(state.left));
    }
}

fn synchronisation(text: &mut MetricsText, app: &App) {
    let report = app.synchronisation.report();
    for state in ClockState::ALL {
        let (labels, help) = ([("state", state.word())], "1 for the state of the machine's clock.");
        text.add("evertally_clock_state", help, &labels, f64::from(u8::from(report.state == state)));
    }
    if let Some(error) = report.error_seconds {
        text.add("evertally_clock_error_seconds", "The estimated error of the machine's clock.", &[], error);
    }
}

fn webhook(text: &mut MetricsText, hook: &WebhookState) {
    for stream in &hook.streams {
        let Some(delivered) = stream.delivered else { continue };
        let labels = [("webhook", hook.name.as_str()), ("stream", stream.name.as_str())];
        let lag = stream.published.saturating_sub(delivered) as f64;
        text.add("evertally_webhook_lag_publications", "Publications that a webhook lacks.", &labels, lag);
        let help = "Publications that a webhook has refused for good.";
        text.add("evertally_webhook_dead_letters", help, &labels, stream.dead.len() as f64);
    }
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn storage(text: &mut MetricsText, app: &App) {
    text.add("evertally_store_bytes", "Size of the database.", &[], store_bytes(&app.folder) as f64);
    if let Some(free) = free_bytes(&app.folder) {
        text.add("evertally_disk_free_bytes", "Free space on the disk of the folder.", &[], free as f64);
    }
    let reserved = app.settings().limits.free_bytes as f64;
    text.add("evertally_disk_reserved_bytes", "With less free space, no events are accepted.", &[], reserved);
    let names = [
        "evertally_commit_duration_seconds",
        "evertally_commit_duration_seconds_bucket",
        "evertally_commit_duration_seconds_sum",
        "evertally_commit_duration_seconds_count",
    ];
    text.histogram(names, "How long writing to the database takes until it is durable.", &[], app.service.commits());
    if let Some(last) = app.backups.newest() {
        let age = jiff::Timestamp::now().duration_since(last).as_secs_f64().max(0.0);
        text.add("evertally_backup_age_seconds", "Age of the newest copy in the folder of backups.", &[], age);
    }
    let sides = app.certificates().into_iter().map(|(side, expiry)| (side.to_owned(), expiry));
    let listeners = app.syslog.progress();
    let listeners = listeners.iter();
    let syslog = listeners.filter_map(|own| Some((own.address.to_string(), own.certificate_expiry()? as f64)));
    for (listener, expiry) in sides.chain(syslog) {
        let (labels, help) =
            ([("listener", listener.as_str())], "When the certificate of a listener expires, since 1970.");
        text.add("evertally_certificate_expiry_seconds", help, &labels, expiry);
    }
}

fn requests(text: &mut MetricsText, app: &App) {
    let names = [
        "evertally_request_duration_seconds",
        "evertally_request_duration_seconds_bucket",
        "evertally_request_duration_seconds_sum",
        "evertally_request_duration_seconds_count",
    ];
    app.requests.visit(|method, route, meter| {
        let labels = [("method", method), ("route", route)];
        text.histogram(names, "Time until an answer begins.", &labels, &meter.durations);
        for (status, count) in &meter.statuses {
            let status = status.to_string();
            let labels = [&labels[..], &[("status", &status)]].concat();
            text.count("evertally_requests_total", "Requests by route and status.", &labels, *count);
        }
        for (kind, count) in &meter.problems {
            let labels = [&labels[..], &[("kind", kind)]].concat();
            text.count("evertally_requests_refused_total", "Refused requests by kind of problem.", &labels, *count);
        }
    });
}

/// The usual metrics of a process, as far as the system reports them.
fn process(text: &mut MetricsText, app: &App) {
    let started = app.started.0.as_microsecond() as f64 / 1e6;
    text.add("process_start_time_seconds", "Start of the service, in seconds since 1970.", &[], started);
    text.add("evertally_time_seconds", "The machine's clock, in seconds since 1970.", &[], seconds(SystemTime::now()));
    let labels = [("version", env!("CARGO_PKG_VERSION"))];
    text.add("evertally_build_info", "The version of the program.", &labels, 1.0);
    if let Some(open) = descriptors::open() {
        text.add("process_open_fds", "Open file descriptors.", &[], open as f64);
    }
    if let Some(limit) = descriptors::limit() {
        text.add("process_max_fds", "The limit of open file descriptors.", &[], limit as f64);
    }
    if let Some(bytes) = resident_bytes() {
        text.add("process_resident_memory_bytes", "Resident memory.", &[], bytes as f64);
    }
}

/// The resident memory of this process, on Linux.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
