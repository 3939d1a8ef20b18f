//! Turns tables of events in memory into releases.

use crate::input::{Events, ReadOptions};
use crate::output::{TableColumns, TableSpec};
use arrow_array::builder::{Date32Builder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema};
use evertally_declare::error::{Result, failure, refuse_if, usage};
use evertally_declare::steps::StepCalendar;
use evertally_ledger::ledger::Ledger;
use evertally_publish::session::{RunningSums, Session};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Closed steps between two checks of the cancellation flag.
const STEPS_PER_CHECK: u64 = 1024;

/// Releases the running counts or sums of a table in memory, with the same values as for a file with the same events.
///
/// The columns are those of released files: `time`, the group columns, `step`, `value` (64-bit integers, or doubles if
/// values are not whole), `std_error`, `lower` and `upper`. Times have the kind of the input's times: instants, civil
/// times, dates, or text as in files.
/// civil times, dates, or text as files have it.
///
/// The ledger has recorded the release when this returns. Setting `cancelled` ends the run, and nothing is recorded.
///
/// # Errors
/// Those of [`Session`], with the rows of the table numbered from 1.
pub fn release_table(
    mut session: Session<RunningSums>,
    table: &mut (dyn RecordBatchReader + Send),
    options: &ReadOptions,
    ledger: &mut Ledger,
    cancelled: &AtomicBool,
) -> Result<RecordBatch> {
    let columns = session.stream().columns.clone();
    let spec = TableSpec::from_stream(session.stream()).map_err(usage)?;
    let times = Times::like(&*table, &columns.time);
    let mut rows = Collected { columns: TableColumns::new(&spec), steps: Vec::new() };
    let events = Events::from_table(table, &columns, options, cancelled)?;
    events.feed(&mut session, &mut |session| rows.take_due(session, cancelled))?;
    session.close_through(session.last_step())?;
    rows.take_due(&mut session, cancelled)?;
    let batch = times.replace_times(rows.columns.finish()?, &rows.steps, session.stream().rows())?;
    refuse_if(cancelled)?;
    session.record(ledger)?;
    Ok(batch)
}

/// Released rows in memory.
struct Collected {
    columns: TableColumns,
    /// The step of every row.
    steps: Vec<u64>,
}

impl Collected {
    /// Takes the rows of all due steps.
    fn take_due(&mut self, session: &mut Session<RunningSums>, cancelled: &AtomicBool) -> Result<()> {
        while let Some(mut step) = session.next_step()? {
            if step.step().is_multiple_of(STEPS_PER_CHECK) {
                refuse_if(cancelled)?;
            }
            step.for_each_row(|_, row| {
                self.steps.push(row.step);
                self.columns.push(row)
            })?;
        }
        Ok(())
    }
}

/// The type of times in the output.
#[derive(Clone, Copy)]
pub(crate) enum Times {
    Text,
    Instants,
    Civil,
    Dates,
}

impl Times {
    /// The type in the table.
    fn like(table: &dyn RecordBatchReader, column: &str) -> Self {
        table.schema().field_with_name(column).map_or(Self::Text, |field| Self::new(field.data_type()))
    }

    /// For a column of this type.
    pub(crate) fn new(kind: &DataType) -> Self {
        match kind {
            DataType::Timestamp(_, Some(_)) => Self::Instants,
            DataType::Timestamp(_, None) | DataType::Date64 => Self::Civil,
            DataType::Date32 => Self::Dates,
            _ => Self::Text,
        }
    }

    /// The same batch with the starts of the steps in its first column. Dates become civil times if not all steps begin
    /// at midnight.
    pub(crate) fn replace_times(
        self,
        batch: RecordBatch,
        steps: &[u64],
        calendar: &StepCalendar,
    ) -> Result<RecordBatch> {
        let zone = calendar.zone();
        let times: ArrayRef = match self {
            Self::Text => return Ok(batch),
            Self::Instants => {
                let mut column = TimestampMicrosecondBuilder::with_capacity(steps.len()).with_timezone(zone.name());
                steps.iter().for_each(|&step| column.append_value(calendar.start_of(step).micros()));
                Arc::new(column.finish())
            }
            Self::Dates if calendar.is_date_only() => {
                let mut column = Date32Builder::with_capacity(steps.len());
                for &step in steps {
                    let days = civil_micros(calendar, step)?.div_euclid(86_400_000_000);
                    column.append_value(i32::try_from(days).map_err(|_| failure("the date is beyond the calendar"))?);
                }
                Arc::new(column.finish())
            }
            Self::Civil | Self::Dates => {
                let mut column = TimestampMicrosecondBuilder::with_capacity(steps.len());
                for &step in steps {
                    column.append_value(civil_micros(calendar, step)?);
                }
                Arc::new(column.finish())
            }
        };
        let schema = batch.schema();
        let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        fields[0] = Field::new(fields[0].name(), times.data_type().clone(), false);
        let mut columns = batch.columns().to_vec();
        columns[0] = times;
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(failure)
    }
}

/// The start of a step as wall-clock time in the calendar's zone, in microseconds since 1970-01-01T00:00.
fn civil_micros(calendar: &StepCalendar, step: u64) -> Result<i64> {
    let time = calendar.start_of(step).timestamp().ok_or_else(|| failure("the step is beyond the calendar"))?;
    let civil = calendar.zone().time_zone().to_datetime(time);
    Ok(jiff::tz::TimeZone::UTC.to_timestamp(civil).map_err(failure)?.as_microsecond())
}
