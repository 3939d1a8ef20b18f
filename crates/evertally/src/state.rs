//! Versioned bytes of a stream's state.
//!
//! A state holds the exact sums of the data so far (keep it as safe as the data) and no noise: noise is recomputed from
//! the key. Where the noise of a release depends on the data (a BLT rounds the sums it protects), a state of version 2
//! holds the [memory](crate::mechanism::Cursor::memory) of the mechanism for every stream, too. A vector
//! ([`LazyVector`](crate::stream::LazyVector)) has version 3, with the sums that are not 0 and **the noise** that was
//! read, unless it is drawn from the key. The state of a [`VectorNoise`](crate::vector::VectorNoise) has version 4,
//! with the vectors of **noise** that cannot be drawn again, and no data; so has that of a [`RowNoise`](crate::vector::RowNoise). That of
//! [`DiscoveredSums`](crate::stream::DiscoveredSums) has version 5, with the names of all keys that occur. Layout, all integers little endian:
//!
//! | bytes | content |
//! |---|---|
//! | 16 | magic `evertally state\n` |
//! | 4 | version, 1 to 5 |
//! | … | body in postcard form: plan digest, key id, stream name, layout; then step and sums, in version 2 then the memories; in version 3 step, sums, events of the open step and cells; in version 4 step and number of vectors, then these, number by number; in version 5 step, keys and which are shown |
//! | 32 | BLAKE3 keyed hash of everything before, key = the stream's `State` key |
//!
//! The keyed hash refuses damaged bytes, and bytes that someone without the key has changed. It cannot refuse an older
//! state of the same stream: see the threat model on rollback.

use crate::noise::{KeyId, Purpose, SecretKey, StreamName, mac_key};
use crate::plan::Plan;
use crate::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

const MAGIC: &[u8; 16] = b"evertally state\n";
/// Version of a state without memories, and of one with them.
const PLAIN: u32 = 1;
const WITH_MEMORY: u32 = 2;
/// Version of a vector's state.
const VECTOR: u32 = 3;
/// Version of the state of a vector's noise.
const NOISE: u32 = 4;
/// Version of the state of keys that nobody declared.
const KEYS: u32 = 5;
const HEADER: usize = MAGIC.len() + 4;
const CHECK: usize = 32;

/// What kind of stream a state belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Layout {
    /// One running sum.
    Total,
    /// One per group; digest of the declared groups.
    Groups([u8; 32]),
    /// A vector of running sums.
    Vector {
        /// Number of running sums.
        coordinates: u64,
        /// How their noise is drawn: the number of the way, frozen.
        sampling: u32,
        /// Digest of the law that is drawn.
        law: [u8; 32],
    },
    /// The noise of the coordinates `first .. end` of a vector.
    Noise {
        /// The first of them.
        first: u64,
        /// The one after the last.
        end: u64,
        /// Bits of a number.
        bits: u32,
        /// What is given out: the number of the series, frozen.
        series: u32,
    },
    /// One per key that occurs.
    Keys {
        /// What a key must reach.
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

/// The changing part of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) step: u64,
    /// Sum of the closed steps and of the open one, for every group.
    pub(crate) sums: Vec<(i64, i64)>,
    /// The memory of the mechanism for every group, or empty where it has none. Written after the body, in version 2
    /// only.
    #[serde(skip)]
    pub(crate) memories: Vec<Vec<u8>>,
}

impl Layout {
    /// Whether a stream of this layout continues a saved one. Earlier versions chose lower thresholds for the same
    /// selection; raising one shows fewer keys.
    fn continues(self, saved: Layout) -> bool {
        match (self, saved) {
            (Layout::Keys { threshold }, Layout::Keys { threshold: saved }) => saved <= threshold,
            _ => self == saved,
        }
    }
}

impl Saved {
    /// The memory of the mechanism for the group at this place.
    pub(crate) fn memory(&self, place: usize) -> Option<&[u8]> {
        self.memories.get(place).map(Vec::as_slice)
    }
}

/// What a state must belong to, and the key that proves it.
#[derive(PartialEq, Eq)]
pub(crate) struct StateId {
    plan_digest: [u8; 32],
    key_id: KeyId,
    name: StreamName,
    layout: Layout,
    check_key: Zeroizing<[u8; 32]>,
}

#[derive(Serialize, Deserialize)]
struct Body<S> {
    plan_digest: [u8; 32],
    key_id: [u8; 16],
    name: String,
    layout: Layout,
    saved: S,
}

pub(crate) fn damaged() -> Error {
    Error::state("the saved state is damaged; restore an undamaged copy")
}

impl StateId {
    pub(crate) fn new(plan: &Plan, key: &SecretKey, name: StreamName, layout: Layout) -> Self {
        Self::of_digest(plan.state_digest(), key, name, layout)
    }

    /// Of the plan with this digest.
    /// The digest of the plan.
    pub(crate) fn plan_digest(&self) -> &[u8; 32] {
        &self.plan_digest
    }

    pub(crate) fn of_digest(plan_digest: [u8; 32], key: &SecretKey, name: StreamName, layout: Layout) -> Self {
        let check_key = mac_key(key, &name, &plan_digest, Purpose::State);
        Self { plan_digest, key_id: key.id(), name, layout, check_key }
    }

