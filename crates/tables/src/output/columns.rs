//! The table as Arrow columns.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::spec::{TableSpec, VIEW};
use evertally_declare::error::{Result, failure};
use evertally_publish::rows::{ReleaseRow, ReleasedValue};

/// Name of the column with the ends of the steps.
pub(super) const END: &str = "end";

fn schema(spec: &TableSpec) -> SchemaRef {
    let value = if spec.is_integral() { DataType::Int64 } else { DataType::Float64 };
    let instant = spec.zone().map(|zone| DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into())));
    let mut fields = vec![Field::new("time", instant.clone().unwrap_or(DataType::Utf8), false)];
    fields.extend(spec.groups().iter().map(|name| Field::new(name, DataType::Utf8, false)));
    fields.push(Field::new("step", DataType::UInt64, false));
    fields.push(Field::new(spec.value_name(), value, spec.is_open()));
    fields.extend(["std_error", "lower", "upper"].map(|name| Field::new(name, DataType::Float64, true)));
    if let Some(whole) = spec.views() {
        let [value, ends @ ..] = VIEW;
        fields.push(Field::new(value, if whole { DataType::Int64 } else { DataType::Float64 }, false));
        fields.extend(ends.map(|name| Field::new(name, DataType::Float64, true)));
    }
    fields.extend(instant.map(|instant| Field::new(END, instant, false)));
    Arc::new(Schema::new(fields))
}

/// Rows collected column by column.
pub struct TableColumns {
    schema: SchemaRef,
    time: TimeColumn,
    groups: Vec<StringBuilder>,
    step: UInt64Builder,
    value: ValueColumn,
    figures: [Float64Builder; 3],
    view: Option<(ValueColumn, [Float64Builder; 2])>,
}

enum TimeColumn {
    Text(StringBuilder),
    /// Beginnings and ends.
    Instants([TimestampMicrosecondBuilder; 2]),
}

enum ValueColumn {
    Whole(Int64Builder),
    Real(Float64Builder),
}

impl TableColumns {
    /// A table without rows.
    pub fn new(spec: &TableSpec) -> Self {
        TableColumns {
            schema: schema(spec),
            time: match spec.zone() {
                None => TimeColumn::Text(StringBuilder::new()),
                Some(zone) => {
                    TimeColumn::Instants([(); 2].map(|()| TimestampMicrosecondBuilder::new().with_timezone(zone)))
                }
            },
            groups: spec.groups().iter().map(|_| StringBuilder::new()).collect(),
            step: UInt64Builder::new(),
            value: ValueColumn::new(spec.is_integral()),
            figures: Default::default(),
            view: spec.views().map(|whole| (ValueColumn::new(whole), Default::default())),
        }
    }

    /// Types and names of the columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the number of the row's texts differs from the number of group columns.
    pub fn push(&mut self, row: &ReleaseRow<'_>) -> Result<()> {
        assert_eq!(row.groups.len(), self.groups.len(), "one text per group column");
        self.value.push(row.value)?;
        match &mut self.time {
            TimeColumn::Text(column) => column.append_value(row.time),
            TimeColumn::Instants([starts, ends]) => {
                starts.append_value(row.span.0.micros());
                ends.append_value(row.span.1.micros());
            }
        }
        for (column, group) in self.groups.iter_mut().zip(row.groups) {
            column.append_value(group);
        }
        self.step.append_value(row.step);
        for (column, number) in self.figures.iter_mut().zip([row.std_error, row.lower, row.upper]) {
            column.append_option(number.is_finite().then_some(number));
        }
        if let (Some((value, ends)), Some(view)) = (&mut self.view, row.view) {
            value.push(view.value)?;
            for (column, number) in ends.iter_mut().zip([view.lower, view.upper]) {
                column.append_option(number.is_finite().then_some(number));
            }
        }
        Ok(())
    }

    /// The rows that were added since the last call.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let (time, end): (ArrayRef, Option<ArrayRef>) = match &mut self.time {
            TimeColumn::Text(column) => (Arc::new(column.finish()), None),
            TimeColumn::Instants([starts, ends]) => (Arc::new(starts.finish()), Some(Arc::new(ends.finish()))),
        };
        let mut arrays: Vec<ArrayRef> = vec![time];
        arrays.extend(self.groups.iter_mut().map(|g| Arc::new(g.finish()) as ArrayRef));
        arrays.push(Arc::new(self.step.finish()));
        arrays.push(self.value.finish());
        arrays.extend(self.figures.iter_mut().map(|f| Arc::new(f.finish()) as ArrayRef));
        if let Some((value, ends)) = &mut self.view {
            arrays.push(value.finish());
            arrays.extend(ends.iter_mut().map(|end| Arc::new(end.finish()) as ArrayRef));
        }
        arrays.extend(end);
        RecordBatch::try_new(self.schema.clone(), arrays)
            .map_err(|e| failure(format_args!("the table's columns differ: {e}")))
    }
}

impl ValueColumn {
    fn new(whole: bool) -> Self {
        if whole { Self::Whole(Int64Builder::new()) } else { Self::Real(Float64Builder::new()) }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Whole(column) => Arc::new(column.finish()),
            Self::Real(column) => Arc::new(column.finish()),
        }
    }

    fn push(&mut self, value: ReleasedValue<'_>) -> Result<()> {
        match self {
            ValueColumn::Whole(column) => {
                column.append_value(value.text.parse().map_err(|e: std::num::ParseIntError| {
                    failure(format_args!(
                        "the value {} does not fit the 64-bit integers of this format; write CSV or JSON lines: {e}",
                        value.text
                    ))
                })?);
            }
            // Missing if the column allows that; in other columns every value is a number.
            ValueColumn::Real(column) => column.append_option(Some(value.number).filter(|number| !number.is_nan())),
        }
        Ok(())
    }
}
