//! Cancelling a search for parameters.

use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Operations of some nanoseconds between two questions: less than a millisecond.
const OPERATIONS_PER_QUESTION: u64 = 1 << 14;

/// Asks the caller of a search for parameters whether to end it.
///
/// A cancelled search evaluates nothing any more, so it soon comes to its end; its result is discarded, and
/// [`build`](super::MechanismName::build) fails with [`ErrorKind::Cancelled`]. A watch has no influence on the result
/// of a search that is not cancelled, so all watches are equal.
///
/// ```
/// use evertally::mechanism::{Criterion, MechanismName, Objective, Participation, SearchWatch};
/// let criterion = Criterion::from_vectors(Objective::Max, Participation::new(4, 16)?);
/// let bands: MechanismName = "epoch-bands(bands=16)".parse()?;
/// let cancelled = bands.build(64, &criterion.with_watch(SearchWatch::new(&|| true)));
/// assert!(cancelled.unwrap_err().is_cancelled());
/// assert!(bands.build(64, &criterion).is_ok());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct SearchWatch<'a> {
    ask: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl<'a> SearchWatch<'a> {
    /// Never cancels.
    pub const NONE: SearchWatch<'static> = SearchWatch { ask: None };

    /// Cancels the search once this function returns true; from then on it must always return true. It is called often:
    /// for every point of a descent, and for every mechanism that is compared.
    pub fn new(is_cancelled: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { ask: Some(is_cancelled) }
    }

    /// Whether the search is cancelled.
    pub fn is_cancelled(self) -> bool {
        self.ask.is_some_and(|is_cancelled| is_cancelled())
    }

    /// # Errors
    /// [`ErrorKind::Cancelled`] if the search is cancelled.
    pub fn check(self) -> Result<()> {
        if self.is_cancelled() { Err(cancellation()) } else { Ok(()) }
    }

    /// The result of a search that was not cancelled at any of its questions, so that it may be kept for later
    /// searches.
    ///
    /// # Errors
    /// That of the search; [`ErrorKind::Cancelled`] if it was cancelled.
    pub(crate) fn complete<T>(self, search: impl FnOnce(SearchWatch<'_>) -> Result<T>) -> Result<T> {
        let cancelled = AtomicBool::new(false);
        let is_cancelled = || {
            if !cancelled.load(Ordering::Relaxed) && self.is_cancelled() {
                cancelled.store(true, Ordering::Relaxed);
            }
            cancelled.load(Ordering::Relaxed)
        };
        let found = search(SearchWatch::new(&is_cancelled));
        if cancelled.load(Ordering::Relaxed) { Err(cancellation()) } else { found }
    }

    /// The same watch for a computation of many short operations.
    pub(super) fn paced(self) -> PacedWatch<'a> {
        PacedWatch { watch: self, operations: 0 }
    }

    /// The value and the gradient of an objective; not a number once the search is cancelled, which ends a descent.
    pub(super) fn evaluate(self, objective: impl FnOnce() -> (f64, Vec<f64>)) -> (f64, Vec<f64>) {
        if self.is_cancelled() { (f64::NAN, Vec::new()) } else { objective() }
    }
}

/// A watch that is asked once in some thousand operations, so that its questions take no measurable time.
pub(super) struct PacedWatch<'a> {
    watch: SearchWatch<'a>,
    /// Since the last question.
    operations: u64,
}

impl PacedWatch<'_> {
    /// Whether the search is cancelled, if enough operations have passed since the last question. These are counted
    /// before they are computed, and take some nanoseconds each.
    pub(super) fn is_cancelled_before(&mut self, operations: u64) -> bool {
        self.operations += operations;
        if self.operations < OPERATIONS_PER_QUESTION {
            return false;
        }
        self.operations = 0;
        self.watch.is_cancelled()
    }

    /// # Errors
    /// [`ErrorKind::Cancelled`] under the same condition.
    pub(super) fn check_before(&mut self, operations: u64) -> Result<()> {
        if self.is_cancelled_before(operations) { Err(cancellation()) } else { Ok(()) }
    }
}

pub(crate) fn cancellation() -> Error {
    Error::new(ErrorKind::Cancelled, "the search was cancelled")
}

impl PartialEq for SearchWatch<'_> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for SearchWatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.ask.is_some() { "SearchWatch(..)" } else { "SearchWatch(none)" })
    }
}

#[cfg(test)]
mod tests;
