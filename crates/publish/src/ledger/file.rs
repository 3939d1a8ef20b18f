//! Ledgers beside key files.

use super::{Ledger, Store, parts};
use crate::disk::RealDisk;
use crate::error::{Cancelled, Context, Result, usage};
use crate::keyfile;
use evertally::noise::SecretKey;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where the ledger of a key is.
pub fn ledger_path(key_path: &Path) -> PathBuf {
    let mut path = key_path.as_os_str().to_owned();
    path.push(".ledger");
    path.into()
}

/// Makes a key file and its empty ledger.
///
/// # Errors
/// If there is a file, or it cannot be written.
pub fn new_key(path: &Path) -> Result<SecretKey> {
    let key = SecretKey::generate()?;
    Ledger::in_memory(&key).save(path, &key)?;
    Ok(key)
}

/// Makes a key where there is none, if `wanted`.
///
/// # Errors
/// As [`new_key`].
pub fn new_key_if_absent(path: &Path, wanted: bool) -> Result<Option<NewKey>> {
    if !wanted || path.exists() {
        return Ok(None);
    }
    new_key(path)?;
    Ok(Some(NewKey(Some(path.to_owned()))))
}

/// A key that a run has made, and takes away again unless it publishes something.
#[must_use]
pub struct NewKey(Option<PathBuf>);

impl NewKey {
    /// The key has been used: it stays.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewKey {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
            let _ = std::fs::remove_file(ledger_path(path));
        }
    }
}

/// A store beside a key's file, which is locked against other runs while this value lives.
pub struct FileStore {
    ledger: PathBuf,
    key: PathBuf,
    /// Taken away again, while the lock is still held, unless something is recorded.
    new_key: Option<NewKey>,
    _lock: File,
}

impl FileStore {
    /// Opens the ledger beside a key file. Where another run holds the key, `waiting` is told so once, and this waits
    /// for it until `cancelled`. A key that this run has made goes with it.
    ///
    /// # Errors
    /// If there is no such file, it cannot be locked or holds another key by now, and after cancellation.
    pub fn open(
        key_path: &Path,
        key: &SecretKey,
        new_key: Option<NewKey>,
        cancelled: &AtomicBool,
        waiting: &mut dyn FnMut(&Path),
    ) -> Result<Self> {
        // One key, one ledger: links to the key lead to the same place.
        let key_path = std::fs::canonicalize(key_path).context(format_args!("cannot find {}", key_path.display()))?;
        let lock = lock(&key_path, cancelled, waiting)?;
        // While this run waited for the lock, another may have taken its new key away.
        if keyfile::read(&key_path)?.id() != key.id() {
            return Err(usage(format!("the key file {} was replaced; run again", key_path.display())));
        }
        Ok(Self { ledger: ledger_path(&key_path), key: key_path, new_key, _lock: lock })
    }
}

impl Store for FileStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>> {
        let shown = self.ledger.display();
        let text = std::fs::read_to_string(&self.ledger).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => usage(format!(
                "the key {} has no ledger {shown} beside it, which says what was published with it; put it back. If it is \
                 lost, make a new key: the old one could repeat its noise over other data",
                self.key.display()
            )),
            _ => usage(format!("the ledger {shown} cannot be read: {e}")),
        })?;
        Ok(Some(text.into_bytes()))
    }

    fn commit(&mut self, contents: &[u8]) -> Result<()> {
        replace(&self.ledger, contents)?;
        if let Some(key) = self.new_key.take() {
            key.keep();
        }
        Ok(())
    }

    fn name(&self) -> String {
        self.ledger.display().to_string()
    }

    fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        parts::get(&RealDisk, &parts::folder(&self.ledger), name)
    }

    fn put_part(&mut self, name: &str, contents: &mut dyn Read) -> Result<()> {
        parts::put(&RealDisk, &parts::folder(&self.ledger), name, contents)
    }

    fn keep_parts(&mut self, names: &[String]) {
        parts::keep(&RealDisk, &parts::folder(&self.ledger), names);
    }
}

/// Writes a key to a new file, and its ledger beside it.
pub(super) fn save(path: &Path, key: &SecretKey, contents: &[u8]) -> Result<()> {
    let ledger = ledger_path(path);
    if ledger.exists() {
        return Err(usage(format!(
            "{} exists already; it belongs to a key that was here: restore that key, or give another name",
            ledger.display()
        )));
    }
    keyfile::write(path, key)?;
    if let Err(error) = replace(&ledger, contents) {
        let _ = std::fs::remove_file(path); // a key without its ledger is of no use
        return Err(error).context(format_args!("cannot write the ledger {}", ledger.display()));
    }
    Ok(())
}

/// Locks the key file; says so if that takes a while.
fn lock(key_path: &Path, cancelled: &AtomicBool, waiting: &mut dyn FnMut(&Path)) -> Result<File> {
    let shown = key_path.display();
    let file = File::open(key_path).context(format_args!("cannot open {shown}"))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(e).context(format_args!("cannot lock {shown}")),
        }
        if !std::mem::replace(&mut told, true) {
            waiting(key_path);
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(Cancelled.into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Replaces a file, durably: the new bytes are on disk before they get the name, and the name before this returns.
fn replace(path: &Path, contents: &[u8]) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(std::io::Error::from)?;
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}
