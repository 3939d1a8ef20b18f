//! Events from CSV, JSON lines, Parquet and tables in memory, one pass in bounded memory.
//!
//! [`for_each_event`] reads any number of files in order, or standard input (`-`), plain or compressed with gzip or
//! zstd. What a file is, is told from its first bytes and never from its name. Cells are handed on as the file holds
//! them: text stays text, so that numbers can be read exactly.

mod batches;
mod csv;
mod header;
mod json;
mod lines;
mod parquet;
mod source;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatchReader;
use evertally_publish::declaration::TableFormat;
use evertally_publish::error::{Cancelled, InputError, Place, refuse_if};
use evertally_publish::event::{Cells, Columns, Event, Field, Layout, Position};
use evertally_publish::words::quoted;

use crate::progress::Progress;

use source::Opened;

/// Rows between two looks at the cancellation flag.
const ROWS_PER_CHECK: u64 = 4096;

/// How a file holds its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputFormat {
    /// Comma separated values with a header line.
    Csv,
    /// One JSON object a line.
    JsonLines,
    /// Apache Parquet.
    Parquet,
}

impl From<TableFormat> for InputFormat {
    fn from(format: TableFormat) -> Self {
        match format {
            TableFormat::Csv => Self::Csv,
            TableFormat::JsonLines => Self::JsonLines,
            TableFormat::Parquet => Self::Parquet,
        }
    }
}

impl FromStr for InputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "csv" => Ok(InputFormat::Csv),
            "jsonl" | "ndjson" => Ok(InputFormat::JsonLines),
            "parquet" => Ok(InputFormat::Parquet),
            _ => Err(format!("{} is not an input format: use csv, jsonl or parquet", quoted(text))),
        }
    }
}

impl std::fmt::Display for InputFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            InputFormat::Csv => "CSV",
            InputFormat::JsonLines => "JSON lines",
            InputFormat::Parquet => "Parquet",
        })
    }
}

/// How to read the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format of every file; found out from its first bytes when `None`.
    pub format: Option<InputFormat>,
    /// What separates the cells of a CSV line.
    pub delimiter: u8,
    /// Texts that stand for a missing cell, such as `NA`. Empty cells, nulls and absent keys always do.
    pub missing: Vec<String>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { format: None, delimiter: b',', missing: Vec::new() }
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files read to their end.
    pub files: u64,
    /// Rows handed to the callback.
    pub rows: u64,
}

/// Calls `visit` for every row of every file, in order.
///
/// Memory does not depend on the number of rows. The first error ends the pass: an [`InputError`] for anything wrong
/// with the input, [`Cancelled`] soon after `cancelled` becomes true, and whatever `visit` returns, unchanged.
pub fn for_each_event(
    sources: &[PathBuf],
    columns: &Columns,
    options: &ReadOptions,
    progress: &dyn Progress,
    cancelled: &AtomicBool,
    visit: &mut dyn FnMut(&Event<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Summary> {
    refuse_second_stdin(sources)?;
    progress.start(source::total_bytes(sources));
    let layout = Layout::new(columns);
    let mut files = 0;
    let mut pass = Pass { layout: &layout, options, progress, cancelled, visit, rows: 0 };
    for path in sources {
        let name = source::display_name(path);
        match source::open(path, &name, options, progress, cancelled)? {
            Opened::Csv(reader) => csv::read(&name, reader, &mut pass)?,
            Opened::JsonLines(reader) => json::read(&name, reader, &mut pass)?,
            Opened::Parquet(file) => parquet::read(&name, file, &mut pass)?,
        }
        files += 1;
    }
    pass.check_cancelled()?;
    progress.finish();
    Ok(Summary { files, rows: pass.rows })
}

/// The same for the rows of a table in memory.
pub fn for_each_event_of_table(
    table: &mut dyn RecordBatchReader,
    columns: &Columns,
    options: &ReadOptions,
    cancelled: &AtomicBool,
    visit: &mut dyn FnMut(&Event<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Summary> {
    let layout = Layout::new(columns);
    let mut pass = Pass { layout: &layout, options, progress: &(), cancelled, visit, rows: 0 };
    batches::read(table, &mut pass)?;
    pass.check_cancelled()?;
    Ok(Summary { files: 1, rows: pass.rows })
}

fn refuse_second_stdin(sources: &[PathBuf]) -> Result<(), InputError> {
    if sources.iter().filter(|p| source::is_stdin(p)).count() > 1 {
        return Err(InputError::of_file(
            source::STDIN_NAME,
            "it is named twice, but can be read only once; give `-` once",
        ));
    }
    Ok(())
}

/// What all readers share during one pass.
struct Pass<'p> {
    layout: &'p Layout,
    options: &'p ReadOptions,
    progress: &'p dyn Progress,
    cancelled: &'p AtomicBool,
    visit: &'p mut dyn FnMut(&Event<'_>) -> anyhow::Result<()>,
    rows: u64,
}

impl Pass<'_> {
    #[inline]
    fn emit(&mut self, file: &str, place: Place, cells: &dyn Cells) -> anyhow::Result<()> {
        if self.rows.is_multiple_of(ROWS_PER_CHECK) {
            self.check_cancelled()?;
        }
        self.rows += 1;
        (self.visit)(&Event::new(Position { file, place }, cells, self.layout))
    }

    fn check_cancelled(&self) -> Result<(), Cancelled> {
        refuse_if(self.cancelled)
    }
}

/// A text cell, or missing when it is empty or declared to stand for nothing.
#[inline]
fn text_field<'a>(text: &'a str, missing: &[String]) -> Field<'a> {
    if text.is_empty() || missing.iter().any(|m| m == text) { Field::Missing } else { Field::Text(text) }
}
