//! Answers as data.

use super::samples::publication_samples;
use crate::engine::{GuaranteeStatement, RowsQuery, Service, StreamInfo};
use crate::sinks::PublicationWriters;
use evertally_declare::error::Result;
use evertally_declare::format::Format;
use evertally_declare::steps::Instant;
use evertally_declare::stream::{Coverage, Stream};
use evertally_publish::report::ErrorFacts;
use evertally_publish::rows::ReleaseRow;
use evertally_tables::output::{TableSpec, TableWriter};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The most names of groups in a description.
pub(super) const MAX_LISTED_GROUPS: usize = 1000;

/// The most rows that are sent to watchers; they request the rows of larger publications.
const MAX_WATCHED_ROWS: usize = 256;

/// A stream, for its readers.
#[derive(Serialize, ToSchema)]
pub(super) struct Description {
    name: String,
    title: String,
    /// `open`, `ended`, `retired`, `recovering` or `failed`.
    state: String,
    public: bool,
    /// The counted or summed quantity, in words.
    quantity: String,
    /// Who is protected, in words.
    unit: String,
    time_column: String,
    group_columns: Vec<String>,
    person_column: Option<String>,
    value_column: Option<String>,
    start: String,
    /// `null` without an end.
    end: Option<String>,
    every: String,
    zone: String,
    /// The number of all publications; `null` without an end.
    steps: Option<u64>,
    /// The number of publications shown.
    published: u64,
    /// The end of the last publication shown.
    published_until: Option<String>,
    /// When the next publication is shown, if the clock decides that.
    next_publication: Option<String>,
    /// The number of lines: groups, or measures of groups.
    group_count: usize,
    /// The names of lines: one text per group column, and the measure if there are several.
    groups: Vec<Vec<String>>,
    more_groups: bool,
    /// Whether groups are discovered: shown once many people have them.
    discovered: bool,
    /// The name of the column of measures or workloads, if there are several.
    measure_column: Option<String>,
    measures: Vec<String>,
    confidence: f64,
    band: String,
    /// Whether all values are whole numbers.
    integral: bool,
    /// Whether rows have views next to the released values: `view_value`, `view_lower`, `view_upper`.
    has_views: bool,
    guarantee: GuaranteeAnswer,
    mechanism: String,
    plan_digest: String,
    /// The largest standard error of a released value; `null` if it grows without bound.
    max_std_error: Option<f64>,
    /// The data source whose budget it spends.
    source: Option<String>,
    /// The digest of all published rows, in hexadecimal.
    head: String,
    /// `schedule`, `operator` or `sums`.
    closing: String,
}

/// The privacy guarantee.
#[derive(Serialize, ToSchema)]
pub(super) struct GuaranteeAnswer {
    words: String,
    epsilon: Option<f64>,
    delta: Option<f64>,
    /// ρ of zero-concentrated differential privacy; it holds apart from a failure with probability `selection_delta`.
    rho: f64,
    /// The probability that the selection of groups fails: counted in `delta`, not in `rho`. `null` if groups are
    /// declared.
    selection_delta: Option<f64>,
}

/// A time as RFC 3339, in the time zone of the stream.
pub(super) fn time(stream: &Stream, instant: Instant) -> String {
    let Some(time) = instant.timestamp() else { return String::new() };
    let zoned = time.to_zoned(stream.calendar.zone().time_zone().clone());
    zoned.timestamp().display_with_offset(zoned.offset()).to_string()
}

impl Description {
    pub(super) fn new(info: &StreamInfo) -> Self {
        let (stream, progress, record) = (&info.stream, info.progress(), info.record());
        let (calendar, is_endless) = (stream.rows(), stream.plan.is_unbounded());
        let names = info.names(MAX_LISTED_GROUPS);
        Self {
            name: info.name().to_owned(),
            title: stream.title.clone(),
            state: progress.state.word().to_owned(),
            public: record.public,
            quantity: stream.quantity_since(),
            unit: stream.unit(),
            time_column: stream.columns.time.clone(),
            group_columns: stream.columns.labels.clone(),
            person_column: stream.columns.person.clone(),
            value_column: stream.columns.value.clone(),
            start: time(stream, calendar.start()),
            end: (!is_endless).then(|| time(stream, calendar.end())),
            every: calendar.every().to_string(),
            zone: calendar.zone().name().to_owned(),
            steps: (!is_endless).then(|| calendar.steps()),
            published: progress.publications,
            published_until: (progress.publications > 0).then(|| time(stream, calendar.end_of(progress.publications))),
            next_publication: progress.shows_at.map(|at| time(stream, at)),
            group_count: info.line_count(),
            groups: names.iter().map(|name| name.to_vec()).collect(),
            more_groups: info.line_count() > MAX_LISTED_GROUPS,
            discovered: stream.plan.threshold().is_some(),
            measure_column: stream.measures.as_ref().map(|bundle| bundle.column().to_owned()),
            measures: stream.measures.as_ref().map_or(Vec::new(), |bundle| bundle.labels()),
            confidence: stream.confidence,
            band: if stream.band == Coverage::Simultaneous { "simultaneous" } else { "pointwise" }.to_owned(),
            integral: stream.is_integral(),
            has_views: !stream.views.is_empty(),
            guarantee: GuaranteeAnswer::new(info),
            mechanism: stream.plan.mechanism().name().brief().to_string(),
            plan_digest: blake3::Hash::from_bytes(stream.plan_digest()).to_hex().to_string(),
            max_std_error: info.max_std_error(),
            source: record.source,
            head: blake3::Hash::from_bytes(progress.head).to_hex().to_string(),
            closing: record.closing.word().to_owned(),
        }
    }
}

