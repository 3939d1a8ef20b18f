//! The table as CSV and as JSON lines.

use std::fmt::Write as _;
use std::io::Write;

use super::publication::plain_io_error;
use super::spec::{TableSpec, VIEW};
use evertally_declare::error::{PipelineError, Result, failure};
use evertally_publish::rows::ReleaseRow;

/// A double as its shortest exact decimal text; nothing if it is not finite.
fn push_number(number: f64, out: &mut String) {
    let magnitude = number.abs();
    let written = if !number.is_finite() {
        Ok(())
    } else if magnitude != 0.0 && !(1e-5..1e16).contains(&magnitude) {
        write!(out, "{number:e}")
    } else {
        write!(out, "{number}")
    };
    written.expect("a String accepts every write");
}

/// CSV, quoted where needed, lines ending in `\n`.
pub(super) struct CsvTable<W: Write> {
    writer: csv::Writer<W>,
    groups: usize,
    scratch: String,
}

impl<W: Write> CsvTable<W> {
    /// Starts with a header line, unless the file has one already because the table `appends` to it.
    pub(super) fn new(spec: &TableSpec, appends: bool, out: W) -> Result<Self> {
        let mut writer = csv::WriterBuilder::new().buffer_capacity(64 * 1024).from_writer(out);
        if !appends {
            writer.write_record(spec.columns()).map_err(csv_error)?;
        }
        Ok(CsvTable { writer, groups: spec.groups().len(), scratch: String::new() })
    }

    pub(super) fn write(&mut self, row: &ReleaseRow<'_>) -> Result<()> {
        assert_eq!(row.groups.len(), self.groups, "one text per group column");
        self.write_cells(row).map_err(csv_error)
    }

    fn write_cells(&mut self, row: &ReleaseRow<'_>) -> csv::Result<()> {
        self.writer.write_field(row.time)?;
        for group in row.groups {
            self.writer.write_field(group)?;
        }
        self.scratch.clear();
        write!(self.scratch, "{}", row.step).expect("a String accepts every write");
        self.writer.write_field(&self.scratch)?;
        self.writer.write_field(row.value.text)?;
        for number in [row.std_error, row.lower, row.upper] {
            self.scratch.clear();
            push_number(number, &mut self.scratch);
            self.writer.write_field(&self.scratch)?;
        }
        if let Some(view) = row.view {
            self.writer.write_field(view.value.text)?;
            for number in [view.lower, view.upper] {
                self.scratch.clear();
                push_number(number, &mut self.scratch);
                self.writer.write_field(&self.scratch)?;
            }
        }
        self.writer.write_record(None::<&[u8]>)
    }

    pub(super) fn finish(self) -> Result<W> {
        self.writer.into_inner().map_err(|e| plain_io_error(e.into_error()))
    }
}

fn csv_error(error: csv::Error) -> PipelineError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => plain_io_error(error),
        other => failure(format_args!("the table cannot be written as CSV ({other:?})")),
    }
}

/// JSON lines, keys in the order of the columns.
pub(super) struct JsonTable<W> {
    out: W,
    /// `"name":` of each group column.
    keys: Vec<String>,
    /// Name of the value column.
    value: &'static str,
    lines: String,
}

/// Characters collected before they are written.
const GATHERED: usize = 64 * 1024;

impl<W: Write> JsonTable<W> {
    pub(super) fn new(spec: &TableSpec, out: W) -> Self {
        let key = |name: &String| {
            let mut key = String::new();
            push_json_text(name, &mut key);
            key + ":"
        };
        JsonTable { out, keys: spec.groups().iter().map(key).collect(), value: spec.value_name(), lines: String::new() }
    }

    pub(super) fn write(&mut self, row: &ReleaseRow<'_>) -> Result<()> {
        assert_eq!(row.groups.len(), self.keys.len(), "one text per group column");
        let line = &mut self.lines;
        line.push_str("{\"time\":");
        push_json_text(row.time, line);
        for (key, group) in self.keys.iter().zip(row.groups) {
            line.push(',');
            line.push_str(key);
            push_json_text(group, line);
        }
        let value = if row.value.text.is_empty() { "null" } else { row.value.text };
        write!(line, ",\"step\":{},\"{}\":{value}", row.step, self.value).expect("a String accepts every write");
        for (key, number) in [("std_error", row.std_error), ("lower", row.lower), ("upper", row.upper)] {
            push_figure(key, number, line);
        }
        if let Some(view) = row.view {
            let [value, lower, upper] = VIEW;
            write!(line, ",\"{value}\":{}", view.value.text).expect("a String accepts every write");
            push_figure(lower, view.lower, line);
            push_figure(upper, view.upper, line);
        }
        line.push_str("}\n");
        if self.lines.len() >= GATHERED { self.flush_lines() } else { Ok(()) }
    }

    fn flush_lines(&mut self) -> Result<()> {
        self.out.write_all(self.lines.as_bytes()).map_err(plain_io_error)?;
        self.lines.clear();
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<W> {
        self.flush_lines()?;
        self.out.flush().map_err(plain_io_error)?;
        Ok(self.out)
    }
}

fn push_figure(key: &str, number: f64, line: &mut String) {
    write!(line, ",\"{key}\":").expect("a String accepts every write");
    if number.is_finite() { push_number(number, line) } else { line.push_str("null") }
}

fn push_json_text(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).expect("every text is a JSON string"));
}
