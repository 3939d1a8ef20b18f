//! `evertally sketch`: from event files to private counts of very many items, of which few are asked for.
//!
//! [`options`] gathers flags and the configuration file; [`questions`] says which items are asked for, and when;
//! [`setup`] turns flags into validated parts, among them the plan, and [`instead`] compares it with that of a release of
//! the same list; a [`Session`] takes events, [`answers`] are given
//! as steps close, or [`heavy`] keys found without a list, and [`emit`] writes table, picture and report, all together or
//! not at all.
//!
//! **Nothing is kept between runs but the key and its ledger.** Noise is a function of key, plan, stream, cell and step
//! ([`Sampling::Keyed`](evertally::stream::Sampling::Keyed)), so that other questions to the same data get answers that
//! agree with all earlier ones, at no further cost of budget. What must not happen is the same noise over other data:
//! the ledger holds, for every step up to which answers were published, a digest of what every step added to each item.
//! All cells are a function of these sums, so that equal digests mean equal releases, whatever is asked. A run closes,
//! beyond the steps that it is asked for, those up to the last published one: earlier steps can be asked for only with
//! data that pass the same check.

mod answers;
mod emit;
mod heavy;
mod instead;
mod questions;
mod setup;

pub use crate::stream::SketchFlags;

use crate::failure::Unpublished;
use crate::stream::{interruptible, open_events, open_key, preview_budget, print_plan, print_summary, say_if_new};
use answers::{Answer, Answers, Off};
use anyhow::Result;
use emit::Emitter;
use evertally::noise::GuardedKey;
use evertally::sketch::{KeyTree, Table};
use evertally_declare::error::refuse_if;
use evertally_declare::records::Records;
use evertally_declare::words::short;
use evertally_ledger::ledger::OpenKey;
use evertally_publish::session::{ItemCounts, KeyCounts, Session, Tally};
use evertally_tables::output::Publication;
use heavy::Finds;
use serde_json::json;
use setup::Setup;
use std::sync::atomic::AtomicBool;

/// Runs `evertally sketch`.
pub fn run(args: SketchFlags) -> Result<()> {
    let setup = Setup::new(args)?;
    let (stream, files) = (&setup.stream, &setup.files);
    if files.plan_only {
        let errors = setup.errors()?;
        let instead = setup.instead.as_ref().and_then(|instead| instead.in_words(errors.max_std_error));
        // Every line of a remark is a comment of the plan.
        let remarks: Vec<String> = instead.iter().flat_map(|text| text.lines().map(str::to_owned)).collect();
        if files.json { print_json(&setup, None) } else { print_plan(stream, &errors, &remarks) }?;
        return preview_budget(stream, files);
    }
    let questions = setup.questions.as_ref().expect("only a plan needs no question");
    let cancelled = interruptible()?;
    let open = open_key(files, &cancelled)?;
    let (steps, confidence) = (questions.steps(), stream.confidence);
    match setup.rows {
        Some(_) => {
            let counts = |key: &GuardedKey| ItemCounts::new(stream, setup.plan.clone(), key, steps);
            answer(&setup, open, counts, Answers::new(questions, confidence, &cancelled), &cancelled)
        }
        None => {
            let counts = |key: &GuardedKey| KeyCounts::new(stream, setup.plan.clone(), key, steps);
            answer(&setup, open, counts, Finds::new(questions, confidence, &cancelled), &cancelled)
        }
    }
}

/// Asks what is counted, as steps close.
trait Asker<T: Tally> {
    /// Asks at the steps that are due.
    fn take_due(&mut self, session: &mut Session<T>) -> Result<()>;

    /// What was answered.
    fn found(self) -> Found;
}

/// What was answered to all questions.
struct Found {
    /// The texts of items, by their place.
    names: Vec<Vec<String>>,
    given: Vec<Answer>,
    off: Off,
    /// Without a list: from which count on a key is listed with the declared confidence.
    surely: Option<f64>,
}

