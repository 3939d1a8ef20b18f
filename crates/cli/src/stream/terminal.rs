//! The terminal output of a run.

use super::Files;
use anyhow::Result;
use evertally_declare::problem::Wording;
use evertally_declare::stream::Stream;
use evertally_declare::words::{at_most, short};
use evertally_publish::bounds::{fall_behind, natural_period};
use evertally_publish::report::{CORRELATION_GAINS_NOTHING, ErrorFacts, MeasureFacts, SelectionFacts};

/// Prints the plan, its error and further remarks; reads and writes no files.
pub(crate) fn print_plan(stream: &Stream, error: &ErrorFacts, remarks: &[String]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    use std::io::Write;
    match stream.measures {
        Some(_) => write!(out, "{}", stream.plan_text()?)?,
        None => write!(out, "{}", toml::to_string_pretty(&stream.plan)?)?,
    }
    writeln!(out)?;
    for fact in plan_facts(stream, error, remarks) {
        writeln!(out, "# {fact}")?;
    }
    Ok(())
}

/// The error of a plan, and remarks on it, in sentences.
pub(crate) fn plan_facts(stream: &Stream, error: &ErrorFacts, remarks: &[String]) -> Vec<String> {
    let mut facts = vec![format!("guarantee: {}", guarantee_in_words(stream))];
    if let Some(measures) = MeasureFacts::new(stream) {
        facts.extend(measures.in_words());
    } else {
        let (most, mean) = (at_most(error.max_std_error), short(error.mean_std_error));
        facts.push(format!("standard error: at most {most}, {mean} in root mean square"));
        let (width, confidence) = (&error.last_step_half_width, error.confidence * 100.0);
        facts.push(format!("interval at the last step: ± {width} at {confidence} %"));
        let selection = SelectionFacts::new(stream).map_or(Vec::new(), |facts| facts.in_words());
        facts.extend(selection.iter().map(|fact| format!("groups: {fact}")));
    }
    facts.extend(notes(stream).into_iter().chain(clock_note(stream)).chain(remarks.iter().cloned()));
    facts
}

/// Noise this wide hides any count of people or events.
const USELESS_STD_ERROR: f64 = 1e9;

/// Notes that answer common questions about a plan.
fn notes(stream: &Stream) -> Vec<String> {
    let (mut notes, unit) = (Vec::new(), stream.plan.request().unit());
    if stream.measures.is_none() && !stream.is_integral() && stream.plan.request().grid().is_integral() {
        notes.push(
            "values have fractions because the noise is on a finer grid than the data; rounding them costs no privacy"
                .to_owned(),
        );
    }
    if !stream.plan.is_unbounded() && stream.plan.max_std_error() >= USELESS_STD_ERROR {
        let error = short(stream.plan.max_std_error());
        notes.push(format!("with a standard error of {error} the release is useless; is the budget a typo?"));
    }
    match &stream.assertion {
        Some(assertion) => notes.push(assertion.in_words()),
        None => {
            let behind = fall_behind(stream.plan.request(), natural_period(&stream.calendar));
            notes.extend(behind.map(|says| says.worded(Wording::Flags)));
        }
    }
    if let Some(window) = stream.window_in_words() {
        notes.push(format!(
            "the promise holds for {window}; a person active in several such windows is promised less, see the report"
        ));
    } else if let Some(period) = stream.period() {
        let several = period.several_in_words(2).replacen('2', "several", 1);
        notes.push(format!(
            "the promise holds for {} alone; a person active in {several} is promised less, see the report",
            period.in_words()
        ));
    }
    if stream.gains_nothing_from_correlation() {
        notes.push(format!("--correlate-groups has no effect: {CORRELATION_GAINS_NOTHING}"));
    }
    if let (Some(in_all), Some(in_step)) = (unit.max_events(), unit.max_events_per_step())
        && in_step > in_all
    {
        let by = if stream.assertion.is_some() { "--assert-max-events" } else { "--max-events" };
        let more = format!("{by}-per-step {in_step} is more than {by} {in_all}");
        notes.push(format!("{more}, which already bounds each step; omit it, or did you swap the two?"));
    }
    notes
}

/// The clock of times without an offset, unless it is UTC.
fn clock_note(stream: &Stream) -> Option<String> {
    let zone = stream.calendar.zone().name();
    let note = "times with an offset, and INT96 columns of Parquet, are instants";
    (zone != "UTC").then(|| format!("times without an offset are read on the clock of {zone}; {note}"))
}

/// The budget and the privacy unit; of consecutive streams, of as many as can have data of one unit.
fn guarantee_in_words(stream: &Stream) -> String {
    let plan = &stream.plan;
    format!(
        "{}{}{} for {}",
        match stream.streams_of_a_unit() {
            1 => String::new(),
            several => format!("{several} × "),
        },
        plan.request().budget(),
        plan.guarantee()
            .selection
            .map_or(String::new(), |delta| format!(", and δ = {:e} for selecting groups", delta.get())),
        stream.unit()
    )
}

/// What a run has published, for its summary.
pub(crate) struct PublishedSummary<'a> {
    /// The rows in words.
    pub(crate) done: &'a str,
    pub(crate) max_std_error: f64,
    pub(crate) last_step: u64,
    /// The number of streams of the key.
    pub(crate) streams: usize,
    /// Whether the stream begins with this run, so that notes on its declaration are new.
    pub(crate) is_first: bool,
}

/// Prints a summary on standard error: the published rows, then the guarantee, the written files and notes.
pub(crate) fn print_summary(stream: &Stream, files: &Files, published: &PublishedSummary<'_>) {
    let guarantee = guarantee_in_words(stream);
    if let Some(facts) = MeasureFacts::new(stream) {
        eprintln!("{}: {}", published.done, facts.titles.join(", "));
        eprintln!("guarantee: {guarantee}");
        facts.in_words().for_each(|words| eprintln!("  {words}"));
        return written(stream, files, published);
    }
    let plan = &stream.plan;
    eprintln!("{} with {} and {} noise", published.done, plan.mechanism().name().brief(), plan.noise_kind());
    eprintln!("guarantee: {guarantee}; standard error at most {}", at_most(published.max_std_error));
    written(stream, files, published);
}

/// Prints the written files, then notes.
fn written(stream: &Stream, files: &Files, published: &PublishedSummary<'_>) {
    let (last_step, streams) = (published.last_step, published.streams);
    if !files.is_table_alone() {
        eprintln!("wrote {}, and next to it .{}", files.out.display(), files.written().join(", ."));
    }
    if published.is_first {
        notes(stream).iter().for_each(|note| eprintln!("note: {note}"));
        if streams > 1 {
            eprintln!(
                "{streams} streams have been published with this key; if they use the same data, their budgets add up"
            );
        }
    }
    let end = stream.calendar.end_of(last_step);
    if end.timestamp().is_some_and(|end| end > jiff::Timestamp::now()) {
        eprintln!(
            "note: steps up to {} are published and final, though that is in the future; --through TIME stops earlier",
            stream.calendar.format(end)
        );
    }
}
