//! `evertally release`: from event files to private running counts.
//!
//! [`options`] gathers flags and the configuration file; [`setup`] turns them into validated parts, among them the
//! plan; [`ingest`] bounds, orders and adds the events; [`emit`] writes table, picture and report, all together or not at
//! all.

mod emit;
mod groups;
mod ingest;
mod options;
mod report;
mod setup;

pub use options::ReleaseArgs;

use crate::input::{Cancelled, Progress, ReadOptions, for_each_event};
use crate::keyfile;
use crate::ledger::{self, Ledger};
use crate::output::Publication;
use anyhow::{Context, Result};
use emit::Emitter;
use ingest::Ingest;
use setup::Setup;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `evertally release`.
pub fn run(args: ReleaseArgs) -> Result<()> {
    let setup = Setup::new(args)?;
    if setup.plan_only {
        return report::print_plan(&setup);
    }
    let cancelled = interruptible()?;
    let new_key = ledger::new_key_if_absent(&setup.key_path, setup.create_key)?;
    let made_key = new_key.is_some();
    let key = keyfile::read(&setup.key_path)?;
    let ledger = Ledger::open(&setup.key_path, &key, new_key, &cancelled)?;
    let digest = ledger.stream(&key, &setup.stream, &setup.plan, setup.last_step)?;

    let mut publication = Publication::new(&setup.protected_paths(), true);
    let emitter = Emitter::new(&setup, &mut publication)?;
    let mut ingest = Ingest::new(&setup, &key, digest, emitter, &cancelled)?;

    let progress = if setup.quiet { Progress::hidden() } else { Progress::on_terminal() };
    let options =
        ReadOptions { format: setup.input_format, delimiter: setup.delimiter, missing: setup.missing_texts.clone() };
    for_each_event(&setup.inputs, &setup.columns, &options, &progress, &cancelled, &mut |event| ingest.event(event))?;
    let (digest, emitter) = ingest.finish()?;
    emitter.finish(&setup, &key, &mut publication)?;
    if cancelled.load(Ordering::Relaxed) {
        return Err(Cancelled.into());
    }
    // Commit, then publish: until here the releases are in files without a name. Once the ledger has the digest, a crash
    // before they appear loses nothing, since the same data give the same bytes again.
    let ledger = ledger.record(&digest)?;
    publication
        .commit()
        .context("the release is recorded, but not written: mend this and run again with the same data")?;
    if made_key {
        eprintln!("there was no key {}; made a new one, {}", setup.key_path.display(), key.id());
    }
    if !setup.quiet {
        report::print_summary(&setup, ledger.stream_count());
    }
    Ok(())
}

/// A flag that Ctrl-C raises; the run then ends at the next row, and leaves nothing behind.
fn interruptible() -> Result<Arc<AtomicBool>> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = cancelled.clone();
    match ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)) {
        // A program that runs several releases keeps the handler of the first.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(cancelled),
        Err(error) => Err(error.into()),
    }
}
