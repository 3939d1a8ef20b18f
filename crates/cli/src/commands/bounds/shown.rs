//! The output of an estimate and its bounds: on the terminal, as JSON and as CSV.

use super::BoundsSetup;
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use evertally::plan::Objective;
use evertally_declare::words::short;
use evertally_publish::bounds::{
    BoundChoice, CONFIDENCE, Choices, ContributionEstimate, EstimatedNumber, NumberInterval,
};
use serde_json::{Value, json};
use std::io::Write;

/// The data of the estimate, in words.
pub(super) fn looked_at(setup: &BoundsSetup, estimate: &ContributionEstimate) -> String {
    let (calendar, person) = (&setup.stretch, person(setup));
    let (start, end) = (calendar.format(calendar.start()), calendar.format(calendar.end()));
    let number = |estimated: EstimatedNumber, interval: NumberInterval| {
        let upper = if interval.upper.is_finite() { short(interval.upper.round()) } else { "any number".to_owned() };
        let (value, lower) = (estimated.value.clamp(interval.lower, interval.upper), interval.lower);
        format!("about {} ({} to {upper})", short(value.round()), short(lower.round()))
    };
    format!(
        "{start} to {end}, {} steps: {} of `{person}`, with {} events",
        calendar.steps(),
        number(estimate.persons(), estimate.persons_interval()),
        number(estimate.events(), estimate.events_interval())
    )
}

/// The assumption of the intervals, in words.
pub(super) fn assumption(setup: &BoundsSetup, estimate: &ContributionEstimate) -> String {
    let (person, largest) = (person(setup), estimate.candidates().largest());
    let confidence = 100.0 * CONFIDENCE;
    if estimate.is_largest_exceeded() {
        return format!(
            "some {person} have more than {largest} events, so no share can be guaranteed: raise --largest-events"
        );
    }
    format!("intervals in brackets hold with {confidence} % confidence if no {person} has more than {largest} events")
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

/// Prints the plan of the estimate, and its error.
pub(super) fn print_plan(setup: &BoundsSetup) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let error = short(setup.plan.max_std_error());
    write!(out, "{}", toml::to_string_pretty(&setup.plan)?)?;
    Ok(writeln!(out, "\n# standard error of each cell of the histograms: {error}")?)
}

pub(super) fn print_table(setup: &BoundsSetup, estimate: &ContributionEstimate, choices: &Choices) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "estimated from {}", looked_at(setup, estimate))?;
    writeln!(out, "{}", promise(setup))?;
    writeln!(
        out,
        "fewer than about {} people with similarly many events are hidden by the noise: estimates omit them, intervals \
         allow for them\n{}\n",
        short(estimate.least_seen()),
        assumption(setup, estimate)
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
        "it keeps about {} of the events; the count{of} would miss about {} {when}, and the noise has a standard \
         error of {}",
        kept(best),
        short(best.missing),
        short(best.noise)
    )?;
    if let Some(path) = &setup.out {
        eprintln!("wrote {}, and next to it .svg, .png", path.display());
    }
    Ok(())
}

/// The share of events that a choice keeps, with its interval.
pub(super) fn kept(choice: &BoundChoice) -> String {
    let NumberInterval { lower, upper } = choice.share_interval;
    format!("{} % ({} to {} %)", percent(choice.share), percent(lower), percent(upper))
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
    table.set_header(["max events", "a step", "kept, %", "from", "to", "missing", "noise", "total error"]);
    for choice in choices {
        table.add_row([
            choice.max_events.to_string(),
            per_step(choice),
            percent(choice.share),
            percent(choice.share_interval.lower),
            percent(choice.share_interval.upper),
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
        "share_lower": choice.share_interval.lower,
        "share_upper": choice.share_interval.upper,
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
    let finite = |number: f64| number.is_finite().then_some(number);
    let values = |choices: &[BoundChoice]| choices.iter().map(value).collect::<Vec<_>>();
    let answer = json!({
        "stream": setup.name,
        "budget": setup.plan.request().budget(),
        "looked_at": {
            "start": setup.stretch.format(setup.stretch.start()),
            "end": setup.stretch.format(setup.stretch.end()),
            "steps": setup.stretch.steps(),
            "persons": persons.value,
            "persons_lower": estimate.persons_interval().lower,
            "persons_upper": estimate.persons_interval().upper,
            "events": events.value,
            "events_lower": estimate.events_interval().lower,
            "events_upper": finite(estimate.events_interval().upper),
        },
        "histograms": {
            "edges": candidates.edges(),
            "counts": candidates.per_step().iter().zip(estimate.counts()).map(histogram).collect::<Vec<_>>(),
            "std_error": estimate.count_std_error(),
            "least_seen": estimate.least_seen(),
            "largest_events": candidates.largest(),
            "is_largest_exceeded": estimate.is_largest_exceeded(),
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
        "share_lower",
        "share_upper",
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
            choice.share_interval.lower.to_string(),
            choice.share_interval.upper.to_string(),
            choice.missing.to_string(),
            choice.noise.to_string(),
            choice.total().to_string(),
            (*choice == choices.best).to_string(),
        ])?;
    }
    Ok(writer.into_inner()?)
}
