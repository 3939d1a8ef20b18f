//! Stores in which each name is written only once.

#![expect(clippy::disallowed_methods, reason = "creates complete files atomically, by hard links")]

use evertally_declare::error::{Context, PipelineError, Result, failure};
use evertally_ledger::disk::flush;
use evertally_ledger::platform;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A write-once store that several drivers may write to, perhaps because each takes the other for dead: a shared folder
/// or an object store.
///
/// Everything relies on [`create`](Self::create): of all processes that create one name, one succeeds, atomically and
/// permanently, and the others see its complete bytes.
pub trait Once: Send {
    /// Writes the bytes of a name durably, unless the name exists; then returns its bytes, which stay.
    ///
    /// # Errors
    /// If the store cannot be written or read.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Reads the bytes of a name.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Replaces the bytes of a name, all or nothing: for data that can be computed again.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Removes a name that [`replace`](Self::replace) wrote; failing to remove it is not an error.
    fn forget(&self, name: &str);

    /// The name of the store in messages.
    fn shown(&self) -> String;
}

/// A folder, local or shared, on a file system with hard links.
pub struct WriteOnceFolder {
    folder: PathBuf,
}

impl WriteOnceFolder {
    /// Opens a folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created, or on a [system](platform) where records are not protected.
    pub fn open(folder: &Path) -> Result<Self> {
        platform::check()?;
        std::fs::create_dir_all(folder).context(format_args!("cannot make the folder {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes the bytes to a separate file on disk. (`disk::replace` is for one writer, who holds a lock; here there
    /// may be several.)
    fn written(&self, name: &str, bytes: &[u8]) -> Result<tempfile::TempPath> {
        let path = self.path(name);
        let parent = path.parent().unwrap_or(&self.folder);
        std::fs::create_dir_all(parent)?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(parent)?; // only its owner may read it
        file.write_all(bytes)?;
        flush(file.as_file())?;
        Ok(file.into_temp_path())
    }

    fn sync(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.folder)) {
            flush(&File::open(folder)?)?;
        }
        Ok(())
    }

    fn unwritable(&self, error: impl Into<PipelineError>) -> PipelineError {
        error.into().context(format_args!("cannot write the ledger {}", self.shown()))
    }
}

impl Once for WriteOnceFolder {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(there) = self.read(name)? {
            return Ok(Some(there));
        }
        let written = self.written(name, bytes).map_err(|error| self.unwritable(error))?;
        // The file is complete when it appears and never replaces another; a rename does not promise that.
        match std::fs::hard_link(&written, self.path(name)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(self.unwritable(error)),
        }
        self.sync(name).map_err(|error| self.unwritable(error))?;
        let there = self.read(name)?.ok_or_else(|| failure("the file that was just written is gone"))?;
        Ok((there != bytes).then_some(there))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match std::fs::read(self.path(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(PipelineError::from(error).context(format_args!("cannot read the ledger {}", self.shown())))
            }
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let replaced = || -> Result<()> {
            let written = self.written(name, bytes)?;
            written.persist(self.path(name)).map_err(|error| error.error)?;
            self.sync(name)
        };
        replaced().map_err(|error| self.unwritable(error))
    }

    fn forget(&self, name: &str) {
        let _ = std::fs::remove_file(self.path(name));
    }

    fn shown(&self) -> String {
        self.folder.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gets_its_bytes_once() {
        let folder = tempfile::tempdir().unwrap();
        let once = WriteOnceFolder::open(&folder.path().join("a/b")).unwrap();
        assert_eq!(once.create("steps/1", b"one").unwrap(), None);
        assert_eq!(once.create("steps/1", b"one").unwrap(), Some(b"one".to_vec()));
        assert_eq!(once.create("steps/1", b"two").unwrap(), Some(b"one".to_vec()));
        assert_eq!(once.read("steps/2").unwrap(), None);
        once.replace("state", b"x").unwrap();
        once.replace("state", b"y").unwrap();
        assert_eq!(once.read("state").unwrap(), Some(b"y".to_vec()));
        once.forget("state");
        assert_eq!(once.read("state").unwrap(), None);
        let names: Vec<_> = std::fs::read_dir(folder.path().join("a/b/steps")).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left over");
    }

    #[test]
    fn of_many_who_create_one_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let barrier = std::sync::Barrier::new(8);
        for round in 0..20 {
            let name = format!("{round}");
            let created: Vec<Option<Vec<u8>>> = std::thread::scope(|scope| {
                let create = |number: u8| {
                    let (name, barrier, folder) = (&name, &barrier, folder.path());
                    scope.spawn(move || {
                        let once = WriteOnceFolder::open(folder).unwrap();
                        barrier.wait();
                        once.create(name, &[number; 4096]).unwrap()
                    })
                };
                let threads: Vec<_> = (0..8).map(create).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let there = std::fs::read(folder.path().join(&name)).unwrap();
            assert_eq!(created.iter().filter(|created| created.is_none()).count(), 1);
            assert!(created.iter().flatten().all(|seen| *seen == there) && there.len() == 4096);
        }
    }
}