impl GuaranteeAnswer {
    fn new(info: &StreamInfo) -> Self {
        let GuaranteeStatement { words, epsilon, delta, rho, selection_delta } = info.promise();
        Self { words, epsilon, delta, rho, selection_delta }
    }
}

/// The errors of a stream's rows.
pub(super) fn errors(stream: &Stream) -> ErrorFacts {
    ErrorFacts::for_releases(stream)
}

/// A released row: `time`, a text for each group column, `step`, `value`, `std_error`, `lower`, `upper`, `end`, and
/// `view_value`, `view_lower`, `view_upper` if there are views.
#[derive(Serialize, ToSchema)]
#[schema(value_type = Object)]
pub(super) struct RowAnswer(pub(super) Map<String, Value>);

/// Rows of some publications.
#[derive(Serialize, ToSchema)]
pub(super) struct Releases {
    pub(super) stream: String,
    /// The first publication of the answer.
    pub(super) from: u64,
    /// The last one; less than `from` if there are none.
    pub(super) to: u64,
    pub(super) rows: Vec<RowAnswer>,
}

/// Rows as JSON, exactly as in the table, with the ends of their steps.
pub(super) struct JsonRows<'s> {
    stream: &'s Stream,
    writer: TableWriter<Vec<u8>>,
    ends: Vec<Instant>,
}

impl<'s> JsonRows<'s> {
    pub(super) fn new(stream: &'s Stream, table: &TableSpec) -> Result<Self> {
        let writer = TableWriter::new(Format::JsonLines, table, Vec::new())?;
        Ok(Self { stream, writer, ends: Vec::new() })
    }

    pub(super) fn add(&mut self, row: &ReleaseRow<'_>) -> Result<()> {
        self.ends.push(row.span.1);
        self.writer.write(row)
    }

    /// The rows, separated by commas.
    pub(super) fn finish(self) -> Result<String> {
        self.finish_with(',')
    }

    /// The rows with a separator between them.
    fn finish_with(self, separator: char) -> Result<String> {
        let lines = self.writer.finish()?;
        let text = String::from_utf8(lines).map_err(evertally_declare::error::failure)?;
        let mut rows = String::with_capacity(text.len() + 48 * self.ends.len());
        for (line, end) in text.lines().zip(&self.ends) {
            if !rows.is_empty() {
                rows.push(separator);
            }
            rows.push_str(line.trim_end().strip_suffix('}').unwrap_or(line));
            rows.push_str(",\"end\":\"");
            rows.push_str(&time(self.stream, *end));
            rows.push_str("\"}");
        }
        Ok(rows)
    }
}

/// A publication for watchers: without its rows if there are many.
pub(super) fn publication(service: &Service, info: &StreamInfo, publication: u64) -> String {
    let has_many = info.line_count() > MAX_WATCHED_ROWS;
    let rows = if has_many { None } else { rows_of(service, info, publication).ok() };
    message(service, info, publication, rows)
}

/// A publication with all of its rows, as JSON.
///
/// # Errors
/// If the store cannot be read.
pub fn publication_message(service: &Service, info: &StreamInfo, publication: u64) -> Result<String> {
    let rows = rows_of(service, info, publication)?;
    Ok(message(service, info, publication, Some(rows)))
}

fn message(service: &Service, info: &StreamInfo, publication: u64, rows: Option<String>) -> String {
    let rows = rows.map_or("null".to_owned(), |rows| format!("[{rows}]"));
    let (stream, calendar) = (&info.stream, info.stream.rows());
    let (begins, ends) = (calendar.start_of(publication), calendar.end_of(publication));
    let head = service.head_of(info, publication).unwrap_or_default();
    let head = blake3::Hash::from_bytes(head).to_hex();
    let text = |text: &str| serde_json::to_string(text).expect("a text is plain data");
    format!(
        "{{\"stream\":{},\"publication\":{publication},\"time\":\"{}\",\"end\":\"{}\",\"head\":\"{head}\",\
         \"rows\":{rows}}}",
        text(info.name()),
        time(stream, begins),
        time(stream, ends)
    )
}

fn rows_of(service: &Service, info: &StreamInfo, publication: u64) -> Result<String> {
    json_rows(service, info, publication)?.finish()
}

fn json_rows<'s>(service: &Service, info: &'s StreamInfo, publication: u64) -> Result<JsonRows<'s>> {
    let mut rows = JsonRows::new(&info.stream, &info.table)?;
    service.rows(info, &RowsQuery::new(publication..=publication), &mut |_, row| rows.add(row))?;
    Ok(rows)
}

/// The writers of publications for sinks.
pub(super) const PUBLICATION_WRITERS: PublicationWriters = PublicationWriters {
    lines: publication_lines,
    message: publication_message,
    parquet: publication_parquet,
    samples: publication_samples,
};

/// The rows of a publication as JSON lines, with the same fields as in its message.
///
/// # Errors
/// If the store cannot be read.
fn publication_lines(service: &Service, info: &StreamInfo, publication: u64) -> Result<String> {
    json_rows(service, info, publication)?.finish_with('\n')
}

/// The rows of a publication as a file of Parquet.
///
/// # Errors
/// If the store cannot be read, or a group column has the name of a column of the release.
fn publication_parquet(service: &Service, info: &StreamInfo, publication: u64) -> Result<Vec<u8>> {
    let mut rows = TableWriter::new(Format::Parquet, &info.table, Vec::new())?;
    service.rows(info, &RowsQuery::new(publication..=publication), &mut |_, row| rows.write(row))?;
    rows.finish()
}
