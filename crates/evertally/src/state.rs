//! Versioned bytes of a stream's state.
//!
//! A state holds the exact sums of the data so far (keep it as safe as the data) and no noise: noise is recomputed from
//! the key. Where the noise of a release depends on the data (a BLT rounds the sums it protects), it also holds the
//! [memory](crate::mechanism::Cursor::memory) of the mechanism for every stream. Layout, all integers little endian:
//!
//! | bytes | content |
//! |---|---|
//! | 16 | magic `evertally state\n` |
//! | 4 | version, 1 |
//! | … | owner in postcard form: plan digest, key id, stream name, layout |
//! | … | content in postcard form, by layout |
//! | 32 | BLAKE3 keyed hash of everything before, key = the stream's `State` key |
//!
//! | layout | content |
//! |---|---|
//! | one sum, or groups | step, sums, memories of the mechanism |
//! | [`LazyVector`](crate::stream::LazyVector) | step, sums that are not 0, events of the open step, **noise** (1) |
//! | `VectorNoise`, `RowNoise` of `evertally-training` | step, number of vectors, the vectors number by number (2) |
//! | [`DiscoveredSums`](crate::stream::DiscoveredSums) | step, all keys, and which of them are shown |
//!
//! (1) The noise drawn so far, unless it is drawn from the key. (2) **Noise** that cannot be drawn again, and no data.
//!
//! The keyed hash refuses damaged bytes, and bytes changed by someone without the key. It cannot refuse an older state
//! of the same stream: see the threat model on rollback.

use crate::noise::{KeyId, Purpose, SecretKey, StreamName, mac_key};
use crate::plan::Plan;
use crate::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

const MAGIC: &[u8; 16] = b"evertally state\n";
const VERSION: u32 = 1;
const HEADER: usize = MAGIC.len() + 4;
const CHECK: usize = 32;

/// The kind of stream that a state belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layout {
    /// One running sum.
    Total,
    /// One per group; digest of the declared groups.
    Groups([u8; 32]),
    /// A vector of running sums.
    Vector {
        /// Number of running sums.
        coordinates: u64,
        /// The sampling of their noise, as a frozen number.
        sampling: u32,
        /// Digest of the sampled law.
        law: [u8; 32],
    },
    /// The noise of the coordinates `first .. end` of a vector.
    Noise {
        /// The first of them.
        first: u64,
        /// The end: one past the last.
        end: u64,
        /// Bits of a number.
        bits: u32,
        /// The issued series, as a frozen number.
        series: u32,
    },
    /// One per key that occurs.
    Keys {
        /// The threshold that a key must reach.
        threshold: i64,
    },
    /// The noise of a table's rows, drawn when they are used.
    Rows {
        /// Number of rows.
        rows: u64,
        /// Coordinates of a row.
        width: u64,
        /// Bits of a number.
        bits: u32,
    },
}

impl Layout {
    /// The object with such a layout, in words.
    fn kind(self) -> &'static str {
        match self {
            Self::Total | Self::Groups(_) => "a stream",
            Self::Vector { .. } => "a vector",
            Self::Noise { .. } | Self::Rows { .. } => "a vector's noise",
            Self::Keys { .. } => "undeclared keys",
        }
    }
}

/// The changing part of a state of sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedSums {
    /// The last closed step.
    pub(crate) step: u64,
    /// Sums of the closed steps and of the open one, for every group.
    pub(crate) sums: Vec<(i64, i64)>,
    /// The memory of the mechanism for every group, or empty if it has none.
    pub(crate) memories: Vec<Vec<u8>>,
}

impl SavedSums {
    /// The memory of the mechanism for the group at this place.
    pub(crate) fn memory(&self, place: usize) -> Option<&[u8]> {
        self.memories.get(place).map(Vec::as_slice)
    }
}

/// The owner that a state must have, and the key that proves it.
#[derive(PartialEq, Eq)]
pub struct StateId {
    plan_digest: [u8; 32],
    key_id: KeyId,
    name: StreamName,
    layout: Layout,
    check_key: Zeroizing<[u8; 32]>,
}

#[derive(Serialize, Deserialize)]
struct Owner {
    plan_digest: [u8; 32],
    key_id: [u8; 16],
    name: String,
    layout: Layout,
}

/// The error of a state whose bytes are not those that were saved.
pub fn damaged() -> Error {
    Error::state("the saved state is damaged; restore an undamaged copy")
}