    /// The digest of the plan, and of what else noise depends on.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.plan_digest
    }

    /// The bytes of a state.
    pub(crate) fn seal(&self, saved: &Saved) -> Vec<u8> {
        if saved.memories.is_empty() {
            self.sealed(PLAIN, saved, |_| {})
        } else {
            let memories = postcard::to_allocvec(&saved.memories).expect("a state is plain data");
            self.sealed(WITH_MEMORY, saved, |bytes| bytes.extend(memories))
        }
    }

    /// The bytes of a vector's state.
    pub(crate) fn seal_vector<S: Serialize>(&self, saved: &S) -> Vec<u8> {
        self.sealed(VECTOR, saved, |_| {})
    }

    /// The bytes of a state of keys.
    pub(crate) fn seal_keys<S: Serialize>(&self, saved: &S) -> Vec<u8> {
        self.sealed(KEYS, saved, |_| {})
    }

    /// The bytes of a state of noise; `more` appends its vectors.
    pub(crate) fn seal_noise<S: Serialize>(&self, saved: &S, more: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        self.sealed(NOISE, saved, more)
    }

    fn sealed<S: Serialize>(&self, version: u32, saved: &S, more: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let body = Body {
            plan_digest: self.plan_digest,
            key_id: *self.key_id.as_bytes(),
            name: self.name.as_str().to_owned(),
            layout: self.layout,
            saved,
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(postcard::to_allocvec(&body).expect("a state is plain data"));
        more(&mut bytes);
        let check = blake3::keyed_hash(&self.check_key, &bytes);
        bytes.extend(check.as_bytes());
        bytes
    }

    /// Reads bytes back, if they are whole and belong here.
    pub(crate) fn open(&self, bytes: &[u8], horizon: u64, streams: usize) -> Result<Saved> {
        let mut memories = vec![];
        let (version, mut saved): (u32, Saved) = self.opened(bytes, &[PLAIN, WITH_MEMORY], |version, rest| {
            if version == PLAIN {
                return Ok(rest);
            }
            let (read, rest) = postcard::take_from_bytes(rest).map_err(|_| damaged())?;
            memories = read;
            Ok(rest)
        })?;
        let expected = if version == PLAIN { 0 } else { streams };
        if saved.step > horizon || saved.sums.len() != streams || memories.len() != expected {
            return Err(damaged());
        }
        saved.memories = memories;
        Ok(saved)
    }

    /// The same for a vector.
    pub(crate) fn open_vector<S: DeserializeOwned>(&self, bytes: &[u8]) -> Result<S> {
        self.opened(bytes, &[VECTOR], |_, rest| Ok(rest)).map(|(_, saved)| saved)
    }

    /// The same for keys.
    pub(crate) fn open_keys<S: DeserializeOwned>(&self, bytes: &[u8]) -> Result<S> {
        self.opened(bytes, &[KEYS], |_, rest| Ok(rest)).map(|(_, saved)| saved)
    }

    /// The same for noise: what was saved, and the bytes that were appended.
    pub(crate) fn open_noise<'b, S: DeserializeOwned>(&self, bytes: &'b [u8]) -> Result<(S, &'b [u8])> {
        let mut more: &[u8] = &[];
        let (_, saved) = self.opened(bytes, &[NOISE], |_, rest| {
            more = rest;
            Ok(&[])
        })?;
        Ok((saved, more))
    }

    /// `more` reads what follows the body and returns what is left.
    fn opened<'b, S: DeserializeOwned>(
        &self,
        bytes: &'b [u8],
        versions: &[u32],
        more: impl FnOnce(u32, &'b [u8]) -> Result<&'b [u8]>,
    ) -> Result<(u32, S)> {
        if bytes.len() < HEADER + CHECK || bytes[..MAGIC.len()] != MAGIC[..] {
            return Err(Error::state("these bytes are not a saved evertally state"));
        }
        let version = u32::from_le_bytes(bytes[MAGIC.len()..HEADER].try_into().expect("4 bytes"));
        if !(PLAIN..=KEYS).contains(&version) {
            return Err(Error::state(format!(
                "the saved state has version {version}, and this program reads versions {PLAIN} to {KEYS}"
            )));
        }
        if !versions.contains(&version) {
            let kind = |version| match version {
                VECTOR => "a vector",
                NOISE => "a vector's noise",
                KEYS => "undeclared keys",
                _ => "a stream",
            };
            let (is, not) = (kind(version), kind(versions[0]));
            return Err(Error::state(format!("the saved state is that of {is}, not of {not}")));
        }
        let (content, check) = bytes.split_at(bytes.len() - CHECK);
        let (body, rest): (Body<S>, _) = postcard::take_from_bytes(&content[HEADER..]).map_err(|_| damaged())?;
        self.check_owner(&body)?;
        let rest = more(version, rest)?;
        // The hash comes after the owner: bytes of another stream fail both, and the owner says why.
        if !bool::from(blake3::keyed_hash(&self.check_key, content).as_bytes().ct_eq(check)) || !rest.is_empty() {
            return Err(damaged());
        }
        Ok((version, body.saved))
    }

    fn check_owner<S>(&self, body: &Body<S>) -> Result<()> {
        let foreign = |what: String| Err(Error::state(format!("the saved state belongs to {what}")));
        if body.name != self.name.as_str() {
            return foreign(format!("stream {:?}, not {:?}", body.name, self.name.as_str()));
        }
        if body.plan_digest != self.plan_digest {
            return foreign("another plan; a changed plan is a new stream".to_owned());
        }
        if body.key_id != *self.key_id.as_bytes() {
            return foreign("another key, or is damaged".to_owned());
        }
        if !self.layout.continues(body.layout) {
            return foreign(
                "a stream with other groups, keys that are selected otherwise, or a vector of another kind: other \
                 coordinates, another way of sampling, or numbers of another type"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
