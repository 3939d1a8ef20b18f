//! Parquet: only the wanted columns, a batch of rows at a time.

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::batches::{BATCH_ROWS, emit_rows};
use super::source::ParquetFile;
use super::{Pass, header};
use evertally_publish::error::{InputError, Place};

pub(super) fn read(file: &str, source: ParquetFile, pass: &mut Pass<'_>) -> anyhow::Result<()> {
    let damaged = |e: &dyn std::fmt::Display| {
        let text = e.to_string();
        InputError::of_file(file, format!("this Parquet file cannot be read ({text}); it may be cut short or damaged"))
    };
    let builder = ParquetRecordBatchReaderBuilder::try_new(source.file).map_err(|e| damaged(&e))?;
    let schema = builder.schema().clone();
    let present: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let places = header::locate(file, pass.layout.names(), &present)?;
    let total_rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
    let mask = ProjectionMask::roots(builder.parquet_schema(), places.iter().copied());
    let batches = builder.with_projection(mask).with_batch_size(BATCH_ROWS).build().map_err(|e| damaged(&e))?;

    let (mut row, mut reported) = (0u64, 0u64);
    for batch in batches {
        pass.check_cancelled()?;
        let batch = batch.map_err(|e| damaged(&e).at(Place::Row(row + 1)))?;
        row = emit_rows(file, &batch, row, pass)?;
        let bytes = share(source.bytes_to_report, row, total_rows);
        pass.progress.advance(bytes - reported);
        reported = bytes;
    }
    Ok(())
}

fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 { bytes } else { (u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole)) as u64 }
}
