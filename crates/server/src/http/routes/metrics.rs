//! Metrics for Prometheus: released values, and for operators the health of the service.

use super::super::app::{App, Caller};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use crate::engine::{RowsQuery, StreamInfo};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
        streams.iter().try_for_each(|info| text.released(app, info))?;
        if with_counts {
            let health = app.service.health()?;
            let now = app.service.now().micros();
            streams.iter().for_each(|info| text.counts(info, now));
            let problems = health.problems.len() + app.troubles().len();
            text.add("evertally_problems", "Problems, as described at the operator's page.", &[], problems as f64);
            let is_read_only = f64::from(u8::from(health.read_only.is_some()));
            text.add("evertally_read_only", "1 if nothing is accepted or published.", &[], is_read_only);
            text.add("evertally_watchers", "Open watches of all streams.", &[], app.hub.count() as f64);
        }
        let own = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"), (CACHE_CONTROL, "no-store")];
        Ok((own, text.finish()))
    })
    .await
}

/// The text format of Prometheus: all samples of a name together.
#[derive(Default)]
struct MetricsText(Vec<(&'static str, &'static str, &'static str, String)>);

impl MetricsText {
    /// Adds a gauge: noisy counts can fall, so a counter would be wrong.
    fn add(&mut self, name: &'static str, help: &'static str, labels: &[(&str, &str)], value: f64) {
        self.of_kind(name, "gauge", help, labels, value);
    }

    fn of_kind(
        &mut self,
        name: &'static str,
        kind: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: f64,
    ) {
        let at = self.0.iter().position(|(known, ..)| *known == name).unwrap_or_else(|| {
            self.0.push((name, kind, help, String::new()));
            self.0.len() - 1
        });
        let samples = &mut self.0[at].3;
        samples.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            samples.push(if place == 0 { '{' } else { ',' });
            samples.push_str(label);
            samples.push_str("=\"");
            for letter in text.chars() {
                match letter {
                    '\\' => samples.push_str("\\\\"),
                    '"' => samples.push_str("\\\""),
                    '\n' => samples.push_str("\\n"),
                    letter => samples.push(letter),
                }
            }
            samples.push('"');
        }
        if !labels.is_empty() {
            samples.push('}');
        }
        let value = if value.is_nan() { "NaN".to_owned() } else { value.to_string() };
        writeln!(samples, " {value}").expect("a String accepts every write");
    }

    fn released(&mut self, app: &App, info: &StreamInfo) -> Result<(), ProblemAnswer> {
        let last = info.progress().publications;
        if last == 0 {
            return Ok(());
        }
        let mut columns: Vec<String> = Vec::new();
        for name in info.table.groups() {
            let mut own = label(name);
            while columns.contains(&own) {
                own.push('_'); // two columns whose names differ only in characters that labels cannot have
            }
            columns.push(own);
        }
        let places = (info.line_count() > MAX_LINES).then(|| (0..MAX_LINES as u32).collect()); // fits: 10⁴
        let query = RowsQuery { places, ..RowsQuery::new(last..=last) };
        app.service.rows(info, &query, &mut |_, row| {
            if row.step != last + info.stream.steps_before() {
                return Ok(()); // an earlier step of a newly discovered group
            }
            let groups = columns.iter().map(String::as_str).zip(row.groups.iter().copied());
            let labels: Vec<(&str, &str)> = [("stream", info.name())].into_iter().chain(groups).collect();
            let value = row.value.number;
            self.add("evertally_released_value", "The released value, with its noise.", &labels, value);
            self.add(
                "evertally_released_std_error",
                "The standard error of the released value.",
                &labels,
                row.std_error,
            );
            self.add("evertally_released_lower", "The lower end of its interval.", &labels, row.lower);
            self.add("evertally_released_upper", "The upper end of its interval.", &labels, row.upper);
            Ok(())
        })?;
        let (labels, end) = ([("stream", info.name())], info.stream.rows().end_of(last).micros() as f64 / 1e6);
        self.add("evertally_released_step", "The number of the last publication.", &labels, last as f64);
        self.add("evertally_released_time_seconds", "The end of its step.", &labels, end);
        Ok(())
    }

    fn counts(&mut self, info: &StreamInfo, now: i64) {
        let (labels, counts) = ([("stream", info.name())], &info.counts);
        for (name, help, count) in [
            ("evertally_events_taken_total", "Events accepted since the start: exact, not private.", &counts.events),
            ("evertally_batches_taken_total", "Batches accepted since the start.", &counts.batches),
            ("evertally_events_late_total", "Events of closed steps since the start.", &counts.late),
            ("evertally_batches_refused_total", "Batches refused since the start.", &counts.refused),
        ] {
            self.of_kind(name, "counter", help, &labels, count.load(Ordering::Relaxed) as f64);
        }
        let waiting = counts.waiting.load(Ordering::Relaxed) as f64;
        self.add("evertally_events_waiting", "Events of steps that are not open yet.", &labels, waiting);
        let progress = info.progress();
        self.add("evertally_closed_step", "The last closed step.", &labels, progress.closed as f64);
        let lag = progress.closes_at.map_or(0, |at| (now - at.micros()).max(0)) as f64 / 1e6;
        self.add("evertally_lag_seconds", "How long ago the open step should have been closed.", &labels, lag);
    }

    fn finish(self) -> String {
        let mut text = String::new();
        for (name, kind, help, samples) in self.0 {
            write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")
                .expect("a String accepts every write");
        }
        text
    }
}

/// A column as a label name: invalid characters become `_`, and reserved names get a prefix.
fn label(column: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '_' };
    let name: String = column.chars().map(letter).collect();
    let is_ours = name == "stream" || name.starts_with("__") || name.starts_with(|c: char| c.is_ascii_digit());
    if is_ours || name.is_empty() { format!("group_{name}") } else { name }
}
