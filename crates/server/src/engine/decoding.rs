//! Memory limits for batches: for each of them, and for all of them together.

use super::refusal::Refusal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A batch takes memory from the common pool in pieces of this size.
const PIECE: u64 = 1 << 20;

/// Memory limits for decoding.
#[derive(Debug)]
pub struct Decoding {
    /// Bytes of memory for one batch, approximately.
    pub memory: u64,
    /// The most bytes of a binary batch's cells, written out as text.
    pub cells: u64,
    /// The most ids of rows in open steps of all streams.
    pub ids: u64,
    /// How many more binary batches may be decoded now.
    free: Mutex<usize>,
    freed: Condvar,
    /// Free bytes for all batches: those being read and those waiting for the engine.
    pool: Arc<AtomicU64>,
    /// All bytes of the pool.
    whole: u64,
}

impl Default for Decoding {
    fn default() -> Self {
        Self::new(64 << 20, 256 << 20, 4, 512 << 20)
    }
}

impl Decoding {
    /// `memory` bytes and `cells` bytes of cells for each of `at_once` batches, and `together` bytes for all batches.
    /// The memory for decoding binary formats is set aside from the latter; the rest, for rows, holds at least two
    /// batches.
    pub fn new(memory: u64, cells: u64, at_once: usize, together: u64) -> Self {
        let decoded = memory.saturating_mul(at_once.max(1) as u64);
        let two = memory.saturating_add(16 * PIECE).saturating_mul(2);
        let whole = together.saturating_sub(decoded).max(two).max(64 * PIECE);
        let (free, pool) = (Mutex::new(at_once.max(1)), Arc::new(AtomicU64::new(whole)));
        Self { memory, cells, ids: 4_000_000, free, freed: Condvar::new(), pool, whole }
    }

    /// The same, with at most `ids` ids of rows in open steps.
    #[must_use]
    pub fn with_ids(self, ids: u64) -> Self {
        Self { ids, ..self }
    }

    /// Waits until there is memory for one more batch, which is already complete in a file.
    pub(super) fn turn(&self) -> DecodingPermit<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        DecodingPermit(self)
    }

    /// A share of the common memory, initially of `bytes` bytes.
    ///
    /// # Errors
    /// [`Refusal::Busy`] if other batches use the memory: the client may retry once they end.
    pub fn share(&self, bytes: u64) -> Result<Share, Refusal> {
        let mut share = Share { pool: Arc::clone(&self.pool), whole: self.whole, taken: 0, used: 0 };
        share.use_more(bytes)?;
        Ok(share)
    }
}

/// Memory for a batch in a binary format, released on drop.
pub(super) struct DecodingPermit<'d>(&'d Decoding);

impl Drop for DecodingPermit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

/// A share of the memory for all batches, returned on drop.
#[derive(Debug)]
pub struct Share {
    pool: Arc<AtomicU64>,
    /// All bytes of the pool.
    whole: u64,
    taken: u64,
    used: u64,
}

impl Share {
    /// Uses `bytes` more bytes.
    ///
    /// # Errors
    /// [`Refusal::Busy`] if the pool has none left.
    pub fn use_more(&mut self, bytes: u64) -> Result<(), Refusal> {
        let used = self.used.saturating_add(bytes);
        if used > self.taken {
            let more = (used - self.taken).checked_next_multiple_of(PIECE).ok_or(Refusal::Busy)?;
            let take = |free: u64| free.checked_sub(more);
            self.pool.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).map_err(|_| Refusal::Busy)?;
            self.taken += more;
        }
        self.used = used;
        Ok(())
    }

    /// Whether `bytes` more bytes could be used if there were no other share. If not, waiting does not help.
    pub fn could_use(&self, bytes: u64) -> bool {
        self.used.saturating_add(bytes) <= self.whole / PIECE * PIECE
    }

    /// Gives back all but the first `bytes` bytes.
    pub fn shrink_to(&mut self, bytes: u64) {
        self.used = self.used.min(bytes);
        let kept = self.used.next_multiple_of(PIECE); // at most `taken`, which is a multiple, too
        self.pool.fetch_add(self.taken - kept, Ordering::Relaxed);
        self.taken = kept;
    }

    /// The number of bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pool.fetch_add(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_share_memory_and_give_it_back() {
        let decoding = Decoding::new(1 << 20, 0, 1, 64 << 20);
        let mut first = decoding.share(40 << 20).unwrap();
        assert!(matches!(decoding.share(25 << 20), Err(Refusal::Busy)));
        let second = decoding.share(23 << 20).unwrap();
        first.use_more(1 << 19).unwrap();
        first.use_more(1 << 19).unwrap();
        assert!(matches!(first.use_more(1), Err(Refusal::Busy)));
        drop(second);
        first.use_more(1).unwrap();
        drop(first);
        let mut whole = decoding.share(64 << 20).unwrap();
        assert!(whole.could_use(0) && !whole.could_use(1));
        whole.shrink_to(3 << 19);
        assert_eq!((whole.used(), whole.could_use(125 << 19)), (3 << 19, true));
        assert_eq!(decoding.share(62 << 20).unwrap().used(), 62 << 20);
    }
}
