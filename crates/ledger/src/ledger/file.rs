//! Ledgers beside key files.
//!
//! Whoever opens a ledger locks its place first (the file that the ledger's name leads to, through links), and only then
//! looks at key and ledger. A key that a run makes is drawn in memory and written together with the first record, so that
//! a run that publishes nothing has nothing to take away.

use super::{Ledger, Store, issuers, parts};
use crate::disk::{Access, Disk, RealDisk, beside, folder_of, replace};
use crate::keyfile;
use crate::lock::{NameLock, Patience, check_one_name, resolve};
use crate::protected::check_output;
use evertally::noise::{GuardedKey, SecretKey};
use evertally_declare::error::{Context, Result, usage};
use serde::Deserialize;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zeroize::Zeroizing;

/// Where the ledger of a key is.
pub fn ledger_path(key_path: &Path) -> PathBuf {
    let mut path = key_path.as_os_str().to_owned();
    path.push(".ledger");
    path.into()
}

/// Makes a key file and its empty ledger.
///
/// # Errors
/// If there is a file, another run is about to make one, or it cannot be written.
pub fn new_key(path: &Path) -> Result<SecretKey> {
    let key = SecretKey::generate()?;
    Ledger::create(FileStore::create(Arc::new(RealDisk), path, &key)?, &key)?;
    Ok(key)
}

/// What to do where there is no key file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Refuse.
    Refuse,
    /// Draw a key, which is written with the first record.
    Make,
}

/// A key with its ledger, which is locked against other runs.
pub struct OpenKey {
    /// The key.
    pub key: SecretKey,
    /// What was published with it.
    pub ledger: Ledger,
    /// Whether the key was drawn for this run, and is on disk only after its first record.
    pub is_new: bool,
}

impl OpenKey {
    /// Opens a key file and its ledger, as [`FileStore::open`] does.
    ///
    /// # Errors
    /// As [`FileStore::open`] and [`Ledger::open`].
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

    /// The key for a program that embeds the library: what its objects issue is recorded in this ledger, durably and
    /// before they issue any of it. Until the last clone is dropped other programs wait for the ledger.
    ///
    /// The ledger knows that an object was made, and not its steps: save the state of the object before each release is
    /// published, and restore none but the last.
    pub fn guarded(self) -> GuardedKey {
        issuers::guarded(self.key, self.ledger)
    }
}

/// A store beside a key's file, which is locked against other runs while this value lives.
pub struct FileStore {
    disk: Arc<dyn Disk>,
    place: Place,
    /// The text of a key that is not on disk yet.
    new_key: Option<Zeroizing<String>>,
    /// Whether there need not be a ledger yet.
    begins: bool,
    /// What the ledger's file held when this store read or wrote it last; nothing before the first time.
    known: Option<Option<blake3::Hash>>,
    lock: NameLock,
}

