//! Writes a release: the table in three formats, and all files of a run together or not at all.

mod appended;
mod columns;
mod parquet;
mod publication;
mod spec;
mod table;
mod text;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::str::FromStr;

pub use appended::{AppendTarget, deliver, files_of};
pub use columns::TableColumns;
pub use publication::{OutputError, OutputFile, RunOutputs, is_stream};
pub use spec::TableSpec;
pub use table::TableWriter;

use evertally_declare::declaration::{Parameter, TableFormat};
use evertally_declare::problem::sentence;
use evertally_declare::words::quoted;

/// The format of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Comma separated values with a header line.
    Csv,
    /// One JSON object per line.
    JsonLines,
    /// Apache Parquet.
    Parquet,
}

impl OutputFormat {
    /// The format for a file name's extension; CSV for standard output (`-`).
    pub fn of_path(path: &Path) -> Result<Self, OutputError> {
        if path.as_os_str() == "-" {
            return Ok(OutputFormat::Csv);
        }
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        match extension.as_str() {
            "csv" => Ok(OutputFormat::Csv),
            "jsonl" | "ndjson" => Ok(OutputFormat::JsonLines),
            "parquet" | "pq" => Ok(OutputFormat::Parquet),
            _ => Err(OutputError::new(
                path,
                sentence![
                    "its name has no known extension; end it in .csv, .jsonl or .parquet, or declare ",
                    Parameter::OutputFormat
                ],
            )),
        }
    }
}

impl From<TableFormat> for OutputFormat {
    fn from(format: TableFormat) -> Self {
        match format {
            TableFormat::Csv => Self::Csv,
            TableFormat::JsonLines => Self::JsonLines,
            TableFormat::Parquet => Self::Parquet,
        }
    }
}

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "csv" => Ok(OutputFormat::Csv),
            "jsonl" | "ndjson" => Ok(OutputFormat::JsonLines),
            "parquet" => Ok(OutputFormat::Parquet),
            _ => Err(format!("{} is not an output format: use csv, jsonl or parquet", quoted(text))),
        }
    }
}
