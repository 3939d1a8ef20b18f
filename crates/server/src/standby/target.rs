//! Where segments are shipped to.

#![expect(clippy::disallowed_methods, reason = "removes old segments")]

use crate::folder::make_folder;
use evertally_declare::error::{Context, Result, usage};
use evertally_ledger::disk::{Access, Disk, RealDisk, folder_of, replace};
use evertally_tables::input::{ObjectFolder, is_object};
use std::io::{Cursor, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A place with named files that two machines reach. Names have parts, separated by `/`.
pub trait Target: Send {
    /// Writes a file, durably and atomically, replacing an existing one.
    ///
    /// # Errors
    /// If it cannot be written.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Writes a file that never changes, durably and atomically. Returns whether it has these bytes now: an earlier
    /// attempt may have written them, but no file with other bytes is replaced, even if two machines write at once.
    ///
    /// # Errors
    /// If it cannot be written.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool>;

    /// Reads a file; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, or the place cannot be reached.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// The names of the files and folders directly in a folder, sorted; `""` is the place itself.
    ///
    /// # Errors
    /// If the place cannot be reached.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Removes a file, or a folder with its files.
    ///
    /// # Errors
    /// If it exists and cannot be removed.
    fn remove(&self, name: &str) -> Result<()>;

    /// How messages name it.
    fn place(&self) -> String;
}

/// The target with this path or URL. A store is not asked before it is used.
///
/// # Errors
/// If the URL is invalid, or the variables of the environment for its store are.
pub fn target_from(place: &Path) -> Result<Box<dyn Target>> {
    if !is_object(place) {
        return Ok(Box::new(FolderTarget::new(place)));
    }
    let shown = place.display().to_string();
    let folder = ObjectFolder::new(place).map_err(|error| usage(format!("{shown}: {error}")))?;
    Ok(Box::new(ObjectTarget { folder, shown }))
}

/// A folder, on a disk that both machines have mounted.
pub struct FolderTarget(PathBuf);

impl FolderTarget {
    /// The target in this folder, which must exist: a disk that is not mounted is not an empty target.
    pub fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    fn check(&self) -> Result<()> {
        if self.0.is_dir() {
            return Ok(());
        }
        Err(usage(format!("the standby folder {} does not exist; create it, or mount its disk", self.0.display())))
    }
}

impl Target for FolderTarget {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.check()?;
        let path = self.0.join(name);
        make_folder(folder_of(&path))?;
        replace(&RealDisk, &path, &Access::Private, &mut Cursor::new(bytes))
            .context(format_args!("cannot write {}", path.display()))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.check()?;
        let path = self.0.join(name);
        let folder = folder_of(&path);
        make_folder(folder)?;
        let write = || -> std::io::Result<bool> {
            let mut file = tempfile::Builder::new().prefix(".").suffix(".tmp").tempfile_in(folder)?;
            file.write_all(bytes)?;
            RealDisk.sync(file.path())?;
            match file.persist_noclobber(&path) {
                Ok(_) => RealDisk.sync_folder(folder).map(|()| true),
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(std::fs::read(&path)? == bytes),
                Err(error) => Err(error.error),
            }
        };
        write().context(format_args!("cannot write {}", path.display()))
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.check()?;
        let path = self.0.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(format_args!("cannot read {}", path.display())),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.check()?;
        let path = self.0.join(folder);
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).context(format_args!("cannot read {}", path.display())),
        };
        let mut names = Vec::new();
        for entry in entries {
            // Hidden files are unfinished ones.
            names.extend(entry?.file_name().into_string().ok().filter(|name| !name.starts_with('.')));
        }
        names.sort();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.0.join(name);
        let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).context(format_args!("cannot remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }

    fn place(&self) -> String {
        self.0.display().to_string()
    }
}

/// A folder of an object store, which both machines reach. A read that follows a write sees it: all stores promise that
/// today.
struct ObjectTarget {
    folder: ObjectFolder,
    shown: String,
}

impl ObjectTarget {
    fn done<T>(&self, result: std::io::Result<T>, what: &str, name: &str) -> Result<T> {
        result.context(format_args!("cannot {what} {}/{name}", self.shown.trim_end_matches('/')))
    }
}

impl Target for ObjectTarget {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.done(self.folder.put(name, bytes.to_vec()), "write", name)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        // In one request, so that nothing can come between a check and the write.
        if self.done(self.folder.create(name, bytes.to_vec()), "write", name)? {
            return Ok(true);
        }
        Ok(self.get(name)?.is_some_and(|existing| existing == bytes))
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.done(self.folder.get(name), "read", name)?.map(Vec::from))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.done(self.folder.list(folder), "list", folder)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.done(self.folder.remove_all(name), "remove", name)
    }

    fn place(&self) -> String {
        self.shown.clone()
    }
}
