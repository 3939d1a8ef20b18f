//! Tables in memory, from events to releases.

use super::releases::{Outlet, Releases};
use super::rows::Rows;
use super::setup::Setup;
use anyhow::{Context, Result};
use arrow_array::builder::{Date32Builder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema};
use evertally::noise::SecretKey;
use evertally::plan::Plan;
use evertally::stream::Release;
use evertally_publish::declaration::Declaration;
use evertally_publish::error::refuse_if;
use evertally_publish::event::Event;
use evertally_publish::intake::Intake;
use evertally_publish::ledger::Ledger;
use evertally_publish::steps::StepCalendar;
use evertally_tables::input::for_each_event_of_table;
use evertally_tables::output::TableColumns;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The plan of a release, before any event is seen.
pub fn plan_of_table(declared: &Declaration) -> Result<Plan> {
    Ok(Setup::new(declared, None)?.stream.plan)
}

/// Releases the running counts or sums of a table in memory, with the same values as `evertally release` would write for
/// the same events, key and plan.
///
/// The columns are those of the program: `time`, the group columns, `step`, `value` (64-bit integers, or doubles where values
/// are not whole), `std_error`, `lower` and `upper`. Times are of the kind that the table has: instants, civil times, dates, or
/// text as the program writes it.
///
/// The ledger has recorded the release when this returns. Raising `cancelled` ends the run, and nothing is recorded.
pub fn release_table(
    declared: &Declaration,
    table: &mut dyn RecordBatchReader,
    key: &SecretKey,
    ledger: &mut Ledger,
    cancelled: &AtomicBool,
) -> Result<RecordBatch> {
    let setup = Setup::new(declared, None)?;
    let stream = &setup.stream;
    let digest = ledger.stream(key, &stream.name, &stream.plan, stream.last_step)?;
    let times = Times::like(&*table, &stream.columns.time);
    let outlet = Collected { rows: Rows::new(&setup)?, columns: TableColumns::new(&setup.table), steps: Vec::new() };
    let releases = Releases::new(&setup, key, digest, outlet, cancelled)?;
    let mut intake = Intake::new(stream, stream.last_step, releases)?;
    let visit = &mut |event: &Event<'_>| intake.event(event);
    for_each_event_of_table(table, &stream.columns, &setup.files.reading, cancelled, visit)?;
    let Releases { digest, outlet, .. } = intake.finish()?;
    let Collected { mut columns, steps, .. } = outlet;
    let batch = times.put_into(columns.finish()?, &steps, &stream.calendar)?;
    refuse_if(cancelled)?;
    ledger.record(&digest)?;
    Ok(batch)
}

/// Rows in memory.
struct Collected {
    rows: Rows,
    columns: TableColumns,
    /// The step of every row.
    steps: Vec<u64>,
}

impl Outlet for Collected {
    fn step(&mut self, setup: &Setup, releases: &[Release], _: &[i64]) -> Result<()> {
        self.rows.of_step(setup, releases, |_, row| {
            self.steps.push(row.step);
            self.columns.push(row)
        })
    }
}

/// How times are handed back.
#[derive(Clone, Copy)]
enum Times {
    Text,
    Instants,
    Civil,
    Dates,
}

impl Times {
    /// As the table has them.
    fn like(table: &dyn RecordBatchReader, column: &str) -> Self {
        match table.schema().field_with_name(column).map(Field::data_type) {
            Ok(DataType::Timestamp(_, Some(_))) => Self::Instants,
            Ok(DataType::Timestamp(_, None) | DataType::Date64) => Self::Civil,
            Ok(DataType::Date32) => Self::Dates,
            _ => Self::Text,
        }
    }

    /// The same batch with the beginnings of the steps in its first column. Dates, where not all steps begin at midnight, are
    /// civil times.
    fn put_into(self, batch: RecordBatch, steps: &[u64], calendar: &StepCalendar) -> Result<RecordBatch> {
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
                    column.append_value(i32::try_from(days).context("the date is beyond the calendar")?);
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
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}

/// The beginning of a step on the wall clock of the calendar's zone, in microseconds since 1970-01-01T00:00.
fn civil_micros(calendar: &StepCalendar, step: u64) -> Result<i64> {
    let time = calendar.start_of(step).timestamp().context("the step is beyond the calendar")?;
    let civil = calendar.zone().time_zone().to_datetime(time);
    Ok(jiff::tz::TimeZone::UTC.to_timestamp(civil)?.as_microsecond())
}
