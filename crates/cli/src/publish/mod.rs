//! What `release` and `sketch` share: flags and configuration file, steps and plan, the way of events into closed steps,
//! and the privacy report.

mod config;
mod intake;
mod keys;
mod options;
mod report;
mod setup;
mod terminal;
mod words;

pub(crate) use config::ConfigFile;
pub(crate) use intake::{Events, Intake, Steps};
pub(crate) use keys::{encode, push_encoded};
pub use options::StreamArgs;
pub(crate) use options::{Refusable, resolve};
pub(crate) use report::{ErrorFacts, Extent, GroupFacts, Report, SketchFacts};
pub use setup::declared_values;
pub(crate) use setup::{StreamSetup, calendar, file_time_parser, needed, parse_time, request, time_parser};
pub(crate) use terminal::{print_plan, print_summary};

use crate::input::Cancelled;
use crate::output::Publication;
use anyhow::Result;
use evertally_plot::png;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that Ctrl-C raises; the run then ends at the next row, and leaves nothing behind.
pub(crate) fn interruptible() -> Result<Arc<AtomicBool>> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = cancelled.clone();
    match ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)) {
        // A program that runs several releases keeps the handler of the first.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(cancelled),
        Err(error) => Err(error.into()),
    }
}

/// Ends a run that was asked to stop.
pub(crate) fn refuse_if(cancelled: &AtomicBool) -> Result<()> {
    if cancelled.load(Ordering::Relaxed) { Err(Cancelled.into()) } else { Ok(()) }
}

/// Pixels of a PNG for each unit of the SVG.
const PNG_SCALE: f32 = 2.0;

/// What is written beside a table.
pub(crate) struct Beside<'a> {
    pub(crate) setup: &'a StreamSetup,
    pub(crate) publication: &'a mut Publication,
}

impl Beside<'_> {
    fn put(&mut self, ending: &str, bytes: &[u8]) -> Result<()> {
        let path = self.setup.beside(ending);
        let private = ending.starts_with("NOT-PRIVATE");
        let mut file = if private { self.publication.add_private(&path) } else { self.publication.add(&path) }?;
        file.write_all(bytes)?;
        Ok(file.finish()?)
    }

    /// The plan, and the report for programs and for people.
    pub(crate) fn put_report(&mut self, report: &Report) -> Result<()> {
        self.put("plan.toml", toml::to_string_pretty(&self.setup.plan)?.as_bytes())?;
        self.put("report.json", format!("{}\n", serde_json::to_string_pretty(report)?).as_bytes())?;
        self.put("report.md", report.markdown().as_bytes())
    }

    /// A picture as SVG and as PNG, under names that begin with `prefix`.
    pub(crate) fn put_picture(&mut self, prefix: &str, svg: &str) -> Result<()> {
        self.put(&format!("{prefix}svg"), svg.as_bytes())?;
        self.put(&format!("{prefix}png"), &png(svg, PNG_SCALE)?)
    }
}
