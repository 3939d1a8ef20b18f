//! The events of a batch, as bytes, by step.

use evertally_publish::session::LateEvent;

/// The events of a batch that belong to one step.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) events: u64,
    pub(super) bytes: Vec<u8>,
    /// The line or row numbers of the first of them.
    pub(super) rows: Vec<u64>,
    /// Their ids, if rows have ids: of each event in `bytes`, in the same order.
    pub(super) ids: Vec<IdentifiedRow>,
    /// Their original texts, if late events are set aside.
    pub(super) texts: Vec<LateEvent>,
}

/// The keyed hash of an id: 128 bits, so that no two ids of a step share one.
pub(super) type HashedId = u128;

/// A counted row of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdentifiedRow {
    pub(super) id: HashedId,
    /// The bytes of its event in the chunk.
    pub(super) bytes: u32,
}

impl IdentifiedRow {
    /// A row whose event has this number of bytes.
    pub(super) fn new(id: HashedId, bytes: usize) -> Self {
        Self { id, bytes: bytes as u32 } // fits: a row is shorter than a batch
    }
}

/// About the memory of a row's id while its batch waits.
pub(super) const ROW_BYTES: u64 = size_of::<IdentifiedRow>() as u64;
