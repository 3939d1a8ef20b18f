//! `evertally release`: from event files to private running counts.
//!
//! [`setup`] turns flags and the configuration file into validated parts, including the plan; a [`Session`] consumes
//! events and produces the releases of closed steps; [`emit`] writes table, picture and report, all together or not at
//! all. A run reads either all events from the first one, or [only new files](continued).

mod continued;
mod drawing;
mod emit;
mod expected;
mod facts;
mod leaders;
mod setup;
mod side_files;
mod views;

use crate::failure::{RecordedNotWritten, usage};
use crate::prompt;
use crate::stream::{
    Files, PublishedSummary, ReleaseFlags, interruptible, open_events, open_key, plan_facts, preview_budget,
    print_plan, print_summary, report_new_key,
};
use anyhow::Result;
use emit::RowEmitter;
use evertally_declare::declaration::Parameter::{self, Through};
use evertally_declare::declaration::Written;
use evertally_declare::error::refuse_if;
use evertally_declare::problem::{SentencePart, sentence};
use evertally_declare::records::Records;
use evertally_declare::stream::Stream;
use evertally_declare::words::quoted;
use evertally_ledger::ledger::{Ledger, OpenKey};
use evertally_publish::report::{ErrorFacts, SelectionFacts};
use evertally_publish::session::{RunningSums, Session};
use evertally_tables::input::BadRowSink;
use evertally_tables::output::{RunOutputs, TableWriter};
use facts::{Forecast, print_json};
use setup::{ReleaseSetup, ValidatedDeclaration};
use side_files::{BadRowsFile, report_bad_rows};
use std::io::Write;
use std::sync::atomic::AtomicBool;

/// Closed steps between two checks of the cancellation flag.
const STEPS_PER_CHECK: u64 = 1024;

/// Runs `evertally release`.
pub(super) fn run(args: ReleaseFlags) -> Result<()> {
    let declared = ValidatedDeclaration::from_flags(args)?;
    let files = &declared.files;
    if files.plan_only {
        let setup = declared.standalone_setup()?;
        let error = ErrorFacts::for_releases(&setup.stream);
        if files.json {
            print_json(&setup, files, &error, false)?;
        } else {
            print_plan(&setup.stream, &error, &[Forecast::new(&setup, files).in_words()])?;
        }
        return preview_budget(&setup.stream, files);
    }
    let cancelled = interruptible()?;
    let mut open = open_key(files, &cancelled)?;
    let setup = declared.under(&mut open)?;
    if !files.quiet {
        Forecast::new(&setup, files).warn();
    }
    if files.going_on.is_wanted {
        continued::run(&setup, files, &mut open, &cancelled)
    } else {
        all_at_once(&setup, files, &mut open, &cancelled)
    }
}

/// What a release would publish and how exactly, in sentences; reads no event and no key.
///
/// # Errors
/// If the release would be refused.
pub(super) fn forecast(written: Written) -> Result<Vec<String>> {
    let declared = ValidatedDeclaration::new(written)?;
    let setup = declared.standalone_setup()?;
    let table = Forecast::new(&setup, &declared.files).in_words();
    Ok(plan_facts(&setup.stream, &ErrorFacts::for_releases(&setup.stream), &[table]))
}