impl StateId {
    /// Of a plan, a key and a stream.
    pub(crate) fn new(plan: &Plan, key: &SecretKey, name: StreamName, layout: Layout) -> Self {
        Self::from_digest(plan.state_digest(), key, name, layout)
    }

    /// The digest of the plan.
    pub fn plan_digest(&self) -> &[u8; 32] {
        &self.plan_digest
    }

    /// Of the plan with this digest.
    pub fn from_digest(plan_digest: [u8; 32], key: &SecretKey, name: StreamName, layout: Layout) -> Self {
        let check_key = mac_key(key, &name, &plan_digest, Purpose::State);
        Self { plan_digest, key_id: key.id(), name, layout, check_key }
    }

    /// The bytes of a state.
    pub fn seal<S: Serialize>(&self, saved: &S) -> Vec<u8> {
        self.seal_with(saved, |_| {})
    }

    /// The bytes of a state; `more` appends data that is not in postcard form.
    pub fn seal_with<S: Serialize>(&self, saved: &S, more: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let owner = Owner {
            plan_digest: self.plan_digest,
            key_id: *self.key_id.as_bytes(),
            name: self.name.as_str().to_owned(),
            layout: self.layout,
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(postcard::to_allocvec(&owner).expect("a state is plain data"));
        bytes.extend(postcard::to_allocvec(saved).expect("a state is plain data"));
        more(&mut bytes);
        let check = blake3::keyed_hash(&self.check_key, &bytes);
        bytes.extend(check.as_bytes());
        bytes
    }

    /// Reads bytes back, if they are undamaged and belong to this owner.
    pub fn open<S: DeserializeOwned>(&self, bytes: &[u8]) -> Result<S> {
        let (saved, rest) = self.open_with(bytes)?;
        if rest.is_empty() { Ok(saved) } else { Err(damaged()) }
    }

    /// The same for the sums of this many streams.
    pub(crate) fn open_sums(&self, bytes: &[u8], horizon: u64, streams: usize) -> Result<SavedSums> {
        let saved: SavedSums = self.open(bytes)?;
        let memories_fit = [0, streams].contains(&saved.memories.len());
        if saved.step > horizon || saved.sums.len() != streams || !memories_fit {
            return Err(damaged());
        }
        Ok(saved)
    }

    /// The same, with the appended bytes.
    pub fn open_with<'b, S: DeserializeOwned>(&self, bytes: &'b [u8]) -> Result<(S, &'b [u8])> {
        if bytes.len() < HEADER + CHECK || bytes[..MAGIC.len()] != MAGIC[..] {
            return Err(Error::state("these bytes are not a saved evertally state"));
        }
        let version = u32::from_le_bytes(bytes[MAGIC.len()..HEADER].try_into().expect("4 bytes"));
        if version != VERSION {
            return Err(Error::state(format!(
                "the saved state has version {version}, and this program reads version {VERSION}"
            )));
        }
        let (content, check) = bytes.split_at(bytes.len() - CHECK);
        let (owner, rest): (Owner, _) = postcard::take_from_bytes(&content[HEADER..]).map_err(|_| damaged())?;
        self.check_owner(&owner)?;
        // The hash is checked after the owner: bytes of another stream fail both checks, and the owner gives the
        // reason.
        if !bool::from(blake3::keyed_hash(&self.check_key, content).as_bytes().ct_eq(check)) {
            return Err(damaged());
        }
        postcard::take_from_bytes(rest).map_err(|_| damaged())
    }

    fn check_owner(&self, owner: &Owner) -> Result<()> {
        let (is, not) = (owner.layout.kind(), self.layout.kind());
        if is != not {
            return Err(Error::state(format!("the saved state is that of {is}, not of {not}")));
        }
        let foreign = |what: String| Err(Error::state(format!("the saved state belongs to {what}")));
        if owner.name != self.name.as_str() {
            return foreign(format!("stream {:?}, not {:?}", owner.name, self.name.as_str()));
        }
        if owner.plan_digest != self.plan_digest {
            return foreign("another plan; a changed plan is a new stream".to_owned());
        }
        if owner.key_id != *self.key_id.as_bytes() {
            return foreign("another key, or is damaged".to_owned());
        }
        if self.layout != owner.layout {
            return foreign(
                "a stream with other groups, another selection of keys, or a vector of another kind: other \
                 coordinates, another sampling, or numbers of another type"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
