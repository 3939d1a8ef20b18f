//! Parts shared by `release` and `sketch`: flags, configuration file, steps, plan, and the files next to a table.

mod config;
mod files;
mod flags;
mod groups_file;
mod inputs;
mod reading;
mod terminal;

pub(crate) use config::with_config;
pub(crate) use files::Files;
pub(crate) use flags::{BudgetFlags, PlannedFlags, UnitFlags, WorkloadFlags};
pub use flags::{ReleaseFlags, SketchFlags};
pub(crate) use groups_file::with_groups_of_file;
pub(crate) use terminal::{PublishedSummary, plan_facts, print_plan, print_summary};

use anyhow::Result;
use evertally_declare::stream::Stream;
use evertally_ledger::disk::RealDisk;
use evertally_ledger::ledger::{Absent, OpenKey};
use evertally_ledger::source::{Approval, Claim, SourceBudget};
use evertally_plot::png;
use evertally_publish::report::Report;
use evertally_tables::input::Events;
use evertally_tables::output::RunOutputs;
use evertally_tables::progress::Progress;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The flag of this process that is set by Ctrl-C or another request to end; the run then stops at the next row, or at
/// the next mechanism that it compares, and leaves no files.
///
/// A second request ends the program at once, for example while it waits for a pipe that nobody reads. On disk that is
/// a crash, after which a run over the same data gives the same bytes.
pub(crate) fn interruptible() -> Result<Arc<AtomicBool>> {
    static CANCELLED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let cancelled = CANCELLED.get_or_init(Arc::default).clone();
    let flag = cancelled.clone();
    let raise = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    match ctrlc::set_handler(raise) {
        // The handler of an earlier call sets the same flag.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(cancelled),
        Err(error) => Err(error.into()),
    }
}

/// Opens the key named by the flags, with its ledger, locked against other runs. With `--create-key`, a missing key is
/// created together with the first record.
pub(crate) fn open_key(files: &Files, cancelled: &AtomicBool) -> Result<OpenKey> {
    let absent = if files.create_key { Absent::Make } else { Absent::Refuse };
    let budget = files.budget_file.as_deref().map(SourceBudget::from_file).transpose()?;
    let mut open = OpenKey::from_file(Arc::new(RealDisk), &files.key_path, absent, cancelled, &mut report_waiting)?;
    open.ledger.spend_from(budget.map(|budget| (budget, Approval::default())));
    Ok(open)
}

/// Prints how much of the named budget the plan would leave, or fails if it does not fit; for a run that only plans.
pub(crate) fn preview_budget(stream: &Stream, files: &Files) -> Result<()> {
    let Some(path) = &files.budget_file else { return Ok(()) };
    let budget = SourceBudget::from_file(path)?;
    let (claim, state, shown) = (Claim::new(stream.name.as_str(), "", &stream.plan), budget.state()?, path.display());
    if state.costs.iter().any(|cost| cost.stream == claim.stream && cost.plan == claim.plan) {
        eprintln!(
            "the budget {shown} already counts a stream with this name and plan; {} of {} is left",
            state.left, state.cap
        );
        return Ok(());
    }
    let (left, cap) = (budget.check(&claim)?, state.cap);
    eprintln!("budget {shown}: {left} of {cap} would be left; this reserves nothing");
    Ok(())
}

/// Reports a newly created key.
pub(crate) fn report_new_key(open: &OpenKey, files: &Files) {
    if open.is_new {
        eprintln!("there was no key {}; created a new one, {}", files.key_path.display(), open.key.id());
    }
}

/// Reports that another run holds the key.
pub(crate) fn report_waiting(key: &Path) {
    eprintln!("waiting for another run that uses {} …", key.display());
}

/// The events of the input files.
pub(crate) fn open_events<'o>(
    stream: &Stream,
    files: &'o Files,
    progress: &'o dyn Progress,
    cancelled: &'o AtomicBool,
) -> Result<Events<'o>> {
    Ok(Events::from_files(&files.inputs, &stream.columns, &files.reading, progress, cancelled)?)
}

/// Pixels of a PNG for each unit of the SVG.
const PNG_SCALE: f32 = 2.0;

/// The files that are written next to a table.
pub(crate) struct SideFiles<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) files: &'a Files,
    pub(crate) publication: &'a mut RunOutputs,
}

impl SideFiles<'_> {
    pub(crate) fn put(&mut self, ending: &str, bytes: &[u8]) -> Result<()> {
        let path = self.files.sibling(ending);
        let private = ending.starts_with("NOT-PRIVATE");
        let mut file = if private { self.publication.add_private(&path) } else { self.publication.add(&path) }?;
        file.write_all(bytes)?;
        Ok(file.finish()?)
    }

    /// The plan, and the report for programs and for people.
    pub(crate) fn write_report(&mut self, report: &Report) -> Result<()> {
        let plan = match self.stream.measures {
            None => toml::to_string_pretty(&self.stream.plan)?,
            Some(_) => self.stream.plan_text()?,
        };
        self.put("plan.toml", plan.as_bytes())?;
        self.put("report.json", format!("{}\n", serde_json::to_string_pretty(report)?).as_bytes())?;
        self.put("report.md", report.markdown().as_bytes())
    }

    /// A picture as SVG and as PNG, under names that begin with `prefix`.
    pub(crate) fn write_picture(&mut self, prefix: &str, svg: &str) -> Result<()> {
        self.put(&format!("{prefix}svg"), svg.as_bytes())?;
        self.put(&format!("{prefix}png"), &png(svg, PNG_SCALE)?)
    }
}
