//! A copy of the whole database, while it is in use.

#![expect(clippy::disallowed_methods, reason = "copies of the database, which writes its own files")]

use super::{
    BATCH_DAYS, BATCHES, CLOSED, DEAD_LETTERS, DELIVERED, EVENTS, FOLLOWS, IDS, LATE, LEDGER, META, NAMES, POSITIONS,
    RECOVERING, ROWS, SHOWN, STATES, STREAMS, Store, private, stored,
};
use evertally_declare::error::{Context, Result, failure, usage};
use evertally_ledger::disk::{Disk, RealDisk, folder_of, sibling};
use redb::ReadableTable;
use std::path::Path;

/// Entries of one commit of the copy.
const AT_ONCE: usize = 100_000;

impl Store {
    /// Writes a snapshot of the database to a new file. Writers do not wait meanwhile.
    ///
    /// # Errors
    /// If the file exists already, or cannot be written; then nothing of it remains.
    pub fn copy_to(&self, path: &Path) -> Result<()> {
        if !folder_of(path).is_dir() {
            let folder = folder_of(path).display();
            return Err(usage(format!("the backup folder {folder} does not exist; create it, or mount its disk")));
        }
        if path.exists() {
            return Err(usage(format!("{} exists already", path.display())));
        }
        let unfinished = sibling(path, "new");
        let copied = self.copy_all(&unfinished);
        if copied.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        copied.context(format_args!("cannot write the backup {}", path.display()))?;
        std::fs::rename(&unfinished, path)?;
        Ok(RealDisk.sync_folder(folder_of(path))?)
    }

    fn copy_all(&self, path: &Path) -> Result<()> {
        let _ = std::fs::remove_file(path);
        let read_txn = self.look()?;
        let copy = private(path)?;
        macro_rules! tables {
            ($($table:ident)*) => { $({
                let from = read_txn.open_table($table).map_err(stored)?;
                let mut entries = from.iter().map_err(stored)?;
                let mut is_over = false;
                while !is_over {
                    let writing = copy.begin_write().map_err(failure)?;
                    let mut to = writing.open_table($table).map_err(stored)?;
                    is_over = true;
                    for entry in entries.by_ref().take(AT_ONCE) {
                        let (key, value) = entry.map_err(stored)?;
                        to.insert(key.value(), value.value()).map_err(stored)?;
                        is_over = false;
                    }
                    drop(to);
                    writing.commit().map_err(failure)?;
                }
            })* };
        }
        tables!(META);
        with_tables!(tables);
        Ok(())
    }
}
