//! How far a privacy unit's change moves the nodes or the releases, and by how much at most.

pub(super) mod blocks;
pub(super) mod chain;
pub(super) mod participation;
pub(super) mod row_norms;
pub(super) mod shift;
pub(super) mod trie;
pub(super) mod trie_pairs;
pub(super) mod truncation;
pub(crate) mod units;

pub use participation::Participation;
pub use shift::{GaussianShift, LaplaceShift};
