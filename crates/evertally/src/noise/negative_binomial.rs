//! The negative binomial law with an exact rational scale.

use num_bigint::BigInt;

use super::hat::{Hat, LogConcave};
use super::real::LogSum;
use super::stirling::{BoundedSum, difference, rise};
use super::{Geometric, RandomBits};
use crate::number::Ratio;
use crate::{Error, Result};

/// The sum of `shape` independent [geometric](Geometric) numbers of an exact rational scale s: k ≥ 0 has probability
/// C(k + r − 1, k)·(1 − q)ʳ·qᵏ, with r the shape and q = exp(−1/s).
///
/// The difference of two of them is the sum of r [discrete Laplace](super::DiscreteLaplace) numbers of scale s.
///
/// **Algorithm**: rejection from a discrete Laplace law around m, close to the mode, by exact coins; O(1) for any
/// shape. A shape of 1 is the geometric law itself.
/// * c_k = ln(1 + (r−1)/(k(k+r))) ≥ (r−1)/((k+1)(k+r−1)). With V = (m+1)(m+r)/(r−1) and C = (m+r)/(r−1), so
///   v = V/C = m + 1, the second difference of x(x−1)/(2(V+Cx)) is at most (m+2)/(C(m+1+x)(m+2+x)). It is below c_{m+x}
///   for x ≥ 1, because (m+2)(m+r−1+x)/(m+2+x) ≤ max(m+2, m+r) = m+r = C(r−1); and it is at most 1/V, which is below
///   c_{m−x} ≥ (r−1)/(m(m+r−2)). So the lemma of the hat holds.
/// * p(k) ≥ p(k − 1) for k ≤ ζ = (r − 1)/(exp(1/s) − 1), and m is ⌊ζ⌋ in floating point. For 1/s ≤ 45 the error of ζ is
///   below 2⁻⁴⁵ζ: that of 1/s, 2⁻⁵¹, is amplified by at most 1 + 1/s. For greater 1/s, ζ < 0.54 and m = 0 is right. If
///   k is on the wrong side of ζ, the logarithm of p(k)/p(k−1) = q(k+r−1)/k, which is 0 at ζ, is below η =
///   2⁻⁴⁴(r−1)/(m+r−1) in size, as its derivative is (r−1)/(k(k+r−1)). With t ≤ 3.5·max(√V, C, 1) up to rounding, ηt is
///   below 3.5·2⁻⁴³·⁵√r < 2⁻⁹, which the hat allows for.
///
/// ```
/// use evertally::noise::{KeyedNoise, NegativeBinomial, Node, Purpose, SecretKey};
/// use evertally::number::Ratio;
///
/// let law = NegativeBinomial::new(20, Ratio::new(1000, 1)?)?;
/// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// let k: u128 = law.sample(&mut noise.bits(Node { level: 0, index: 0 }));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegativeBinomial {
    /// r − 1.
    further: u64,
    scale: Ratio,
    mode: u128,
    /// The hat; for a shape of 1 it is not used.
    hat: Hat,
}

impl NegativeBinomial {
    /// The greatest scale: 2⁶⁰.
    pub const MAX_SCALE: u128 = 1 << 60;

    /// The negative binomial law of this shape and scale.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the shape is 0 or the scale above 2⁶⁰.
    ///
    /// ```
    /// # use evertally::noise::NegativeBinomial;
    /// # use evertally::number::Ratio;
    /// assert!(NegativeBinomial::new(0, Ratio::new(1, 1)?).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(shape: u64, scale: Ratio) -> Result<Self> {
        if shape == 0 {
            return Err(Error::invalid("a negative binomial law needs a shape of at least 1, got 0"));
        }
        if scale > Ratio::whole(Self::MAX_SCALE) {
            return Err(Error::invalid(format!("a scale may be at most 2^60, got {scale}")));
        }
        Ok(Self::of_parts(shape, scale))
    }

    /// As [`new`](Self::new), for parameters that it would accept.
    #[inline]
    pub(in crate::noise) fn of_parts(shape: u64, scale: Ratio) -> Self {
        let further = shape - 1;
        let (r, s) = (shape as f64, scale.to_f64());
        // ζ, below 2^64 · 2^60.
        let mode = (further as f64 / libm::expm1(1.0 / s)) as u128;
        let m = mode as f64;
        let c = (m + r) / (further.max(1) as f64);
        // p(1)/p(0) = rq. Where it is used, exp is accurate to 2^-44.
        let fall = 1.0 - r * libm::exp(-1.0 / s) * (1.0 + 1e-9);
        Self { further, scale, mode, hat: Hat::new(mode, false, (m + 1.0) * c, c, fall) }
    }

    /// One draw; always below 2¹²⁷.
    ///
    /// ```
    /// # use evertally::noise::{NegativeBinomial, ScriptedBits};
    /// # use evertally::number::Ratio;
    /// // A shape of 1 is the geometric law: E = 0.25 of a scale of 10.
    /// let mut bits = ScriptedBits::new(vec![0, 0x40, 0, 0x80]);
    /// assert_eq!(NegativeBinomial::new(1, Ratio::new(10, 1)?)?.sample(&mut bits), 2);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[inline]
    pub fn sample(&self, bits: &mut impl RandomBits) -> u128 {
        self.sample_by::<true>(bits)
    }

    #[inline]
    pub(super) fn sample_by<const FAST: bool>(&self, bits: &mut impl RandomBits) -> u128 {
        match self.further {
            0 => Geometric::of_parts(self.scale).sample_by::<FAST>(bits),
            _ => self.hat.sample_by::<FAST>(self, bits),
        }
    }

    #[cfg(test)]
    pub(super) fn hat(&self) -> &Hat {
        &self.hat
    }
}

impl LogConcave for NegativeBinomial {
    fn end(&self) -> u128 {
        1 << 127
    }

    /// L = x/s − ln((k+1)···(k+r−1)) + ln((m+1)···(m+r−1)).
    #[inline]
    fn estimate(&self, k: u128) -> BoundedSum {
        let linear = difference(k, self.mode) / self.scale.to_f64();
        BoundedSum::default().plus(linear).less(rise(self.further, self.mode, k))
    }

    fn exact(&self, k: u128) -> LogSum {
        let (numerator, denominator) = self.scale.big();
        let x = (BigInt::from(k) - self.mode) * BigInt::from(denominator);
        let further = u128::from(self.further);
        LogSum::default().factorials(k, self.mode).factorials(self.mode + further, k + further).quotient(x, numerator)
    }
}
