//! Bins of the same norm, and the precision of a computation.

/// The unit of rounding.
pub(super) const UNIT: f64 = f64::EPSILON / 2.0;

/// How coarse a grid may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Coarseness {
    /// How much it may add to δ, approximately.
    pub(super) of_delta: f64,
    /// Maximum number of points; grids of more are coarser.
    pub(super) max_points: f64,
}

impl Coarseness {
    /// For noise that plans use.
    pub(crate) const FINE: Self = Self { of_delta: 5e-4, max_points: 1_048_576.0 };
    /// For a comparison of mechanisms.
    pub(crate) const ROUGH: Self = Self { of_delta: 0.02, max_points: 16_384.0 };
}

/// Bins of the same norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EqualBins {
    pub(super) square: f64,
    pub(super) count: u64,
}
