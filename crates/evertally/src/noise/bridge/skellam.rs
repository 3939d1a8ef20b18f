//! The bridge of Skellam noise: differences of Poisson processes.

use super::Bridge;
use crate::noise::{Binomial, Poisson, RandomBits, rounded};
use crate::number::Ratio;
use crate::{Error, Result};

/// Skellam noise along a path: N⁺ − N⁻ for two independent Poisson processes, each of rate variance/2 per unit of
/// length.
///
/// A value is the pair of counts (N⁺, N⁻). Beyond the last known point each grows by a [`Poisson`] number. Between two
/// known points each new point of the process is, independently, uniform on the stretch, so a [`Binomial`] part of them
/// comes before the point in between.
///
/// ```
/// use evertally::noise::bridge::{Bridge, SkellamBridge};
/// use evertally::noise::{KeyedNoise, Node, Purpose, SecretKey};
/// use evertally::number::Ratio;
///
/// let bridge = SkellamBridge::new(Ratio::new(1000, 1)?, 16)?;
/// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// let mut bits = noise.bits(Node { level: 0, index: 0 });
/// let end = bridge.extend(SkellamBridge::ORIGIN, 10, &mut bits);
/// let third = bridge.split(SkellamBridge::ORIGIN, end, 3, 7, &mut bits);
/// assert!(third[0] <= end[0] && third[1] <= end[1]);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkellamBridge {
    variance: Ratio,
    divisor: u64,
    /// variance/2 = whole + numerator/denominator.
    whole: u128,
    numerator: u128,
    denominator: u128,
}

impl SkellamBridge {
    /// The greatest variance per unit of length: 2⁸⁴ squared noise steps. With paths of length at most 2³⁸ (the squared
    /// weights of 63 levels), counts have means below 2¹²² and are below 2¹²³.
    pub const MAX_VARIANCE: u128 = 1 << 84;

    /// Noise of this variance per unit of length, in squared noise steps, `divisor` of which make one step of the grid.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the variance is above 2⁸⁴ or its denominator above 2⁶², or
    /// if the divisor is 0.
    ///
    /// ```
    /// # use evertally::noise::bridge::SkellamBridge;
    /// # use evertally::number::Ratio;
    /// assert!(SkellamBridge::new(Ratio::new(10, 1)?, 0).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(variance: Ratio, divisor: u64) -> Result<Self> {
        let (n, d) = (variance.numerator(), variance.denominator());
        if variance > Ratio::new(Self::MAX_VARIANCE, 1)? || d > 1 << 62 {
            return Err(Error::invalid(format!(
                "the variance of Skellam noise may be at most 2^84 squared noise steps, with a denominator of at most \
                 2^62, got {variance}"
            )));
        }
        if divisor == 0 {
            return Err(Error::invalid("a grid step must have at least 1 noise step, got a divisor of 0"));
        }
        // Below 2^63.
        let denominator = 2 * d;
        Ok(Self { variance, divisor, whole: n / denominator, numerator: n % denominator, denominator })
    }

    /// The variance per unit of length, in squared noise steps.
    ///
    /// ```
    /// # use evertally::noise::bridge::SkellamBridge;
    /// # use evertally::number::Ratio;
    /// assert_eq!(SkellamBridge::new(Ratio::new(10, 1)?, 16)?.variance(), Ratio::new(10, 1)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn variance(&self) -> Ratio {
        self.variance
    }

    /// Noise steps to one step of the grid.
    ///
    /// ```
    /// # use evertally::noise::bridge::SkellamBridge;
    /// # use evertally::number::Ratio;
    /// assert_eq!(SkellamBridge::new(Ratio::new(10, 1)?, 16)?.divisor(), 16);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn divisor(&self) -> u64 {
        self.divisor
    }
}

impl Bridge for SkellamBridge {
    const EXACT: bool = true;

    /// N⁺ and N⁻.
    type Value = [u128; 2];

    const ORIGIN: Self::Value = [0; 2];

    #[inline]
    fn extend(&self, from: Self::Value, length: u64, bits: &mut impl RandomBits) -> Self::Value {
        debug_assert!(length < 1 << 39, "the path is longer than that of any mechanism");
        let length = u128::from(length);
        // Below 2^63 · 2^39; the mean is below 2^84 · 2^39.
        let part = self.numerator * length;
        let whole = self.whole * length + part / self.denominator;
        let law = Poisson::from_parts(whole, part % self.denominator, self.denominator);
        from.map(|count| count + law.sample(bits))
    }

    #[inline]
    fn split(
        &self,
        from: Self::Value,
        to: Self::Value,
        near: u64,
        far: u64,
        bits: &mut impl RandomBits,
    ) -> Self::Value {
        std::array::from_fn(|i| from[i] + Binomial::from_parts(to[i] - from[i], near, far).sample(bits))
    }

    /// N⁺ − N⁻, rounded from noise steps to units of 2⁻⁸ of the grid.
    #[inline]
    fn noise(&self, [up, down]: Self::Value) -> i128 {
        // Counts are below 2^123. Their standard deviations are below 2^61, and the difference is below 2^80, except
        // with probability less than exp(-2^30).
        rounded(up as i128 - down as i128, self.divisor)
    }
}
