//! Follows a source: takes its batches and sends them until they are accepted.

mod held;
mod sending;

use super::target::{FeedTarget, SendError};
use super::{BatchLimits, Source, SourceBatch, SourceError, SourcePosition};
use evertally_declare::error::{PipelineError, Result, failure};
use evertally_ledger::protected::check_output;
use held::HeldBatch;
use sending::{Delivered, Sending, SetAside, WrittenRows};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a source waits for a first row.
const WAIT: Duration = Duration::from_millis(500);
/// How often a source is asked for new partitions.
const LISTING_INTERVAL: Duration = Duration::from_secs(5);
/// The first and the longest pause before something unreachable is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The most bytes of a batch.
const MAX_BATCH_BYTES: usize = 4 << 20;

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

/// Follows a source until `cancelled`, or until there is nothing new if `is_once`.
///
/// # Errors
/// If the source or the service needs somebody's attention, or the file for refused rows cannot be written. A source or
/// a service that cannot be reached is not an error: it is tried again.
pub async fn follow(
    source: &mut dyn Source,
    target: &dyn FeedTarget,
    options: &FollowOptions,
    cancelled: &CancellationToken,
    observer: &mut dyn Observer,
) -> Result<Sent> {
    if let Some(aside) = &options.aside {
        check_output(aside, &source.files())?;
    }
    let name = options.name.clone().unwrap_or_else(|| source.identity());
    let idle_time = source.idle_time().filter(|_| options.is_once);
    let wait = idle_time.map_or(WAIT, |idle| WAIT.min(idle));
    let limits = BatchLimits { rows: options.rows.max(1), bytes: MAX_BATCH_BYTES, wait };
    let sent = Sent::default();
    let patience = Patience { cancelled, pause: FIRST_PAUSE, is_away: false, not_open: None };
    SourceFollower {
        source,
        target,
        options,
        name,
        limits,
        idle_time,
        observer,
        sent,
        has_warned: false,
        cuts: BTreeMap::new(),
        held: BTreeMap::new(),
        ready: VecDeque::new(),
        written: BTreeMap::new(),
        patience,
        sought: BTreeSet::new(),
    }
    .run()
    .await
}

struct SourceFollower<'f> {
    source: &'f mut dyn Source,
    target: &'f dyn FeedTarget,
    options: &'f FollowOptions,
    /// The name of the source at the service.
    name: String,
    limits: BatchLimits,
    /// How long no row arrives until the run ends.
    idle_time: Option<Duration>,
    observer: &'f mut dyn Observer,
    sent: Sent,
    /// Whether another feeder was reported.
    has_warned: bool,
    /// By partition, the batch that was cut, since the stream accepts only its first rows now.
    cuts: BTreeMap<String, CutBatch>,
    /// By partition, the batch that waits for the next part of the stream.
    held: BTreeMap<String, HeldBatch>,
    /// Batches that were taken from the source and are sent next.
    ready: VecDeque<SourceBatch>,
    /// By partition, the rows that were set aside from batches that are to be read or sent again.
    written: BTreeMap<String, WrittenRows>,
    patience: Patience<'f>,
    /// Partitions that the source reads.
    sought: BTreeSet<String>,
}

/// A batch of which the first rows are to be read again as a batch.
struct CutBatch {
    /// The position after the whole batch.
    position: SourcePosition,
    /// The number of its first rows.
    rows: usize,
}

/// How long to wait for what cannot be reached.
struct Patience<'f> {
    cancelled: &'f CancellationToken,
    pause: Duration,
    is_away: bool,
    /// Why batches are held, if any are.
    not_open: Option<String>,
}

