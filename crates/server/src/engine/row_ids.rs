//! Ids of rows: a row is counted once, in however many batches it arrives while its step is open.
//!
//! A stream may name a column with an id of each row. The engine keeps keyed hashes of the ids of all rows that it has
//! counted in open steps: in memory, and in the store, where they are written in the same commit as the rows. Once a
//! step is closed, its ids are forgotten.

use super::chunk::{Chunk, HashedId};
use crate::store::{IDS, Store, stored};
use evertally_declare::error::{Result, failure};
use evertally_declare::event::{ColumnRole, Columns, Event};
use evertally_declare::field::Field;
use evertally_declare::identity::Identities;
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// The size of a hashed id in the store.
const ID_BYTES: usize = size_of::<HashedId>();

/// Reads the ids of rows.
pub(super) struct IdReader {
    column: ColumnRole,
    key: [u8; 32],
    scratch: String,
}

impl IdReader {
    /// A reader of the last column that [`with_id`](super::identity::with_id) has added.
    pub(super) fn new(columns: &Columns, key: &[u8; 32]) -> Self {
        let column = ColumnRole::Filter(columns.filter.len() - 1);
        Self { column, key: blake3::derive_key("evertally serve 1 row ids", key), scratch: String::new() }
    }

    /// The hashed id of a row in its own step: rows of different steps are different, also if one is late and counted
    /// in the step of the other.
    ///
    /// # Errors
    /// If it has none, or one that may have been rounded.
    pub(super) fn read(&mut self, row: &Event<'_>, step: u64) -> Result<HashedId> {
        let ColumnRole::Filter(place) = self.column else { unreachable!("it is the last column of the filter") };
        let cell = row.filter_cell(place);
        let text = match cell {
            // Distinct whole numbers may become the same double.
            Field::Float(_) | Field::Short { .. } => {
                row.identity(self.column, Identities::default(), &mut self.scratch)?
            }
            cell => cell.text(&mut self.scratch),
        };
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            let problem = "is missing, but rows of this stream are counted once by their `id`";
            return Err(row.error(self.column, problem).remedy("send the id of the event in this column").into());
        };
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        let hash = hasher.update(&step.to_le_bytes()).update(text.as_bytes()).finalize();
        Ok(hash.as_bytes().first_chunk().copied().map_or(0, HashedId::from_le_bytes))
    }
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
pub(super) struct FirstBits(u64);

impl Hasher for FirstBits {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (first, _) = bytes.split_at(bytes.len().min(8));
        first.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }
}

type IdSet = HashSet<HashedId, BuildHasherDefault<FirstBits>>;

/// The ids of the rows that a stream has counted in open steps.
#[derive(Default)]
pub(super) struct OpenIds(BTreeMap<u64, IdSet>);

impl OpenIds {
    /// Reads the ids of the steps after a closed one.
    pub(super) fn load(store: &Store, number: u32, closed: u64) -> Result<Self> {
        let mut ids = Self::default();
        let table = store.look()?.open_table(IDS).map_err(stored)?;
        for entry in table.range((number, closed + 1, 0)..=(number, u64::MAX, u64::MAX)).map_err(stored)? {
            let (key, bytes) = entry.map_err(stored)?;
            let (hashed, rest) = bytes.value().as_chunks::<ID_BYTES>();
            if !rest.is_empty() {
                return Err(failure("the data folder is corrupt: the ids of rows cannot be read"));
            }
            ids.0.entry(key.value().1).or_default().extend(hashed.iter().copied().map(HashedId::from_le_bytes));
        }
        Ok(ids)
    }

    /// The number of ids.
    pub(super) fn count(&self) -> u64 {
        self.0.values().map(|ids| ids.len() as u64).sum()
    }

    /// Adds the ids of a step's chunk after its commit.
    pub(super) fn add(&mut self, step: u64, chunk: &Chunk) {
        if !chunk.ids.is_empty() {
            self.0.entry(step).or_default().extend(chunk.ids.iter().map(|row| row.id));
        }
    }

    /// Forgets the ids of all steps through a closed one.
    pub(super) fn forget(&mut self, closed: u64) {
        self.0 = self.0.split_off(&(closed + 1));
    }
}

/// The ids of the rows in one commit, which are not among those of their streams yet.
#[derive(Default)]
pub(super) struct NewIds {
    by_step: BTreeMap<(u32, u64), IdSet>,
}

