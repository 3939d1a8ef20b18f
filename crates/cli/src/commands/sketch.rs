//! `evertally sketch`: private counts of very many items from event files, of which only a few are queried.
//!
//! [`SketchFlags`] gathers flags and the configuration file; [`questions`] determines which items are queried, and
//! when; [`setup`] turns flags into validated parts, including the plan, and [`instead`] compares it with the plan of a
//! release of the same list; a [`Session`] consumes events; [`answers`] are computed as steps close, or [`heavy`] keys
//! are found without a list; and [`emit`] writes table, picture and report, all together or not at all.
//!
//! **Only the key and its ledger are kept between runs.** Noise is a function of key, plan, stream, cell and step
//! ([`Sampling::Keyed`](evertally::stream::LazySampling::Keyed)). Other queries of the same data therefore get answers
//! that agree with all earlier ones, and cost no further budget. The same noise must never be added to other data: for
//! every step through which answers were published, the ledger holds a digest of what every step added to each item.
//! All cells are a function of these sums, so equal digests mean equal releases, whatever the queries. In addition to
//! the queried steps, a run closes all steps up to the last published one: earlier steps can be queried only with data
//! that pass the same check.

mod answers;
mod emit;
mod heavy;
mod instead;
mod querier;
mod questions;
mod setup;

use crate::failure::RecordedNotWritten;
use crate::stream::{
    PublishedSummary, SketchFlags, interruptible, open_events, open_key, preview_budget, print_plan, print_summary,
    report_new_key,
};
use answers::CollectedAnswers;
use anyhow::Result;
use emit::AnswerEmitter;
use evertally::noise::GuardedKey;
use evertally::sketch::{KeyTree, Table};
use evertally_declare::error::refuse_if;
use evertally_declare::records::Records;
use evertally_declare::words::short;
use evertally_ledger::ledger::OpenKey;
use evertally_publish::session::{ItemCounts, KeyCounts, Session};
use evertally_tables::input::EventSink;
use evertally_tables::output::RunOutputs;
use heavy::HeavyKeys;
use querier::{Querier, QueryResults};
use serde_json::json;
use setup::SketchSetup;
use std::sync::atomic::AtomicBool;

/// Runs `evertally sketch`.
pub(super) fn run(args: SketchFlags) -> Result<()> {
    let setup = SketchSetup::new(args)?;
    let (stream, files) = (&setup.stream, &setup.files);
    if files.plan_only {
        let errors = setup.errors()?;
        let instead = setup.instead.as_ref().and_then(|instead| instead.in_words(errors.max_std_error));
        // Every line of a remark becomes a comment of the plan.
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
            answer(&setup, open, counts, CollectedAnswers::new(questions, confidence, &cancelled), &cancelled)
        }
        None => {
            let counts = |key: &GuardedKey| KeyCounts::new(stream, setup.plan.clone(), key, steps);
            answer(&setup, open, counts, HeavyKeys::new(questions, confidence, &cancelled), &cancelled)
        }
    }
}

/// Reads the events, answers, and publishes.
fn answer<T: EventSink>(
    setup: &SketchSetup,
    mut open: OpenKey,
    counts: impl FnOnce(&GuardedKey) -> evertally_declare::error::Result<T>,
    mut querier: impl Querier<T>,
    cancelled: &AtomicBool,
) -> Result<()> {
    let (stream, files) = (&setup.stream, &setup.files);
    let questions = setup.questions.as_ref().expect("only a plan needs no question");
    let last_step = stream.last_step.max(open.ledger.last_published(&stream.name));
    let digest = open.ledger.stream(&open.key, &stream.name, &stream.plan, last_step)?;
    let counts = counts(&digest.guarded(&open.key)?)?;
    let mut session = Session::new(stream.clone(), counts, &open.key, digest, last_step)?;
    let mut publication = RunOutputs::new(&files.protected_paths(), true);
    let out = publication.add(&files.out)?;
    let progress = files.progress();
    let events = open_events(stream, files, &*progress, cancelled)?;
    events.feed(&mut session, &mut |session| querier.answer_due(session))?;
    session.close_through(last_step)?;
    querier.answer_due(&mut session)?;
    let found = querier.found();
    let mut emitter = AnswerEmitter::new(setup, questions, &found.names, out)?;
    emitter.answers(&found.given)?;
    emitter.finish(&open, last_step, found.off, &mut publication)?;
    refuse_if(cancelled)?;
    // Commit, then publish: see `release`.
    session.record(&mut open.ledger)?;
    publication.commit().map_err(|cause| RecordedNotWritten::new("the answers are", cause))?;
    report_new_key(&open, files);
    if !files.quiet {
        print_summary_lines(setup, &found, open.ledger.stream_count())?;
    }
    if files.json { print_json(setup, Some(&found)) } else { Ok(()) }
}

/// Prints a summary on standard error.
fn print_summary_lines(setup: &SketchSetup, found: &QueryResults, streams: usize) -> Result<()> {
    let (stream, files) = (&setup.stream, &setup.files);
    let (count, noise) = (found.given.len(), setup.errors()?.max_std_error);
    let (off, confidence) = (found.off, stream.confidence * 100.0);
    let done = match (setup.rows, heavy::tree_of(&setup.plan)) {
        (None, Some(tree)) => format!("listed {count} heavy keys from a tree of counts over {}-bit keys,", tree.bits()),
        (rows, _) => {
            let (rows, width) = rows.map_or((0, 0), |table| (table.rows(), table.width()));
            format!("answered {count} queries from a count sketch of {rows} rows of {width} cells,")
        }
    };
    let last_step = stream.last_step;
    print_summary(
        stream,
        files,
        &PublishedSummary { done: &done, max_std_error: noise, last_step, streams, is_first: true },
    );
    if let Some(surely) = found.surely {
        eprintln!(
            "a key with a count of {} or more is listed with a probability of at least {confidence} %",
            short(surely)
        );
        return Ok(());
    }
    let wider = if off.collisions > noise { "; a larger --width (in a new stream) reduces it" } else { "" };
    let (collisions, half) = (short(off.collisions), short(off.half_width));
    eprintln!(
        "collisions between items add a standard error of about {collisions}, which the intervals include (± {half} \
         at {confidence} % at the last step){wider}"
    );
    if let Some(better) = setup.instead.as_ref().and_then(|instead| instead.in_words(noise)) {
        eprintln!("note: {better}");
    }
    Ok(())
}

/// Prints a JSON summary of the run, or of the plan.
fn print_json(setup: &SketchSetup, done: Option<&QueryResults>) -> Result<()> {
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
        summary["beside"] = json!(files.written().iter().map(|ending| files.sibling(ending)).collect::<Vec<_>>());
    }
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &summary).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
