//! How far a search goes with a family, and how its cost grows.

use super::{MAX_HORIZON, NoiseKind};

/// The horizons, in steps, at which a search considers a family. At the longest ones building or running it takes a few
/// seconds; `None` for a noise distribution that it does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Reach {
    pub laplace: Option<u64>,
    pub gaussian: Option<u64>,
    /// A search considers it only over longer horizons: up to here another family is better.
    pub above: u64,
}

/// How the time and memory of a step grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// At most with the logarithm of the horizon.
    Logarithmic,
    /// With the horizon.
    Linear,
}

impl Reach {
    /// Any horizon under both distributions.
    pub const ANY: Self = Self { laplace: Some(MAX_HORIZON), gaussian: Some(MAX_HORIZON), above: 0 };

    /// Any horizon under Gaussian noise, the only distribution.
    pub const ANY_GAUSSIAN: Self = Self::gaussian(MAX_HORIZON);

    /// Up to a horizon under Gaussian noise, the only distribution.
    pub const fn gaussian(longest: u64) -> Self {
        Self { laplace: None, gaussian: Some(longest), above: 0 }
    }

    /// Up to a horizon under Laplace noise, the only distribution.
    pub const fn laplace(longest: u64) -> Self {
        Self { laplace: Some(longest), gaussian: None, above: 0 }
    }

    /// The same, only over horizons longer than this.
    pub const fn above(self, above: u64) -> Self {
        Self { above, ..self }
    }

    /// The longest horizon under a noise distribution.
    pub fn of(self, law: NoiseKind) -> Option<u64> {
        match law {
            NoiseKind::Laplace => self.laplace,
            NoiseKind::Gaussian => self.gaussian,
        }
    }

    /// The longest horizon under any noise distribution.
    pub fn longest(self) -> u64 {
        self.laplace.max(self.gaussian).unwrap_or(0)
    }
}