impl NewIds {
    /// Whether a stream may have the ids of all rows of these chunks that are not counted yet. Each stream has its own
    /// limit: one for all would let the writers of a stream learn of others, and keep them out.
    pub(super) fn have_room<'c>(
        &self,
        number: u32,
        known: &OpenIds,
        chunks: impl Iterator<Item = (&'c u64, &'c Chunk)> + Clone,
        most: u64,
    ) -> bool {
        let all: u64 = chunks.clone().map(|(_, chunk)| chunk.ids.len() as u64).sum();
        let new = self.by_step.range((number, 0)..=(number, u64::MAX)).map(|(_, ids)| ids.len() as u64).sum::<u64>();
        let present = known.count() + new;
        if present + all <= most {
            return true;
        }
        let is_new = |step: u64, id: HashedId| {
            let is_in = |ids: &IdSet| ids.contains(&id);
            !known.0.get(&step).is_some_and(is_in) && !self.by_step.get(&(number, step)).is_some_and(is_in)
        };
        let distinct = |(step, chunk): (&u64, &Chunk)| {
            let ids: IdSet = chunk.ids.iter().map(|row| row.id).filter(|id| is_new(*step, *id)).collect();
            ids.len() as u64
        };
        present + chunks.map(distinct).sum::<u64>() <= most
    }

    /// Removes the rows of a chunk that were counted before in its step, and returns their number.
    pub(super) fn remove_counted(&mut self, number: u32, step: u64, known: &OpenIds, chunk: &mut Chunk) -> u64 {
        if chunk.ids.is_empty() {
            return 0;
        }
        let (known, new) = (known.0.get(&step), self.by_step.entry((number, step)).or_default());
        let (mut from, mut to, before) = (0, 0, chunk.ids.len());
        let bytes = &mut chunk.bytes;
        chunk.ids.retain(|row| {
            let range = from..from + row.bytes as usize;
            from = range.end;
            let is_new = known.is_none_or(|known| !known.contains(&row.id)) && new.insert(row.id);
            if is_new {
                let length = range.len();
                bytes.copy_within(range, to);
                to += length;
            }
            is_new
        });
        chunk.bytes.truncate(to);
        let removed = (before - chunk.ids.len()) as u64;
        chunk.events -= removed;
        removed
    }

    /// Removes late rows that were set aside before, while `step` was open, and returns their number.
    pub(super) fn remove_aside(&mut self, number: u32, step: u64, known: &OpenIds, aside: &mut Chunk) -> u64 {
        if aside.ids.is_empty() {
            return 0;
        }
        let (known, new) = (known.0.get(&step), self.by_step.entry((number, step)).or_default());
        let (ids, texts) = (std::mem::take(&mut aside.ids), std::mem::take(&mut aside.texts));
        let before = ids.len();
        // The hash of an id contains the row's step, so none of them is that of a counted row.
        let rows = ids.into_iter().zip(texts);
        (aside.ids, aside.texts) =
            rows.filter(|(row, _)| known.is_none_or(|known| !known.contains(&row.id)) && new.insert(row.id)).unzip();
        (before - aside.ids.len()) as u64
    }
}

/// The ids of a chunk, for the store.
pub(super) fn to_stored(chunk: &Chunk) -> Vec<u8> {
    chunk.ids.iter().flat_map(|row| row.id.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::chunk::IdentifiedRow;
    use super::*;

    fn chunk(rows: &[(HashedId, &str)]) -> Chunk {
        let ids = rows.iter().map(|(id, text)| IdentifiedRow { id: *id, bytes: text.len() as u32 }).collect();
        let bytes = rows.iter().flat_map(|(_, text)| text.bytes()).collect();
        Chunk { events: rows.len() as u64, bytes, ids, ..Chunk::default() }
    }

    #[test]
    fn rows_with_known_ids_are_removed_with_their_bytes() {
        let (mut known, mut new) = (OpenIds::default(), NewIds::default());
        known.add(3, &chunk(&[(1, "x")]));
        let mut rows = chunk(&[(1, "one"), (2, "two"), (2, "again"), (3, "three"), (1, "one")]);
        assert_eq!(new.remove_counted(7, 3, &known, &mut rows), 3);
        assert_eq!((rows.events, rows.bytes.as_slice(), rows.ids.len()), (2, &b"twothree"[..], 2));
        // Another batch of the same commit; but other steps and streams have their own ids.
        for (number, step, removed) in [(7, 3, 2), (7, 4, 0), (8, 3, 0)] {
            let mut rows = chunk(&[(2, "two"), (3, "three")]);
            assert_eq!(new.remove_counted(number, step, &known, &mut rows), removed, "{number} {step}");
            assert_eq!(rows.events, 2 - removed);
        }
        // Known are 1 in step 3, and of this commit 2 and 3 in step 3 and 2 and 3 in step 4.
        let room = |rows: &[(HashedId, &str)], most| new.have_room(7, &known, [(&3, &chunk(rows))].into_iter(), most);
        assert!(room(&[(9, "")], 6) && !room(&[(9, "")], 5));
        // Rows that are counted already, or twice in the batch, need no room.
        assert!(room(&[(1, ""), (2, ""), (3, "")], 5) && room(&[(9, ""), (9, ""), (2, "")], 6));
        // Other streams do not matter.
        assert!(new.have_room(9, &OpenIds::default(), [(&3, &chunk(&[(9, "")]))].into_iter(), 1));
        known.forget(2);
        assert_eq!(known.count(), 1);
        known.forget(3);
        assert_eq!(known.count(), 0);
    }

    #[test]
    fn ids_are_distributed_by_their_own_bits() {
        let hash = |id: HashedId| {
            let mut hasher = FirstBits::default();
            std::hash::Hash::hash(&id, &mut hasher);
            hasher.finish()
        };
        assert_ne!(hash(1), hash(2));
        assert_ne!(hash(1 << 63), hash(0));
    }
}
