//! Ledgers next to key files.
//!
//! To open a ledger, a run first locks its place (the file that the ledger's name leads to, through links), and only
//! then reads the key and the ledger. A key that a run creates is drawn in memory and written together with the first
//! record, so a run that publishes nothing has nothing to remove.

use super::{LedgerStore, parts};
use crate::disk::{Access, Disk, beside, folder_of, replace};
use crate::keyfile;
use crate::lock::{LockWait, NameLock, check_one_name, resolve};
use crate::protected::check_output;
use evertally::noise::SecretKey;
use evertally_declare::error::{Context, Result, usage};
use serde::Deserialize;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zeroize::Zeroizing;

/// The path of a key's ledger.
pub fn ledger_path(key_path: &Path) -> PathBuf {
    let mut path = key_path.as_os_str().to_owned();
    path.push(".ledger");
    path.into()
}

/// The action if there is no key file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Refuse.
    Refuse,
    /// Draw a key, which is written with the first record.
    Make,
}

/// A store next to a key file, locked against other runs while this value lives.
pub struct FileStore {
    disk: Arc<dyn Disk>,
    place: LedgerLocation,
    /// The text of a key that is not on disk yet.
    pub(super) new_key: Option<Zeroizing<String>>,
    /// Whether the ledger may not exist yet.
    begins: bool,
    /// The hash of the ledger's file when this store last read or wrote it; the outer `None` before the first time.
    known: Option<Option<blake3::Hash>>,
    lock: NameLock,
}

impl FileStore {
    /// Locks the ledger next to a key file, and reads the key. If another run holds it, calls `waiting` once and waits
    /// until the lock is free or the run is `cancelled`.
    ///
    /// # Errors
    /// If the file does not exist and none is to be created, it cannot be read, its ledger cannot be locked, or after
    /// cancellation.
    pub fn open(
        disk: Arc<dyn Disk>,
        key_path: &Path,
        absent: Absent,
        cancelled: &AtomicBool,
        waiting: &mut dyn FnMut(&Path),
    ) -> Result<(SecretKey, Self)> {
        let mut patience = LockWait::until(cancelled, waiting);
        let place = LedgerLocation::of_key(key_path)?;
        if absent == Absent::Refuse && !place.has_key() && disk.len(&place.unfinished())?.is_none() {
            keyfile::read(key_path)?; // reports what is missing, and leaves no lock file
        }
        let mut store = Self::lock(disk, key_path, place, &mut patience)?;
        if store.place.has_key() || absent == Absent::Refuse {
            let key = keyfile::read(&store.place.key)?;
            return Ok((key, store));
        }
        let key = SecretKey::generate()?;
        store.promise(&key)?;
        Ok((key, store))
    }

    /// The store of a new key, which is written with the first commit.
    ///
    /// # Errors
    /// If there is a key file or a ledger, or another run is about to create one.
    pub fn create(disk: Arc<dyn Disk>, key_path: &Path, key: &SecretKey) -> Result<Self> {
        let mut store = Self::lock(disk, key_path, LedgerLocation::of_key(key_path)?, &mut LockWait::none())?;
        if store.place.has_key() {
            return Err(keyfile::key_exists_error(key_path));
        }
        store.promise(key)?;
        Ok(store)
    }

    /// The store of a ledger whose key is kept elsewhere, such as in a key store; locked like [`open`](Self::open).
    /// With [`Absent::Make`] the file need not exist, and is written with the first commit.
    ///
    /// # Errors
    /// If the ledger cannot be locked, and after cancellation.
    pub fn of_ledger(
        disk: Arc<dyn Disk>,
        path: &Path,
        absent: Absent,
        cancelled: &AtomicBool,
        waiting: &mut dyn FnMut(&Path),
    ) -> Result<Self> {
        Self::lock_ledger(disk, path, absent, &mut LockWait::until(cancelled, waiting))
    }

    /// Like [`of_ledger`](Self::of_ledger), with explicit patience.
    pub(super) fn lock_ledger(
        disk: Arc<dyn Disk>,
        path: &Path,
        absent: Absent,
        patience: &mut LockWait<'_>,
    ) -> Result<Self> {
        loop {
            let ledger = resolve(path, "ledger")?;
            if absent == Absent::Refuse && disk.len(&ledger)?.is_none() {
                return Err(usage(format!(
                    "there is no ledger {}, which records everything published with the key; restore it",
                    ledger.display()
                )));
            }
            let lock = NameLock::take(&ledger, &ledger, patience)?;
            if resolve(path, "ledger")? == ledger {
                let place = LedgerLocation { key: ledger.clone(), ledger };
                place.check_one_name()?;
                let begins = absent == Absent::Make;
                return Ok(Self { disk, place, new_key: None, begins, known: None, lock });
            }
        }
    }

    /// Locks the place of a key's ledger, and completes or removes the files of a run that was interrupted while it
    /// created the key.
    fn lock(
        disk: Arc<dyn Disk>,
        key_path: &Path,
        mut place: LedgerLocation,
        patience: &mut LockWait<'_>,
    ) -> Result<Self> {
        loop {
            let lock = NameLock::take(&place.ledger, &place.key, patience)?;
            // While this run waited, links may have been changed.
            let now = LedgerLocation::of_key(key_path)?;
            if now == place {
                place.finish_new_key(&*disk)?;
                return Ok(Self { disk, place, new_key: None, begins: false, known: None, lock });
            }
            place = now;
        }
    }

    /// Adds a key that is not on disk yet.
    fn promise(&mut self, key: &SecretKey) -> Result<()> {
        check_output(&self.place.key, &[])?;
        if self.disk.len(&self.place.ledger)?.is_some() {
            return Err(usage(format!(
                "{} already exists; it belongs to a key that was here: restore that key, or give another name",
                self.place.ledger.display()
            )));
        }
        self.new_key = Some(keyfile::text(key));
        self.begins = true;
        Ok(())
    }

