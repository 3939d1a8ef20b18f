//! What `release` and `sketch` share: flags and configuration file, steps and plan, the way of events into closed steps,
//! and the privacy report.

mod config;
mod intake;
mod keys;
mod options;
mod report;
mod setup;

pub(crate) use config::ConfigFile;
pub(crate) use intake::{Intake, Steps};
pub(crate) use keys::{encode, push_encoded};
pub use options::StreamArgs;
pub(crate) use options::{Refusable, from_value_enum, resolve};
pub(crate) use report::{ErrorFacts, Extent, GroupFacts, Report, SketchFacts, print_plan, print_summary};
pub(crate) use setup::{StreamSetup, calendar, needed, request, time_parser};

use crate::input::Cancelled;
use anyhow::Result;
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
