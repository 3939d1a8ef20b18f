//! How much memory batches may take while they are decoded: each, and all of them together.

use std::sync::{Condvar, Mutex, PoisonError};

/// What decoding may take.
#[derive(Debug)]
pub struct Decoding {
    /// Bytes of memory for one batch, about.
    pub memory: u64,
    /// Bytes that the cells of a batch in a binary format have, written out.
    pub cells: u64,
    /// How many batches in binary formats may still be decoded now.
    free: Mutex<usize>,
    freed: Condvar,
}

impl Default for Decoding {
    fn default() -> Self {
        Self::new(64 << 20, 256 << 20, 4)
    }
}

impl Decoding {
    /// So much memory and so many bytes of cells for each of some batches at once.
    pub fn new(memory: u64, cells: u64, at_once: usize) -> Self {
        Self { memory, cells, free: Mutex::new(at_once.max(1)), freed: Condvar::new() }
    }

    /// Waits until there is memory for one more batch, which is all in a file already.
    pub(super) fn turn(&self) -> Turn<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Turn(self)
    }
}

/// Memory for a batch, until this is dropped.
pub(super) struct Turn<'d>(&'d Decoding);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
