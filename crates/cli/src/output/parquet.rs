//! The table as Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Context;
use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::publication::plain_io_error;
use super::table::{Amount, ReleaseRow, TableSpec};

/// Rows gathered into one batch.
const BATCH_ROWS: usize = 8 * 1024;

/// Rows of a row group, the most that is held in memory (compressed).
const GROUP_ROWS: usize = 256 * 1024;

/// Parquet with text groups, 64-bit values and zstd pages.
pub(super) struct ParquetTable<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: SchemaRef,
    columns: Columns,
    rows: usize,
}

impl<W: Write + Send> ParquetTable<W> {
    pub(super) fn new(spec: &TableSpec, out: W) -> anyhow::Result<Self> {
        let schema = schema(spec);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).expect("a zstd level")))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .build();
        let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties)).map_err(parquet_error)?;
        Ok(ParquetTable { writer, schema, columns: Columns::new(spec), rows: 0 })
    }

    pub(super) fn write(&mut self, row: &ReleaseRow<'_>) -> anyhow::Result<()> {
        self.columns.push(row)?;
        self.rows += 1;
        if self.rows == BATCH_ROWS { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> anyhow::Result<()> {
        let batch =
            RecordBatch::try_new(self.schema.clone(), self.columns.finish()).context("the table's columns differ")?;
        self.rows = 0;
        self.writer.write(&batch).map_err(parquet_error)
    }

    pub(super) fn finish(mut self) -> anyhow::Result<W> {
        if self.rows > 0 {
            self.write_batch()?;
        }
        let mut out = self.writer.into_inner().map_err(parquet_error)?;
        out.flush().map_err(plain_io_error)?;
        Ok(out)
    }
}

fn schema(spec: &TableSpec) -> SchemaRef {
    let value = if spec.is_integral() { DataType::Int64 } else { DataType::Float64 };
    let mut fields = vec![Field::new("time", DataType::Utf8, false)];
    fields.extend(spec.groups().iter().map(|name| Field::new(name, DataType::Utf8, false)));
    fields.push(Field::new("step", DataType::UInt64, false));
    fields.push(Field::new(spec.value_name(), value, false));
    fields.extend(["std_error", "lower", "upper"].map(|name| Field::new(name, DataType::Float64, true)));
    Arc::new(Schema::new(fields))
}

/// The rows gathered so far.
struct Columns {
    time: StringBuilder,
    groups: Vec<StringBuilder>,
    step: UInt64Builder,
    value: Values,
    figures: [Float64Builder; 3],
}

enum Values {
    Whole(Int64Builder),
    Real(Float64Builder),
}

impl Columns {
    fn new(spec: &TableSpec) -> Self {
        Columns {
            time: StringBuilder::new(),
            groups: spec.groups().iter().map(|_| StringBuilder::new()).collect(),
            step: UInt64Builder::new(),
            value: if spec.is_integral() {
                Values::Whole(Int64Builder::new())
            } else {
                Values::Real(Float64Builder::new())
            },
            figures: Default::default(),
        }
    }

    fn push(&mut self, row: &ReleaseRow<'_>) -> anyhow::Result<()> {
        assert_eq!(row.groups.len(), self.groups.len(), "one text for each group column");
        self.value.push(row.value)?;
        self.time.append_value(row.time);
        for (column, group) in self.groups.iter_mut().zip(row.groups) {
            column.append_value(group);
        }
        self.step.append_value(row.step);
        for (column, number) in self.figures.iter_mut().zip([row.std_error, row.lower, row.upper]) {
            column.append_option(number.is_finite().then_some(number));
        }
        Ok(())
    }

    fn finish(&mut self) -> Vec<ArrayRef> {
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(self.time.finish())];
        arrays.extend(self.groups.iter_mut().map(|g| Arc::new(g.finish()) as ArrayRef));
        arrays.push(Arc::new(self.step.finish()));
        arrays.push(match &mut self.value {
            Values::Whole(column) => Arc::new(column.finish()),
            Values::Real(column) => Arc::new(column.finish()),
        });
        arrays.extend(self.figures.iter_mut().map(|f| Arc::new(f.finish()) as ArrayRef));
        arrays
    }
}

impl Values {
    fn push(&mut self, value: Amount<'_>) -> anyhow::Result<()> {
        match self {
            Values::Whole(column) => column.append_value(value.text.parse().with_context(|| {
                format!("the value {} does not fit Parquet's 64-bit integers; write CSV or JSON lines", value.text)
            })?),
            Values::Real(column) => column.append_value(value.number),
        }
        Ok(())
    }
}

fn parquet_error(error: ParquetError) -> anyhow::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => plain_io_error(*cause),
            Err(cause) => anyhow::anyhow!("the table cannot be written as Parquet ({cause})"),
        },
        other => anyhow::anyhow!("the table cannot be written as Parquet ({other})"),
    }
}