/// Reads the events, answers, and publishes.
fn answer<T: Tally>(
    setup: &Setup,
    mut open: OpenKey,
    counts: impl FnOnce(&GuardedKey) -> evertally_declare::error::Result<T>,
    mut asker: impl Asker<T>,
    cancelled: &AtomicBool,
) -> Result<()> {
    let (stream, files) = (&setup.stream, &setup.files);
    let questions = setup.questions.as_ref().expect("only a plan needs no question");
    let last_step = stream.last_step.max(open.ledger.last_published(&stream.name));
    let digest = open.ledger.stream(&open.key, &stream.name, &stream.plan, last_step)?;
    let counts = counts(&digest.guarded(&open.key)?)?;
    let mut session = Session::new(stream.clone(), counts, &open.key, digest, last_step)?;
    let mut publication = Publication::new(&files.protected_paths(), true);
    let out = publication.add(&files.out)?;
    let progress = files.progress();
    let events = open_events(stream, files, &*progress, cancelled)?;
    events.feed(&mut session, &mut |session| asker.take_due(session))?;
    session.close_through(last_step)?;
    asker.take_due(&mut session)?;
    let found = asker.found();
    let mut emitter = Emitter::new(setup, questions, &found.names, out)?;
    emitter.answers(&found.given)?;
    emitter.finish(&open, last_step, found.off, &mut publication)?;
    refuse_if(cancelled)?;
    // Commit, then publish: see `release`.
    session.record(&mut open.ledger)?;
    publication.commit().map_err(|cause| Unpublished::new("the answers are", cause))?;
    say_if_new(&open, files);
    if !files.quiet {
        say(setup, &found, open.ledger.stream_count())?;
    }
    if files.json { print_json(setup, Some(&found)) } else { Ok(()) }
}

/// Says on standard error what was done.
fn say(setup: &Setup, found: &Found, streams: usize) -> Result<()> {
    let (stream, files) = (&setup.stream, &setup.files);
    let (count, noise) = (found.given.len(), setup.errors()?.max_std_error);
    let (off, confidence) = (found.off, stream.confidence * 100.0);
    let done = match (setup.rows, heavy::tree_of(&setup.plan)) {
        (None, Some(tree)) => format!("listed {count} heavy keys by a tree of counts of keys of {} bits,", tree.bits()),
        (rows, _) => {
            let (rows, width) = rows.map_or((0, 0), |table| (table.rows(), table.width()));
            format!("answered {count} questions by a count sketch of {rows} rows of {width} cells,")
        }
    };
    print_summary(stream, files, &done, noise, stream.last_step, streams);
    if let Some(surely) = found.surely {
        eprintln!(
            "a key of a count of {} or more is listed with a probability of {confidence} % or more",
            short(surely)
        );
        return Ok(());
    }
    let wider = if off.collisions > noise { "; a larger --width (for a new stream) makes it less" } else { "" };
    let (collisions, half) = (short(off.collisions), short(off.half_width));
    eprintln!(
        "collisions of items add a standard error of about {collisions}, which the intervals cover (± {half} at \
         {confidence} % at the last step){wider}"
    );
    if let Some(better) = setup.instead.as_ref().and_then(|instead| instead.in_words(noise)) {
        eprintln!("note: {better}");
    }
    Ok(())
}

/// Says for programs what was done, or planned.
fn print_json(setup: &Setup, done: Option<&Found>) -> Result<()> {
    use std::io::Write;
    let (stream, files, errors) = (&setup.stream, &setup.files, setup.errors()?);
    let plan = &stream.plan;
    let mut summary = json!({
        "stream": stream.name.as_str(),
        "rows": setup.rows.map(Table::rows),
        "width": setup.rows.map(Table::width),
        "key_bits": heavy::tree_of(&setup.plan).map(KeyTree::bits),
        "key_columns": stream.columns.labels,
        "mechanism": plan.mechanism().name().brief(),
        "noise": plan.noise_kind().to_string(),
        "budget": plan.request().budget(),
        "unit": stream.unit(),
        "steps": stream.calendar.steps(),
        "answered_through_step": stream.last_step,
        "max_std_error": errors.max_std_error,
        "last_step_half_width": errors.last_step_half_width,
        "confidence": errors.confidence,
    });
    if let Some(instead) = &setup.instead {
        summary["release_of_the_list"] = json!({"max_std_error": instead.max_std_error, "command": instead.command});
    }
    if let Some(found) = done {
        summary["answers"] = json!(found.given.len());
        summary["collision_std_error"] = json!(found.off.collisions);
        summary["answer_std_error"] = json!(found.off.std_error);
        summary["answer_half_width"] = json!(found.off.half_width);
        summary["surely_listed_from"] = json!(found.surely);
        summary["out"] = json!(files.out);
        summary["beside"] = json!(files.written().iter().map(|ending| files.beside(ending)).collect::<Vec<_>>());
    }
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &summary).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
