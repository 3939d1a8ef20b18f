//! Sensitivity bounds: how far one privacy unit can move the nodes or the releases.

pub(super) mod blocks;
pub(super) mod chain;
pub(super) mod covariance;
pub(super) mod participation;
pub(super) mod row_norms;
pub(super) mod shift;
pub(super) mod trie;
pub(super) mod trie_pairs;
pub(super) mod truncation;

pub use participation::Participation;
pub use shift::{GaussianShift, LaplaceShift};
