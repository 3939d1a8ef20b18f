//! Whether the service is alive, and whether it is ready: for supervisors and load balancers.

use crate::engine::{Health, Service};
use jiff::Timestamp;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often the counting thread is asked for its health.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the counting thread may leave a check unanswered until the service is not ready: closing a step of many
/// groups takes a moment.
const NOT_READY_AFTER: Duration = Duration::from_secs(10);

/// The same until the service is not alive. systemd waits as long for the watchdog.
const NOT_ALIVE_AFTER: Duration = Duration::from_secs(120);

/// The last answer of the counting thread.
pub(super) struct Readiness {
    last: Mutex<(Instant, Arc<Health>)>,
    is_stopping: AtomicBool,
    /// Since when the clock has been in doubt, and since when the witness has lacked publications.
    troubles: Mutex<[Option<Instant>; 2]>,
    /// How a replica follows its service, if this is one.
    replica: OnceLock<Arc<ReplicaState>>,
}

/// How a replica follows its service.
#[derive(Debug)]
pub(crate) struct ReplicaState {
    /// When everything was last known to be current.
    current: Mutex<Option<Timestamp>>,
    max_lag: Option<Duration>,
}

impl ReplicaState {
    pub(crate) fn new(current: Option<Timestamp>, max_lag: Option<Duration>) -> Self {
        Self { current: Mutex::new(current), max_lag }
    }

    pub(crate) fn is_current(&self, at: Timestamp) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// For how long the copies may lack news; `None` if there was never an answer.
    pub(crate) fn lag(&self) -> Option<Duration> {
        let current = *self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Timestamp::now().duration_since(current?).try_into().unwrap_or_default())
    }

    fn unreadiness(&self) -> Option<&'static str> {
        match self.lag() {
            None => Some("the service that this replica follows has never answered"),
            Some(lag) if self.max_lag.is_some_and(|most| lag > most) => {
                Some("the service that this replica follows has not answered for too long")
            }
            Some(_) => None,
        }
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            last: Mutex::new((Instant::now(), Arc::default())),
            is_stopping: AtomicBool::new(false),
            troubles: Mutex::default(),
            replica: OnceLock::new(),
        }
    }
}

impl Readiness {
    /// Asks the counting thread for its health. Waits for the answer, so a thread that hangs is asked once.
    pub(super) fn check(&self, service: &Service) {
        match service.health() {
            Ok(health) => {
                let present = [service.clock_doubt().is_some(), health.witness_behind];
                for (since, is_present) in self.troubles().iter_mut().zip(present) {
                    *since = is_present.then(|| since.unwrap_or_else(Instant::now));
                }
                *self.last() = (Instant::now(), Arc::new(health));
            }
            Err(error) => tracing::debug!(%error, "the counting thread did not answer"),
        }
    }

    /// Follows a service with this state from now on.
    pub(super) fn set_replica(&self, state: &Arc<ReplicaState>) {
        let _ = self.replica.set(Arc::clone(state)); // the first one stays
    }

    /// How a replica follows its service, if this is one.
    pub(super) fn replica(&self) -> Option<&ReplicaState> {
        self.replica.get().map(Arc::as_ref)
    }

    pub(super) fn begin_shutdown(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    fn last(&self) -> MutexGuard<'_, (Instant, Arc<Health>)> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn troubles(&self) -> MutexGuard<'_, [Option<Instant>; 2]> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the clock has been in doubt, if it is.
    pub(super) fn clock_doubted(&self) -> Option<Duration> {
        self.troubles()[0].map(|since| since.elapsed())
    }

    /// How long the witness has lacked committed publications.
    pub(super) fn witness_lag(&self) -> Duration {
        self.troubles()[1].map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Why the process should be restarted, if it should.
    pub(super) fn lifelessness(&self, service: &Service) -> Option<&'static str> {
        if self.is_stopping.load(Ordering::Relaxed) {
            None // it ends by itself
        } else if service.has_ended() {
            Some("counting has ended")
        } else {
            (self.last().0.elapsed() > NOT_ALIVE_AFTER).then_some("the counting thread makes no progress")
        }
    }

    /// Why events should not be sent here at present: every reason.
    pub(super) fn unreadiness(&self, service: &Service) -> Vec<&'static str> {
        let (since, health) = {
            let last = self.last();
            (last.0, Arc::clone(&last.1))
        };
        [
            (self.is_stopping.load(Ordering::Relaxed), "the service is shutting down"),
            (service.has_ended(), "counting has ended"),
            (since.elapsed() > NOT_READY_AFTER, "the counting thread makes no progress"),
            (health.read_only.is_some(), "the service is read-only: it accepts and publishes nothing"),
            (health.witness_problem.is_some(), "the witness cannot be updated"),
            (
                service.streams().iter().any(|info| info.is_returning()),
                "steps that were published before the start are not shown again yet: the witness is read once more",
            ),
            (health.slow_clock.is_some(), "the machine's clock is slow: a stream accepts and publishes nothing"),
        ]
        .into_iter()
        .filter_map(|(is_wrong, reason)| is_wrong.then_some(reason))
        .chain(self.replica().and_then(ReplicaState::unreadiness))
        .collect()
    }
}
