//! The folder of a service, as files.

#![expect(clippy::disallowed_methods, reason = "makes the folder of the service")]

use evertally_declare::error::{Context, Result};
use evertally_ledger::disk::folder_of;
use evertally_ledger::platform;
use std::path::{Path, PathBuf};

/// Creates a folder, if it does not exist, that nobody else can read.
///
/// # Errors
/// If it cannot be created, or on a [system](platform) where records are not protected.
pub fn make_folder(folder: &Path) -> Result<()> {
    platform::check()?;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).context(format_args!("cannot create the folder {}", folder.display()))
}

/// Whether others than its owner can read a folder.
#[cfg(unix)]
pub(crate) fn is_open_to_others(folder: &Path) -> bool {
    std::fs::metadata(folder)
        .is_ok_and(|meta| std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o077 != 0)
}

/// Whether others than its owner can read a folder: unknown on this system.
#[cfg(not(unix))]
pub(crate) fn is_open_to_others(_: &Path) -> bool {
    false
}

/// The database in a folder.
pub fn store_path(folder: &Path) -> PathBuf {
    folder.join("store.redb")
}

/// The size of the database.
pub(crate) fn store_bytes(folder: &Path) -> u64 {
    std::fs::metadata(store_path(folder)).map_or(0, |meta| meta.len())
}

/// The free space on the disk of the folder; `None` if the system does not report it.
#[cfg(unix)]
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

/// The free space on the disk of the folder; `None` if the system does not report it.
#[cfg(not(unix))]
pub(crate) fn free_bytes(_: &Path) -> Option<u64> {
    None
}

/// Gives a file to the owner of its folder: the service must be able to read files written by an administrator.
#[cfg(unix)]
pub(crate) fn chown_to_folder_owner(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, chown};
    let (folder, file) = (std::fs::metadata(folder_of(path))?, std::fs::metadata(path)?);
    if file.uid() == folder.uid() { Ok(()) } else { chown(path, Some(folder.uid()), Some(folder.gid())) }
}

#[cfg(not(unix))]
pub(crate) fn chown_to_folder_owner(_: &Path) -> std::io::Result<()> {
    Ok(())
}
