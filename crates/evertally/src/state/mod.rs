//! Versioned bytes of a stream's state.
//!
//! A state holds the exact sums of the data so far (keep it as safe as the data) and no noise: noise is recomputed from
//! the key. Where the noise of a release depends on the data (a BLT rounds the sums it protects), a state of version 2
//! holds the [memory](crate::mechanism::Cursor::memory) of the mechanism for every stream, too. Layout, all integers little
//! endian:
//!
//! | bytes | content |
//! |---|---|
//! | 16 | magic `evertally state\n` |
//! | 4 | version, 1 or 2 |
//! | … | body in postcard form: plan digest, key id, stream name, layout, step, sums; in version 2 then the memories |
//! | 32 | BLAKE3 keyed hash of everything before, key = the stream's `State` key |
//!
//! The keyed hash refuses damaged bytes, and bytes that someone without the key has changed. It cannot refuse an older
//! state of the same stream: see the threat model on rollback.

use crate::noise::{KeyId, Purpose, SecretKey, StreamName, mac_key};
use crate::plan::Plan;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

const MAGIC: &[u8; 16] = b"evertally state\n";
/// Version of a state without memories, and of one with them.
const PLAIN: u32 = 1;
const WITH_MEMORY: u32 = 2;
const HEADER: usize = MAGIC.len() + 4;
const CHECK: usize = 32;

/// What kind of stream a state belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Layout {
    /// One running sum.
    Total,
    /// One per group; digest of the declared groups.
    Groups([u8; 32]),
}

/// The changing part of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) step: u64,
    /// Sum of the closed steps and of the open one, for every group.
    pub(crate) sums: Vec<(i64, i64)>,
    /// The memory of the mechanism for every group, or empty where it has none. Written after the body, in version 2 only.
    #[serde(skip)]
    pub(crate) memories: Vec<Vec<u8>>,
}

impl Saved {
    /// The memory of the mechanism for the group at this place.
    pub(crate) fn memory(&self, place: usize) -> Option<&[u8]> {
        self.memories.get(place).map(Vec::as_slice)
    }
}

/// What a state must belong to, and the key that proves it.
pub(crate) struct StateId {
    plan_digest: [u8; 32],
    key_id: KeyId,
    name: StreamName,
    layout: Layout,
    check_key: Zeroizing<[u8; 32]>,
}

#[derive(Serialize, Deserialize)]
struct Body {
    plan_digest: [u8; 32],
    key_id: [u8; 16],
    name: String,
    layout: Layout,
    saved: Saved,
}

impl StateId {
    pub(crate) fn new(plan: &Plan, key: &SecretKey, name: StreamName, layout: Layout) -> Self {
        let plan_digest = plan.digest();
        let check_key = mac_key(key, &name, &plan_digest, Purpose::State);
        Self { plan_digest, key_id: key.id(), name, layout, check_key }
    }

    /// The bytes of a state.
    pub(crate) fn seal(&self, saved: &Saved) -> Vec<u8> {
        let body = Body {
            plan_digest: self.plan_digest,
            key_id: *self.key_id.as_bytes(),
            name: self.name.as_str().to_owned(),
            layout: self.layout,
            saved: saved.clone(),
        };
        let version = if saved.memories.is_empty() { PLAIN } else { WITH_MEMORY };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(postcard::to_allocvec(&body).expect("a state is plain data"));
        if version == WITH_MEMORY {
            bytes.extend(postcard::to_allocvec(&saved.memories).expect("a state is plain data"));
        }
        let check = blake3::keyed_hash(&self.check_key, &bytes);
        bytes.extend(check.as_bytes());
        bytes
    }

    /// Reads bytes back, if they are whole and belong here.
    pub(crate) fn open(&self, bytes: &[u8], horizon: u64, streams: usize) -> Result<Saved> {
        let damaged = || Error::state("the saved state is damaged; restore an undamaged copy");
        if bytes.len() < HEADER + CHECK || bytes[..MAGIC.len()] != MAGIC[..] {
            return Err(Error::state("these bytes are not a saved evertally state"));
        }
        let version = u32::from_le_bytes(bytes[MAGIC.len()..HEADER].try_into().expect("4 bytes"));
        if version != PLAIN && version != WITH_MEMORY {
            return Err(Error::state(format!(
                "the saved state has version {version}, and this program reads versions {PLAIN} and {WITH_MEMORY}"
            )));
        }
        let (content, check) = bytes.split_at(bytes.len() - CHECK);
        let (mut body, mut rest): (Body, _) = postcard::take_from_bytes(&content[HEADER..]).map_err(|_| damaged())?;
        self.check_owner(&body)?;
        if version == WITH_MEMORY {
            (body.saved.memories, rest) = postcard::take_from_bytes(rest).map_err(|_| damaged())?;
        }
        // The hash comes after the owner: bytes of another stream fail both, and the owner says why.
        if !bool::from(blake3::keyed_hash(&self.check_key, content).as_bytes().ct_eq(check)) || !rest.is_empty() {
            return Err(damaged());
        }
        let memories = if version == PLAIN { 0 } else { streams };
        if body.saved.step > horizon || body.saved.sums.len() != streams || body.saved.memories.len() != memories {
            return Err(damaged());
        }
        Ok(body.saved)
    }

    fn check_owner(&self, body: &Body) -> Result<()> {
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
        if body.layout != self.layout {
            return foreign("a stream with other groups".to_owned());
        }
        Ok(())
    }
}
