//! The output of an estimate and its bounds: on the terminal, as JSON and as CSV.

use super::BoundsSetup;
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use evertally::plan::Objective;
use evertally_declare::words::short;
use evertally_publish::bounds::{BoundChoice, Choices, ContributionEstimate};
use serde_json::{Value, json};
use std::io::Write;

/// The data of the estimate, in words.
pub(super) fn looked_at(setup: &BoundsSetup, estimate: &ContributionEstimate) -> String {
    let (calendar, person) = (&setup.stretch, person(setup));
    let (start, end) = (calendar.format(calendar.start()), calendar.format(calendar.end()));
    let (persons, events) = (estimate.persons(), estimate.events());
    format!(
        "{start} to {end}, {} steps: about {} ± {} of `{person}`, with {} ± {} events",
        calendar.steps(),
        short(persons.value.max(0.0).round()),
        short(persons.std_error.round()),
        short(events.value.max(0.0).round()),
        short(events.std_error.round())
    )
}

/// The privacy promise of the estimate, in words.
pub(super) fn promise(setup: &BoundsSetup) -> String {
    format!(
        "The estimate spends {} for one {} with any number of events, recorded as stream `{}`",
        setup.plan.request().budget(),
        person(setup),
        setup.name
    )
}

/// The flags of a choice.
pub(super) fn flags(choice: &BoundChoice) -> String {
    let per_step = choice.max_events_per_step.map_or(String::new(), |bound| format!(" --max-events-per-step {bound}"));
    format!("--max-events {}{per_step}", choice.max_events)
}

fn person(setup: &BoundsSetup) -> &str {
    setup.settings.columns.person.as_deref().expect("checked by the setup")
}

pub(super) fn print_table(setup: &BoundsSetup, estimate: &ContributionEstimate, choices: &Choices) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "estimated from {}", looked_at(setup, estimate))?;
    writeln!(out, "{}", promise(setup))?;
    let few = short(estimate.least_seen());
    writeln!(
        out,
        "fewer than about {few} people with this many events are lost in the noise; their loss is not \
         estimated\n"
    )?;
    writeln!(out, "{}", table(&choices.in_all))?;
    if choices.per_step.len() > 1 {
        writeln!(out, "{}", table(&choices.per_step))?;
    }
    let best = &choices.best;
    writeln!(out, "least total error: {}", flags(best))?;
    let of = if setup.planned.stretch().groups > 1.0 { " of each group, if all groups lose alike," } else { "" };
    let when = match setup.planned.stretch().objective {
        Objective::Max => "at the end",
        Objective::Mean => "over all steps, in root mean square",
    };
    writeln!(
        out,
        "it keeps about {} % of the events; the count{of} would miss about {} {when}, and the noise has a standard \
         error of {}",
        percent(best.share),
        short(best.missing),
        short(best.noise)
    )?;
    if let Some(path) = &setup.out {
        eprintln!("wrote {}, and next to it .svg, .png", path.display());
    }
    Ok(())
}

/// A share in per cent, with one digit.
fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn per_step(choice: &BoundChoice) -> String {
    choice.max_events_per_step.map_or("any".to_owned(), |bound| bound.to_string())
}

fn table(choices: &[BoundChoice]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["max events", "a step", "kept, %", "±", "missing", "noise", "total error"]);
    for choice in choices {
        table.add_row([
            choice.max_events.to_string(),
            per_step(choice),
            percent(choice.share),
            percent(choice.share_std_error),
            short(choice.missing),
            short(choice.noise),
            short(choice.total()),
        ]);
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

fn value(choice: &BoundChoice) -> Value {
    json!({
        "max_events": choice.max_events,
        "max_events_per_step": choice.max_events_per_step,
        "share": choice.share,
        "share_std_error": choice.share_std_error,
        "missing": choice.missing,
        "noise": choice.noise,
        "total_error": choice.total(),
    })
}

pub(super) fn print_json(setup: &BoundsSetup, estimate: &ContributionEstimate, choices: &Choices) -> Result<()> {
    let candidates = estimate.candidates();
    let histogram =
        |(bound, counts): (&Option<u64>, &Vec<f64>)| json!({ "left_out_above_in_a_step": bound, "persons": counts });
    let (persons, events) = (estimate.persons(), estimate.events());
    let values = |choices: &[BoundChoice]| choices.iter().map(value).collect::<Vec<_>>();
    let answer = json!({
        "stream": setup.name,
        "budget": setup.plan.request().budget(),
        "looked_at": {
            "start": setup.stretch.format(setup.stretch.start()),
            "end": setup.stretch.format(setup.stretch.end()),
            "steps": setup.stretch.steps(),
            "persons": persons.value,
            "persons_std_error": persons.std_error,
            "events": events.value,
            "events_std_error": events.std_error,
        },
        "histograms": {
            "edges": candidates.edges(),
            "counts": candidates.per_step().iter().zip(estimate.counts()).map(histogram).collect::<Vec<_>>(),
            "std_error": estimate.count_std_error(),
            "least_seen": estimate.least_seen(),
        },
        "in_all": values(&choices.in_all),
        "per_step": values(&choices.per_step),
        "best": value(&choices.best),
        "flags": flags(&choices.best),
    });
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &answer).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// All shown choices, each once.
pub(super) fn csv(choices: &Choices) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "max_events",
        "max_events_per_step",
        "share",
        "share_std_error",
        "missing",
        "noise",
        "total_error",
        "best",
    ])?;
    let others = choices.per_step.iter().filter(|choice| !choices.in_all.contains(choice));
    for choice in choices.in_all.iter().chain(others) {
        writer.write_record([
            choice.max_events.to_string(),
            choice.max_events_per_step.map_or(String::new(), |bound| bound.to_string()),
            choice.share.to_string(),
            choice.share_std_error.to_string(),
            choice.missing.to_string(),
            choice.noise.to_string(),
            choice.total().to_string(),
            (*choice == choices.best).to_string(),
        ])?;
    }
    Ok(writer.into_inner()?)
}
