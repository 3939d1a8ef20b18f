//! The grids of noise and weights of endless mechanisms.

/// Bits of the noise grid: over 2^44 steps, rounding adds less than a thousandth to a sensitivity of 1.
pub(super) const NOISE_BITS: u32 = 32;
/// The weights of columns are multiples of `2^-14`.
pub(super) const WEIGHT_BITS: u32 = 14;
/// Extra bits of the estimates of totals, below those of a release.
pub(super) const GUARD: u32 = 16;
/// Up to this many steps, BLTs are inside.
pub(super) const LONGEST_BLT: u64 = 1 << 44;
