//! The few things that are done to files that must survive a crash.
//!
//! Ledgers, states and outputs go through a [`Disk`], so that tests can stop, tear and reorder at every one of these
//! calls. [`RealDisk`] is the file system. Nothing is promised of a call by itself: what [`create`](Disk::create) and
//! [`append`](Disk::append) wrote is on disk after [`sync`](Disk::sync), and what a name stands for after
//! [`sync_folder`](Disk::sync_folder). [`replace`] and [`append_durably`] put them together.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Who may read a new file.
#[derive(Clone, Debug)]
pub enum Access {
    /// The user alone.
    Private,
    /// As the user's mask says.
    Usual,
    /// As another file.
    As(Permissions),
}

/// A file system, as far as ledgers, states and outputs need it.
pub trait Disk: Send + Sync {
    /// The whole content of a file; `None` where there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;

    /// The content of a file behind its first `offset` bytes; `None` where there is none.
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

    /// The length of a file in bytes; `None` where there is none.
    ///
    /// # Errors
    /// If it cannot be asked for.
    fn len(&self, path: &Path) -> io::Result<Option<u64>>;

    /// The files in a folder, in no order; none where there is no such folder.
    ///
    /// # Errors
    /// If it cannot be read.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Makes a folder, and those above it, where there is none; new ones are the user's alone.
    ///
    /// # Errors
    /// If it cannot be made.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Writes a new file.
    ///
    /// # Errors
    /// If there is one, or it cannot be written; then there may be a part of it.
    fn create(&self, path: &Path, access: &Access, contents: &mut dyn Read) -> io::Result<()>;

    /// Writes behind the end of a file that is there.
    ///
    /// # Errors
    /// If there is none, or it cannot be written; then there may be a part of it.
    fn append(&self, path: &Path, contents: &mut dyn Read) -> io::Result<()>;

    /// Cuts a file off after so many bytes.
    ///
    /// # Errors
    /// If there is none, or it cannot be written.
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()>;

    /// Brings what a file holds to disk.
    ///
    /// # Errors
    /// If it cannot be.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name in the same folder, in the place of a file that has it.
    ///
    /// # Errors
    /// If it cannot be.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// If there is none, or it cannot be removed.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Brings the names in a folder to disk, where the system can.
    ///
    /// # Errors
    /// If it cannot be.
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
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
    }
}

/// Replaces a file, durably and as a whole: the new bytes are on disk before they get the name, and the name before
/// this returns.
///
/// # Errors
/// If a step fails; before the name was given, the file is as it was.
pub fn replace(disk: &dyn Disk, path: &Path, access: &Access, contents: &mut dyn Read) -> io::Result<()> {
    let temporary = beside(path, "tmp");
    // Of a run that was cut off; nobody else writes here, since whoever replaces holds the lock.
    if disk.len(&temporary)?.is_some() {
        disk.remove(&temporary)?;
    }
    let written = disk
        .create(&temporary, access, contents)
        .and_then(|()| disk.sync(&temporary))
        .and_then(|()| disk.rename(&temporary, path));
    if let Err(error) = written {
        let _ = disk.remove(&temporary); // the error that matters is already there
        return Err(error);
    }
    disk.sync_folder(folder_of(path))
}

/// Writes behind the first `len` bytes of a file, durably. Whatever stood behind them, of a run that was cut off, goes.
///
/// # Errors
/// If the file is shorter, or a step fails.
pub fn append_durably(disk: &dyn Disk, path: &Path, len: u64, contents: &mut dyn Read) -> io::Result<()> {
    match disk.len(path)? {
        Some(is) if is > len => disk.truncate(path, len)?,
        Some(is) if is == len => {}
        _ => return Err(io::Error::new(io::ErrorKind::NotFound, "it is shorter than it was")),
    }
    disk.append(path, contents)?;
    disk.sync(path)
}

/// A hidden file beside another: `.NAME.ENDING`.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// The folder a file is in.
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
        // A run that was cut off leaves its temporary file; the next takes it away.
        std::fs::write(beside(&path, "tmp"), "torn").unwrap();
        replace(&RealDisk, &path, &Access::Private, &mut &b"three"[..]).unwrap();
        assert_eq!(RealDisk.list(folder.path()).unwrap(), [path.clone()]);
        append_durably(&RealDisk, &path, 3, &mut &b"oat"[..]).unwrap();
        assert_eq!(RealDisk.read(&path).unwrap().unwrap(), b"throat");
        assert!(append_durably(&RealDisk, &path, 7, &mut &b"!"[..]).is_err());
        assert_eq!(RealDisk.read(&folder.path().join("none")).unwrap(), None);
    }
}
