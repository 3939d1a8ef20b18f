//! Records the writes to the database file, to be shipped later.

use redb::{BackendError, StorageBackend};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Writes in their order, without those that a later one replaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    writes: BTreeMap<u64, (u64, Arc<[u8]>)>,
    /// The last write to a range.
    last: HashMap<(u64, usize), u64>,
    next: u64,
    bytes: usize,
    /// The shortest length of the file since.
    pub(crate) shortest: Option<u64>,
}

impl Changes {
    fn write(&mut self, offset: u64, data: Arc<[u8]>) {
        self.bytes += data.len();
        // The whole range is written again later, so that the earlier write changes nothing.
        if let Some(before) = self.last.insert((offset, data.len()), self.next) {
            self.bytes -= self.writes.remove(&before).map_or(0, |(_, data)| data.len());
        }
        self.writes.insert(self.next, (offset, data));
        self.next += 1;
    }

    fn set_len(&mut self, len: u64) {
        self.shortest = Some(self.shortest.map_or(len, |shortest| shortest.min(len)));
        let is_after = |(offset, data): &(u64, Arc<[u8]>)| offset + data.len() as u64 > len;
        let cut: Vec<u64> =
            self.writes.iter().filter(|(_, write)| is_after(write)).map(|(number, _)| *number).collect();
        for number in cut {
            let (offset, data) = self.writes.remove(&number).expect("just seen");
            self.bytes -= data.len();
            self.last.remove(&(offset, data.len()));
            if offset < len {
                let kept = &data[..(len - offset) as usize]; // fits: less than the length of the write
                self.bytes += kept.len();
                self.writes.insert(number, (offset, kept.into()));
            }
        }
    }

    pub(crate) fn append(&mut self, later: Self) {
        if let Some(shortest) = later.shortest {
            self.set_len(shortest);
        }
        later.writes.into_values().for_each(|(offset, data)| self.write(offset, data));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.shortest.is_none()
    }

    /// Offsets and bytes, in the order in which they are written.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.writes.values().map(|(offset, data)| (*offset, &**data))
    }

    pub(crate) fn from_range(offset: u64, data: Vec<u8>) -> Self {
        let mut changes = Self::default();
        changes.write(offset, data.into());
        changes
    }
}

/// The synced writes that are not shipped yet.
#[derive(Debug, Default)]
struct Recorded {
    is_recording: bool,
    /// Written, but not synced.
    pending: Changes,
    synced: Changes,
    len: u64,
    /// Whether more was written than is kept, so that the whole database must be shipped again.
    is_full: bool,
    syncs: u64,
    shipped: u64,
    /// When the first sync was completed that is not shipped.
    since: Option<Instant>,
    /// Whether somebody waits for the shipping.
    is_urgent: bool,
    is_over: bool,
}

/// What to ship.
pub(crate) struct Batch {
    pub(crate) changes: Changes,
    pub(crate) len: u64,
    /// The number of syncs through these changes.
    pub(crate) syncs: u64,
}

/// The record of a database file.
#[derive(Debug)]
pub struct Journal {
    recorded: Mutex<Recorded>,
    changed: Condvar,
    /// The most bytes that wait for shipping.
    max_bytes: usize,
}

impl Journal {
    /// A journal that keeps at most about this number of bytes; if more are written before they are shipped, the whole
    /// database is shipped again.
    pub fn new(max_bytes: usize) -> Self {
        // What the file holds before its first sync here is not shipped either: counted as the sync that wrote it.
        let recorded = Recorded { syncs: 1, ..Recorded::default() };
        Self { recorded: Mutex::new(recorded), changed: Condvar::new(), max_bytes }
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, what: impl FnOnce(&mut Changes)) {
        let mut recorded = self.recorded();
        if recorded.is_recording {
            what(&mut recorded.pending);
            if recorded.pending.bytes + recorded.synced.bytes > self.max_bytes {
                (recorded.is_full, recorded.is_recording) = (true, false);
                (recorded.pending, recorded.synced) = Default::default();
            }
        }
    }

    fn has_synced(&self, written: Changes, len: u64) {
        let mut recorded = self.recorded();
        recorded.syncs += 1;
        if recorded.is_recording {
            recorded.synced.append(written);
            recorded.len = len;
        }
        recorded.since.get_or_insert_with(Instant::now);
        drop(recorded);
        self.changed.notify_all();
    }

