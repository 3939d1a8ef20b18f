//! A discrete law of either kind, as named in a plan.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{DiscreteGaussian, DiscreteLaplace, RandomBits};
use crate::number::Ratio;

/// The law of a plan's noise variables. Serialized as `{"laplace": "5/2"}` (scale) or `{"gaussian": "200/1"}` (σ²).
///
/// ```
/// use evertally::noise::{DiscreteGaussian, DiscreteLaw};
/// use evertally::number::Ratio;
///
/// let law = DiscreteLaw::Gaussian(DiscreteGaussian::new(Ratio::new(200, 1)?)?);
/// assert_eq!(law.to_string(), "discrete Gaussian, σ² = 200/1");
/// assert_eq!(law.variance(), 200.0);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiscreteLaw {
    /// Discrete Laplace noise.
    Laplace(DiscreteLaplace),
    /// Discrete Gaussian noise.
    Gaussian(DiscreteGaussian),
}

impl DiscreteLaw {
    /// One draw; always below 2¹²⁷ in size.
    ///
    /// ```
    /// # use evertally::noise::{DiscreteLaplace, DiscreteLaw, KeyedNoise, Node, Purpose, SecretKey};
    /// # use evertally::number::Ratio;
    /// let law = DiscreteLaw::Laplace(DiscreteLaplace::new(Ratio::new(5, 2)?)?);
    /// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
    /// let x: i128 = law.sample(&mut noise.bits(Node { level: 0, index: 0 }));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[inline]
    pub fn sample(&self, bits: &mut impl RandomBits) -> i128 {
        match self {
            Self::Laplace(law) => law.sample(bits),
            Self::Gaussian(law) => law.sample(bits),
        }
    }

    /// The variance of the discrete law, to a relative error of 10⁻¹².
    ///
    /// ```
    /// # use evertally::noise::{DiscreteGaussian, DiscreteLaw};
    /// # use evertally::number::Ratio;
    /// assert_eq!(DiscreteLaw::Gaussian(DiscreteGaussian::new(Ratio::new(9, 1)?)?).variance(), 9.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn variance(&self) -> f64 {
        match self {
            Self::Laplace(law) => law.variance(),
            Self::Gaussian(law) => law.variance(),
        }
    }

    /// The exact parameter: the scale of the Laplace law, σ² of the Gaussian.
    ///
    /// ```
    /// # use evertally::noise::{DiscreteGaussian, DiscreteLaw};
    /// # use evertally::number::Ratio;
    /// let law = DiscreteLaw::Gaussian(DiscreteGaussian::new(Ratio::new(9, 1)?)?);
    /// assert_eq!(law.parameter(), Ratio::new(9, 1)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn parameter(&self) -> Ratio {
        match self {
            Self::Laplace(law) => law.scale(),
            Self::Gaussian(law) => law.parameter(),
        }
    }

    /// The scale in floating point: s of the Laplace law, σ of the Gaussian.
    ///
    /// ```
    /// # use evertally::noise::{DiscreteGaussian, DiscreteLaw};
    /// # use evertally::number::Ratio;
    /// assert_eq!(DiscreteLaw::Gaussian(DiscreteGaussian::new(Ratio::new(9, 1)?)?).scale(), 3.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn scale(&self) -> f64 {
        match self {
            Self::Laplace(law) => law.scale().to_f64(),
            Self::Gaussian(law) => libm::sqrt(law.parameter().to_f64()),
        }
    }
}

impl From<DiscreteLaplace> for DiscreteLaw {
    fn from(law: DiscreteLaplace) -> Self {
        Self::Laplace(law)
    }
}

impl From<DiscreteGaussian> for DiscreteLaw {
    fn from(law: DiscreteGaussian) -> Self {
        Self::Gaussian(law)
    }
}

impl fmt::Display for DiscreteLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Laplace(law) => law.fmt(f),
            Self::Gaussian(law) => law.fmt(f),
        }
    }
}