impl FileStore {
    /// Locks the ledger beside a key file, and reads the key. Where another run holds it, `waiting` is told so once, and
    /// this waits for it until `cancelled`.
    ///
    /// # Errors
    /// If there is no such file and none is to be made, it cannot be read or its ledger not be locked, and after
    /// cancellation.
    pub fn open(
        disk: Arc<dyn Disk>,
        key_path: &Path,
        absent: Absent,
        cancelled: &AtomicBool,
        waiting: &mut dyn FnMut(&Path),
    ) -> Result<(SecretKey, Self)> {
        let mut patience = Patience::until(cancelled, waiting);
        let place = Place::of_key(key_path)?;
        if absent == Absent::Refuse && !place.has_key() && disk.len(&place.unfinished())?.is_none() {
            keyfile::read(key_path)?; // says what is missing, and leaves no lock file
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
    /// If there is a key file or a ledger, or another run is about to make one.
    pub fn create(disk: Arc<dyn Disk>, key_path: &Path, key: &SecretKey) -> Result<Self> {
        let mut store = Self::lock(disk, key_path, Place::of_key(key_path)?, &mut Patience::none())?;
        if store.place.has_key() {
            return Err(keyfile::exists_already(key_path));
        }
        store.promise(key)?;
        Ok(store)
    }

    /// The store of a ledger whose key is kept elsewhere, in a key store for example; locked as [`open`](Self::open) does.
    /// With [`Absent::Make`] the file need not be there, and is written with the first commit.
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
        Self::lock_ledger(disk, path, absent, &mut Patience::until(cancelled, waiting))
    }

    /// The same with other patience.
    pub(super) fn lock_ledger(
        disk: Arc<dyn Disk>,
        path: &Path,
        absent: Absent,
        patience: &mut Patience<'_>,
    ) -> Result<Self> {
        loop {
            let ledger = resolve(path, "ledger")?;
            if absent == Absent::Refuse && disk.len(&ledger)?.is_none() {
                return Err(usage(format!(
                    "there is no ledger {}, which says what was published with the key; put it back",
                    ledger.display()
                )));
            }
            let lock = NameLock::take(&ledger, &ledger, patience)?;
            if resolve(path, "ledger")? == ledger {
                let place = Place { key: ledger.clone(), ledger };
                place.check_one_name()?;
                let begins = absent == Absent::Make;
                return Ok(Self { disk, place, new_key: None, begins, known: None, lock });
            }
        }
    }

    /// Locks the place of a key's ledger, and mends what a run left that was cut off while it made the key.
    fn lock(disk: Arc<dyn Disk>, key_path: &Path, mut place: Place, patience: &mut Patience<'_>) -> Result<Self> {
        loop {
            let lock = NameLock::take(&place.ledger, &place.key, patience)?;
            // While this run waited, links may have been turned elsewhere.
            let now = Place::of_key(key_path)?;
            if now == place {
                place.finish_new_key(&*disk)?;
                return Ok(Self { disk, place, new_key: None, begins: false, known: None, lock });
            }
            place = now;
        }
    }

    /// Takes a key along that is not on disk yet.
    fn promise(&mut self, key: &SecretKey) -> Result<()> {
        check_output(&self.place.key, &[])?;
        if self.disk.len(&self.place.ledger)?.is_some() {
            return Err(usage(format!(
                "{} exists already; it belongs to a key that was here: restore that key, or give another name",
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
            ErrorKind::IsADirectory => usage(format!("the ledger {shown} is a directory; put the file back")),
            _ => usage(format!("the ledger {shown} cannot be read: {e}")),
        })
    }

    /// Refuses where the file is not what this run knows, or where others may write it.
    fn check_unchanged(&self) -> Result<()> {
        let shown = self.place.ledger.display();
        if !self.lock.has_its_name() {
            return Err(usage(format!(
                "the lock beside the ledger {shown} was taken away while this run held it; run again"
            )));
        }
        self.place.check_one_name()?;
        let now = self.read()?.as_deref().map(blake3::hash);
        if self.known.is_some_and(|known| known != now) {
            return Err(usage(format!(
                "the ledger {shown} was changed by something else while this run held it (another program, a restored \
                 copy?); run again"
            )));
        }
        Ok(())
    }
}

impl Store for FileStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>> {
        self.place.check_one_name()?;
        let found = self.read()?;
        if found.is_none() && !self.begins {
            // A key is made together with its ledger, so there was one.
            return Err(usage(format!(
                "the key {} has no ledger {} beside it, which says what was published with it; put it back. If it is \
                 lost, make a new key: the old one could repeat its noise over other data",
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
                return Err(keyfile::exists_already(&self.place.key));
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
            let _ = self.disk.remove(&self.place.unfinished()); // the error that matters is already there
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

/// Where a key and its ledger are, with all links resolved: one key, one ledger.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    key: PathBuf,
    ledger: PathBuf,
}

impl Place {
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

    /// Where a new key waits for the first record to be written.
    ///
    /// Two files cannot appear at once, so the key goes here, then the ledger gets its name, then the key does. A run
    /// that was cut off in between is ended by the next ([`finish_new_key`](Self::finish_new_key)).
    fn unfinished(&self) -> PathBuf {
        beside(&self.key, "new")
    }

    fn name_new_key(&self, disk: &dyn Disk) -> Result<()> {
        disk.rename(&self.unfinished(), &self.key)?;
        Ok(disk.sync_folder(folder_of(&self.key))?)
    }

    /// Ends what a run left that was cut off while it wrote a new key and its first record: the key gets its name if the
    /// ledger has a record of it, and goes if not, for then nothing was recorded and nothing published.
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

#[cfg(test)]
mod tests;
