//! The folder of a service, as files.

use evertally_declare::error::{Context, Result};
use std::path::{Path, PathBuf};

/// Makes a folder, if it is not there: for nobody else to look into.
///
/// # Errors
/// If it cannot be made.
pub fn make_folder(folder: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).context(format_args!("cannot make the folder {}", folder.display()))
}

/// Whether somebody but its owner can look into a folder.
#[cfg(unix)]
pub(crate) fn is_open_to_others(folder: &Path) -> bool {
    std::fs::metadata(folder)
        .is_ok_and(|meta| std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o077 != 0)
}

/// Whether somebody but its owner can look into a folder: the system does not say.
#[cfg(not(unix))]
pub(crate) fn is_open_to_others(_: &Path) -> bool {
    false
}

/// The database in a folder.
pub fn store_path(folder: &Path) -> PathBuf {
    folder.join("store.redb")
}

/// How large the database is.
pub(crate) fn store_bytes(folder: &Path) -> u64 {
    std::fs::metadata(store_path(folder)).map_or(0, |meta| meta.len())
}

/// How much room there is beside it; `None` where the system does not say.
#[cfg(unix)]
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

/// How much room there is beside it; `None` where the system does not say.
#[cfg(not(unix))]
pub(crate) fn free_bytes(_: &Path) -> Option<u64> {
    None
}
