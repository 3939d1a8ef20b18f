//! What a run says on the terminal.

use super::Files;
use anyhow::Result;
use evertally::plan::Plan;
use evertally_publish::report::ErrorFacts;
use evertally_publish::stream::Stream;
use evertally_publish::words::{at_most, short};

/// Prints the plan and its error; nothing is read or written.
pub(crate) fn print_plan(plan: &Plan, error: &ErrorFacts) -> Result<()> {
    let mut out = std::io::stdout().lock();
    use std::io::Write;
    write!(out, "{}", toml::to_string_pretty(plan)?)?;
    writeln!(
        out,
        "\n# standard error: at most {}, {} in root mean square",
        short(error.max_std_error),
        short(error.mean_std_error)
    )?;
    writeln!(out, "# interval at the last step: ± {} at {} %", error.last_step_half_width, error.confidence * 100.0)?;
    Ok(())
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
    let plan = &stream.plan;
    eprintln!("{done} with {} and {} noise", plan.mechanism().name().brief(), plan.noise_kind());
    eprintln!(
        "guarantee: {} for {}; standard error at most {}",
        plan.request().budget(),
        stream.unit(),
        at_most(max_std_error)
    );
    if !files.is_table_alone() {
        eprintln!("wrote {} and beside it .{}", files.out.display(), files.endings().join(", ."));
    }
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
