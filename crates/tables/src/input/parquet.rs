//! Parquet: only the wanted columns, a batch of rows at a time.

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::batches::RowBatch;
use super::source::ParquetFile;
use super::{BATCH_ROWS, header};
use crate::progress::Progress;
use evertally_publish::error::{InputError, Place, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The rows of one file.
pub(super) struct ParquetRows {
    file: String,
    batches: ParquetRecordBatchReader,
    /// Rows handed on, of how many.
    row: u64,
    total_rows: u64,
    /// Bytes reported as read, of how many.
    reported: u64,
    bytes_to_report: u64,
}

impl ParquetRows {
    /// Reads the schema.
    pub(super) fn open(file: &str, source: ParquetFile, wanted: &[String]) -> Result<Self> {
        let builder = guarded(file, || ParquetRecordBatchReaderBuilder::try_new(source.file))?;
        let builder = builder.map_err(|e| damaged(file, &e))?;
        let schema = builder.schema().clone();
        let present: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let places = header::locate(file, wanted, &present)?;
        let total_rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let mask = ProjectionMask::roots(builder.parquet_schema(), places.iter().copied());
        let batches = builder.with_projection(mask).with_batch_size(BATCH_ROWS).build();
        let batches = batches.map_err(|e| damaged(file, &e))?;
        let bytes_to_report = source.bytes_to_report;
        Ok(ParquetRows { file: file.to_owned(), batches, row: 0, total_rows, reported: 0, bytes_to_report })
    }

    /// The next rows; `None` at the end of the file.
    pub(super) fn next(&mut self, progress: &dyn Progress) -> Result<Option<RowBatch>> {
        let Some(batch) = guarded(&self.file, || self.batches.next())? else { return Ok(None) };
        let batch = batch.map_err(|e| damaged(&self.file, &e).at(Place::Row(self.row + 1)))?;
        let rows = RowBatch { batch, before: self.row };
        self.row += rows.batch.num_rows() as u64;
        let bytes = share(self.bytes_to_report, self.row, self.total_rows);
        progress.advance(bytes - self.reported);
        self.reported = bytes;
        Ok(Some(rows))
    }
}

/// What a part of the Parquet library gives: it panics over some damaged files, where it should say that they are.
fn guarded<T>(file: &str, read: impl FnOnce() -> T) -> Result<T, InputError> {
    // Nothing that a panic interrupts is used again: the error ends the reading.
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| damaged(file, &"its reader gave up"))
}

fn damaged(file: &str, problem: &dyn std::fmt::Display) -> InputError {
    InputError::of_file(file, format!("this Parquet file cannot be read ({problem}); it may be cut short or damaged"))
}

fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 { bytes } else { (u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole)) as u64 }
}
