//! Leading constants of errors for long horizons.

use super::MechanismName;

/// Leading constants of the error for long horizons, as stated in the literature; `None` if it states none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Limit of 2ρ · largest variance / log₂²T under ρ-zCDP.
    pub zcdp: Option<f64>,
    /// Limit of ε² · mean variance / log₂³T under pure ε.
    pub pure: Option<f64>,
}

impl Limits {
    /// The literature states none.
    pub const NONE: Self = Self { zcdp: None, pure: None };

    /// As [`NONE`](Self::NONE), for any name.
    pub(in crate::mechanism) fn none(_: MechanismName) -> Self {
        Self::NONE
    }
}
