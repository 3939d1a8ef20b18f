//! Follows a source: takes its batches and sends them until they are accepted.

mod held;
mod patience;
mod sending;

use super::target::{FeedTarget, SendError};
use super::{BatchLimits, Source, SourceBatch, SourcePosition};
use evertally_declare::error::{PipelineError, Result, failure};
use evertally_ledger::protected::check_output;
use held::HeldBatch;
use patience::{FIRST_PAUSE, LISTING_INTERVAL, Patience, Stop, WAIT};
pub use patience::{FollowOptions, Observer, Sent};
use sending::{AsideRows, Delivered, Sending, WrittenRows};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The most bytes of a batch.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// From this many bytes of held batches on, no more rows are read.
const MAX_HELD_BYTES: usize = 64 << 20;

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
        let mut aside = AsideRows { known, found: WrittenRows::new() };
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

/// Batches that wait for the next part of a stream, while other partitions continue.
impl SourceFollower<'_> {
    /// Forgets the batches that were taken, before the source is connected again.
    fn forget_taken(&mut self) {
        self.sought.clear();
        self.ready.clear();
        self.held.clear();
        self.patience.not_open = None;
    }

    /// The next batch to send: a held one whose time has come, or one that was taken already.
    fn due_batch(&mut self) -> Option<SourceBatch> {
        let now = Instant::now();
        if let Some(held) = self.held.values().find(|held| held.until <= now) {
            return Some(held.batch.clone());
        }
        while let Some(batch) = self.ready.pop_front() {
            if let Some(batch) = self.unless_held(batch) {
                return Some(batch);
            }
        }
        None
    }

    /// A batch, unless an earlier one of its partition is held: then it is sent after that one.
    fn unless_held(&mut self, batch: SourceBatch) -> Option<SourceBatch> {
        let Some(held) = self.held.get_mut(&batch.partition) else { return Some(batch) };
        if held.next.is_none() && !held.is_ahead {
            held.next = Some(batch);
        } else {
            held.is_ahead = true;
        }
        None
    }

    /// Whether no other rows are read before held batches are accepted.
    fn must_wait(&self) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let bytes: usize = self.held.values().map(HeldBatch::bytes).sum();
        bytes >= MAX_HELD_BYTES
            || self.source.has_ended()
            || self.sought.iter().all(|partition| self.held.contains_key(partition))
    }

    /// Waits until the first held batch is to be sent again, or new partitions are to be listed.
    async fn wait_for_held(&mut self) -> Result<(), Stop> {
        let until = self.held.values().map(|held| held.until).min();
        let pause = until.map_or(WAIT, |until| until.saturating_duration_since(Instant::now())).min(LISTING_INTERVAL);
        tokio::select! {
            () = self.patience.cancelled.cancelled() => Err(Stop::Cancelled),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Holds a batch until the next part of the stream is open.
    fn hold(&mut self, batch: SourceBatch, why: String) {
        self.observer.away(Some(why.as_str()));
        if self.patience.not_open.is_none() && !self.patience.is_away {
            self.observer.message(&format!("{why}; trying again until it succeeds"));
        }
        self.patience.not_open = Some(why);
        match self.held.get_mut(&batch.partition) {
            Some(held) => held.postpone(),
            None => drop(self.held.insert(batch.partition.clone(), HeldBatch::new(batch))),
        }
    }

    /// Removes the held batch of a partition. The others are sent again at once.
    fn release(&mut self, partition: &str) -> Option<HeldBatch> {
        let released = self.held.remove(partition)?;
        let now = Instant::now();
        self.held.values_mut().for_each(|held| held.until = now);
        if self.held.is_empty() {
            self.patience.not_open = None;
            self.observer.away(None);
            self.observer.message("it succeeds again");
        }
        Some(released)
    }

    /// Reads a partition again after a position.
    async fn read_again(&mut self, partition: &str, position: Option<&str>) -> Result<(), Stop> {
        self.release(partition);
        self.ready.retain(|ready| ready.partition != partition);
        self.source.seek(partition, position).await?;
        Ok(())
    }

    /// Keeps a batch that was taken while another was sent.
    fn take_in(&mut self, taken: Option<SourceBatch>) {
        let taken = taken.and_then(|taken| self.unless_held(taken));
        self.ready.extend(taken);
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