/// A run that reads all events from the first one and writes the whole table.
fn all_at_once(setup: &ReleaseSetup, files: &Files, open: &mut OpenKey, cancelled: &AtomicBool) -> Result<()> {
    let stream = &setup.stream;
    refuse_if_continued(stream, &open.ledger)?;
    refuse_joining(setup)?;
    let mut session = Session::new_sums(stream.clone(), setup.groups.clone(), &open.key, &open.ledger)?;
    confirm(stream, files, open.ledger.last_published(&stream.name))?;

    let mut publication = RunOutputs::new(&files.protected_paths(), true);
    let table = TableWriter::new(files.output_format, &setup.table, publication.add(&files.out)?)?;
    let mut emitter = RowEmitter::new(setup, files, table);
    let bad_file = files.bad_file.as_ref().map(|path| publication.add_private(path)).transpose()?;
    let mut bad_rows = bad_file.map(BadRowsFile::new).transpose()?;
    let sink = bad_rows.as_mut().map(|bad_rows| Box::new(move |bad| bad_rows.push(&bad)) as BadRowSink<'_>);
    let progress = files.progress();
    let events = open_events(stream, files, &*progress, cancelled)?;
    let mut take = |session: &mut Session<RunningSums>| write_due(session, &mut emitter, cancelled);
    events.without_bad_rows(sink).feed(&mut session, &mut take)?;
    session.close_through(stream.last_step)?;
    write_due(&mut session, &mut emitter, cancelled)?;
    emitter.finish(setup, files, open, &mut publication)?.finish()?;
    let mut bad_count = 0;
    if let Some(bad_rows) = bad_rows {
        let (file, count) = bad_rows.finish()?;
        file.finish()?;
        bad_count = count;
    }
    refuse_if(cancelled)?;
    note_filter(&session);
    announce(stream, files, 0);
    // Commit, then publish: so far the releases are in files without a name. Once the ledger has the digest, a crash
    // before they appear loses nothing, because the same data give the same bytes again.
    session.record(&mut open.ledger)?;
    publication.commit().map_err(|cause| RecordedNotWritten::new("the release is", cause))?;
    report_new_key(open, files);
    if let Some(path) = &files.bad_file {
        report_bad_rows(bad_count, path);
    }
    if !files.quiet {
        summary(setup, files, open.ledger.stream_count(), true);
    }
    if files.json { print_json(setup, files, &ErrorFacts::for_releases(stream), true) } else { Ok(()) }
}

/// Refuses a stream that continues from a state: its closed steps contain events that a run over all data would assign
/// to other steps, or not contain at all.
fn refuse_if_continued(stream: &Stream, ledger: &Ledger) -> Result<()> {
    if !ledger.has_state(&stream.name) {
        return Ok(());
    }
    let name = &stream.name;
    let problem = format!("stream `{name}` continues from run to run; read only new files with ");
    Err(usage(sentence![problem, Parameter::Continue, ", or read all files again with ", Parameter::Rebuild]))
}

/// Warns the operator if the filter left out all rows, for example because of a misspelt text.
fn note_filter(session: &Session<RunningSums>) {
    if session.is_all_left_out() {
        eprintln!("note: no row is counted, because the expression of --where is true for none");
    }
}

/// Refuses groups that join a stream in a run that reads all events from the first one: their earlier events would
/// count from the first step on, unlike in the earlier runs.
fn refuse_joining(setup: &ReleaseSetup) -> Result<()> {
    let joining = setup.groups.as_ref().zip(setup.present).map(|(groups, present)| &groups.tuples()[present.present..]);
    let Some([first, ..]) = joining else { return Ok(()) };
    let name = &setup.stream.name;
    let problem = format!(
        "stream `{name}` has been published without the group {}, which can join it only in a run that reads new \
         files, with ",
        quoted(&first.join(", "))
    );
    let remedy = "; before that, save the state of the stream by a run over all files so far, without the group, with ";
    Err(usage(sentence![problem, Parameter::Continue, remedy, Parameter::Rebuild]))
}

/// Asks for confirmation on a terminal if the run will finish a stream that was published through `published`.
fn confirm(stream: &Stream, files: &Files, published: u64) -> Result<()> {
    let (steps, last) = (stream.calendar.steps(), stream.last_step);
    if files.yes || !prompt::is_possible() || last < steps || published == steps {
        return Ok(());
    }
    let end = stream.calendar.format(stream.calendar.end());
    if prompt::confirm(&format!("this publishes all {steps} steps, until {end}; no step can follow. Continue?"))? {
        return Ok(());
    }
    Err(usage(sentence![
        "nothing was published; choose the last step to publish with ",
        SentencePart::Example(Through)
    ]))
}

/// Prints which rows after row `before` are about to be published. Runs that fail earlier print only their error.
fn announce(stream: &Stream, files: &Files, before: u64) {
    if files.quiet {
        return;
    }
    let (calendar, first, last) = (stream.rows(), stream.rows_through(before) + 1, stream.last_row());
    let (what, of) = (rows_in_words(stream), if stream.plan.is_unbounded() { 0 } else { calendar.steps() });
    let of = if of == 0 { String::new() } else { format!(" of {of}") };
    if last < first {
        let (closed, next) = (stream.calendar.end_of(stream.last_step), calendar.end_of(first));
        let [closed, next] = [closed, next].map(|end| calendar.format(end));
        eprintln!("closes steps until {closed}; the next publication is at {next}");
    } else {
        eprintln!("publishes {what} {first} to {last}{of}, until {}", calendar.format(calendar.end_of(last)));
    }
}

/// The word for rows: steps if the stream publishes every step, otherwise publications.
fn rows_in_words(stream: &Stream) -> &'static str {
    if stream.publishes_all() { "steps" } else { "publications" }
}

/// Writes the releases of all steps that are due.
fn write_due<W: Write + Send>(
    session: &mut Session<RunningSums>,
    emitter: &mut RowEmitter<W>,
    cancelled: &AtomicBool,
) -> Result<()> {
    while let Some(mut step) = session.next_step()? {
        if step.step().is_multiple_of(STEPS_PER_CHECK) {
            refuse_if(cancelled)?;
        }
        emitter.write(&mut step)?;
    }
    Ok(())
}

/// Prints a summary on standard error.
fn summary(setup: &ReleaseSetup, files: &Files, streams: usize, is_first: bool) {
    let stream = &setup.stream;
    let groups = setup.groups.as_ref().map_or(String::new(), |_| format!(" × {} groups", setup.group_count()));
    let of = if stream.plan.is_unbounded() { String::new() } else { format!("of {} ", stream.rows().steps()) };
    let done = format!("released {} {of}{}{groups}", stream.last_row(), rows_in_words(stream));
    if let Some(facts) = SelectionFacts::new(stream) {
        let looks = facts.after_steps.len();
        let seen = if looks == 0 {
            "the first selection time is still to come: no group is shown yet".to_owned()
        } else {
            format!("selected {looks} of {} times", facts.times)
        };
        eprintln!(
            "groups: {seen}; shown from {} on, with a sum of {} in half of the cases",
            facts.threshold, facts.shown_half
        );
    }
    let (max_std_error, last_step) = (ErrorFacts::for_releases(stream).max_std_error, stream.last_step);
    print_summary(stream, files, &PublishedSummary { done: &done, max_std_error, last_step, streams, is_first });
    if files.plot && setup.show_truth {
        let unsafe_svg = files.sibling("NOT-PRIVATE.svg");
        eprintln!("WARNING: {} and .png show exact counts and are not private", unsafe_svg.display());
    }
}