/// Why a loop ends.
enum Stop {
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
    async fn wait(&mut self, why: &str, observer: &mut dyn Observer) -> Result<(), Stop> {
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
    fn reached(&mut self, observer: &mut dyn Observer) {
        observer.away(self.not_open.as_deref());
        if self.is_away {
            observer.message("it succeeds again");
        }
        (self.is_away, self.pause) = (false, FIRST_PAUSE);
    }
}

impl SourceFollower<'_> {
    async fn run(mut self) -> Result<Sent> {
        loop {
            match self.connected().await {
                Ok(()) | Err(Stop::Cancelled) => return Ok(self.sent),
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Reconnect(why)) => match self.patience.wait(&why, self.observer).await {
                    Err(_) => return Ok(self.sent),
                    Ok(()) => self.forget_taken(),
                },
            }
        }
    }

    /// Follows the source until it must be connected again.
    async fn connected(&mut self) -> Result<(), Stop> {
        self.seek_new().await?;
        let (mut listed, mut idle_since) = (Instant::now(), Instant::now());
        loop {
            if self.patience.cancelled.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            if listed.elapsed() > LISTING_INTERVAL {
                self.seek_new().await?;
                listed = Instant::now();
            }
            let batch = match self.due_batch() {
                Some(batch) => batch,
                None if self.must_wait() => {
                    self.wait_for_held().await?;
                    continue;
                }
                None => match self.next_batch().await? {
                    Some(batch) => match self.unless_held(batch) {
                        Some(batch) => batch,
                        None => continue,
                    },
                    None if self.held.is_empty()
                        && (self.source.has_ended()
                            || self.idle_time.is_some_and(|idle| idle_since.elapsed() >= idle)) =>
                    {
                        // Partitions may have appeared meanwhile.
                        if self.seek_new().await? {
                            continue;
                        }
                        self.warn();
                        self.source.unfinished()?.iter().for_each(|left| self.observer.message(left));
                        return Ok(());
                    }
                    None => {
                        self.warn();
                        continue;
                    }
                },
            };
            self.deliver(batch).await?;
            idle_since = Instant::now();
            self.warn();
        }
    }

    async fn next_batch(&mut self) -> Result<Option<SourceBatch>, Stop> {
        let limits = self.limits();
        let batch = next(self.source, limits, self.patience.cancelled).await?;
        self.patience.reached(self.observer);
        Ok(batch)
    }

    fn warn(&mut self) {
        for warning in self.source.warnings() {
            let shown = if self.options.hides_values { warning.text().to_owned() } else { warning.to_string() };
            self.observer.message(&format!("{}: {shown}", self.source.shown()));
        }
    }

    /// Seeks the partitions that are not read yet, and returns whether there are any.
    async fn seek_new(&mut self) -> Result<bool, Stop> {
        let present = self.source.partitions().await?;
        let new: Vec<String> = present.into_iter().filter(|partition| !self.sought.contains(partition)).collect();
        if new.is_empty() && !self.sought.is_empty() {
            return Ok(false);
        }
        let positions = self.stored_positions().await?;
        self.source.remember(&positions);
        let any = !new.is_empty();
        for partition in new {
            self.source.seek(&partition, positions.get(&partition).map(String::as_str)).await?;
            self.sought.insert(partition);
        }
        Ok(any)
    }

    /// The positions at the service, once it can be reached.
    async fn stored_positions(&mut self) -> Result<BTreeMap<String, SourcePosition>, Stop> {
        loop {
            let asked = tokio::select! {
                () = self.patience.cancelled.cancelled() => return Err(Stop::Cancelled),
                asked = self.target.positions(&self.name) => asked,
            };
            match asked {
                Ok(positions) => return Ok(positions),
                Err(SendError::Refused(error)) => return Err(Stop::Error(error)),
                Err(SendError::Away(why)) => self.patience.wait(&why, self.observer).await?,
            }
        }
    }

    /// The most that the next batch may contain.
    fn limits(&self) -> BatchLimits {
        let rows = self.cuts.values().map(|cut| cut.rows).min().unwrap_or(self.limits.rows);
        BatchLimits { rows, ..self.limits }
    }

    /// Sends a batch until it is accepted or held, and meanwhile takes the next one.
    async fn deliver(&mut self, batch: SourceBatch) -> Result<(), Stop> {
        let (limits, cancelled) = (self.limits(), self.patience.cancelled);
        let place = self.source.place(&batch.partition);
        // A batch that a source cannot cut, since it is a single message or an object, waits as a whole.
        let was_cut = self.cuts.get(&batch.partition).is_some_and(|cut| cut.position == batch.position);
        let may_cut = batch.rows.has_lines() && !was_cut;
        let known = self.written.remove(&batch.partition).unwrap_or_default();
        let mut aside = SetAside { known, found: WrittenRows::new() };
        // The batches that were taken are sent first.
        let may_take = self.ready.is_empty() && !self.must_wait();
        let (target, name, options) = (self.target, &self.name, self.options);
        let sending = Sending { target, name, batch: &batch, place, options, may_cut };
        let (delivered, taken) = {
            let mut sending = pin!(sending.run(self.observer, &mut self.patience, &mut aside));
            // A source that has nothing yet is not waited for: it may need to know that the batch was accepted.
            tokio::select! {
                delivered = &mut sending => (delivered, Ok(None)),
                taken = next(self.source, limits, cancelled), if may_take => (sending.await, taken),
            }
        };
        let partition = &batch.partition;
        let is_accepted = matches!(delivered, Ok(Delivered::Accepted { .. }));
        let written = if is_accepted { aside.known } else { aside.all() };
        if !written.is_empty() {
            self.written.insert(partition.clone(), written);
        }
        match delivered? {
            Delivered::Accepted { rows, aside } => {
                self.sent.rows += rows;
                self.sent.batches += 1;
                self.sent.aside += aside;
                self.cuts.remove(partition);
                self.observer.progress(self.sent);
                self.source.accepted(partition, &batch.position).await?;
                self.take_in(taken?);
                if let Some(held) = self.release(partition) {
                    if held.is_ahead {
                        let last = held.next.as_ref().map_or(&batch.position, |next| &next.position);
                        self.source.seek(partition, Some(last.as_str())).await?;
                    }
                    self.ready.extend(held.next);
                }
            }
            Delivered::NotOpen(why) => {
                self.hold(batch, why);
                self.take_in(taken?);
            }
            Delivered::Cut(rows) => {
                self.take_in(taken?);
                self.read_again(partition, batch.after.as_deref()).await?;
                self.cuts.insert(partition.clone(), CutBatch { position: batch.position.clone(), rows });
            }
            Delivered::Elsewhere(position) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    self.observer.message(&format!(
                        "another feeder has moved the position in `{}`. If it reads the same source, nothing is wrong; \
                         otherwise stop one of them, and give it another name",
                        self.name
                    ));
                }
                // A batch of another partition was taken in vain only if it is not sent.
                self.take_in(taken?);
                self.read_again(partition, position.as_deref()).await?;
            }
        }
        Ok(())
    }
}

/// The next batch of a source, unless `cancelled` comes first.
async fn next(
    source: &mut dyn Source,
    limits: BatchLimits,
    cancelled: &CancellationToken,
) -> Result<Option<SourceBatch>, Stop> {
    tokio::select! {
        () = cancelled.cancelled() => Err(Stop::Cancelled),
        batch = source.next(limits) => Ok(batch?),
    }
}

/// Runs something that blocks.
///
/// # Errors
/// Its error, or that it panicked.
pub async fn blocking<T: Send + 'static, E: From<PipelineError> + Send + 'static>(
    what: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    tokio::task::spawn_blocking(what).await.unwrap_or_else(|error| Err(failure(error).into()))
}
