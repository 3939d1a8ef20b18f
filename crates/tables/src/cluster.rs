//! Rows between the processes of a [cluster](evertally_cluster) as Arrow record batches.
//!
//! | rows | columns |
//! |---|---|
//! | [sums](of_rows) | `step` (64-bit integer), `label` (binary), `sum` (64-bit integer) |
//! | [blocks](of_blocks) of persons' events | `shard` (32-bit integer), `step` (64-bit integer), `block` (binary) |

use crate::input::{Events, ReadOptions};
use crate::output::{TableColumns, TableSpec};
use crate::released::Times;
use arrow_array::builder::{BinaryBuilder, Int64Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use evertally_cluster::{BucketRows, ClusterJob, Reader, ShardBlock, ShuffleRow};
use evertally_declare::error::{PipelineError, Result, failure, refuse_if, usage};
use evertally_declare::event::Columns;
use evertally_declare::steps::StepCalendar;
use evertally_publish::rows::ReleaseRow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Rows of a batch of releases.
const BATCH_ROWS: usize = 1 << 16;

/// Reads the rows of a table as events. If the engine has already counted them, reads them as counts, which are in the
/// value column.
///
/// # Errors
/// If a column is missing or has a type that cannot be read. Problems of single rows are recorded by the reader.
pub fn read(
    reader: &mut Reader,
    table: &mut (dyn RecordBatchReader + Send),
    columns: &Columns,
    options: &ReadOptions,
    are_counts: bool,
    cancelled: &AtomicBool,
) -> Result<()> {
    let mut events = Events::from_table(table, columns, options, cancelled)?;
    while events.next_batch::<PipelineError>(&mut |event| {
        match are_counts {
            true => reader.read_count(event),
            false => reader.read(event),
        }
        Ok(())
    })? {}
    Ok(())
}

/// Sums as a batch.
pub fn of_rows(rows: &[ShuffleRow]) -> Result<RecordBatch> {
    let mut labels = BinaryBuilder::new();
    rows.iter().for_each(|row| labels.append_value(&row.label));
    // fits: steps are below 2^62
    let steps = Int64Array::from_iter_values(rows.iter().map(|row| row.step as i64));
    let sums = Int64Array::from_iter_values(rows.iter().map(|row| row.sum));
    let columns: [(&str, ArrayRef); 3] =
        [("step", Arc::new(steps)), ("label", Arc::new(labels.finish())), ("sum", Arc::new(sums))];
    RecordBatch::try_from_iter(columns).map_err(failure)
}

/// Blocks as a batch.
pub fn of_blocks(blocks: &[ShardBlock]) -> Result<RecordBatch> {
    let mut bytes = BinaryBuilder::new();
    blocks.iter().for_each(|one| bytes.append_value(&one.block));
    let shards = Int32Array::from_iter_values(blocks.iter().map(|one| one.shard as i32)); // fits: there are few shards
    let steps = Int64Array::from_iter_values(blocks.iter().map(|one| one.step as i64)); // fits: below 2^62
    let columns: [(&str, ArrayRef); 3] =
        [("shard", Arc::new(shards)), ("step", Arc::new(steps)), ("block", Arc::new(bytes.finish()))];
    RecordBatch::try_from_iter(columns).map_err(failure)
}

/// Visits the blocks of a batch.
///
/// # Errors
/// If it is not a batch of blocks, and any error that `visit` returns.
pub fn for_each_block(batch: &RecordBatch, mut visit: impl FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
    let shards = column(batch, "shard", &DataType::Int32)?.as_primitive::<Int32Type>();
    let blocks = column(batch, "block", &DataType::Binary)?.as_binary::<i32>();
    (0..batch.num_rows()).try_for_each(|row| visit(shards.value(row) as u32, blocks.value(row)))
}

/// The column of buckets that sums belong to.
///
/// # Errors
/// If there is no such column.
pub fn buckets_of(batch: &RecordBatch) -> Result<&Int32Array> {
    Ok(column(batch, "bucket", &DataType::Int32)?.as_primitive())
}

/// Visits the sums of a batch: number of the row, step, label and sum.
///
/// # Errors
/// If it is not a batch of sums, if a sum is missing because it left 64 bits, and any error that `visit` returns.
pub fn for_each_sum(batch: &RecordBatch, mut visit: impl FnMut(usize, u64, &[u8], i64) -> Result<()>) -> Result<()> {
    let steps = column(batch, "step", &DataType::Int64)?.as_primitive::<Int64Type>();
    let labels = column(batch, "label", &DataType::Binary)?.as_binary::<i32>();
    let sums = column(batch, "sum", &DataType::Int64)?.as_primitive::<Int64Type>();
    (0..batch.num_rows()).try_for_each(|row| {
        if sums.is_null(row) {
            let why = "the sum of a step leaves the range of 64-bit multiples of the grid; use a coarser grid";
            return Err(evertally::Error::overflow(why).into());
        }
        visit(row, steps.value(row) as u64, labels.value(row), sums.value(row))
    })
}

/// The sums of a batch as rows.
///
/// # Errors
/// As [`for_each_sum`].
pub fn to_rows(batch: &RecordBatch) -> Result<Vec<ShuffleRow>> {
    let mut rows = Vec::new();
    for_each_sum(batch, |_, step, label, sum| {
        rows.push(ShuffleRow { step, label: label.into(), sum });
        Ok(())
    })?;
    Ok(rows)
}

/// Sums with the names of their groups: the columns of the group, `step`, and `sum` as exact text, in units of the
/// data. Rows that are not sums are omitted.
///
/// # Errors
/// As [`for_each_sum`], and if the group of a row does not belong to the work.
pub fn named_sums(work: &ClusterJob, sums: &[RecordBatch]) -> Result<RecordBatch> {
    let columns = &work.stream().columns.labels;
    let mut groups: Vec<StringBuilder> = columns.iter().map(|_| StringBuilder::new()).collect();
    let (mut steps, mut texts) = (Int64Builder::new(), StringBuilder::new());
    for batch in sums {
        for_each_sum(batch, |_, step, label, sum| {
            let Some((names, grid)) = work.group_of(label)? else { return Ok(()) };
            groups.iter_mut().zip(names.iter()).for_each(|(column, name)| column.append_value(name));
            steps.append_value(step as i64); // fits: below 2^62
            texts.append_value(grid.format(sum.into()));
            Ok(())
        })?;
    }
    let mut named: Vec<(&str, ArrayRef)> = Vec::new();
    for (name, column) in columns.iter().zip(&mut groups) {
        named.push((name, Arc::new(column.finish())));
    }
    named.push(("step", Arc::new(steps.finish())));
    named.push(("sum", Arc::new(texts.finish())));
    RecordBatch::try_from_iter(named).map_err(failure)
}

fn column<'b>(batch: &'b RecordBatch, name: &str, kind: &DataType) -> Result<&'b ArrayRef> {
    let column = batch.column_by_name(name).filter(|column| column.data_type() == kind);
    column.ok_or_else(|| usage(format!("rows between processes lack the column `{name}` of type {kind}")))
}

