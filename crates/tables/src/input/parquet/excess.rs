//! Data that exceed the memory for reading.

use super::super::limits::mebibytes;
use std::fmt;

/// Exceeds the available memory.
#[derive(Debug)]
pub(super) struct TooLarge {
    pub(super) bytes: u64,
    pub(super) most: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, most) = (mebibytes(self.bytes), mebibytes(self.most));
        write!(f, "parts of it that must be in memory together have {bytes}, but at most {most} are allowed")
    }
}

impl std::error::Error for TooLarge {}
