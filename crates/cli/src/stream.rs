//! What `release` and `sketch` share: flags and configuration file, steps and plan, and what is written beside a table.

mod config;
mod files;
mod flags;
mod groups_file;
mod terminal;

pub(crate) use config::with_config;
pub(crate) use files::Files;
pub(crate) use flags::BudgetFlags;
pub use flags::{ReleaseFlags, SketchFlags};
pub(crate) use groups_file::with_groups_of_file;
pub(crate) use terminal::{print_plan, print_summary};

use crate::progress::ProgressOnTerminal;
use anyhow::Result;
use evertally_plot::png;
use evertally_publish::event::Event;
use evertally_publish::report::Report;
use evertally_publish::stream::Stream;
use evertally_tables::input::for_each_event;
use evertally_tables::output::Publication;
use evertally_tables::progress::Progress;
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

/// Visits the events of the input files, with a progress bar where a terminal shows it.
pub(crate) fn for_each_event_of_files(
    stream: &Stream,
    files: &Files,
    cancelled: &AtomicBool,
    visit: &mut dyn FnMut(&Event<'_>) -> Result<()>,
) -> Result<()> {
    let progress: Box<dyn Progress> = if files.quiet { Box::new(()) } else { Box::new(ProgressOnTerminal::new()) };
    for_each_event(&files.inputs, &stream.columns, &files.reading, &*progress, cancelled, visit)?;
    Ok(())
}

/// Pixels of a PNG for each unit of the SVG.
const PNG_SCALE: f32 = 2.0;

/// What is written beside a table.
pub(crate) struct Beside<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) files: &'a Files,
    pub(crate) publication: &'a mut Publication,
}

impl Beside<'_> {
    fn put(&mut self, ending: &str, bytes: &[u8]) -> Result<()> {
        let path = self.files.beside(ending);
        let private = ending.starts_with("NOT-PRIVATE");
        let mut file = if private { self.publication.add_private(&path) } else { self.publication.add(&path) }?;
        file.write_all(bytes)?;
        Ok(file.finish()?)
    }

    /// The plan, and the report for programs and for people.
    pub(crate) fn put_report(&mut self, report: &Report) -> Result<()> {
        self.put("plan.toml", toml::to_string_pretty(&self.stream.plan)?.as_bytes())?;
        self.put("report.json", format!("{}\n", serde_json::to_string_pretty(report)?).as_bytes())?;
        self.put("report.md", report.markdown().as_bytes())
    }

    /// A picture as SVG and as PNG, under names that begin with `prefix`.
    pub(crate) fn put_picture(&mut self, prefix: &str, svg: &str) -> Result<()> {
        self.put(&format!("{prefix}svg"), svg.as_bytes())?;
        self.put(&format!("{prefix}png"), &png(svg, PNG_SCALE)?)
    }
}
