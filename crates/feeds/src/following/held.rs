//! Batches that wait for the next part of a stream, while other partitions continue.

use super::super::SourceBatch;
use super::patience::{FIRST_PAUSE, MAX_PAUSE};
use std::time::{Duration, Instant};

/// A batch with rows of a part of the stream that is not open yet. Other partitions continue meanwhile.
pub(super) struct HeldBatch {
    pub(super) batch: SourceBatch,
    /// The batch after it, if the source has given one.
    pub(super) next: Option<SourceBatch>,
    /// Whether the source has given further rows of the partition, which must be read again.
    pub(super) is_ahead: bool,
    pause: Duration,
    /// When it is sent again.
    pub(super) until: Instant,
}

impl HeldBatch {
    pub(super) fn new(batch: SourceBatch) -> Self {
        Self { next: None, is_ahead: false, pause: 2 * FIRST_PAUSE, until: Instant::now() + FIRST_PAUSE, batch }
    }

    /// Waits longer.
    pub(super) fn postpone(&mut self) {
        self.until = Instant::now() + self.pause;
        self.pause = MAX_PAUSE.min(2 * self.pause);
    }

    pub(super) fn bytes(&self) -> usize {
        self.batch.rows.bytes.len() + self.next.as_ref().map_or(0, |next| next.rows.bytes.len())
    }
}
