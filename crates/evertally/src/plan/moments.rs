//! Moments of noise laws.

use crate::number::power;

/// The moments of a noise law that intervals of combinations need; the law is symmetric around 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseMoments {
    /// Its variance, in squared units of the data.
    pub variance: f64,
    /// Its fourth cumulant, `E z⁴ - 3 (E z²)²`, in fourth powers of units of the data: 0 for Gaussian noise.
    pub fourth: f64,
}

impl NoiseMoments {
    /// No noise.
    pub const NONE: Self = Self { variance: 0.0, fourth: 0.0 };

    /// Gaussian noise of this variance.
    pub const fn gaussian(variance: f64) -> Self {
        Self { variance, fourth: 0.0 }
    }

    /// The law of a multiple.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { variance: self.variance * power(factor, 2), fourth: self.fourth * power(factor, 4) }
    }

    /// The law of the sum with independent noise.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { variance: self.variance + other.variance, fourth: self.fourth + other.fourth }
    }
}
