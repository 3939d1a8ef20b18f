//! Storage for ledgers.

use evertally_declare::error::{Result, usage};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Storage for one ledger: a file, memory, or a row of a database.
///
/// The stored bytes mean something only to the ledger. A store has three duties:
///
/// 1. **One writer**: while a store is open, no other opens the same place. Two ledgers of one key that do not know of
///    each other could publish the same noise over different data.
/// 2. **All or nothing**: after a crash [`load`](Self::load) returns the bytes of the last completed
///    [`commit`](Self::commit), or of the one in progress, but never a mixture.
/// 3. **Durable**: a commit that has returned survives a power failure.
pub trait LedgerStore: Send + Sync {
    /// The bytes committed last; `None` if there never were any. From this call on at the latest, an open store keeps
    /// others out.
    ///
    /// # Errors
    /// If the place cannot be read, or its contents are gone.
    fn load(&mut self) -> Result<Option<Vec<u8>>>;

    /// Replaces the stored bytes.
    ///
    /// # Errors
    /// If the place cannot be written, or no longer holds the bytes that this store last read or wrote; the previous
    /// bytes are then kept.
    fn commit(&mut self, contents: &[u8]) -> Result<()>;

    /// The name of the place in messages.
    fn name(&self) -> String;

    /// Reads a part: bytes outside the ledger that the ledger refers to, such as the state of a stream; `None` if it
    /// does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Writes a part, as durably as a commit. Parts with the same name have the same content.
    ///
    /// # Errors
    /// If it cannot be written.
    fn put_part(&mut self, name: &str, contents: &mut dyn Read) -> Result<()>;

    /// Removes all parts but these; a part that cannot be removed stays.
    fn keep_parts(&mut self, names: &[String]);
}

/// A store in memory, for a key that has no file, and for tests. Clones are separate stores of the same place: the
/// first that reads or writes opens it, and the others are refused until that one is dropped.
#[derive(Debug, Default)]
pub struct MemoryStore {
    place: Arc<Mutex<StoreLocation>>,
    /// This store's token, once it has opened the place.
    open: Option<Arc<()>>,
}

#[derive(Debug, Default)]
struct StoreLocation {
    ledger: Option<Vec<u8>>,
    parts: BTreeMap<String, Vec<u8>>,
    /// The token of the store that has opened the place.
    open: Weak<()>,
}

impl MemoryStore {
    /// A copy of the place with the same contents, like a restored backup: steps published with both are published
    /// twice.
    pub fn copied(&self) -> Self {
        let place = lock(&self.place);
        let copy = StoreLocation { ledger: place.ledger.clone(), parts: place.parts.clone(), open: Weak::new() };
        Self { place: Arc::new(Mutex::new(copy)), open: None }
    }

    /// The place, opened by this store.
    fn place(&mut self) -> Result<MutexGuard<'_, StoreLocation>> {
        let mut place = lock(&self.place);
        if self.open.is_none() {
            if place.open.strong_count() > 0 {
                return Err(usage("the ledger in memory is already open; use the open one, or drop it first"));
            }
            let open = Arc::new(());
            place.open = Arc::downgrade(&open);
            self.open = Some(open);
        }
        Ok(place)
    }
}

fn lock(place: &Mutex<StoreLocation>) -> MutexGuard<'_, StoreLocation> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clone for MemoryStore {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), open: None }
    }
}

impl LedgerStore for MemoryStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.place()?.ledger.clone())
    }

    fn commit(&mut self, contents: &[u8]) -> Result<()> {
        self.place()?.ledger = Some(contents.to_vec());
        Ok(())
    }

    fn name(&self) -> String {
        "in memory".to_owned()
    }

    fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.place()?.parts.get(name).cloned())
    }

    fn put_part(&mut self, name: &str, contents: &mut dyn Read) -> Result<()> {
        let mut bytes = Vec::new();
        contents.read_to_end(&mut bytes)?;
        self.place()?.parts.insert(name.to_owned(), bytes);
        Ok(())
    }

    fn keep_parts(&mut self, names: &[String]) {
        if let Ok(mut place) = self.place() {
            place.parts.retain(|name, _| names.contains(name));
        }
    }
}
