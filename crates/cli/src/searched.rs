//! Searches for plans and factorizations, with their progress on the terminal, until Ctrl-C.

use crate::stream::interruptible;
use anyhow::Result;
use evertally::mechanism::{Mechanism, MechanismName};
use evertally::plan::{Objective, PlanRequest, SearchObserver, SearchProgress};
use evertally_declare::error::PipelineError;
use evertally_ledger::planner;
pub(crate) use evertally_ledger::planner::longest_search;
use indicatif::{ProgressBar, ProgressStyle};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Searches that take less time show no progress.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// Prints that a factorization was not cached.
pub(crate) fn warn_not_cached(error: PipelineError) {
    eprintln!("warning: the search result was not cached: {error}");
}

/// The same request with the cached factorization, if it names a mechanism whose search takes minutes.
pub(crate) fn with_searched(request: PlanRequest) -> Result<PlanRequest> {
    Ok(planner::with_searched(request, &mut warn_not_cached)?)
}

/// The same request with the searched factorizations among its mechanisms, if its horizon has any.
pub(crate) fn with_all_searched(request: PlanRequest) -> Result<PlanRequest> {
    Ok(planner::with_all_searched(request, &mut warn_not_cached)?)
}

/// The best factorization of the family of a name, from the cache or from a search whose result is then cached.
pub(crate) fn found(name: MechanismName, horizon: u64, objective: Objective) -> Result<Arc<dyn Mechanism>> {
    let display = SearchDisplay::new(false)?;
    Ok(planner::searched(name, horizon, objective, display.observer(), &mut warn_not_cached)?)
}

/// Shows the progress of searches on a terminal, until it is dropped, and cancels them after Ctrl-C.
pub(crate) struct SearchDisplay {
    observer: SearchObserver,
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

impl SearchDisplay {
    /// A display that only watches for Ctrl-C if it is `quiet`.
    pub(crate) fn new(quiet: bool) -> Result<Self> {
        let (bar, cancelled, begun) = (Arc::new(Mutex::new(None)), interruptible()?, Instant::now());
        let shown = Arc::clone(&bar);
        let observer = SearchObserver::new(move |progress| {
            if !quiet && begun.elapsed() >= SHOWN_AFTER {
                show(shown.lock().expect("no panic while it is drawn").get_or_insert_with(new_bar), progress);
            }
            if cancelled.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        Ok(Self { observer, bar })
    }

    pub(crate) fn observer(&self) -> &SearchObserver {
        &self.observer
    }

    /// The request, whose searches report here.
    pub(crate) fn watching(&self, request: PlanRequest) -> PlanRequest {
        let search = request.search().clone().with_observer(self.observer.clone());
        request.with_search(search)
    }
}

impl Drop for SearchDisplay {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.lock().expect("no panic while it is drawn").take() {
            bar.finish_and_clear();
        }
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::no_length();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, progress: SearchProgress) {
    let style = |template| ProgressStyle::with_template(template).expect("a valid template");
    match progress {
        SearchProgress::Mechanisms { done, total: Some(total) } => {
            bar.set_style(style("comparing mechanisms {bar:30} {pos}/{len}  {elapsed}"));
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        }
        SearchProgress::Mechanisms { done, total: None } => {
            bar.set_style(style("{spinner} comparing mechanisms: {pos}  {elapsed}"));
            bar.set_position(done as u64);
        }
        SearchProgress::Share(share) => {
            bar.set_style(style("searching a factorization {bar:30} {percent} %  {elapsed}"));
            bar.set_length(1000);
            bar.set_position((1000.0 * share) as u64);
        }
    }
}
