//! The forecast of a run's table, and its JSON summary for programs.

use super::setup::ReleaseSetup;
use crate::stream::Files;
use anyhow::Result;
use evertally_declare::format::Format;
use evertally_declare::words::short;
use evertally_publish::report::{ErrorFacts, MeasureFacts, SelectionFacts};
use serde_json::json;
use std::io::Write;

/// In bytes. A table of at least this size is announced before it is written.
const LARGE_TABLE_BYTES: f64 = 1e9;

/// The expected size of the table. It follows from the declaration, like everything except the values.
pub(super) struct Forecast {
    steps: u64,
    groups: u64,
    /// Rows per group and step.
    measures: u64,
    pub(super) rows: u128,
    pub(super) bytes: f64,
    seconds: f64,
    format: Format,
    /// Whether the number of groups is still unknown.
    is_open: bool,
}

impl Forecast {
    /// The forecast for the steps that this run publishes.
    pub(super) fn new(setup: &ReleaseSetup, files: &Files) -> Self {
        let (stream, groups) = (&setup.stream, setup.group_count() as u64);
        let plan = &stream.plan;
        let texts = setup.groups.iter().flat_map(|groups| groups.tuples()).flatten().map(|text| text.len() + 1);
        let texts = texts.sum::<usize>() as f64 / groups as f64;
        let mut time = String::new();
        stream.rows().write_time(stream.rows().start_of(1), &mut time);
        // Value and ends of the interval have as many digits as the noise, or as the counts.
        let digits =
            libm::log10(stream.errors_of_rows(plan).0.max(1e4)).ceil() + if stream.is_integral() { 1.0 } else { 6.0 };
        let step = libm::log10(stream.last_row() as f64).ceil().max(1.0);
        let cells = time.len() as f64 + texts + step + 3.0 * digits + 9.0 + 6.0;
        let format = files.output_format;
        let bytes = match format {
            // The names of the columns.
            Format::JsonLines => cells + 70.0,
            // Times, groups and steps repeat and compress to almost nothing; noise cannot be compressed.
            Format::Parquet => 16.0,
            _ => cells,
        };
        let measures = setup.rows_of_a_group() as u64;
        let rows = u128::from(stream.last_row()) * u128::from(groups) * u128::from(measures);
        // Measured: writing a row takes about 0.6 µs, and a draw of noise 0.2 µs.
        let each = 0.6e-6 + 0.2e-6 * plan.mechanism().cost().work_per_step;
        let (bytes, seconds) = (bytes * rows as f64, each * rows as f64);
        let is_open = plan.threshold().is_some();
        Self { steps: stream.last_row(), groups, measures, rows, bytes, seconds, format, is_open }
    }

    /// The forecast in one line.
    pub(super) fn in_words(&self) -> String {
        let Self { steps, groups, measures, rows, format, .. } = self;
        if self.is_open {
            return format!("table: {steps} rows for each group that is shown, as {format}");
        }
        let product = match (*groups, *measures) {
            (1, 1) => String::new(),
            (_, 1) => format!("{steps} steps × {groups} groups = "),
            (1, _) => format!("{steps} steps × {measures} rows = "),
            _ => format!("{steps} steps × {groups} groups × {measures} rows = "),
        };
        let duration = match self.seconds {
            few if few < 10.0 => String::new(),
            some if some < 100.0 => format!(", in about {some:.0} s"),
            some if some < 6000.0 => format!(", in about {:.0} min", some / 60.0),
            many => format!(", in about {} hours", short((many / 360.0).round() / 10.0)),
        };
        format!("table: {product}{rows} rows, about {} as {format}{duration}", size(self.bytes))
    }

    /// Prints the forecast on standard error if the table is large.
    pub(super) fn warn(&self) {
        if self.bytes >= LARGE_TABLE_BYTES {
            eprintln!("note: {}; wider steps, fewer groups or an earlier --through make it smaller", self.in_words());
        }
    }
}

/// A size in a readable unit.
fn size(bytes: f64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let found = units.into_iter().find(|(_, unit)| bytes >= *unit);
    found.map_or_else(|| format!("{bytes:.0} bytes"), |(name, unit)| format!("{:.1} {name}", bytes / unit))
}

/// Prints a JSON summary of the run, or of the plan.
pub(super) fn print_json(setup: &ReleaseSetup, files: &Files, error: &ErrorFacts, done: bool) -> Result<()> {
    let stream = &setup.stream;
    let (plan, forecast) = (&stream.plan, Forecast::new(setup, files));
    let mut summary = json!({
        "stream": stream.name.as_str(),
        "mechanism": plan.mechanism().name().brief(),
        "noise": plan.noise_kind().to_string(),
        "budget": plan.request().budget(),
        "unit": stream.unit(),
        "steps": (!plan.is_unbounded()).then(|| stream.rows().steps()),
        "released_steps": stream.last_row(),
        "group_columns": stream.columns.labels,
        "groups": setup.groups.as_ref().map(|groups| groups.tuples().len()),
        "selection": SelectionFacts::new(stream),
        "measures": MeasureFacts::new(stream),
        "max_std_error": error.max_std_error,
        "last_step_half_width": error.last_step_half_width,
        "confidence": error.confidence,
        "rows": u64::try_from(forecast.rows).unwrap_or(u64::MAX),
    });
    if done {
        summary["out"] = json!(files.out);
        summary["beside"] = json!(files.written().iter().map(|ending| files.sibling(ending)).collect::<Vec<_>>());
    } else {
        summary["estimated_bytes"] = json!(forecast.bytes.round());
    }
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &summary).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
