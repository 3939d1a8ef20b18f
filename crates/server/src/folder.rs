//! The folder of a service, as files.

use std::path::{Path, PathBuf};

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
