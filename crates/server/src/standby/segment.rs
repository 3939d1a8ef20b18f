//! Segments: the shipped files.
//!
//! A segment is a magic number, the length of its head, the head (postcard), the changed bytes (zstd), and the BLAKE3
//! digest of everything before. The head names the previous digest, so that segments cannot be mixed or left out.

use super::target::Target;
use crate::store::{Changes, from_bytes, to_bytes};
use evertally_declare::error::{Result, failure, usage};
use redb::StorageBackend;
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"EVTSEG1\n";
const DIGEST_BYTES: usize = 32;

/// The most bytes of a segment after decompression, for a reader that must not run out of memory.
const MAX_SEGMENT_BYTES: usize = 2 << 30;

/// Fast, and about as small as higher levels for pages of a database.
const LEVEL: i32 = 1;

/// The head of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The identity of the service's folder.
    pub folder: String,
    /// The name of the copy of the folder at the witness, if another machine has taken over before.
    pub primary: String,
    /// The name of the chain.
    pub epoch: String,
    /// Its number in the chain, from 1.
    pub number: u64,
    /// The digest of the segment before it.
    pub previous: [u8; 32],
    /// When its last change was read, in microseconds since 1970.
    pub at: i64,
    /// Whether the database is whole after it.
    pub is_whole: bool,
    /// The shortest length of the file on the way, if it changed.
    pub shortest: Option<u64>,
    /// The length of the file.
    pub len: u64,
    /// Offsets and lengths of the changes, in the order in which they are written.
    ranges: Vec<(u64, u32)>,
    /// Other files of the folder, by name.
    pub files: Vec<(String, Vec<u8>)>,
    /// The name of the copy that ends the chain, if this is its end.
    pub ended_by: Option<String>,
}

/// A segment and its digest.
pub(super) struct Sealed {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: [u8; 32],
}

impl Segment {
    /// A head without changes.
    pub(super) fn new(folder: &str, epoch: &str, number: u64, previous: [u8; 32], at: i64) -> Self {
        let (folder, epoch) = (folder.to_owned(), epoch.to_owned());
        let (shortest, ranges, files, ended_by) = (None, Vec::new(), Vec::new(), None);
        Self {
            folder,
            primary: String::new(),
            epoch,
            number,
            previous,
            at,
            is_whole: true,
            shortest,
            len: 0,
            ranges,
            files,
            ended_by,
        }
    }

    /// The name of its file.
    pub(super) fn name_of(epoch: &str, number: u64) -> String {
        format!("{epoch}/{number:012}.segment")
    }

    /// The segment as a file.
    pub(super) fn seal(mut self, changes: &Changes) -> Result<Sealed> {
        let mut body = Vec::new();
        for (offset, data) in changes.writes() {
            self.ranges.push((offset, u32::try_from(data.len()).map_err(failure)?));
            body.extend_from_slice(data);
        }
        self.shortest = changes.shortest;
        let head = to_bytes(&self)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend((head.len() as u32).to_le_bytes()); // fits: a head is a small part of a segment
        bytes.extend(head);
        bytes.extend(zstd::bulk::compress(&body, LEVEL)?);
        let digest = *blake3::hash(&bytes).as_bytes();
        bytes.extend(digest);
        Ok(Sealed { bytes, digest })
    }

    /// Reads a file: the head, the changed bytes, and the digest.
    pub(super) fn unseal(bytes: &[u8], name: &str) -> Result<(Self, Vec<u8>, [u8; 32])> {
        let damaged = || usage(format!("the segment {name} is damaged"));
        let (rest, digest) = bytes.split_last_chunk::<DIGEST_BYTES>().ok_or_else(damaged)?;
        if blake3::hash(rest).as_bytes() != digest {
            return Err(damaged());
        }
        let rest = rest.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
        let (head, body) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or_else(damaged)?;
        let head: Self = from_bytes(head, "a segment")?;
        let size: usize = head.ranges.iter().map(|(_, len)| *len as usize).sum();
        if size > MAX_SEGMENT_BYTES {
            return Err(damaged());
        }
        let body = zstd::bulk::decompress(body, size)?;
        if body.len() != size {
            return Err(damaged());
        }
        Ok((head, body, *digest))
    }

    /// The head of a segment in a target; `None` if it is damaged, or does not exist.
    pub(super) fn head(target: &dyn Target, name: &str) -> Result<Option<Self>> {
        let bytes = target.get(name)?;
        Ok(bytes.and_then(|bytes| Self::unseal(&bytes, name).ok()).map(|(head, ..)| head))
    }

    /// Writes the changes to a copy of the database file, without a sync.
    pub(super) fn apply(&self, body: &[u8], to: &dyn StorageBackend) -> Result<()> {
        if let Some(shortest) = self.shortest.filter(|shortest| to.len().is_ok_and(|len| *shortest < len)) {
            to.set_len(shortest)?;
        }
        if to.len()? < self.len {
            to.set_len(self.len)?;
        }
        let mut rest = body;
        for (offset, len) in &self.ranges {
            let (data, after) = rest.split_at(*len as usize);
            to.write(*offset, data)?;
            rest = after;
        }
        if to.len()? != self.len {
            to.set_len(self.len)?;
        }
        Ok(())
    }
}
