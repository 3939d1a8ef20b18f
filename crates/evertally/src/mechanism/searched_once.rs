//! Results of searches that a program keeps.

use super::SearchWatch;
use crate::Result;
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

/// How often a thread that waits for the search of another one asks its own watch.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A value that is found by one search in a program. A cancelled search leaves nothing, and the next call searches
/// again.
#[derive(Debug)]
pub(crate) struct SearchedOnce<T> {
    found: OnceLock<T>,
    /// Held during the search.
    searching: Mutex<()>,
}

impl<T> SearchedOnce<T> {
    pub(crate) const fn new() -> Self {
        Self { found: OnceLock::new(), searching: Mutex::new(()) }
    }

    /// The value: that of an earlier search, or of this one. While another thread searches, this one waits.
    ///
    /// # Errors
    /// Those of the search; [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels it, or the wait.
    pub(crate) fn get(&self, watch: SearchWatch<'_>, search: impl FnOnce(SearchWatch<'_>) -> Result<T>) -> Result<&T> {
        let _searching = loop {
            if let Some(found) = self.found.get() {
                return Ok(found);
            }
            match self.searching.try_lock() {
                Ok(guard) => break guard,
                // The search of a thread that panicked left nothing.
                Err(TryLockError::Poisoned(poisoned)) => break PoisonError::into_inner(poisoned),
                Err(TryLockError::WouldBlock) => {
                    watch.check()?;
                    std::thread::sleep(POLL_INTERVAL);
                }
            }
        };
        // Another thread may have found it before this one got the lock.
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let found = watch.complete(search)?;
        Ok(self.found.get_or_init(|| found))
    }
}

#[cfg(test)]
mod tests;
