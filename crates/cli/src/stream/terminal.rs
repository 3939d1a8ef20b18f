//! What a run says on the terminal.

use super::Files;
use anyhow::Result;
use evertally_declare::problem::Wording;
use evertally_declare::stream::Stream;
use evertally_declare::words::{at_most, short};
use evertally_publish::bounds::{fall_behind, natural_period};
use evertally_publish::report::{ErrorFacts, MeasureFacts, SelectionFacts};

/// Prints the plan, its error and more remarks on it; nothing is read or written.
pub(crate) fn print_plan(stream: &Stream, error: &ErrorFacts, remarks: &[String]) -> Result<()> {
    let plan = &stream.plan;
    let mut out = std::io::stdout().lock();
    use std::io::Write;
    if let Some(facts) = MeasureFacts::of(stream) {
        write!(out, "{}", stream.plan_text()?)?;
        writeln!(out)?;
        for words in facts.in_words() {
            writeln!(out, "# {words}")?;
        }
        for remark in notes(stream).iter().chain(remarks) {
            writeln!(out, "# {remark}")?;
        }
        return Ok(());
    }
    write!(out, "{}", toml::to_string_pretty(plan)?)?;
    writeln!(
        out,
        "\n# standard error: at most {}, {} in root mean square",
        short(error.max_std_error),
        short(error.mean_std_error)
    )?;
    writeln!(out, "# interval at the last step: ± {} at {} %", error.last_step_half_width, error.confidence * 100.0)?;
    let selection = SelectionFacts::of(stream).map_or(Vec::new(), |facts| facts.in_words());
    for remark in selection.iter().map(|fact| format!("groups: {fact}")) {
        writeln!(out, "# {remark}")?;
    }
    for remark in notes(stream).iter().chain(remarks) {
        writeln!(out, "# {remark}")?;
    }
    Ok(())
}

/// No count of people or events stands out of noise as wide as this.
const USELESS: f64 = 1e9;

/// What people ask about a plan.
fn notes(stream: &Stream) -> Vec<String> {
    let (mut notes, unit) = (Vec::new(), stream.plan.request().unit());
    if stream.measures.is_none() && !stream.is_integral() && stream.plan.request().grid().is_integral() {
        notes.push(
            "values have fractions because the noise is on a finer grid than the data; rounding them costs no privacy"
                .to_owned(),
        );
    }
    if !stream.plan.is_unbounded() && stream.plan.max_std_error() >= USELESS {
        let error = short(stream.plan.max_std_error());
        notes.push(format!(
            "with a standard error of {error} nothing can be read from the release; is the budget a slip?"
        ));
    }
    let behind = fall_behind(stream.plan.request(), &natural_period(&stream.calendar));
    notes.extend(behind.map(|says| says.worded(Wording::Flags)));
    if let Some(period) = stream.period() {
        let several = period.several_in_words(2).replacen('2', "several", 1);
        notes.push(format!(
            "the promise is for {} by itself; whoever is active in {several} is promised less, as the report says",
            period.in_words()
        ));
    }
    if let (Some(in_all), Some(in_step)) = (unit.max_events(), unit.max_events_per_step())
        && in_step > in_all
    {
        let more = format!("--max-events-per-step {in_step} is more than --max-events {in_all}");
        notes
            .push(format!("{more}, which bounds a step, too; leave it out, or did you mean them the other way round?"));
    }
    notes
}

/// Says on standard error what was done: after a first line of `done`, what was promised, written, and to be noted.
pub(crate) fn print_summary(
    stream: &Stream,
    files: &Files,
    done: &str,
    max_std_error: f64,
    last_step: u64,
    streams: usize,
) {
    if let Some(facts) = MeasureFacts::of(stream) {
        eprintln!("{done}: {}", facts.measures.join(", "));
        eprintln!("guarantee: {} for {}", stream.plan.request().budget(), stream.unit());
        facts.in_words().for_each(|words| eprintln!("  {words}"));
        return written(stream, files, last_step, streams);
    }
    let plan = &stream.plan;
    eprintln!("{done} with {} and {} noise", plan.mechanism().name().brief(), plan.noise_kind());
    eprintln!(
        "guarantee: {}{}{} for {}; standard error at most {}",
        if stream.streams() > 1 { format!("{} × ", stream.streams()) } else { String::new() },
        plan.request().budget(),
        plan.guarantee()
            .selection
            .map_or(String::new(), |delta| format!(", and δ = {:e} for selecting groups", delta.get())),
        stream.unit(),
        at_most(max_std_error)
    );
    written(stream, files, last_step, streams);
}

/// Says what was written, and what is to be noted.
fn written(stream: &Stream, files: &Files, last_step: u64, streams: usize) {
    if !files.is_table_alone() {
        eprintln!("wrote {} and beside it .{}", files.out.display(), files.written().join(", ."));
    }
    notes(stream).iter().for_each(|note| eprintln!("note: {note}"));
    if streams > 1 {
        eprintln!("{streams} streams have been published with this key; over the same data their budgets add up");
    }
    let end = stream.calendar.end_of(last_step);
    if end.timestamp().is_some_and(|end| end > jiff::Timestamp::now()) {
        eprintln!(
            "note: steps up to {} are published and final, though that is still to come; --through TIME holds them back",
            stream.calendar.format(end)
        );
    }
}
