//! The released table, row by row.

use std::io::Write;

use super::parquet::ParquetTable;
use super::spec::TableSpec;
use super::text::{CsvTable, JsonTable};
use evertally_declare::error::{Result, usage};
use evertally_declare::format::Format;
use evertally_publish::rows::ReleaseRow;

/// Writes rows to one of the formats, in bounded memory.
pub struct TableWriter<W: Write + Send>(Writer<W>);

enum Writer<W: Write + Send> {
    Csv(Box<CsvTable<W>>),
    JsonLines(JsonTable<W>),
    Parquet(Box<ParquetTable<W>>),
}

impl<W: Write + Send> TableWriter<W> {
    /// Starts a table that is written to `out`.
    ///
    /// # Errors
    /// If no table is written in this format, or the columns do not fit it.
    pub fn new(format: Format, spec: &TableSpec, out: W) -> Result<Self> {
        Self::begin(format, spec, false, out)
    }

    /// The same for rows that are appended to others, without a header line.
    pub fn append(format: Format, spec: &TableSpec, out: W) -> Result<Self> {
        Self::begin(format, spec, true, out)
    }

    fn begin(format: Format, spec: &TableSpec, appends: bool, out: W) -> Result<Self> {
        Ok(TableWriter(match format {
            Format::Csv => Writer::Csv(Box::new(CsvTable::new(spec, appends, out)?)),
            Format::JsonLines => Writer::JsonLines(JsonTable::new(spec, out)),
            Format::Parquet => Writer::Parquet(Box::new(ParquetTable::new(spec, out)?)),
            Format::Arrow | Format::Xes | Format::Xlsx | Format::Json | Format::CommonLog | Format::CombinedLog => {
                let words = Format::any_word_of(Format::is_writable);
                return Err(usage(format!("tables are not written to files as {format}: use {words}")));
            }
        }))
    }

    /// Writes one row.
    ///
    /// # Panics
    /// If the number of the row's texts differs from the number of group columns.
    pub fn write(&mut self, row: &ReleaseRow<'_>) -> Result<()> {
        match &mut self.0 {
            Writer::Csv(table) => table.write(row),
            Writer::JsonLines(table) => table.write(row),
            Writer::Parquet(table) => table.write(row),
        }
    }

    /// Writes the end of the format and returns `out`, flushed.
    pub fn finish(self) -> Result<W> {
        match self.0 {
            Writer::Csv(table) => table.finish(),
            Writer::JsonLines(table) => table.finish(),
            Writer::Parquet(table) => table.finish(),
        }
    }
}
