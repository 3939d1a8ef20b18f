//! The few operations on files that must survive a crash.
//!
//! Ledgers, states and outputs go through a [`Disk`], so that tests can stop, tear and reorder at every call.
//! [`RealDisk`] is the file system. A single call promises nothing: the bytes that [`create`](Disk::create) and
//! [`append`](Disk::append) wrote are durable after [`sync`](Disk::sync), and names are durable after
//! [`sync_folder`](Disk::sync_folder). [`replace`] and [`append_durably`] combine them.

#![expect(clippy::disallowed_methods, reason = "the module that writes files")]

use crate::platform;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Who may read a new file.
#[derive(Clone, Debug)]
pub enum Access {
    /// Only the user.
    Private,
    /// According to the user's umask.
    Usual,
    /// The same as for another file.
    As(Permissions),
}

/// The part of a file system that ledgers, states and outputs need.
pub trait Disk: Send + Sync {
    /// The whole content of a file; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;

    /// The content of a file after its first `offset` bytes; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read_behind(&self, path: &Path, offset: u64) -> io::Result<Option<Vec<u8>>> {
        let from = |bytes: Vec<u8>| {
            let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            bytes[offset..].to_vec()
        };
        Ok(self.read(path)?.map(from))
    }

    /// The length of a file in bytes; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    fn len(&self, path: &Path) -> io::Result<Option<u64>>;

    /// The files in a folder, in no particular order; empty if the folder does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Creates a folder and its parents if they do not exist; new folders are accessible to the user only.
    ///
    /// # Errors
    /// If it cannot be created.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Writes a new file.
    ///
    /// # Errors
    /// If the file exists, or cannot be written; a part of it may then remain.
    fn create(&self, path: &Path, access: &Access, contents: &mut dyn Read) -> io::Result<()>;

    /// Appends to an existing file.
    ///
    /// # Errors
    /// If the file does not exist, or cannot be written; a part may then remain.
    fn append(&self, path: &Path, contents: &mut dyn Read) -> io::Result<()>;

    /// Truncates a file to `len` bytes.
    ///
    /// # Errors
    /// If the file does not exist, or cannot be written.
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()>;

    /// Flushes the content of a file to disk.
    ///
    /// # Errors
    /// If that fails.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Renames a file within its folder, replacing any file of the new name.
    ///
    /// # Errors
    /// If that fails.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// If the file does not exist, or cannot be removed.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Flushes the names in a folder to disk, if the system supports it.
    ///
    /// # Errors
    /// If that fails.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        if_there(std::fs::read(path))
    }

    fn read_behind(&self, path: &Path, offset: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(mut file) = if_there(File::open(path))? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(offset))?;
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        if_there(std::fs::metadata(path).map(|meta| meta.len()))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = if_there(std::fs::read_dir(folder))?;
        entries.into_iter().flatten().map(|entry| Ok(entry?.path())).collect()
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)
    }

    fn create(&self, path: &Path, access: &Access, contents: &mut dyn Read) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if matches!(access, Access::Private) {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        let mut file = options.open(path)?;
        if let Access::As(permissions) = access {
            file.set_permissions(permissions.clone())?;
        }
        io::copy(contents, &mut file).map(drop)
    }

    fn append(&self, path: &Path, contents: &mut dyn Read) -> io::Result<()> {
        io::copy(contents, &mut OpenOptions::new().append(true).open(path)?).map(drop)
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.set_len(len)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        flush(&File::open(path)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if cfg!(unix) { flush(&File::open(folder)?) } else { Ok(()) }
    }
}

/// Replaces a file, durably and atomically: the new bytes are on disk before they get the name, and the name is on disk
/// before this returns.
///
/// # Errors
/// If a step fails; before the rename, the file is unchanged. On a [system](platform) where files are not protected.
pub fn replace(disk: &dyn Disk, path: &Path, access: &Access, contents: &mut dyn Read) -> io::Result<()> {
    if let Some(refusal) = platform::refusal() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, refusal));
    }
    let temporary = sibling(path, "tmp");
    // Left by an interrupted run. Nobody else writes here, because the caller holds the lock.
    if disk.len(&temporary)?.is_some() {
        disk.remove(&temporary)?;
    }
    let written = disk
        .create(&temporary, access, contents)
        .and_then(|()| disk.sync(&temporary))
        .and_then(|()| disk.rename(&temporary, path));
    if let Err(error) = written {
        let _ = disk.remove(&temporary); // the error that matters is the first one
        return Err(error);
    }
    disk.sync_folder(folder_of(path))
}

