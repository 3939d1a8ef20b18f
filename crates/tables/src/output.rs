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

pub use appended::{AppendTarget, deliver, files_of};
pub use columns::TableColumns;
pub use publication::{OutputError, OutputFile, RunOutputs, is_stream};
pub use spec::TableSpec;
pub use table::TableWriter;

use evertally_declare::declaration::Parameter;
use evertally_declare::format::Format;
use evertally_declare::problem::sentence;
use evertally_declare::words::any_of;

/// The format for a file name's extension; CSV for standard output (`-`).
///
/// # Errors
/// If no table is written in a format with this extension.
pub fn format_of(path: &Path) -> Result<Format, OutputError> {
    if path.as_os_str() == "-" {
        return Ok(Format::Csv);
    }
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    Format::from_output_ending(&extension).ok_or_else(|| {
        let endings = Format::ALL.into_iter().filter(|format| format.is_writable()).filter_map(Format::ending);
        let endings: Vec<String> = endings.map(|ending| format!(".{ending}")).collect();
        let problem = format!(
            "its name has no known extension; end it in {}, or declare ",
            any_of(endings.iter().map(String::as_str))
        );
        OutputError::new(path, sentence![problem, Parameter::OutputFormat])
    })
}
