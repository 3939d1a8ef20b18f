//! The released table, row by row.

use std::io::Write;

use super::OutputFormat;
use super::parquet::ParquetTable;
use super::spec::TableSpec;
use super::text::{CsvTable, JsonTable};
use evertally_declare::error::Result;
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
    pub fn new(format: OutputFormat, spec: &TableSpec, out: W) -> Result<Self> {
        Self::begin(format, spec, false, out)
    }

    /// The same for rows that are appended to others, without a header line.
    pub fn append(format: OutputFormat, spec: &TableSpec, out: W) -> Result<Self> {
        Self::begin(format, spec, true, out)
    }

    fn begin(format: OutputFormat, spec: &TableSpec, appends: bool, out: W) -> Result<Self> {
        Ok(TableWriter(match format {
            OutputFormat::Csv => Writer::Csv(Box::new(CsvTable::new(spec, appends, out)?)),
            OutputFormat::JsonLines => Writer::JsonLines(JsonTable::new(spec, out)),
            OutputFormat::Parquet => Writer::Parquet(Box::new(ParquetTable::new(spec, out)?)),
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
