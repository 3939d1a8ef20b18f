//! How a source is followed, and how long to wait for what cannot be reached.

use super::super::SourceError;
use evertally_declare::error::PipelineError;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a source waits for a first row.
pub(super) const WAIT: Duration = Duration::from_millis(500);
/// How often a source is asked for new partitions.
pub(super) const LISTING_INTERVAL: Duration = Duration::from_secs(5);
/// The first and the longest pause before something unreachable is tried again.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(250);
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How a source is followed.
#[derive(Clone, Debug, Default)]
pub struct FollowOptions {
    /// The name of the source at the service; by default its own.
    pub name: Option<String>,
    /// The most rows of a batch.
    pub rows: usize,
    /// Whether to end when there is nothing new.
    pub is_once: bool,
    /// A file for rows that the service refuses; without it, the first refused row is an error.
    pub aside: Option<PathBuf>,
    /// Whether that file has the day in its name, in UTC, so that old ones can be removed.
    pub aside_by_day: bool,
    /// Whether errors name only the place of a refused row, since its problem may quote it.
    pub hides_values: bool,
}

/// Receives the progress of a feed.
pub trait Observer: Send {
    /// A message for people.
    fn message(&mut self, text: &str);

    /// Something cannot be reached for this reason, or can be again.
    fn away(&mut self, _why: Option<&str>) {}

    /// Rows were accepted or set aside.
    fn progress(&mut self, _sent: Sent) {}
}

/// Totals of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Rows that were accepted, including those that had been before.
    pub rows: u64,
    /// Batches.
    pub batches: u64,
    /// Rows that were set aside.
    pub aside: u64,
}

/// How long to wait for what cannot be reached.
pub(super) struct Patience<'f> {
    pub(super) cancelled: &'f CancellationToken,
    pub(super) pause: Duration,
    pub(super) is_away: bool,
    /// Why batches are held, if any are.
    pub(super) not_open: Option<String>,
}

/// Why a loop ends.
pub(super) enum Stop {
    /// It was asked to.
    Cancelled,
    /// There is an error.
    Error(PipelineError),
    /// The source must be connected again.
    Reconnect(String),
}

impl From<PipelineError> for Stop {
    fn from(error: PipelineError) -> Self {
        Self::Error(error)
    }
}

impl From<SourceError> for Stop {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Away(why) => Self::Reconnect(why),
            SourceError::Fault(error) => Self::Error(error),
        }
    }
}

impl Patience<'_> {
    /// Waits before another attempt, and says once that something cannot be reached.
    pub(super) async fn wait(&mut self, why: &str, observer: &mut dyn Observer) -> Result<(), Stop> {
        observer.away(Some(why));
        if !self.is_away {
            observer.message(&format!("{why}; trying again until it succeeds"));
        }
        self.is_away = true;
        let pause = self.pause;
        self.pause = MAX_PAUSE.min(2 * pause);
        tokio::select! {
            () = self.cancelled.cancelled() => Err(Stop::Cancelled),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Everything can be reached.
    pub(super) fn reached(&mut self, observer: &mut dyn Observer) {
        observer.away(self.not_open.as_deref());
        if self.is_away {
            observer.message("it succeeds again");
        }
        (self.is_away, self.pause) = (false, FIRST_PAUSE);
    }
}