/// The schema of a released table, wherever it is computed.
#[doc(alias = "Released")]
#[derive(Clone)]
pub struct ReleasedSchema {
    spec: TableSpec,
    times: Times,
    calendar: StepCalendar,
}

impl ReleasedSchema {
    /// The table of some work, with times in this column type.
    ///
    /// # Errors
    /// If a group column has the name of a column of the release.
    pub fn new(work: &ClusterJob, time: &DataType) -> Result<Self> {
        let stream = work.stream();
        let spec = TableSpec::from_stream(stream).map_err(usage)?;
        Ok(Self { spec, times: Times::new(time), calendar: stream.rows().clone() })
    }

    /// Names and types of its columns.
    ///
    /// # Errors
    /// If no step of the calendar can be written.
    pub fn schema(&self) -> Result<SchemaRef> {
        Ok(self.batch(&mut TableColumns::new(&self.spec), &[])?.schema())
    }

    /// The next rows of a bucket, some ten thousand at a time; `None` at its end.
    ///
    /// # Errors
    /// As [`BucketRows::next_step`], and if `cancelled` is raised.
    pub fn next(&self, rows: &mut BucketRows, cancelled: &AtomicBool) -> Result<Option<RecordBatch>> {
        let (mut columns, mut steps) = (TableColumns::new(&self.spec), Vec::new());
        while steps.len() < BATCH_ROWS {
            refuse_if(cancelled)?;
            let goes_on = rows.next_step(|row| {
                steps.push(row.step);
                columns.push(row)
            })?;
            if !goes_on {
                break;
            }
        }
        if steps.is_empty() {
            return Ok(None);
        }
        self.batch(&mut columns, &steps).map(Some)
    }

    /// Starts without rows.
    pub fn begin(&self) -> ReleaseRows<'_> {
        ReleaseRows { of: self, columns: TableColumns::new(&self.spec), steps: Vec::new() }
    }

    /// The rows as a batch; engines have no unsigned integers.
    fn batch(&self, columns: &mut TableColumns, steps: &[u64]) -> Result<RecordBatch> {
        let batch = self.times.replace_times(columns.finish()?, steps, &self.calendar)?;
        let place = batch.schema().index_of("step").map_err(failure)?;
        let mut fields: Vec<Field> = batch.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        fields[place] = Field::new("step", DataType::Int64, false);
        let mut arrays = batch.columns().to_vec();
        let steps = steps.iter().map(|step| *step as i64); // fits: below 2^62
        arrays[place] = Arc::new(Int64Array::from_iter_values(steps));
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(failure)
    }
}

/// Released rows, collected one by one.
pub struct ReleaseRows<'r> {
    of: &'r ReleasedSchema,
    columns: TableColumns,
    steps: Vec<u64>,
}

impl ReleaseRows<'_> {
    /// Adds a row.
    ///
    /// # Errors
    /// If an integer does not fit.
    pub fn push(&mut self, row: &ReleaseRow<'_>) -> Result<()> {
        self.steps.push(row.step);
        self.columns.push(row)
    }

    /// All collected rows.
    ///
    /// # Errors
    /// If a time cannot be written.
    pub fn finish(mut self) -> Result<RecordBatch> {
        self.of.batch(&mut self.columns, &self.steps)
    }
}
