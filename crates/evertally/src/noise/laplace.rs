//! The discrete Laplace law.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Geometric, RandomBits};
use crate::number::Ratio;
use crate::{Error, Result};

/// The discrete Laplace law: P(x) = (e^{1/s} − 1)/(e^{1/s} + 1) · exp(−|x|/s) on the integers, for an exact rational
/// scale s. Also called the two-sided geometric law.
///
/// **Algorithm** (Canonne, Kamath and Steinke, doi 10.29012/jpc.784, algorithm 2, with another sampler of the
/// magnitude): draw k by [`Geometric`] and a fair sign; start again at −0. So 0 has weight 1/2 and ±k has weight
/// exp(−k/s)/2 each: proportional to exp(−|x|/s). Reads 10 to 18 bytes on average.
///
/// ```
/// use evertally::noise::{DiscreteLaplace, KeyedNoise, Node, Purpose, SecretKey};
/// use evertally::number::Ratio;
///
/// let law = DiscreteLaplace::new(Ratio::new(5, 2)?)?;
/// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// let x: i128 = law.sample(&mut noise.bits(Node { level: 0, index: 0 }));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Ratio", into = "Ratio")]
pub struct DiscreteLaplace {
    magnitude: Geometric,
}

impl DiscreteLaplace {
    /// The discrete Laplace law of this scale.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the scale is above 2¹⁰⁰.
    ///
    /// ```
    /// # use evertally::noise::DiscreteLaplace;
    /// # use evertally::number::Ratio;
    /// assert!(DiscreteLaplace::new(Ratio::new(u128::MAX, 1)?).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(scale: Ratio) -> Result<Self> {
        Ok(Self { magnitude: Geometric::new(scale)? })
    }

    /// The scale s.
    ///
    /// ```
    /// # use evertally::noise::DiscreteLaplace;
    /// # use evertally::number::Ratio;
    /// assert_eq!(DiscreteLaplace::new(Ratio::new(5, 2)?)?.scale(), Ratio::new(5, 2)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn scale(&self) -> Ratio {
        self.magnitude.scale()
    }

    /// The variance, 1/(2 sinh²(1/(2s))): a little less than 2s². Relative error below 10⁻¹².
    ///
    /// ```
    /// # use evertally::noise::DiscreteLaplace;
    /// # use evertally::number::Ratio;
    /// let variance = DiscreteLaplace::new(Ratio::new(10, 1)?)?.variance();
    /// assert!((variance - 199.8334).abs() < 1e-4);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn variance(&self) -> f64 {
        // Written with exp and expm1: no overflow at small scales. 2q/(1 − q)² with q = exp(−1/s).
        let rate = 1.0 / self.scale().to_f64();
        let gap = -libm::expm1(-rate);
        2.0 * libm::exp(-rate) / (gap * gap)
    }

    /// One draw; always below 2¹²⁷ in size.
    ///
    /// ```
    /// # use evertally::noise::{DiscreteLaplace, ScriptedBits};
    /// # use evertally::number::Ratio;
    /// // E = 0.25, sign bit 1.
    /// let mut bits = ScriptedBits::new(vec![0, 0x40, 0, 0x80, 1]);
    /// assert_eq!(DiscreteLaplace::new(Ratio::new(10, 1)?)?.sample(&mut bits), -2);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[inline]
    pub fn sample(&self, bits: &mut impl RandomBits) -> i128 {
        self.sample_by::<true>(bits)
    }

    #[inline]
    pub(super) fn sample_by<const FAST: bool>(&self, bits: &mut impl RandomBits) -> i128 {
        loop {
            let size = self.magnitude.sample_by::<FAST>(bits);
            if let Some(value) = signed(size, bits) {
                return value;
            }
        }
    }

    /// The draw from the first numbers of a node's bits, see [`Geometric::sample_ordered`]. If they do not decide it,
    /// the error is the number of bytes to skip: those of a −0.
    #[inline]
    pub(super) fn sample_ordered(
        &self,
        descents: u32,
        number: impl Fn(usize) -> u16,
    ) -> std::result::Result<i128, usize> {
        let (size, after) = self.magnitude.sample_ordered(descents, &number).ok_or(0usize)?;
        with_sign(size, number(after) & 1 == 1).ok_or(2 * after + 1)
    }
}

/// `size` with the sign of a bit; `None` for −0. The size is below 2^127.
#[inline]
fn with_sign(size: u128, is_negative: bool) -> Option<i128> {
    match (is_negative, size) {
        (false, _) => Some(size as i128),
        (true, 0) => None,
        (true, _) => Some(-(size as i128)),
    }
}

/// `size` with a random sign; `None` for −0. The size is below 2^127.
#[inline]
pub(super) fn signed(size: u128, bits: &mut impl RandomBits) -> Option<i128> {
    with_sign(size, bits.next_bool())
}

impl TryFrom<Ratio> for DiscreteLaplace {
    type Error = Error;

    fn try_from(scale: Ratio) -> Result<Self> {
        Self::new(scale)
    }
}

impl From<DiscreteLaplace> for Ratio {
    fn from(law: DiscreteLaplace) -> Self {
        law.scale()
    }
}

impl fmt::Display for DiscreteLaplace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "discrete Laplace, scale {}", self.scale())
    }
}
