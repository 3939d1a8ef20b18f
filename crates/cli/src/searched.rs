//! Searches for factorizations, with a progress bar.

use anyhow::Result;
use evertally::mechanism::DensePure;
use evertally::plan::{Objective, PlanRequest};
pub(crate) use evertally_ledger::planner::LONGEST;
use evertally_ledger::planner::{self, SearchProgress};
use indicatif::{ProgressBar, ProgressStyle};

/// Adds the cached factorization to a request for `dense-pure`.
pub(crate) fn with_searched(request: PlanRequest) -> Result<PlanRequest> {
    let mut bar = Bar::new(request.horizon());
    Ok(planner::with_searched(request, &mut |progress| bar.show(progress))?)
}

/// The same request with the searched factorization among its mechanisms, if its horizon has one.
pub(crate) fn prepare(request: PlanRequest, objective: Objective) -> Result<PlanRequest> {
    let mut bar = Bar::new(request.horizon());
    Ok(planner::prepare(request, objective, &mut |progress| bar.show(progress))?)
}

/// The best factorization for pure ε (1 ..= 512 steps), from the cache or from a search whose result is then cached.
pub(crate) fn dense_pure(horizon: u64, objective: Objective) -> Result<DensePure> {
    let mut bar = Bar::new(horizon);
    Ok(planner::dense_pure(horizon, objective, &mut |progress| bar.show(progress))?)
}

/// A progress bar that appears with the first report of a search and disappears with the value.
pub(crate) struct Bar {
    horizon: u64,
    bar: Option<ProgressBar>,
}

impl Bar {
    pub(crate) fn new(horizon: u64) -> Self {
        Self { horizon, bar: None }
    }

    pub(crate) fn show(&mut self, progress: SearchProgress) {
        match progress {
            SearchProgress::Share(share) => {
                let bar = self.bar.get_or_insert_with(|| {
                    let style = ProgressStyle::with_template("{msg} {bar:30} {percent} %  {elapsed}");
                    let message = format!("searching dense-pure over {} steps", self.horizon);
                    ProgressBar::new(1000).with_style(style.expect("a valid template")).with_message(message)
                });
                bar.set_position((1000.0 * share) as u64);
            }
            SearchProgress::NotKept(error) => {
                eprintln!("warning: the search result was not cached: {error}");
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
