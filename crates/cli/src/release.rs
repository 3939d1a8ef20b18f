//! `evertally release`: from event files to private running counts.
//!
//! [`options`] gathers flags and the configuration file; [`setup`] turns them into validated parts, among them the
//! plan; [`releases`] adds bounded events and closes steps; [`emit`] writes table, picture and report, all together or not
//! at all. [`table`] does the same with a table in memory, for those who call this as a library.

mod emit;
mod releases;
mod rows;
mod setup;
mod table;

pub use crate::stream::ReleaseFlags;
pub use table::{plan_of_table, release_table};

use crate::stream::{for_each_event_of_files, interruptible, print_plan, print_summary};
use anyhow::{Context, Result};
use emit::Emitter;
use evertally_publish::error::refuse_if;
use evertally_publish::intake::Intake;
use evertally_publish::keyfile;
use evertally_publish::ledger::{self, Ledger};
use evertally_publish::report::ErrorFacts;
use evertally_tables::output::Publication;
use releases::Releases;
use setup::Setup;

/// Runs `evertally release`.
pub fn run(args: ReleaseFlags) -> Result<()> {
    let setup = Setup::of_flags(args)?;
    let (stream, files) = (&setup.stream, &setup.files);
    if files.plan_only {
        return print_plan(&stream.plan, &ErrorFacts::of_releases(stream));
    }
    let cancelled = interruptible()?;
    let new_key = ledger::new_key_if_absent(&files.key_path, files.create_key)?;
    let made_key = new_key.is_some();
    let key = keyfile::read(&files.key_path)?;
    let mut ledger = Ledger::open(&files.key_path, &key, new_key, &cancelled)?;
    let digest = ledger.stream(&key, &stream.name, &stream.plan, stream.last_step)?;

    let mut publication = Publication::new(&files.protected_paths(), true);
    let emitter = Emitter::new(&setup, &mut publication)?;
    let releases = Releases::new(&setup, &key, digest, emitter, &cancelled)?;
    let mut intake = Intake::new(stream, stream.last_step, releases)?;
    for_each_event_of_files(stream, files, &cancelled, &mut |event| intake.event(event))?;
    let Releases { digest, outlet: emitter, .. } = intake.finish()?;
    emitter.finish(&setup, &key, &mut publication)?;
    refuse_if(&cancelled)?;
    // Commit, then publish: until here the releases are in files without a name. Once the ledger has the digest, a crash
    // before they appear loses nothing, since the same data give the same bytes again.
    ledger.record(&digest)?;
    publication
        .commit()
        .context("the release is recorded, but not written: mend this and run again with the same data")?;
    if made_key {
        eprintln!("there was no key {}; made a new one, {}", files.key_path.display(), key.id());
    }
    if !files.quiet {
        summary(&setup, ledger.stream_count());
    }
    Ok(())
}

/// Says on standard error what was done.
fn summary(setup: &Setup, streams: usize) {
    let (stream, files) = (&setup.stream, &setup.files);
    let groups = setup.groups.as_ref().map_or(String::new(), |_| format!(" × {} groups", setup.group_count()));
    let done = format!("released {} of {} steps{groups}", stream.last_step, stream.calendar.steps());
    print_summary(stream, files, &done, stream.plan.max_std_error(), stream.last_step, streams);
    if files.plot && setup.show_truth {
        let unsafe_svg = files.beside("NOT-PRIVATE.svg");
        eprintln!("WARNING: {} and .png show exact counts and are not private", unsafe_svg.display());
    }
}
