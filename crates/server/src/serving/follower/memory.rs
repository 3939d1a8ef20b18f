//! The memory of a follower: a file that a check of its health reads, too.

use crate::standby::Applied;
use crate::store::random_name;
use evertally_declare::error::{Context, Result, failure};
use evertally_ledger::disk::{Access, RealDisk, replace};
use evertally_ledger::lock::NameLock;
use serde::{Deserialize, Serialize};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// What a follower remembers across its restarts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FollowerMemory {
    /// Copies of the database: a whole one, and those of later chains that are not whole yet.
    pub(super) copies: Vec<Applied>,
    /// The name of this follower.
    pub(super) name: String,
    /// The name under which it has claimed, or is about to claim, the right to publish.
    pub(super) claim: Option<String>,
    /// The name of the primary that it has followed before.
    #[serde(default)]
    pub(super) followed: String,
    /// Whether all changes were applied after a claim: from then on the copy has its own changes.
    #[serde(default)]
    pub(super) is_complete: bool,
    /// Why it cannot follow, or could not take over.
    #[serde(default)]
    pub(super) problem: Option<String>,
}

impl FollowerMemory {
    /// The memory in a folder, and the lock that keeps other processes from following into it.
    ///
    /// # Errors
    /// If it cannot be read, or another process holds the lock.
    pub(super) fn open(folder: &Path) -> Result<(Self, NameLock)> {
        let file = file_in(folder);
        let lock = NameLock::now(&file)?;
        let mut memory = match std::fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(failure)?,
            Err(_) => Self { name: random_name()?, ..Self::default() },
        };
        memory.problem = None; // of the process before
        memory.write(folder)?;
        Ok((memory, lock))
    }

    /// Writes it, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let bytes = serde_json::to_vec(self).map_err(failure)?;
        replace(&RealDisk, &file_in(folder), &Access::Private, &mut Cursor::new(bytes))
            .context("cannot record how far this follower is")
    }
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join("memory.json")
}

/// The health of a follower that runs with the folder of a service; `None` if none runs there.
///
/// # Errors
/// If it cannot follow, or could not take over.
pub(crate) fn health_of(folder: &Path) -> Result<Option<String>> {
    let file = file_in(&folder.join("standby"));
    // A follower holds a lock.
    if !file.exists() || !NameLock::now(&file).is_err_and(|error| error.is_usage()) {
        return Ok(None);
    }
    let memory = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<FollowerMemory>(&bytes).ok());
    match memory.and_then(|memory| memory.problem) {
        Some(problem) => Err(failure(format!("the follower on this machine is not ready: {problem}"))),
        None => Ok(Some("this machine follows another one, and answers no requests until it takes over".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_that_could_not_take_over_is_not_healthy() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("standby");
        std::fs::create_dir(&own).unwrap();
        assert_eq!(health_of(folder.path()).unwrap(), None);
        let (mut memory, lock) = FollowerMemory::open(&own).unwrap();
        assert!(health_of(folder.path()).unwrap().unwrap().contains("follows another one"));
        memory.problem = Some("this machine could not take over: serve.key is missing".to_owned());
        memory.write(&own).unwrap();
        let problem = health_of(folder.path()).unwrap_err().to_string();
        assert!(problem.ends_with("is not ready: this machine could not take over: serve.key is missing"), "{problem}");
        // The next one begins without the problem of the one before.
        drop(lock);
        assert_eq!(health_of(folder.path()).unwrap(), None);
        let (again, _lock) = FollowerMemory::open(&own).unwrap();
        assert_eq!((again.name, again.problem), (memory.name, None));
        assert!(health_of(folder.path()).unwrap().is_some());
    }
}
