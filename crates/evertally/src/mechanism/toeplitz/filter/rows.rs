//! The lower triangular integer matrices that a filter solves.

use super::kernel::Kernel;
use std::sync::Arc;

/// Noise below `2^(REACH - guard)` fits the 128-bit path for Toeplitz coefficients: then `v` stays below
/// `3 · 2^(REACH - 16) < 2^100`, and the sum of its products with 2^20 coefficients that add up to less than 2^27 below
/// 2^127. Larger noise lowers the guard; the largest that a plan accepts, 2^74 (2^14 times its largest scale), leaves
/// 40 bits.
pub(super) const REACH: u32 = 114;
/// The same for other matrices, see [`FilterRows::Packed`]; it leaves 32 bits.
const PACKED_REACH: u32 = 106;

/// `F`, up to and including the diagonal.
#[derive(Clone, Debug)]
pub(in crate::mechanism) enum FilterRows {
    /// `F_tj = F_{t-j}`.
    Toeplitz(Arc<Kernel>),
    /// Row by row. With the L1 norm `‖A F⁻¹‖` of the longest row, and `‖F‖` that of the longest row of `F`, their
    /// product must stay below 2^18: `v`, at most `2 ‖A F⁻¹‖ · 2^PACKED_REACH` in size, times a row of `F` is then
    /// below 2^126.
    Packed(Arc<[u32]>),
}

impl FilterRows {
    /// From `F_0, F_1, …`, one per step.
    pub(in crate::mechanism) fn toeplitz(coefficients: &[u32]) -> Self {
        Self::Toeplitz(Arc::new(Kernel::new(coefficients)))
    }

    /// The last entries of row `t` (from 0), ending with the diagonal; those before are 0.
    fn row(&self, t: usize) -> &[u32] {
        match self {
            Self::Toeplitz(kernel) => kernel.row(t),
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
            Self::Toeplitz(_) => REACH,
            Self::Packed(_) => PACKED_REACH,
        }
    }
}

/// Number of entries of a packed triangle with this many rows.
pub(in crate::mechanism) fn packed(rows: usize) -> usize {
    rows * (rows + 1) / 2
}
