//! Keys and the ledgers next to their files.

use super::file_store::{Absent, FileStore};
use super::{Ledger, LedgerStore, issuers};
use crate::disk::{Disk, RealDisk};
use evertally::noise::{GuardedKey, SecretKey};
use evertally_declare::error::Result;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Creates a key file and its empty ledger.
///
/// # Errors
/// If the file exists, another run is about to create it, or it cannot be written.
pub fn new_key(path: &Path) -> Result<SecretKey> {
    let key = SecretKey::generate()?;
    Ledger::create(FileStore::create(Arc::new(RealDisk), path, &key)?, &key)?;
    Ok(key)
}

/// A key with its ledger, which is locked against other runs.
pub struct OpenKey {
    /// The key.
    pub key: SecretKey,
    /// The record of everything published with it.
    pub ledger: Ledger,
    /// Whether the key was drawn for this run, and is on disk only after its first record.
    pub is_new: bool,
}

impl OpenKey {
    /// Opens a key file and its ledger, like [`FileStore::open`].
    ///
    /// # Errors
    /// As for [`FileStore::open`] and [`Ledger::open`].
    pub fn of_file(
        disk: Arc<dyn Disk>,
        key_path: &Path,
        absent: Absent,
        cancelled: &AtomicBool,
        waiting: &mut dyn FnMut(&Path),
    ) -> Result<Self> {
        let (key, store) = FileStore::open(disk, key_path, absent, cancelled, waiting)?;
        let is_new = store.new_key.is_some();
        let ledger = if is_new { Ledger::begin(store, &key) } else { Ledger::open(store, &key) }?;
        Ok(Self { key, ledger, is_new })
    }

    /// The key for a program that embeds the library: the noise that its objects issue is recorded in this ledger,
    /// durably and before they issue it. Other programs wait for the ledger until the last clone is dropped.
    ///
    /// The ledger records that an object was created, but not its steps: save the state of the object before each
    /// release is published, and only ever restore the last state.
    pub fn guarded(self) -> GuardedKey {
        issuers::guarded(self.key, self.ledger)
    }
}

impl Ledger {
    /// Writes a key to a new file, and this ledger next to it. An existing file is never replaced.
    ///
    /// # Errors
    /// If the file exists, or cannot be written.
    pub fn save(&self, path: &Path, key: &SecretKey) -> Result<()> {
        let mut store = FileStore::create(Arc::new(RealDisk), path, key)?;
        store.load()?;
        store.commit(&self.contents.clone().sealed(&self.code_key)?)
    }
}

#[cfg(test)]
mod tests;
