//! The Poisson law with an exact rational mean.

use num_bigint::{BigInt, BigUint};

use super::RandomBits;
use super::hat::{Hat, LogConcave};
use super::real::LogSum;
use super::stirling::{BoundedSum, difference, factorial_deviance, log_of_step};
use crate::number::Ratio;
use crate::{Error, Result};

/// The number k ≥ 0 with probability exp(−λ)·λᵏ/k!, for an exact rational mean λ.
///
/// **Algorithm**: rejection from a discrete Laplace law around the mode m = ⌊λ⌋, by exact coins; O(1) for any mean.
/// c_k = ln(1 + 1/k) ≥ 1/(k + 1), and k + 1 ≤ m + x for 0 < |k − m| < x: the lemma of the hat holds with V = m and
/// C = 1. p(m − 1) = p(m) exactly if λ = m. Below λ = 1 the law falls from p(0) on, with p(1)/p(0) = λ.
///
/// ```
/// use evertally::noise::{KeyedNoise, Node, Poisson, Purpose, SecretKey};
/// use evertally::number::Ratio;
///
/// let law = Poisson::new(Ratio::new(5, 2)?)?;
/// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// let k: u128 = law.sample(&mut noise.bits(Node { level: 0, index: 0 }));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poisson {
    /// The mean is whole + numerator/denominator, numerator < denominator.
    whole: u128,
    numerator: u128,
    denominator: u128,
    hat: Hat,
}

impl Poisson {
    /// The greatest mean: 2¹²⁰.
    pub const MAX_MEAN: u128 = 1 << 120;

    /// The Poisson law of this mean.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the mean is above 2¹²⁰.
    ///
    /// ```
    /// # use evertally::noise::Poisson;
    /// # use evertally::number::Ratio;
    /// assert!(Poisson::new(Ratio::new(u128::MAX, 1)?).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(mean: Ratio) -> Result<Self> {
        let (n, d) = (mean.numerator(), mean.denominator());
        if n / d > Self::MAX_MEAN || (n / d == Self::MAX_MEAN && n % d > 0) {
            return Err(Error::invalid(format!("a mean may be at most 2^120, got {mean}")));
        }
        Ok(Self::of_parts(n / d, n % d, d))
    }

    /// The law of mean whole + numerator/denominator > 0, where numerator < denominator and whole ≤ 2^126.
    #[inline]
    pub(in crate::noise) fn of_parts(whole: u128, numerator: u128, denominator: u128) -> Self {
        let tied = numerator == 0;
        let fall = (denominator - numerator) as f64 / denominator as f64;
        Self { whole, numerator, denominator, hat: Hat::new(whole, tied, whole as f64, 1.0, fall) }
    }

    /// The mean λ, to 3 units in the last place; it is the variance too.
    ///
    /// ```
    /// # use evertally::noise::Poisson;
    /// # use evertally::number::Ratio;
    /// assert_eq!(Poisson::new(Ratio::new(5, 2)?)?.mean(), 2.5);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn mean(&self) -> f64 {
        self.whole as f64 + self.fraction()
    }

    #[inline]
    fn fraction(&self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// One draw; always below 2¹²⁷.
    ///
    /// ```
    /// # use evertally::noise::{Poisson, ScriptedBits};
    /// # use evertally::number::Ratio;
    /// // E = 0.25 of a scale of 9 steps above the mode 50: 52, and a coin whose number is above γ.
    /// let mut bits = ScriptedBits::new(vec![0, 0x40, 0, 0x80, 0, 0xff, 0xff]);
    /// assert_eq!(Poisson::new(Ratio::new(50, 1)?)?.sample(&mut bits), 52);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[inline]
    pub fn sample(&self, bits: &mut impl RandomBits) -> u128 {
        self.sample_by::<true>(bits)
    }

    #[inline]
    pub(super) fn sample_by<const FAST: bool>(&self, bits: &mut impl RandomBits) -> u128 {
        self.hat.sample_by::<FAST>(self, bits)
    }

    #[cfg(test)]
    pub(super) fn hat(&self) -> &Hat {
        &self.hat
    }
}

impl LogConcave for Poisson {
    fn end(&self) -> u128 {
        1 << 127
    }

    /// L = ln(k!/m!) − x ln λ: the deviance from z = m + ½, and x ln(z/λ).
    #[inline]
    fn estimate(&self, k: u128) -> BoundedSum {
        // z − λ = ½ − fraction may lose digits to cancellation: this gives an error of the last term below 2^-51 ·
        // |x|/λ from λ = 1 on, where the deviance is above |x|/(4λ), and below 2^-50 · |x| before, where it is above
        // |x|/2. (With u = x/z: φ(u) ≥ 3u²/8 up to u = 1 and φ(u) ≥ 0.38u beyond, and z ≤ 1.5λ.)
        let (mean, z) = (self.mean(), self.whole as f64 + 0.5);
        let slope = log_of_step(mean, z, 0.5 - self.fraction());
        factorial_deviance(self.whole, k).plus(difference(k, self.whole) * slope)
    }

    fn exact(&self, k: u128) -> LogSum {
        let mean = BigUint::from(self.whole) * self.denominator + self.numerator;
        let x = BigInt::from(k) - self.whole;
        LogSum::default().factorials(k, self.whole).logarithm(-x, mean, self.denominator.into())
    }
}
