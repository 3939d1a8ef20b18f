//! Parts of a ledger that are files in a folder of their own, readable by the user alone.

use crate::disk::{Access, Disk, folder_of, replace};
use evertally_declare::error::{Context, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The folder of parts beside a ledger: `my.key.state` beside `my.key.ledger`.
pub(super) fn folder(ledger: &Path) -> PathBuf {
    ledger.with_extension("state")
}

/// Writes a part, durably, name and all.
pub(super) fn put(disk: &dyn Disk, folder: &Path, name: &str, contents: &mut dyn Read) -> Result<()> {
    let path = folder.join(name);
    disk.create_folder(folder)
        .and_then(|()| disk.sync_folder(folder_of(folder)))
        .and_then(|()| replace(disk, &path, &Access::Private, contents))
        .context(format_args!("cannot write {}", path.display()))
}

/// Reads a part; `None` where there is none.
pub(super) fn get(disk: &dyn Disk, folder: &Path, name: &str) -> Result<Option<Vec<u8>>> {
    let path = folder.join(name);
    disk.read(&path).context(format_args!("cannot read {}", path.display()))
}

/// Removes all parts but some. What cannot be removed stays until the next time.
pub(super) fn keep(disk: &dyn Disk, folder: &Path, names: &[String]) {
    for path in disk.list(folder).unwrap_or_default() {
        let is_kept = path.file_name().is_some_and(|file| names.iter().any(|name| file == name.as_str()));
        if !is_kept {
            let _ = disk.remove(&path);
        }
    }
}
