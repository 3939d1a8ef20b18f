//! Tables in memory, by the same flags.

use super::options::ReleaseArgs;
use super::setup::Setup;
use anyhow::Result;
use arrow_array::{RecordBatch, RecordBatchReader};
use evertally::noise::SecretKey;
use evertally::plan::Plan;
use evertally_publish::ledger::Ledger;
use evertally_publish::session::{RunningSums, Session};
use std::sync::atomic::AtomicBool;

/// The plan of a release, before any event is seen.
pub fn plan_of_table(args: ReleaseArgs) -> Result<Plan> {
    Ok(Setup::new(in_memory(args))?.stream.plan)
}

/// Releases a table in memory, with the same values as `evertally release` would write for the same events, key and plan. Flags
/// that name files are not looked at. See [`evertally_tables::released::release_table`].
pub fn release_table(
    args: ReleaseArgs,
    table: &mut dyn RecordBatchReader,
    key: &SecretKey,
    ledger: &mut Ledger,
    cancelled: &AtomicBool,
) -> Result<RecordBatch> {
    let setup = Setup::new(in_memory(args))?;
    let stream = setup.stream;
    let digest = ledger.stream(key, &stream.name, &stream.plan, stream.last_step)?;
    let sums = RunningSums::new(&stream, setup.groups, key)?;
    let last_step = stream.last_step;
    let session = Session::new(stream, sums, digest, last_step)?;
    evertally_tables::released::release_table(session, table, &setup.files.reading, ledger, cancelled)
}

fn in_memory(mut args: ReleaseArgs) -> ReleaseArgs {
    args.stream.in_memory = true;
    args
}
