//! How to read the files.

use std::num::NonZero;

use super::limits::DEFAULT_MEMORY;
use evertally_declare::format::Format;

/// The maximum number of threads by default: the single thread that reads and consumes cannot keep more busy.
const MOST_BY_ITSELF: usize = 16;

/// Bytes requested at once, and so the usual size of a block.
const BLOCK_BYTES: usize = 128 * 1024;

/// How to read the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format of every file; detected from its first bytes if `None`.
    pub format: Option<Format>,
    /// The separator of cells in a CSV line.
    pub delimiter: u8,
    /// Texts that mean a missing cell, such as `NA`. Empty cells, nulls and absent keys are always missing.
    pub missing: Vec<String>,
    /// Whether rows are read with the columns that are not used, so that they can be written to a side file.
    pub whole_rows: bool,
    /// The number of threads that read cells. If `None`, the number of cores, at most 16. Changes no result.
    pub threads: Option<NonZero<usize>>,
    /// The approximate memory for reading, in bytes: input that needs more is refused before it is expanded. The
    /// default is [`DEFAULT_MEMORY`]. Changes no result.
    pub memory: u64,
    /// Bytes that are requested at once. Changes no result; tests make it small.
    #[doc(hidden)]
    pub block_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            format: None,
            delimiter: b',',
            missing: Vec::new(),
            whole_rows: false,
            threads: None,
            memory: DEFAULT_MEMORY,
            block_bytes: BLOCK_BYTES,
        }
    }
}

impl ReadOptions {
    /// The number of threads that read cells.
    pub(super) fn thread_count(&self) -> usize {
        match self.threads {
            Some(threads) => threads.get(),
            None => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_BY_ITSELF)),
        }
    }

    /// The maximum number of pieces in memory at once: for each thread one that waits for it, one in work, and one that
    /// waits to be consumed; plus one being read, and one being consumed.
    pub(super) fn pieces_at_once(&self) -> u64 {
        3 * self.thread_count() as u64 + 2
    }
}
