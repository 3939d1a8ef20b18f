//! Bridges: processes with independent increments, known at some points and drawn at others. One law per file.
//!
//! A lazy counter walks along a path on which every stretch has separate noise, and remembers its value at a few
//! points. The value at another point depends on two rules only. The part beyond the last known point is fresh
//! ([`Bridge::extend`]); the part between two known points depends on these two alone ([`Bridge::split`]). Values drawn
//! in any order have the same joint law as values drawn from the start.

#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "noise in doubles, then rounded to units")]
mod gamma;
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "noise in doubles, then rounded to units")]
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

    /// The known value at a point: a sum, or a pair of sums.
    type Value: Copy + Debug + PartialEq + Send + Sync;

    /// The value at the beginning of a path.
    const ORIGIN: Self::Value;

    /// The value `length` (≥ 1) beyond a point with the value `from`.
    fn extend(&self, from: Self::Value, length: u64, bits: &mut impl RandomBits) -> Self::Value;

    /// The value at a point `near` (≥ 1) beyond one with the value `from` and `far` (≥ 1) before one with the value
    /// `to`.
    fn split(&self, from: Self::Value, to: Self::Value, near: u64, far: u64, bits: &mut impl RandomBits)
    -> Self::Value;

    /// The noise that a value stands for, in whole units of the release.
    fn noise(&self, value: Self::Value) -> i128;
}

#[cfg(test)]
mod tests;
