//! Where a ledger is kept.

use crate::error::Result;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// The bytes committed last; `None` where none ever were.
    ///
    /// # Errors
    /// If the place cannot be read.
    fn load(&mut self) -> Result<Option<Vec<u8>>>;

    /// Replaces what is kept.
    ///
    /// # Errors
    /// If the place cannot be written; then what was kept before is kept still.
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

/// A store in memory, for a key that has no file, and for tests. Clones share what is kept.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    ledger: Option<Vec<u8>>,
    parts: BTreeMap<String, Vec<u8>>,
}

impl MemoryStore {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.memory().ledger.clone())
    }

    fn commit(&mut self, contents: &[u8]) -> Result<()> {
        self.memory().ledger = Some(contents.to_vec());
        Ok(())
    }

    fn name(&self) -> String {
        "in memory".to_owned()
    }

    fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.memory().parts.get(name).cloned())
    }

    fn put_part(&mut self, name: &str, contents: &mut dyn Read) -> Result<()> {
        let mut bytes = Vec::new();
        contents.read_to_end(&mut bytes)?;
        self.memory().parts.insert(name.to_owned(), bytes);
        Ok(())
    }

    fn keep_parts(&mut self, names: &[String]) {
        self.memory().parts.retain(|name, _| names.contains(name));
    }
}
