//! Progress of several searches at once, with an estimate of the total.

use evertally::plan::{SearchObserver, SearchProgress};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// The estimated number of mechanisms that a search compares before it knows.
const LIKELY: usize = 12;

/// Mechanisms that one search has compared, and the number of all, as far as it is known.
#[derive(Clone, Copy)]
struct SearchCount {
    done: usize,
    total: usize,
}

/// Reports the sums of several searches to one observer.
pub(super) struct SharedProgress {
    observer: SearchObserver,
    searches: Arc<Mutex<Vec<SearchCount>>>,
}

impl SharedProgress {
    pub(super) fn new(observer: SearchObserver, count: usize) -> Self {
        Self { observer, searches: Arc::new(Mutex::new(vec![SearchCount { done: 0, total: LIKELY }; count])) }
    }

    /// The observer of one search.
    pub(super) fn observer(&self, place: usize) -> SearchObserver {
        let (observer, searches) = (self.observer.clone(), Arc::clone(&self.searches));
        SearchObserver::new(move |progress| {
            let mut searches = searches.lock().unwrap_or_else(PoisonError::into_inner);
            if let SearchProgress::Mechanisms { done, total } = progress {
                // Of an unknown number, at least one is left.
                searches[place] = SearchCount { done, total: total.unwrap_or(LIKELY).max(done + 1) };
            }
            let sum = |part: fn(&SearchCount) -> usize| searches.iter().map(part).sum();
            let all = SearchProgress::Mechanisms { done: sum(|own| own.done), total: Some(sum(|own| own.total)) };
            match observer.report(all) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })
    }

    /// One search has ended.
    pub(super) fn finish(&self, place: usize) {
        let mut searches = self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        searches[place].total = searches[place].done + 1;
        searches[place].done = searches[place].total;
    }
}
