//! How far the reading is, for whoever shows it.

/// Is told what has been read, by whichever thread reads. All of it may be left out: `()` shows nothing.
pub trait Progress: Sync {
    /// A pass over so many bytes begins, or over an unknown number.
    fn start(&self, total: Option<u64>) {
        let _ = total;
    }

    /// So many more bytes are read.
    fn advance(&self, bytes: u64) {
        let _ = bytes;
    }

    /// The pass has ended.
    fn finish(&self) {}
}

impl Progress for () {}
