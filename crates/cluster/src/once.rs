//! Places in which a name gets its bytes once.

use evertally_declare::error::{Context, Error, Result, failure};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A place that several drivers may write to, of which perhaps each takes the other for dead: a shared folder, or a store of
/// objects.
///
/// All rests on [`create`](Self::create): of all who create one name, one succeeds, at once and for ever, and the others
/// see its bytes, whole.
pub trait Once: Send {
    /// Gives a name its bytes, durably, unless it has some; then those are returned, and stay.
    ///
    /// # Errors
    /// If the place cannot be written or read.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The bytes of a name.
    ///
    /// # Errors
    /// If the place cannot be read.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Gives a name other bytes, all or nothing: for what may be made again.
    ///
    /// # Errors
    /// If the place cannot be written.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Forgets a name that [`replace`](Self::replace) wrote; that it stays is no error.
    fn forget(&self, name: &str);

    /// How messages name the place.
    fn shown(&self) -> String;
}

/// A folder, local or shared, on a file system with hard links.
pub struct OnceFolder {
    folder: PathBuf,
}

impl OnceFolder {
    /// A folder, which is made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).context(format_args!("cannot make the folder {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The bytes in a file of their own, on disk. (`disk::replace` is for one writer, who holds a lock; here are several.)
    fn written(&self, name: &str, bytes: &[u8]) -> Result<tempfile::TempPath> {
        let path = self.path(name);
        let parent = path.parent().unwrap_or(&self.folder);
        std::fs::create_dir_all(parent)?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(parent)?; // only its owner may read it
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(file.into_temp_path())
    }

    fn sync(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.folder)) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    fn unwritable(&self, error: impl Into<Error>) -> Error {
        error.into().context(format_args!("cannot write the ledger {}", self.shown()))
    }
}

impl Once for OnceFolder {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(there) = self.read(name)? {
            return Ok(Some(there));
        }
        let written = self.written(name, bytes).map_err(|error| self.unwritable(error))?;
        // Whole when it appears, and never in the place of another: what no rename promises.
        match std::fs::hard_link(&written, self.path(name)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(self.unwritable(error)),
        }
        self.sync(name).map_err(|error| self.unwritable(error))?;
        let there = self.read(name)?.ok_or_else(|| failure("what was just written is gone"))?;
        Ok((there != bytes).then_some(there))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match std::fs::read(self.path(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::from(error).context(format_args!("cannot read the ledger {}", self.shown()))),
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
        let once = OnceFolder::open(&folder.path().join("a/b")).unwrap();
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
                        let once = OnceFolder::open(folder).unwrap();
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
