//! Toeplitz factorizations: a node depends on the age of a step, and releases are filters of the noise.

pub(in crate::mechanism) mod banded_inverse;
pub(in crate::mechanism) mod banded_inverse_sqrt;
pub(in crate::mechanism) mod banded_sqrt;
mod bands;
pub(in crate::mechanism) mod blt;
pub(in crate::mechanism) mod epoch_bands;
pub(in crate::mechanism) mod filter;
pub(in crate::mechanism) mod memory;
pub(in crate::mechanism) mod normalized_blt;
pub(in crate::mechanism) mod normalized_sqrt;
pub(in crate::mechanism) mod settled;
pub(in crate::mechanism) mod sqrt;
mod square_root;

pub use blt::Blt;
pub use epoch_bands::EpochBands;
pub use square_root::SquareRoot;

/// Whether the columns of `R` are those of a Toeplitz matrix, or scaled to one length.
///
/// All steps of a normalized factorization are equally protected, which gives it the smaller error.
#[doc(alias = "Columns")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnScaling {
    /// Unscaled.
    Plain,
    /// Scaled to one length.
    Normalized,
}

impl ColumnScaling {
    /// Both kinds.
    pub const BOTH: [Self; 2] = [Self::Plain, Self::Normalized];

    /// Whether they are scaled.
    pub fn are_normalized(self) -> bool {
        self == Self::Normalized
    }
}
