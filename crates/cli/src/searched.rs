//! Factorizations that are searched for minutes, with a progress bar: see [`evertally_publish::searched`].

use anyhow::Result;
use evertally::mechanism::DensePure;
use evertally::plan::{Objective, PlanRequest};
use evertally_publish::searched::{self, Watch};
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use searched::LONGEST;

/// As [`searched::with_searched`].
pub(crate) fn with_searched(request: PlanRequest) -> Result<PlanRequest> {
    Ok(searched::with_searched(request, &mut WatchOnTerminal::default())?)
}

/// As [`searched::prepare`].
pub(crate) fn prepare(request: PlanRequest, objective: Objective) -> Result<PlanRequest> {
    Ok(searched::prepare(request, objective, &mut WatchOnTerminal::default())?)
}

/// As [`searched::dense_pure`].
pub(crate) fn dense_pure(horizon: u64, objective: Objective) -> Result<DensePure> {
    Ok(searched::dense_pure(horizon, objective, &mut WatchOnTerminal::default())?)
}

/// A bar while something is searched, which is gone afterwards.
#[derive(Default)]
pub(crate) struct WatchOnTerminal {
    bar: Option<ProgressBar>,
}

impl Watch for WatchOnTerminal {
    fn searching(&mut self, horizon: u64, share: f64) {
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(1000).with_message(format!("searching dense-pure over {horizon} steps"));
            let style = ProgressStyle::with_template("{msg} {bar:30} {percent} %  {elapsed}");
            bar.with_style(style.expect("a valid template"))
        });
        bar.set_position((1000.0 * share) as u64);
    }

    fn not_kept(&mut self, problem: &str) {
        eprintln!("warning: the search is not kept for the next time: {problem}");
    }
}

impl Drop for WatchOnTerminal {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