    fn read(&self) -> Result<Option<Vec<u8>>> {
        let shown = self.place.ledger.display();
        self.disk.read(&self.place.ledger).map_err(|e| match e.kind() {
            ErrorKind::IsADirectory => usage(format!("the ledger {shown} is a directory; restore the file")),
            _ => usage(format!("the ledger {shown} cannot be read: {e}")),
        })
    }

    /// Refuses if the file is not the one that this run last read or wrote, or if others may write it.
    fn check_unchanged(&self) -> Result<()> {
        let shown = self.place.ledger.display();
        if !self.lock.is_current() {
            return Err(usage(format!(
                "the lock file of the ledger {shown} was removed while this run held it; run again"
            )));
        }
        self.place.check_one_name()?;
        let now = self.read()?.as_deref().map(blake3::hash);
        if self.known.is_some_and(|known| known != now) {
            return Err(usage(format!(
                "the ledger {shown} was changed while this run held it (by another program, or a restored \
                 copy); run again"
            )));
        }
        Ok(())
    }
}

impl LedgerStore for FileStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>> {
        self.place.check_one_name()?;
        let found = self.read()?;
        if found.is_none() && !self.begins {
            // A key is made together with its ledger, so there was one.
            return Err(usage(format!(
                "the key {} has no ledger {} next to it, which records everything published with it; restore the \
                 ledger. If it is lost, make a new key: the old one could repeat its noise over other data",
                self.place.key.display(),
                self.place.ledger.display(),
            )));
        }
        self.known = Some(found.as_deref().map(blake3::hash));
        Ok(found)
    }

    fn commit(&mut self, contents: &[u8]) -> Result<()> {
        self.check_unchanged()?;
        if let Some(text) = &self.new_key {
            if self.place.has_key() {
                return Err(keyfile::key_exists_error(&self.place.key));
            }
            let shown = self.place.key.display();
            replace(&*self.disk, &self.place.unfinished(), &Access::Private, &mut text.as_bytes())
                .context(format_args!("cannot write the key file {shown}"))?;
        }
        let access = match std::fs::metadata(&self.place.ledger) {
            Ok(meta) => Access::As(meta.permissions()),
            Err(_) => Access::Private,
        };
        let replaced = replace(&*self.disk, &self.place.ledger, &access, &mut &contents[..]);
        if replaced.is_err() && self.new_key.is_some() && self.disk.len(&self.place.ledger)?.is_none() {
            let _ = self.disk.remove(&self.place.unfinished()); // the error that matters is the first one
        }
        replaced?;
        self.known = Some(Some(blake3::hash(contents)));
        if self.new_key.is_some() {
            self.place.name_new_key(&*self.disk)?;
            self.new_key = None;
        }
        self.begins = false;
        Ok(())
    }

    fn name(&self) -> String {
        self.place.ledger.display().to_string()
    }

    fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        parts::get(&*self.disk, &parts::folder(&self.place.ledger), name)
    }

    fn put_part(&mut self, name: &str, contents: &mut dyn Read) -> Result<()> {
        parts::put(&*self.disk, &parts::folder(&self.place.ledger), name, contents)
    }

    fn keep_parts(&mut self, names: &[String]) {
        parts::keep(&*self.disk, &parts::folder(&self.place.ledger), names);
    }
}

/// The places of a key and its ledger, with all links resolved: one key, one ledger.
#[derive(Debug, PartialEq, Eq)]
struct LedgerLocation {
    key: PathBuf,
    ledger: PathBuf,
}

impl LedgerLocation {
    fn of_key(key_path: &Path) -> Result<Self> {
        let key = resolve(key_path, "key file")?;
        let ledger = resolve(&ledger_path(&key), "ledger")?;
        let place = Self { key, ledger };
        place.check_one_name()?;
        Ok(place)
    }

    fn has_key(&self) -> bool {
        self.key.symlink_metadata().is_ok()
    }

    /// The file of a new key until the first record is written.
    ///
    /// Two files cannot appear at once, so the key goes here, then the ledger gets its name, then the key does. If a
    /// run is interrupted in between, the next one completes it ([`finish_new_key`](Self::finish_new_key)).
    fn unfinished(&self) -> PathBuf {
        beside(&self.key, "new")
    }

    fn name_new_key(&self, disk: &dyn Disk) -> Result<()> {
        disk.rename(&self.unfinished(), &self.key)?;
        Ok(disk.sync_folder(folder_of(&self.key))?)
    }

    /// Completes a run that was interrupted while it wrote a new key and its first record. The key gets its name if the
    /// ledger has its record; otherwise it is removed, because nothing was recorded and so nothing was published.
    fn finish_new_key(&self, disk: &dyn Disk) -> Result<()> {
        #[derive(Deserialize)]
        struct Owner {
            key_id: String,
        }
        let Some(text) = disk.read(&self.unfinished())?.map(Zeroizing::new) else { return Ok(()) };
        let waiting = keyfile::parse_bytes(&text).ok().map(|key| key.id().to_string());
        let ledger = disk.read(&self.ledger)?;
        let owner = ledger.and_then(|bytes| serde_json::from_slice::<Owner>(&bytes).ok()).map(|owner| owner.key_id);
        if owner.is_some() && owner == waiting && !self.has_key() {
            return self.name_new_key(disk);
        }
        disk.remove(&self.unfinished())?;
        Ok(disk.sync_folder(folder_of(&self.key))?)
    }

    fn check_one_name(&self) -> Result<()> {
        check_one_name(&self.ledger, "ledger")
    }
}
