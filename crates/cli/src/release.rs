//! `evertally release`: from event files to private running counts.
//!
//! [`setup`] turns flags and the configuration file into validated parts, among them the plan; a [`Session`] takes
//! events and gives the releases of closed steps; [`emit`] writes table, picture and report, all together or not at
//! all.

mod emit;
mod facts;
mod setup;

pub use crate::stream::ReleaseFlags;

use crate::failure::Unpublished;
use crate::stream::{interruptible, open_events, open_key, preview_budget, print_plan, print_summary, say_if_new};
use anyhow::Result;
use emit::Emitter;
use evertally_publish::error::refuse_if;
use evertally_publish::report::ErrorFacts;
use evertally_publish::session::{RunningSums, Session};
use evertally_tables::output::Publication;
use facts::{Forecast, print_json};
use setup::Setup;
use std::sync::atomic::AtomicBool;

/// Closed steps between two looks at the cancellation flag.
const STEPS_PER_CHECK: u64 = 1024;

/// Runs `evertally release`.
pub fn run(args: ReleaseFlags) -> Result<()> {
    let setup = Setup::of_flags(args)?;
    let (stream, files) = (&setup.stream, &setup.files);
    if files.plan_only {
        let error = ErrorFacts::of_releases(stream);
        if files.json {
            print_json(&setup, &error, false)?;
        } else {
            print_plan(stream, &error, &[Forecast::of(&setup).in_words()])?;
        }
        return preview_budget(stream, files);
    }
    if !files.quiet {
        Forecast::of(&setup).warn();
    }
    let cancelled = interruptible()?;
    let mut open = open_key(files, &cancelled)?;
    let mut session = Session::of_sums(stream.clone(), setup.groups.clone(), &open.key, &open.ledger)?;

    let mut publication = Publication::new(&files.protected_paths(), true);
    let mut emitter = Emitter::new(&setup, &mut publication)?;
    let progress = files.progress();
    let events = open_events(stream, files, &*progress, &cancelled)?;
    events.feed(&mut session, &mut |session| write_due(session, &mut emitter, &cancelled))?;
    session.close_through(stream.last_step)?;
    write_due(&mut session, &mut emitter, &cancelled)?;
    emitter.finish(&setup, &open, &mut publication)?;
    refuse_if(&cancelled)?;
    // Commit, then publish: until here the releases are in files without a name. Once the ledger has the digest, a
    // crash before they appear loses nothing, since the same data give the same bytes again.
    session.record(&mut open.ledger)?;
    publication.commit().map_err(|cause| Unpublished::new("the release is", cause))?;
    say_if_new(&open, files);
    if !files.quiet {
        summary(&setup, open.ledger.stream_count());
    }
    if files.json { print_json(&setup, &ErrorFacts::of_releases(stream), true) } else { Ok(()) }
}

/// Writes the releases of all steps that are due.
fn write_due(session: &mut Session<RunningSums>, emitter: &mut Emitter, cancelled: &AtomicBool) -> Result<()> {
    while let Some(mut step) = session.next_step()? {
        if step.step().is_multiple_of(STEPS_PER_CHECK) {
            refuse_if(cancelled)?;
        }
        emitter.write(&mut step)?;
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
