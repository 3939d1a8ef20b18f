//! Bridges: processes with independent increments, known at some places and drawn at others. One law a file.
//!
//! A lazy counter walks along a path on which every stretch has noise of its own, and remembers its value at a few
//! places. To learn the value at another place it needs two things only: what lies beyond the last known place is fresh
//! ([`Bridge::extend`]), and what lies between two known places depends on these two and nothing else
//! ([`Bridge::split`]). Drawn in any order, the values have the joint law they would have had if all had been drawn
//! from the start.

mod gamma;
mod gaussian;
mod polya;
mod skellam;

pub use gamma::GammaBridge;
pub use gaussian::GaussianBridge;
pub use polya::PolyaBridge;
pub use skellam::SkellamBridge;

use super::RandomBits;
use std::fmt::Debug;

/// A process with independent and stationary increments over whole lengths.
pub trait Bridge: Send + Sync {
    /// Whether values are whole numbers with the exact law.
    const EXACT: bool;

    /// What is known at a place: a sum, or a pair of sums.
    type Value: Copy + Debug + PartialEq + Send + Sync;

    /// The value at the beginning of a path.
    const ORIGIN: Self::Value;

    /// The value `length` (≥ 1) beyond a place where it is `from`.
    fn extend(&self, from: Self::Value, length: u64, bits: &mut impl RandomBits) -> Self::Value;

    /// The value at a place `near` (≥ 1) beyond one where it is `from` and `far` (≥ 1) before one where it is `to`.
    fn split(&self, from: Self::Value, to: Self::Value, near: u64, far: u64, bits: &mut impl RandomBits)
    -> Self::Value;

    /// The noise that a value stands for, in whole units of the release.
    fn noise(&self, value: Self::Value) -> i128;
}

#[cfg(test)]
mod tests;
