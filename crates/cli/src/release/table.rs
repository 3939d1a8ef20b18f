//! Tables in memory, by the same declarations.

use super::setup::Setup;
use anyhow::Result;
use arrow_array::{RecordBatch, RecordBatchReader};
use evertally::noise::SecretKey;
use evertally::plan::Plan;
use evertally_publish::declaration::Declaration;
use evertally_publish::ledger::Ledger;
use evertally_publish::session::{RunningSums, Session};
use std::sync::atomic::AtomicBool;

/// The plan of a release, before any event is seen.
pub fn plan_of_table(declared: &Declaration) -> Result<Plan> {
    Ok(Setup::new(declared, None)?.stream.plan)
}

/// Releases a table in memory, with the same values as `evertally release` would write for the same events, key and plan: see
/// [`evertally_tables::released::release_table`].
pub fn release_table(
    declared: &Declaration,
    table: &mut dyn RecordBatchReader,
    key: &SecretKey,
    ledger: &mut Ledger,
    cancelled: &AtomicBool,
) -> Result<RecordBatch> {
    let setup = Setup::new(declared, None)?;
    let stream = setup.stream;
    let digest = ledger.stream(key, &stream.name, &stream.plan, stream.last_step)?;
    let sums = RunningSums::new(&stream, setup.groups, key)?;
    let last_step = stream.last_step;
    let session = Session::new(stream, sums, digest, last_step)?;
    evertally_tables::released::release_table(session, table, &setup.files.reading, ledger, cancelled)
}
