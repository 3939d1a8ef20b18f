//! The audit log: who changed what, when and from where.
//!
//! A file of JSON lines in the folder of the service, which nobody else may read. It has no data, no declaration and no
//! secret. Requests without a valid token are not in it, so that strangers cannot fill the disk.

use crate::folder::chown_to_folder_owner;
use evertally_declare::error::{Context, Result, failure};
use evertally_ledger::disk::{Access, Disk, RealDisk, append_durably, replace};
use evertally_ledger::lock::NameLock;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use utoipa::ToSchema;

/// An action, as it is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// When it ended, in UTC.
    pub time: String,
    /// The action, such as `close` or `make-token`.
    pub action: String,
    /// Its subject: a stream, the role of a token, and the like.
    pub subject: String,
    /// `done`, or why it was refused in one word.
    pub outcome: String,
    /// The id of the token that asked for it; `null` for a certificate, the service itself and the command line.
    pub token: Option<String>,
    /// The owner of the token, `oidc` and the name in a token of an issuer, `certificate` and its name, `command line`,
    /// or `service`.
    pub by: String,
    /// The address of the request.
    pub address: Option<String>,
}

impl AuditEntry {
    /// An action of the service itself or of the command line, which was done.
    pub fn done(by: &str, action: &str, subject: &str) -> Self {
        Self {
            time: Timestamp::now().to_string(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            outcome: "done".to_owned(),
            token: None,
            by: by.to_owned(),
            address: None,
        }
    }
}

/// The audit log of a folder.
pub struct AuditLog {
    path: PathBuf,
}

impl AuditLog {
    /// The log of a folder.
    pub fn from_folder(folder: &Path) -> Self {
        Self { path: folder.join("audit.jsonl") }
    }

    /// Adds an entry, durably.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&self, entry: &AuditEntry) -> Result<()> {
        let line = serde_json::to_string(entry).map_err(failure)? + "\n";
        let write = || -> Result<()> {
            let _lock = NameLock::soon(&self.path)?;
            match RealDisk.len(&self.path)? {
                None => {
                    replace(&RealDisk, &self.path, &Access::Private, &mut Cursor::new(line))?;
                    chown_to_folder_owner(&self.path)?; // an administrator may be the first to write
                }
                Some(len) => append_durably(&RealDisk, &self.path, len, &mut Cursor::new(line))?,
            }
            Ok(())
        };
        write().context(format_args!("cannot write {}", self.path.display()))
    }

    /// Adds an entry. The action has happened already: if the entry cannot be written, it goes to the log.
    pub fn record(&self, entry: &AuditEntry) {
        if let Err(error) = self.add(entry) {
            let AuditEntry { action, subject, outcome, by, .. } = entry;
            tracing::error!(%error, action, subject, outcome, by, "cannot write the audit log");
        }
    }

    /// The last entries, the newest last.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn last(&self, most: usize) -> Result<Vec<AuditEntry>> {
        /// About the bytes of an entry, to read no more of the file than needed.
        const ENTRY_BYTES: u64 = 1024;
        let len = RealDisk.len(&self.path)?.unwrap_or(0);
        let offset = len.saturating_sub(ENTRY_BYTES.saturating_mul(most as u64 + 1));
        let bytes = RealDisk.read_behind(&self.path, offset)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        // A line that begins before the offset is incomplete.
        let lines: Vec<&str> = text.lines().skip(usize::from(offset > 0)).collect();
        let lines = &lines[lines.len().saturating_sub(most)..];
        Ok(lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let log = AuditLog::from_folder(folder.path());
        assert_eq!(log.last(10).unwrap(), []);
        let entry = |number: usize| AuditEntry::done("service", "start", &format!("{number} {}", "x".repeat(300)));
        let entries: Vec<AuditEntry> = (0..50).map(entry).collect();
        entries.iter().for_each(|entry| log.add(entry).unwrap());
        assert_eq!(log.last(3).unwrap(), entries[47..]);
        assert_eq!(log.last(1000).unwrap(), entries);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(folder.path().join("audit.jsonl")).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0);
        }
    }
}
