//! Where a ledger is kept.

use crate::error::{Result, usage};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A place that holds one ledger: a file, memory, a row of a database.
///
/// What is kept are bytes that only the ledger understands. A store has three duties:
///
/// 1. **One writer**: while a store is open, no other opens the same place. Two ledgers of one key that do not know of
///    each other could publish the same noise over different data.
/// 2. **All or nothing**: after a crash [`load`](Self::load) gives the bytes of the last [`commit`](Self::commit) that
///    returned, or those of the one that was under way, and never a mixture.
/// 3. **Durable**: what a commit has returned for survives a power failure.
pub trait Store: Send + Sync {
    /// The bytes committed last; `None` where none ever were. A store that is open already keeps others out from here on
    /// at the latest.
    ///
    /// # Errors
    /// If the place cannot be read, or what was kept there is gone.
    fn load(&mut self) -> Result<Option<Vec<u8>>>;

    /// Replaces what is kept.
    ///
    /// # Errors
    /// If the place cannot be written, or no longer holds what this store read or wrote last; then what was kept before is
    /// kept still.
    fn commit(&mut self, contents: &[u8]) -> Result<()>;

    /// How messages name the place.
    fn name(&self) -> String;
}

/// A store in memory, for a key that has no file, and for tests. Clones are other stores on the same place: the first
/// that reads or writes has it open, and the others are refused until it is dropped.
#[derive(Debug, Default)]
pub struct MemoryStore {
    place: Arc<Mutex<Place>>,
    /// Ours, once we have the place open.
    open: Option<Arc<()>>,
}

#[derive(Debug, Default)]
struct Place {
    contents: Option<Vec<u8>>,
    /// Of the store that has the place open.
    open: Weak<()>,
}

impl MemoryStore {
    /// The place, open for this store.
    fn place(&mut self) -> Result<MutexGuard<'_, Place>> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if self.open.is_none() {
            if place.open.strong_count() > 0 {
                return Err(usage("the ledger in memory is open already; use that one, or drop it first"));
            }
            let open = Arc::new(());
            place.open = Arc::downgrade(&open);
            self.open = Some(open);
        }
        Ok(place)
    }
}

impl Clone for MemoryStore {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), open: None }
    }
}

impl Store for MemoryStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.place()?.contents.clone())
    }

    fn commit(&mut self, contents: &[u8]) -> Result<()> {
        self.place()?.contents = Some(contents.to_vec());
        Ok(())
    }

    fn name(&self) -> String {
        "in memory".to_owned()
    }
}
