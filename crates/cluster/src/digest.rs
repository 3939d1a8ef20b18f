//! Digests of sums that can be added up in any order.
//!
//! The digest of a set of rows is the sum of the keyed hashes of its rows, as eight numbers of 32 bits each; digests of
//! parts from different processes add up. Without the key, nobody can find two sets with the same digest, or learn
//! anything from digests but whether they are equal. Two sets have the same digest by chance with probability 2⁻²⁵⁶.

use super::ClusterJob;
use super::row::{RowKind, ShuffleRow};
use evertally::noise::Purpose;
use evertally_declare::error::{Result, usage};
use std::collections::BTreeMap;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The digest of a set of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    lanes: [u32; 8],
    count: i64,
}

impl Digest {
    /// Adds another digest.
    pub fn add(&mut self, other: Self) {
        self.lanes.iter_mut().zip(other.lanes).for_each(|(lane, more)| *lane = lane.wrapping_add(more));
        self.count = self.count.wrapping_add(other.count);
    }

    /// The digest of this many rows that are not sums.
    pub fn of_count(count: i64) -> Self {
        Self { count, ..Self::default() }
    }

    /// The eight numbers.
    pub fn lanes(self) -> [u32; 8] {
        self.lanes
    }

    /// The rows that carry the digest of the events that were kept in a step.
    pub(super) fn rows(self, step: u64) -> impl Iterator<Item = ShuffleRow> {
        (0..).zip(self.lanes()).map(move |(number, lane): (u8, u32)| ShuffleRow::of_kept(step, number, lane))
    }

    /// The number of rows.
    pub fn count(self) -> i64 {
        self.count
    }

    /// The eight numbers and the number of rows, in 40 bytes, little endian.
    pub fn to_bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        let (lanes, count) = bytes.split_at_mut(32);
        lanes.as_chunks_mut().0.iter_mut().zip(self.lanes).for_each(|(four, lane)| *four = lane.to_le_bytes());
        count.copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// If there are not exactly 40 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bytes: &[u8; 40] = bytes.try_into().map_err(|_| usage("a digest passed between processes is damaged"))?;
        let (lanes, count) = bytes.split_at(32);
        let mut digest = Self { count: i64::from_le_bytes(count.try_into().expect("8 bytes")), ..Self::default() };
        digest.lanes.iter_mut().zip(lanes.as_chunks().0).for_each(|(lane, four)| *lane = u32::from_le_bytes(*four));
        Ok(digest)
    }
}

/// Digests of sums by step and by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    steps: BTreeMap<u64, Digest>,
    buckets: BTreeMap<u32, Digest>,
}

impl Digests {
    /// Adds the digest of a step.
    pub fn add_step(&mut self, step: u64, digest: Digest) {
        self.steps.entry(step).or_default().add(digest);
    }

    /// Adds the digest of a bucket.
    pub fn add_bucket(&mut self, bucket: u32, digest: Digest) {
        self.buckets.entry(bucket).or_default().add(digest);
    }

    /// The steps with sums, in order.
    pub fn steps(&self) -> impl Iterator<Item = (u64, Digest)> {
        self.steps.iter().map(|(step, digest)| (*step, *digest))
    }

    /// The buckets with sums, in order.
    pub fn buckets(&self) -> impl Iterator<Item = (u32, Digest)> {
        self.buckets.iter().map(|(bucket, digest)| (*bucket, *digest))
    }

    /// The digest of a bucket; that of the empty set if it has no sums.
    pub fn of_bucket(&self, bucket: u32) -> Digest {
        self.buckets.get(&bucket).copied().unwrap_or_default()
    }
}

/// Computes the digests of rows.
pub struct RowHasher {
    key: Zeroizing<[u8; 32]>,
    /// The names of declared groups, by place: noise depends on the name, wherever the group stands.
    names: Arc<[Vec<u8>]>,
    bytes: Vec<u8>,
}

impl ClusterJob {
    /// Computes digests of sums.
    pub fn digesting(&self) -> RowHasher {
        RowHasher { key: self.mac_key(Purpose::Digests), names: Arc::clone(&self.names), bytes: Vec::new() }
    }
}

impl RowHasher {
    /// The digest of a kept event of a person.
    pub(super) fn of_kept(&mut self, person: &[u8; 16], time: i64, group: &[u8], value: i64) -> Digest {
        self.bytes.clear();
        // No sum begins like this: steps are below 2^62.
        self.bytes.extend_from_slice(&u64::MAX.to_le_bytes());
        self.bytes.extend_from_slice(person);
        self.bytes.extend_from_slice(&time.to_le_bytes());
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self.bytes.extend_from_slice(group);
        self.hashed()
    }

    /// The digest of a row of a step, whether it is a sum or not.
    pub(super) fn of_row(&mut self, row: &ShuffleRow) -> Digest {
        match ShuffleRow::says(&row.label) {
            Ok(RowKind::Kept(_)) => self.of(row.step, &row.label, row.sum & 0xffff_ffff),
            _ => self.of(row.step, &row.label, row.sum),
        }
    }

    /// The digest of one sum; a sum of 0 has the empty digest, because it may be omitted.
    pub fn of(&mut self, step: u64, label: &[u8], sum: i64) -> Digest {
        if sum == 0 {
            return Digest::default();
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(&step.to_le_bytes());
        self.bytes.extend_from_slice(&sum.to_le_bytes());
        match ShuffleRow::says(label) {
            Ok(RowKind::Place(place)) => {
                self.bytes.extend_from_slice(self.names.get(place as usize).map_or(label, Vec::as_slice));
            }
            // The first byte of the label, so that it is not mistaken for a name.
            Ok(RowKind::Cell(place, cell)) => {
                self.bytes.extend_from_slice(&[label[0]]);
                self.bytes.extend_from_slice(&cell.to_be_bytes());
                self.bytes.extend_from_slice(self.names.get(place as usize).map_or(label, Vec::as_slice));
            }
            _ => self.bytes.extend_from_slice(label),
        }
        self.hashed()
    }

    fn hashed(&self) -> Digest {
        let hash = blake3::keyed_hash(&self.key, &self.bytes);
        let mut digest = Digest { count: 1, ..Digest::default() };
        digest
            .lanes
            .iter_mut()
            .zip(hash.as_bytes().as_chunks().0)
            .for_each(|(lane, four)| *lane = u32::from_le_bytes(*four));
        digest
    }
}
