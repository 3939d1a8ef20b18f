//! The geometric law with an exact rational scale.

use num_bigint::BigUint;

use super::RandomBits;
use super::lazy::{AcceptedRun, exponential};
use crate::number::Ratio;
use crate::{Error, Result};

/// The number k ≥ 0 with probability (1 − exp(−1/s))·exp(−k/s), for an exact rational scale s.
///
/// It is ⌊s·E⌋ for a standard exponential E: P(⌊s·E⌋ ≥ k) = P(E ≥ k/s) = exp(−k/s). E is a lazily drawn real number
/// ([von Neumann's method](super::BernoulliExp)), with only as many digits as the whole part needs: 9 to 17 bytes on
/// average.
///
/// ```
/// use evertally::noise::{Geometric, KeyedNoise, Node, Purpose, SecretKey};
/// use evertally::number::Ratio;
///
/// let law = Geometric::new(Ratio::new(5, 2)?)?;
/// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// let k: u128 = law.sample(&mut noise.bits(Node { level: 0, index: 0 }));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometric {
    scale: Ratio,
    /// Numerator and denominator of the scale, if they fit 64 bits.
    small: Option<(u64, u64)>,
}

impl Geometric {
    /// The greatest scale: 2¹⁰⁰.
    pub const MAX_SCALE: u128 = 1 << 100;

    /// The geometric law of this scale.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the scale is above 2¹⁰⁰. Within the limit a value of 2¹²⁷
    /// or more would have probability below exp(−2²⁷); sampling would panic.
    ///
    /// ```
    /// # use evertally::noise::Geometric;
    /// # use evertally::number::Ratio;
    /// assert!(Geometric::new(Ratio::new(u128::MAX, 1)?).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(scale: Ratio) -> Result<Self> {
        if scale > Ratio::new(Self::MAX_SCALE, 1)? {
            return Err(Error::invalid(format!("a scale may be at most 2^100, got {scale}")));
        }
        Ok(Self::from_parts(scale))
    }

    /// As [`new`](Self::new), for parameters that it would accept.
    #[inline]
    pub(super) fn from_parts(scale: Ratio) -> Self {
        let small = u64::try_from(scale.numerator()).ok().zip(u64::try_from(scale.denominator()).ok());
        Self { scale, small }
    }

    /// The law of a whole, nonzero scale.
    #[inline]
    pub(super) fn whole(scale: u64) -> Self {
        Self { scale: Ratio::whole(scale.into()), small: Some((scale, 1)) }
    }

    /// The scale s.
    ///
    /// ```
    /// # use evertally::noise::Geometric;
    /// # use evertally::number::Ratio;
    /// assert_eq!(Geometric::new(Ratio::new(5, 2)?)?.scale(), Ratio::new(5, 2)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn scale(&self) -> Ratio {
        self.scale
    }

    /// One draw; always below 2¹²⁷.
    ///
    /// ```
    /// # use evertally::noise::{Geometric, ScriptedBits};
    /// # use evertally::number::Ratio;
    /// // E = 0.25 + 0: U = 0.25 is accepted, because the next number is greater.
    /// let mut bits = ScriptedBits::new(vec![0, 0x40, 0, 0x80]);
    /// assert_eq!(Geometric::new(Ratio::new(10, 1)?)?.sample(&mut bits), 2);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[inline]
    pub fn sample(&self, bits: &mut impl RandomBits) -> u128 {
        self.sample_by::<true>(bits)
    }

    /// One draw, with 64-bit arithmetic if it suffices, or always with big integers. The values are the same.
    #[inline]
    pub(super) fn sample_by<const FAST: bool>(&self, bits: &mut impl RandomBits) -> u128 {
        let (whole, mut fraction) = exponential::<FAST>(bits);
        match self.small {
            Some((numerator, denominator)) if FAST => {
                // numerator · (whole + fraction), rounded down; less than 2^64 · 2^64.
                let product = u128::from(numerator) * u128::from(whole);
                quotient(product + u128::from(fraction.floor_of_product(numerator, bits)), denominator)
            }
            _ => {
                let (numerator, denominator) = self.scale.big();
                let part: BigUint = fraction.floor_of_big_product(&numerator, bits);
                let value = (numerator * whole + part) / denominator;
                value.try_into().expect("2^127 is 2^27 scales away")
            }
        }
    }

    /// The draw from the first numbers of a node's bits, 16 bits each, if they decide it: with their order, as
    /// [`FirstBlocks::descents`](evertally_kernels::FirstBlocks::descents). The second result is the place of the first
    /// number that is not read, at most 16.
    #[inline]
    pub(super) fn sample_ordered(&self, descents: u32, number: impl Fn(usize) -> u16) -> Option<(u128, usize)> {
        let AcceptedRun { whole, start, after } = AcceptedRun::find(descents)?;
        let (numerator, denominator) = self.small?;
        let first = u64::from(number(start));
        // As `LazyUniform::floor_of_product`.
        if numerator <= 1 << 16 {
            let product = (whole << 16 | first) * numerator; // less than 2^20 · 2^16
            let is_certain = (product & 0xffff) + numerator <= 1 << 16;
            return is_certain.then_some((quotient((product >> 16).into(), denominator), after));
        }
        let next = |i: usize| u64::from(number(after + i));
        let prefix = first << 48 | next(3) << 32 | next(2) << 16 | next(1); // all but the last 16 bits
        let product = u128::from(prefix) * u128::from(numerator);
        (product as u64).checked_add(numerator)?;
        let product = u128::from(numerator) * u128::from(whole) + (product >> 64);
        Some((quotient(product, denominator), after + 4))
    }
}

/// ⌊⌊x⌋ / d⌋ = ⌊x / d⌋, with a division of 64 bits if it suffices.
#[inline]
fn quotient(product: u128, denominator: u64) -> u128 {
    match (u64::try_from(product), denominator) {
        (_, 1) => product,
        (Ok(product), _) => u128::from(product / denominator),
        (Err(_), _) => product / u128::from(denominator),
    }
}
