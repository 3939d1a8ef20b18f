//! `evertally sketch`: from event files to private counts of very many items, of which few are asked for.
//!
//! [`options`] gathers flags and the configuration file; [`questions`] says which items are asked for, and when;
//! [`setup`] turns flags into validated parts, among them the plan, and [`instead`] compares it with that of a release of
//! the same list; a [`Session`] takes events, [`answers`] are given
//! as steps close, and [`emit`] writes table, picture and report, all together or not at all.
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
mod instead;
mod questions;
mod setup;

pub use crate::stream::SketchFlags;

use crate::failure::Unpublished;
use crate::stream::{interruptible, open_events, open_key, preview_budget, print_plan, print_summary, say_if_new};
use answers::{Answers, Off};
use anyhow::Result;
use emit::Emitter;
use evertally_publish::error::refuse_if;
use evertally_publish::session::{ItemCounts, Session};
use evertally_publish::words::short;
use evertally_tables::output::Publication;
use serde_json::json;
use setup::Setup;

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
    let mut open = open_key(files, &cancelled)?;
    let last_step = stream.last_step.max(open.ledger.last_published(&stream.name));
    let digest = open.ledger.stream(&open.key, &stream.name, &stream.plan, last_step)?;
    let counts = ItemCounts::new(stream, setup.plan.clone(), &open.key, questions.steps())?;
    let mut session = Session::new(stream.clone(), counts, &open.key, digest, last_step)?;

    let mut publication = Publication::new(&files.protected_paths(), true);
    let mut emitter = Emitter::new(&setup, questions, &mut publication)?;
    let mut answers = Answers::new(questions, stream.confidence, &cancelled);
    let progress = files.progress();
    let events = open_events(stream, files, &*progress, &cancelled)?;
    events.feed(&mut session, &mut |session| answers.take_due(session))?;
    session.close_through(last_step)?;
    answers.take_due(&mut session)?;
    let Answers { given, off, .. } = answers;
    let count = given.len();
    emitter.answers(given)?;
    emitter.finish(&open, last_step, off, &mut publication)?;
    refuse_if(&cancelled)?;
    // Commit, then publish: see `release`.
    session.record(&mut open.ledger)?;
    publication.commit().map_err(|cause| Unpublished::new("the answers are", cause))?;
    say_if_new(&open, files);
    if !files.quiet {
        let (rows, width) = (setup.rows.rows(), setup.rows.width());
        let done = format!("answered {count} questions by a count sketch of {rows} rows of {width} cells,");
        let noise = setup.errors()?.max_std_error;
        print_summary(stream, files, &done, noise, stream.last_step, open.ledger.stream_count());
        let (half, confidence) = (short(off.half_width), stream.confidence * 100.0);
        let wider = if off.collisions > noise { "; a larger --width (for a new stream) makes it less" } else { "" };
        eprintln!(
            "collisions of items add a standard error of about {}, which the intervals cover (± {half} at {confidence} % at the last step){wider}",
            short(off.collisions)
        );
        if let Some(better) = setup.instead.as_ref().and_then(|instead| instead.in_words(noise)) {
            eprintln!("note: {better}");
        }
    }
    if files.json { print_json(&setup, Some((count, off))) } else { Ok(()) }
}

/// Says for programs what was done, or planned.
fn print_json(setup: &Setup, done: Option<(usize, Off)>) -> Result<()> {
    use std::io::Write;
    let (stream, files, errors) = (&setup.stream, &setup.files, setup.errors()?);
    let plan = &stream.plan;
    let mut summary = json!({
        "stream": stream.name.as_str(),
        "rows": setup.rows.rows(),
        "width": setup.rows.width(),
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
    if let Some((answers, off)) = done {
        summary["answers"] = json!(answers);
        summary["collision_std_error"] = json!(off.collisions);
        summary["answer_std_error"] = json!(off.std_error);
        summary["answer_half_width"] = json!(off.half_width);
        summary["out"] = json!(files.out);
        summary["beside"] = json!(files.endings().iter().map(|ending| files.beside(ending)).collect::<Vec<_>>());
    }
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &summary).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
