//! The lower triangular integer matrices that a filter solves.

use super::kernel::Kernel;
use std::sync::Arc;

/// Noise below `2^(REACH - guard)` fits the 128-bit path for Toeplitz coefficients: then `v` stays below
/// `3 · 2^(REACH - 16) < 2^100`, and the sum of its products with 2^20 coefficients that add up to less than 2^27 below
/// 2^127. Larger noise lowers the guard; the largest that a plan accepts, 2^74 (2^14 times its largest scale), leaves
/// 40 bits, and 26 if the [excess](FilterRows::Toeplitz) is the largest.
pub(super) const REACH: u32 = 114;
/// The largest sum of absolute inverse coefficients, and of coefficients in units of the first, without excess.
const INVERSE_SUM: f64 = 3.0;
const COEFFICIENT_SUM: f64 = 2048.0;
const MAX_EXCESS: u32 = 14;
/// The same for other matrices, see [`FilterRows::Packed`]; it leaves 32 bits.
const PACKED_REACH: u32 = 106;

/// `F`, up to and including the diagonal.
#[derive(Clone, Debug)]
pub(in crate::mechanism) enum FilterRows {
    /// `F_tj = F_{t-j}`. With an excess of `e` bits the absolute coefficients of the inverse, in units of that of the
    /// diagonal, sum to at most `3 · 2^e`: errors and `v` may be that much larger. Then the weights are at least
    /// `2^14`, and the horizon at most `2^14`: the running sum is below `2^14 · 3 · 2^(REACH - 16)` as well.
    Toeplitz(Arc<Kernel>, u32),
    /// Row by row. With the L1 norm `‖A F⁻¹‖` of the longest row, and `‖F‖` that of the longest row of `F`, their
    /// product must stay below 2^18: `v`, at most `2 ‖A F⁻¹‖ · 2^PACKED_REACH` in size, times a row of `F` is then
    /// below 2^126.
    Packed(Arc<[u32]>),
}

impl FilterRows {
    /// From `F_0, F_1, …`, one per step, whose inverse fades.
    pub(in crate::mechanism) fn toeplitz(coefficients: &[u32]) -> Self {
        Self::Toeplitz(Arc::new(Kernel::new(coefficients)), 0)
    }

    /// The same for up to 2^14 steps with any inverse, whose coefficients are in units of the first. `None` if the
    /// excess is larger than 14 bits.
    pub(in crate::mechanism) fn with_inverse(coefficients: &[u32], inverse: &[f64]) -> Option<Self> {
        let first = coefficients.first().copied().map_or(1.0, f64::from);
        let sum: f64 = coefficients.iter().map(|f| f64::from(*f) / first).sum();
        // The coefficients are off by at most 2^14 u inverse_sum · sum < 2·10^-4 of their sum.
        let inverse_sum = inverse.iter().map(|r| r.abs()).sum::<f64>() * (1.0 + 1e-3);
        let ratio = inverse_sum / INVERSE_SUM * (sum / COEFFICIENT_SUM).max(1.0);
        let excess = (0..=MAX_EXCESS).find(|excess| ratio <= f64::from(1u32 << excess))?;
        Some(Self::Toeplitz(Arc::new(Kernel::new(coefficients)), excess))
    }

    /// The last entries of row `t` (from 0), ending with the diagonal; those before are 0.
    fn row(&self, t: usize) -> &[u32] {
        match self {
            Self::Toeplitz(kernel, _) => kernel.row(t),
            Self::Packed(entries) => &entries[packed(t)..packed(t + 1)],
        }
    }

    /// `F_tt`.
    pub(super) fn diagonal(&self, t: usize) -> u32 {
        *self.row(t).last().expect("a row ends with its diagonal")
    }

    /// The entries of row `t` up to its diagonal; those before are 0.
    pub(super) fn before(&self, t: usize) -> &[u32] {
        let row = self.row(t);
        &row[..row.len() - 1]
    }

    /// Bits of noise and guard that fit together.
    pub(super) fn reach(&self) -> u32 {
        match self {
            Self::Toeplitz(_, excess) => REACH - excess,
            Self::Packed(_) => PACKED_REACH,
        }
    }

    /// Maximum error of the running sum for each step, in its units.
    pub(super) fn slack(&self) -> i128 {
        match self {
            Self::Toeplitz(_, excess) => 8 << excess,
            Self::Packed(_) => 8,
        }
    }
}

/// Number of entries of a packed triangle with this many rows.
pub(in crate::mechanism) fn packed(rows: usize) -> usize {
    rows * (rows + 1) / 2
}
