//! Reads a database that another process writes, or will write: nothing of its file changes.

use super::{KEY, STREAMS, Store, StreamRecord, WITNESSED, from_bytes, stored};
use evertally_declare::error::{Context, Result};
use redb::{ReadableTable, StorageBackend};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file whose changes stay in memory. Opening a database writes to it.
#[derive(Debug)]
struct UnchangedFile(Mutex<OverlaidPages>);

#[derive(Debug)]
struct OverlaidPages {
    file: File,
    /// The bytes of the file that are still valid.
    in_file: u64,
    len: u64,
    /// Writes, by their offsets. They do not overlap partly: databases write whole pages.
    written: BTreeMap<u64, Vec<u8>>,
}

impl UnchangedFile {
    fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self(Mutex::new(OverlaidPages { file, in_file: len, len, written: BTreeMap::new() })))
    }

    fn pages(&self) -> MutexGuard<'_, OverlaidPages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageBackend for UnchangedFile {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.pages().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let mut pages = self.pages();
        let end = offset + out.len() as u64;
        if end > pages.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let from_file = pages.in_file.saturating_sub(offset).min(out.len() as u64);
        let (old, new) = out.split_at_mut(usize::try_from(from_file).map_err(io::Error::other)?);
        if !old.is_empty() {
            pages.file.seek(SeekFrom::Start(offset))?;
            pages.file.read_exact(old)?;
        }
        new.fill(0);
        for (at, bytes) in pages.written.range(..end) {
            let (from, to) = (offset.max(*at), end.min(at + bytes.len() as u64));
            if from < to {
                let place = |position: u64, start: u64| (position - start) as usize; // within a slice
                out[place(from, offset)..place(to, offset)].copy_from_slice(&bytes[place(from, *at)..place(to, *at)]);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        let mut pages = self.pages();
        pages.len = len;
        pages.in_file = pages.in_file.min(len);
        pages.written.retain(|at, bytes| at + bytes.len() as u64 <= len);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.pages().write(offset, data);
        Ok(())
    }
}

impl OverlaidPages {
    /// A later write hides earlier ones: a partly covered one is divided.
    fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        let touched: Vec<u64> = self.written.range(..end).map(|(at, _)| *at).collect();
        for at in touched {
            let is_touched = self.written.get(&at).is_some_and(|bytes| at + bytes.len() as u64 > offset);
            let Some(mut bytes) = is_touched.then(|| self.written.remove(&at)).flatten() else { continue };
            let own_end = at + bytes.len() as u64;
            if own_end > end {
                self.written.insert(end, bytes.split_off((end - at) as usize)); // within the slice
            }
            if at < offset {
                bytes.truncate((offset - at) as usize);
                self.written.insert(at, bytes);
            }
        }
        self.written.insert(offset, data.to_vec());
        self.len = self.len.max(end);
    }
}

/// The streams of a folder.
#[derive(Default)]
pub(crate) struct FolderStreams {
    /// Their records.
    pub(crate) records: Vec<StreamRecord>,
    /// The public name of the key with which the folder was begun.
    pub(crate) key_id: Option<String>,
    /// The database itself; `None` if there is none yet.
    pub(crate) store: Option<KnownStore>,
}

/// Facts about a database.
pub(crate) struct KnownStore {
    /// The identity of the folder.
    pub(crate) identity: String,
    /// The name under which this copy of the folder may publish.
    pub(crate) primary: String,
    /// Whether it has a witness.
    pub(crate) has_witnessed: bool,
    /// The public name of a key that was about to be created for it.
    pub(crate) making: Option<String>,
}

impl FolderStreams {
    /// The streams in the database of a folder that no process has open; `None` if one has.
    ///
    /// # Errors
    /// If it cannot be read, or another version has written it.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        let file = File::open(path).context(format_args!("cannot read {}", path.display()))?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        Self::of_file(file, path).map(Some)
    }

    /// The same for a file that nobody writes meanwhile.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn of_copy(path: &Path) -> Result<Self> {
        Self::of_file(File::open(path).context(format_args!("cannot read {}", path.display()))?, path)
    }

    fn of_file(file: File, path: &Path) -> Result<Self> {
        let store = UnchangedFile::new(file).map_err(Into::into).and_then(Store::on);
        let store = store.context(format_args!("cannot read {}", path.display()))?;
        let key_id = store.noted(KEY)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let streams = store.look()?.open_table(STREAMS).map_err(stored)?;
        let mut records = Vec::new();
        for entry in streams.iter().map_err(stored)? {
            let (_, bytes) = entry.map_err(stored)?;
            records.push(from_bytes(bytes.value(), "a stream record")?);
        }
        let has_witnessed = store.noted(WITNESSED)?.is_some();
        let (identity, primary, making) = (store.identity()?, store.primary()?, store.making()?);
        Ok(Self { records, key_id, store: Some(KnownStore { identity, primary, has_witnessed, making }) })
    }

    /// The stream with a name.
    pub(crate) fn find(&self, name: &str) -> Option<&StreamRecord> {
        self.records.iter().find(|record| record.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_read_and_its_file_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.redb");
        let store = Store::open(&path).unwrap();
        store.begin_with("abc").unwrap();
        assert!(FolderStreams::read(&path).unwrap().is_none(), "it is open");
        // As that of a follower: never closed.
        let copy = folder.path().join("copy.redb");
        std::fs::copy(&path, &copy).unwrap();
        drop(store);
        for path in [&path, &copy] {
            let before = std::fs::read(path).unwrap();
            let streams = FolderStreams::read(path).unwrap().expect("it is closed");
            assert_eq!((streams.records.len(), streams.key_id.as_deref()), (0, Some("abc")));
            assert!(std::fs::read(path).unwrap() == before);
        }
        std::fs::write(&path, "redb").unwrap();
        assert!(FolderStreams::read(&path).is_err());
    }

    #[test]
    fn the_last_write_is_read() {
        let file = tempfile::tempfile().unwrap();
        let pages = UnchangedFile::new(file).unwrap();
        pages.set_len(12).unwrap();
        for (offset, data) in [(0, "aaaaaaaa"), (2, "bb"), (6, "cccc"), (8, "d")] {
            pages.write(offset, data.as_bytes()).unwrap();
        }
        let mut out = [1; 12];
        pages.read(0, &mut out).unwrap();
        assert_eq!(&out, b"aabbaaccdc\0\0");
        assert!(pages.read(4, &mut out).is_err());
    }
}