    /// Records from now on.
    pub(crate) fn begin(&self) {
        let mut recorded = self.recorded();
        (recorded.is_recording, recorded.is_full) = (true, false);
        (recorded.pending, recorded.synced) = Default::default();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.recorded().is_full
    }

    /// Takes the synced changes.
    pub(crate) fn take(&self) -> Batch {
        let mut recorded = self.recorded();
        recorded.is_urgent = false;
        Batch { changes: std::mem::take(&mut recorded.synced), len: recorded.len, syncs: recorded.syncs }
    }

    /// The writes that are not synced yet.
    pub(crate) fn unsynced(&self) -> Changes {
        self.recorded().pending.clone()
    }

    /// Forgets the changes: the whole database must be shipped again.
    pub(crate) fn overflow(&self) {
        let mut recorded = self.recorded();
        (recorded.is_full, recorded.is_recording) = (true, false);
        (recorded.pending, recorded.synced) = Default::default();
    }

    pub(crate) fn has_shipped(&self, syncs: u64) {
        let mut recorded = self.recorded();
        recorded.shipped = recorded.shipped.max(syncs);
        recorded.since = (recorded.shipped < recorded.syncs).then(Instant::now);
        drop(recorded);
        self.changed.notify_all();
    }

    /// A mark after everything that is durable now.
    pub fn mark(&self) -> u64 {
        self.recorded().syncs
    }

    /// Whether everything before a mark was shipped. If not, it is shipped at once.
    pub fn is_shipped(&self, mark: u64) -> bool {
        let mut recorded = self.recorded();
        if recorded.shipped >= mark {
            return true;
        }
        if !recorded.is_urgent {
            recorded.is_urgent = true;
            drop(recorded);
            self.changed.notify_all();
        }
        false
    }

    /// Waits until there is something to ship and `interval` has passed, somebody needs it now, or it is over.
    pub(crate) fn wait(&self, interval: Duration) {
        let until = Instant::now() + interval;
        let mut recorded = self.recorded();
        while !recorded.is_urgent && !recorded.is_over {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return;
            };
            recorded = self.changed.wait_timeout(recorded, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn end(&self) {
        self.recorded().is_over = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.recorded().is_over
    }

    /// Syncs, bytes and time that are not shipped yet.
    pub(crate) fn lag(&self) -> (u64, u64, Duration) {
        let recorded = self.recorded();
        let since = recorded.since.map_or(Duration::ZERO, |since| since.elapsed());
        (recorded.syncs - recorded.shipped, (recorded.pending.bytes + recorded.synced.bytes) as u64, since)
    }
}

/// A storage that records its writes.
#[derive(Clone, Debug)]
pub struct Recorder {
    inner: Arc<dyn StorageBackend>,
    journal: Arc<Journal>,
}

impl Recorder {
    /// Records the writes to a storage.
    pub fn new(inner: Arc<dyn StorageBackend>, journal: Arc<Journal>) -> Self {
        Self { inner, journal }
    }

    /// The storage, for reading.
    pub fn inner(&self) -> Arc<dyn StorageBackend> {
        Arc::clone(&self.inner)
    }
}

impl StorageBackend for Recorder {
    fn len(&self) -> Result<u64, io::Error> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.inner.read(offset, out)
    }

    // A copy of the file that is made meanwhile has no bytes that are not recorded: first the record, then the write.
    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.journal.record(|changes| changes.set_len(len));
        self.inner.set_len(len)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.journal.record(|changes| changes.write(offset, data.into()));
        self.inner.write(offset, data)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let written = std::mem::take(&mut self.journal.recorded().pending);
        self.inner.sync_data()?;
        self.journal.has_synced(written, self.inner.len()?);
        Ok(())
    }

    fn close(&self) -> Result<(), io::Error> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A primary that restarts must not take the steps that it committed before for shipped.
    #[test]
    fn what_a_file_held_before_is_not_shipped() {
        let journal = Journal::new(1 << 20);
        let mark = journal.mark();
        assert!(!journal.is_shipped(mark));
        journal.begin();
        let batch = journal.take();
        assert!(!journal.is_shipped(mark));
        journal.has_shipped(batch.syncs);
        assert!(journal.is_shipped(mark));
        assert_eq!(journal.lag(), (0, 0, Duration::ZERO));
    }
}
