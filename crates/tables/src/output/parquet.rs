//! The table as Parquet.

use std::io::{self, Write};

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::columns::{END, TableColumns};
use super::publication::plain_io_error;
use super::spec::TableSpec;
use evertally_declare::error::{PipelineError, Result, failure, usage};
use evertally_publish::rows::ReleaseRow;

/// Rows collected into one batch.
const BATCH_ROWS: usize = 8 * 1024;

/// Rows of a row group, which is the maximum held in memory (compressed).
const GROUP_ROWS: usize = 256 * 1024;

/// Parquet with instants, text groups, 64-bit values and zstd pages.
pub(super) struct ParquetTable<W: Write + Send> {
    writer: ArrowWriter<W>,
    columns: TableColumns,
    rows: usize,
}

impl<W: Write + Send> ParquetTable<W> {
    pub(super) fn new(spec: &TableSpec, out: W) -> Result<Self> {
        if spec.zone().is_some() && spec.groups().iter().any(|name| name == END) {
            return Err(usage(format!(
                "the column `{END}` has the name of a column of the release in Parquet; rename it in the input, or \
                 write CSV or JSON lines"
            )));
        }
        let columns = TableColumns::new(spec);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).expect("a zstd level")))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .build();
        let writer = ArrowWriter::try_new(out, columns.schema(), Some(properties)).map_err(parquet_error)?;
        Ok(ParquetTable { writer, columns, rows: 0 })
    }

    pub(super) fn write(&mut self, row: &ReleaseRow<'_>) -> Result<()> {
        self.columns.push(row)?;
        self.rows += 1;
        if self.rows == BATCH_ROWS { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> Result<()> {
        let batch = self.columns.finish()?;
        self.rows = 0;
        self.writer.write(&batch).map_err(parquet_error)
    }

    pub(super) fn finish(mut self) -> Result<W> {
        if self.rows > 0 {
            self.write_batch()?;
        }
        let mut out = self.writer.into_inner().map_err(parquet_error)?;
        out.flush().map_err(plain_io_error)?;
        Ok(out)
    }
}

fn parquet_error(error: ParquetError) -> PipelineError {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => plain_io_error(*cause),
            Err(cause) => failure(format_args!("the table cannot be written as Parquet ({cause})")),
        },
        other => failure(format_args!("the table cannot be written as Parquet ({other})")),
    }
}