/// Writes after the first `len` bytes of a file, durably. Later bytes, left by an interrupted run, are removed.
///
/// # Errors
/// If the file is shorter than `len`, or a step fails.
pub fn append_durably(disk: &dyn Disk, path: &Path, len: u64, contents: &mut dyn Read) -> io::Result<()> {
    match disk.len(path)? {
        Some(is) if is > len => disk.truncate(path, len)?,
        Some(is) if is == len => {}
        _ => return Err(io::Error::new(io::ErrorKind::NotFound, "the file is shorter than it was")),
    }
    disk.append(path, contents)?;
    disk.sync(path)
}

/// Flushes an open file or folder to disk.
///
/// # Errors
/// If that fails.
pub fn flush(file: &File) -> io::Result<()> {
    file.sync_all().map_err(|error| explained(error, cfg!(target_vendor = "apple")))
}

/// Explains the refusal of `F_FULLFSYNC`, by which Apple's systems flush a file: network volumes and some external ones
/// do not support it (`EINVAL`, `ENOTTY`, `ENOTSUP`).
fn explained(error: io::Error, is_apple: bool) -> io::Error {
    if !is_apple || !matches!(error.raw_os_error(), Some(22 | 25 | 45)) {
        return error;
    }
    let problem = "this volume cannot flush files to its disk (F_FULLFSYNC): keep keys and records on a local volume";
    io::Error::new(error.kind(), format!("{problem} ({error})"))
}

/// An absolute path without links, so that one file always has one name. The file need not exist.
///
/// # Errors
/// If the path is empty, or relative and the working directory is unknown.
pub fn one_name_of(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let folder = std::fs::canonicalize(folder_of(&path));
    Ok(match (std::fs::canonicalize(&path), folder, path.file_name()) {
        (Ok(existing), _, _) => existing,
        (_, Ok(folder), Some(name)) => folder.join(name),
        _ => path,
    })
}

/// The hidden file `.NAME.ENDING` next to a file.
pub fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// The folder that contains a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_as_a_whole_and_appended_to_behind_what_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replace(&RealDisk, &path, &Access::Usual, &mut &b"one"[..]).unwrap();
        // An interrupted run leaves its temporary file; the next run removes it.
        std::fs::write(sibling(&path, "tmp"), "torn").unwrap();
        replace(&RealDisk, &path, &Access::Private, &mut &b"three"[..]).unwrap();
        assert_eq!(RealDisk.list(folder.path()).unwrap(), std::slice::from_ref(&path));
        append_durably(&RealDisk, &path, 3, &mut &b"oat"[..]).unwrap();
        assert_eq!(RealDisk.read(&path).unwrap().unwrap(), b"throat");
        assert!(append_durably(&RealDisk, &path, 7, &mut &b"!"[..]).is_err());
        assert_eq!(RealDisk.read(&folder.path().join("none")).unwrap(), None);
    }

    #[test]
    fn volumes_that_cannot_flush_are_named() {
        let shown = |code, is_apple| explained(io::Error::from_raw_os_error(code), is_apple).to_string();
        assert!(shown(45, true).contains("keep keys and records on a local volume"), "{}", shown(45, true));
        assert!(!shown(45, false).contains("volume") && !shown(5, true).contains("volume"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_keeps_its_name_when_it_is_created() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        RealDisk.create_folder(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let before = one_name_of(&link.join("a")).unwrap();
        std::fs::write(link.join("a"), "").unwrap();
        assert_eq!(before, one_name_of(&link.join("a")).unwrap());
        assert_eq!(before, real.canonicalize().unwrap().join("a"));
    }
}
