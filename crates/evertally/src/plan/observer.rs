//! Progress and cancellation of searches.

use crate::Result;
use crate::mechanism::{SearchWatch, cancellation};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The progress of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SearchProgress {
    /// Mechanisms that have been compared, and the number of all, if it is known in advance.
    Mechanisms {
        /// Compared so far.
        done: usize,
        /// To be compared.
        total: Option<usize>,
    },
    /// The completed share, 0 to 1, of the search for one factorization that takes minutes.
    Share(f64),
}

/// Receives the progress of a search, and may cancel it: before each mechanism that is compared, and many times while
/// its parameters are searched. The default observer never cancels.
///
/// An observer has no influence on the result, so all observers are equal.
///
/// ```
/// use evertally::plan::{SearchObserver, PlanRequest, Search};
/// use evertally::privacy::{Budget, Rho};
/// use std::sync::Arc;
/// use std::sync::atomic::AtomicBool;
/// let cancelled = Arc::new(AtomicBool::new(true)); // as set by a signal handler
/// let search = Search::default().with_observer(SearchObserver::until(cancelled));
/// let request = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?)).with_search(search);
/// assert!(request.plan().unwrap_err().is_cancelled());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct SearchObserver(Option<Arc<Observe>>);

type Observe = dyn Fn(SearchProgress) -> ControlFlow<()> + Send + Sync;

impl SearchObserver {
    /// An observer that calls a function, which cancels the search with [`ControlFlow::Break`].
    pub fn new(observe: impl Fn(SearchProgress) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(observe)))
    }

    /// An observer that cancels the search once this flag is set.
    pub fn until(cancelled: Arc<AtomicBool>) -> Self {
        Self::new(
            move |_| if cancelled.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) },
        )
    }

    /// The same observer for work that follows a search: it may still cancel, and is always shown a completed search,
    /// so that progress never runs backwards.
    pub(super) fn after_search(&self) -> Self {
        self.mapped(|_| SearchProgress::Share(1.0))
    }

    /// The same observer for several searches, one after the other: it counts their mechanisms together, so that
    /// progress never starts again. The total is that of the searches so far.
    pub(super) fn in_a_row(&self) -> Self {
        let counted = Mutex::new((0, 0, 0));
        self.mapped(move |progress| {
            let SearchProgress::Mechanisms { done, total: Some(total) } = progress else { return progress };
            let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
            let (before, last, of) = *counted;
            let before = if done < last || total != of { before + of } else { before };
            *counted = (before, done, total);
            SearchProgress::Mechanisms { done: before + done, total: Some(before + total) }
        })
    }

    /// The same observer, which is shown changed progress.
    fn mapped(&self, change: impl Fn(SearchProgress) -> SearchProgress + Send + Sync + 'static) -> Self {
        Self(self.0.clone().map(|observe| -> Arc<Observe> { Arc::new(move |progress| observe(change(progress))) }))
    }

    /// The result of work that may ask whether it is cancelled; whenever it asks, this progress is reported.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the observer cancels the work.
    pub(super) fn watched<T>(&self, progress: SearchProgress, work: impl FnOnce(SearchWatch<'_>) -> T) -> Result<T> {
        SearchWatch::new(&|| self.report(progress).is_err()).complete(|watch| Ok(work(watch)))
    }

    /// Reports progress.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the observer cancels the search.
    pub fn report(&self, progress: SearchProgress) -> Result<()> {
        match self.0.as_ref().map(|observe| observe(progress)) {
            Some(ControlFlow::Break(())) => Err(cancellation()),
            Some(ControlFlow::Continue(())) | None => Ok(()),
        }
    }
}

impl PartialEq for SearchObserver {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for SearchObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "SearchObserver(..)" } else { "SearchObserver(none)" })
    }
}

/// The mechanisms that a search compares, as they are reported to its observer.
#[derive(Debug)]
pub struct ComparedMechanisms<'a> {
    observer: &'a SearchObserver,
    done: usize,
    total: Option<usize>,
}

impl<'a> ComparedMechanisms<'a> {
    /// None so far, of a total that may be unknown.
    pub fn new(observer: &'a SearchObserver, total: Option<usize>) -> Self {
        Self { observer, done: 0, total }
    }

    /// The result of an attempt with one more mechanism. Reports those compared so far, before the attempt and whenever
    /// it asks its watch.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the observer cancels the search.
    pub fn compare<T>(&mut self, attempt: impl FnOnce(SearchWatch<'_>) -> T) -> Result<T> {
        let progress = SearchProgress::Mechanisms { done: self.done, total: self.total };
        self.observer.report(progress)?;
        self.done += 1;
        self.observer.watched(progress, attempt)
    }
}

#[cfg(test)]
mod tests;
