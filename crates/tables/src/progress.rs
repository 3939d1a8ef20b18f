//! Reports the progress of reading, for display.

/// Receives the progress of reading, from any reading thread. All methods are optional: `()` shows nothing.
pub trait Progress: Sync {
    /// A pass over this number of bytes begins; `None` if the number is unknown.
    fn start(&self, total: Option<u64>) {
        let _ = total;
    }

    /// This number of further bytes was read.
    fn advance(&self, bytes: u64) {
        let _ = bytes;
    }

    /// The pass has ended.
    fn finish(&self) {}
}

impl Progress for () {}
