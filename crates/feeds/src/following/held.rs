//! Batches that wait for the next part of a stream, while other partitions continue.

use super::super::SourceBatch;
use super::{FIRST_PAUSE, LISTING_INTERVAL, MAX_PAUSE, SourceFollower, Stop, WAIT};
use std::time::{Duration, Instant};

/// From this many bytes of held batches on, no more rows are read.
const MAX_HELD_BYTES: usize = 64 << 20;

/// A batch with rows of a part of the stream that is not open yet. Other partitions continue meanwhile.
pub(super) struct HeldBatch {
    pub(super) batch: SourceBatch,
    /// The batch after it, if the source has given one.
    pub(super) next: Option<SourceBatch>,
    /// Whether the source has given further rows of the partition, which must be read again.
    pub(super) is_ahead: bool,
    pause: Duration,
    /// When it is sent again.
    until: Instant,
}

impl HeldBatch {
    fn bytes(&self) -> usize {
        self.batch.rows.bytes.len() + self.next.as_ref().map_or(0, |next| next.rows.bytes.len())
    }
}

impl SourceFollower<'_> {
    /// Forgets the batches that were taken, before the source is connected again.
    pub(super) fn forget_taken(&mut self) {
        self.sought.clear();
        self.ready.clear();
        self.held.clear();
        self.patience.not_open = None;
    }

    /// The next batch to send: a held one whose time has come, or one that was taken already.
    pub(super) fn due_batch(&mut self) -> Option<SourceBatch> {
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
    pub(super) fn unless_held(&mut self, batch: SourceBatch) -> Option<SourceBatch> {
        let Some(held) = self.held.get_mut(&batch.partition) else { return Some(batch) };
        if held.next.is_none() && !held.is_ahead {
            held.next = Some(batch);
        } else {
            held.is_ahead = true;
        }
        None
    }

    /// Whether no other rows are read before held batches are accepted.
    pub(super) fn must_wait(&self) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let bytes: usize = self.held.values().map(HeldBatch::bytes).sum();
        bytes >= MAX_HELD_BYTES
            || self.source.has_ended()
            || self.sought.iter().all(|partition| self.held.contains_key(partition))
    }

    /// Waits until the first held batch is to be sent again, or new partitions are to be listed.
    pub(super) async fn wait_for_held(&mut self) -> Result<(), Stop> {
        let until = self.held.values().map(|held| held.until).min();
        let pause = until.map_or(WAIT, |until| until.saturating_duration_since(Instant::now())).min(LISTING_INTERVAL);
        tokio::select! {
            () = self.patience.cancelled.cancelled() => Err(Stop::Cancelled),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Holds a batch until the next part of the stream is open.
    pub(super) fn hold(&mut self, batch: SourceBatch, why: String) {
        self.observer.away(Some(why.as_str()));
        if self.patience.not_open.is_none() && !self.patience.is_away {
            self.observer.message(&format!("{why}; trying again until it succeeds"));
        }
        self.patience.not_open = Some(why);
        let now = Instant::now();
        if let Some(held) = self.held.get_mut(&batch.partition) {
            held.until = now + held.pause;
            held.pause = MAX_PAUSE.min(2 * held.pause);
            return;
        }
        let held = HeldBatch { next: None, is_ahead: false, pause: 2 * FIRST_PAUSE, until: now + FIRST_PAUSE, batch };
        self.held.insert(held.batch.partition.clone(), held);
    }

    /// Removes the held batch of a partition. The others are sent again at once.
    pub(super) fn release(&mut self, partition: &str) -> Option<HeldBatch> {
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
    pub(super) async fn read_again(&mut self, partition: &str, position: Option<&str>) -> Result<(), Stop> {
        self.release(partition);
        self.ready.retain(|ready| ready.partition != partition);
        self.source.seek(partition, position).await?;
        Ok(())
    }

    /// Keeps a batch that was taken while another was sent.
    pub(super) fn take_in(&mut self, taken: Option<SourceBatch>) {
        let taken = taken.and_then(|taken| self.unless_held(taken));
        self.ready.extend(taken);
    }
}
