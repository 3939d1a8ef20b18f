//! Where a ledger is kept.

use evertally_declare::error::{Result, usage};
use std::collections::BTreeMap;
use std::io::Read;
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

    /// A part: bytes beside the ledger that it names, such as the state of a stream; `None` where there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Writes a part, as durably as a commit. Parts of one name have one content.
    ///
    /// # Errors
    /// If it cannot be written.
    fn put_part(&mut self, name: &str, contents: &mut dyn Read) -> Result<()>;

    /// Forgets all parts but these; a part that cannot be forgotten stays.
    fn keep_parts(&mut self, names: &[String]);
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
    ledger: Option<Vec<u8>>,
    parts: BTreeMap<String, Vec<u8>>,
    /// Of the store that has the place open.
    open: Weak<()>,
}

impl MemoryStore {
    /// Another place that holds the same, as a backup does that was put back: whatever is published with both is
    /// published twice.
    pub fn copied(&self) -> Self {
        let place = lock(&self.place);
        let copy = Place { ledger: place.ledger.clone(), parts: place.parts.clone(), open: Weak::new() };
        Self { place: Arc::new(Mutex::new(copy)), open: None }
    }

    /// The place, open for this store.
    fn place(&mut self) -> Result<MutexGuard<'_, Place>> {
        let mut place = lock(&self.place);
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

fn lock(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clone for MemoryStore {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), open: None }
    }
}

impl Store for MemoryStore {
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
