//! A copy of the database that segments are applied to.

use super::segment::Segment;
use super::target::Target;
use evertally_declare::error::{Result, usage};
use redb::StorageBackend;
use serde::{Deserialize, Serialize};

/// How far a copy is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The identity of the service's folder, once known.
    pub folder: String,
    /// The name of the chain.
    pub epoch: String,
    /// The number of the last segment.
    pub number: u64,
    /// Its digest.
    pub digest: [u8; 32],
    /// When its changes were read, in microseconds since 1970.
    pub at: i64,
    /// Whether the copy is a whole database.
    pub is_whole: bool,
}

impl Applied {
    /// Nothing of a chain.
    pub fn new(epoch: &str) -> Self {
        Self {
            folder: String::new(),
            epoch: epoch.to_owned(),
            number: 0,
            digest: [0; 32],
            at: i64::MIN,
            is_whole: false,
        }
    }
}

/// A copy and its state.
pub struct Replica<B> {
    /// The copy.
    pub storage: B,
    /// How far it is.
    pub applied: Applied,
}

impl<B: StorageBackend> Replica<B> {
    /// A copy in a storage, which is empty if nothing was applied.
    pub fn new(storage: B, applied: Applied) -> Self {
        Self { storage, applied }
    }

    /// Applies the next segment, durably, unless it was shipped after `until`; returns the other files with it, or
    /// `None` if there is no such segment, or it ends the chain. After an error or a crash, the segment is applied
    /// again.
    ///
    /// # Errors
    /// If the segment cannot be read, is damaged or of another chain, or the copy cannot be written.
    pub fn apply_next(&mut self, target: &dyn Target, until: i64) -> Result<Option<Vec<(String, Vec<u8>)>>> {
        let number = self.applied.number + 1;
        let name = Segment::name_of(&self.applied.epoch, number);
        let Some(bytes) = target.get(&name)? else { return Ok(None) };
        let (head, body, digest) = Segment::unseal(&bytes, &name)?;
        if head.at > until {
            return Ok(None);
        }
        let is_next = head.epoch == self.applied.epoch && head.number == number && head.previous == self.applied.digest;
        if !is_next || (number > 1 && head.folder != self.applied.folder) {
            return Err(usage(format!("the segment {name} does not continue the ones before it")));
        }
        if head.ended_by.is_some() {
            return Ok(None);
        }
        head.apply(&body, &self.storage)?;
        self.storage.sync_data()?;
        let Segment { folder, epoch, at, is_whole, files, .. } = head;
        self.applied = Applied { folder, epoch, number, digest, at, is_whole };
        Ok(Some(files))
    }
}
