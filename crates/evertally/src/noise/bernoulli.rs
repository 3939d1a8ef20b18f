//! Coins with probability exp(−γ).

use num_bigint::BigUint;

use super::RandomBits;
use super::lazy::{LazyUniform, bernoulli_exp_one};
use crate::{Error, Result};

/// A coin that is true with probability exactly exp(−p/q).
///
/// The whole part of γ = p/q is ⌊γ⌋ coins of probability 1/e that must all be true; for the fraction f, von Neumann's
/// run f > U₁ > U₂ > … has length ≥ n with probability fⁿ/n!, so its length is even with probability Σ (−f)ⁿ/n! =
/// exp(−f). At most 7 numbers are drawn on average, of 2 bytes each, except for ties, once in 2¹⁶.
///
/// Source: J. von Neumann, "Various techniques used in connection with random digits", 1951; G. Forsythe, Math. Comp.
/// 26 (1972). It replaces algorithm 1 of Canonne, Kamath and Steinke (doi 10.29012/jpc.784), which draws the same run
/// with a division for every number.
///
/// ```
/// use evertally::noise::{BernoulliExp, ScriptedBits};
///
/// let coin = BernoulliExp::new(1, 2)?;
/// // U₁ = 0.75… is not less than 1/2: a run of length 0.
/// assert!(coin.sample(&mut ScriptedBits::new(vec![0, 0xc0])));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BernoulliExp {
    whole: u128,
    numerator: BigUint,
    denominator: BigUint,
    /// The first 16 binary digits of the fraction.
    first: u16,
}

impl BernoulliExp {
    /// The coin of probability exp(−p/q), for any p ≥ 0 and q ≥ 1.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if q is 0.
    ///
    /// ```
    /// # use evertally::noise::BernoulliExp;
    /// assert!(BernoulliExp::new(1, 0).is_err());
    /// ```
    pub fn new(p: u128, q: u128) -> Result<Self> {
        if q == 0 {
            return Err(Error::invalid(format!("exp(-p/q) needs a positive denominator, got {p}/{q}")));
        }
        let (numerator, denominator) = (BigUint::from(p % q), BigUint::from(q));
        let first = (&numerator << 16u32) / &denominator;
        Ok(Self { whole: p / q, numerator, denominator, first: first.try_into().expect("a fraction below 1") })
    }

    /// One toss.
    ///
    /// ```
    /// # use evertally::noise::{BernoulliExp, ScriptedBits};
    /// // U₁ = 0.25 < 1/2, U₂ = 0.75 > U₁: a run of length 1.
    /// assert!(!BernoulliExp::new(1, 2)?.sample(&mut ScriptedBits::new(vec![0, 0x40, 0, 0xc0])));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[inline]
    pub fn sample(&self, bits: &mut impl RandomBits) -> bool {
        exp_coin(self.whole, self.first, bits, || (self.numerator.clone(), self.denominator.clone()))
    }
}

/// True with probability exp(−(whole + f)), where `first` are the first 16 binary digits of f in [0, 1) and `fraction`
/// is f itself, computed only if those digits do not decide.
#[inline]
pub(super) fn exp_coin(
    whole: u128,
    first: u16,
    bits: &mut impl RandomBits,
    fraction: impl FnOnce() -> (BigUint, BigUint),
) -> bool {
    exp_coin_by(whole, first, bits, |draw, bits| {
        let (numerator, denominator) = fraction();
        draw.less_than_ratio(&numerator, &denominator, bits)
    })
}

/// As [`exp_coin`], where `less` compares a number that has the same first 16 digits with f.
#[inline]
pub(super) fn exp_coin_by<B: RandomBits>(
    whole: u128,
    first: u16,
    bits: &mut B,
    less: impl FnOnce(&mut LazyUniform, &mut B) -> bool,
) -> bool {
    for _ in 0..whole {
        if !bernoulli_exp_one(bits) {
            return false;
        }
    }
    let mut draw = LazyUniform::draw(bits);
    let less = match draw.first().cmp(&first) {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Greater => false,
        std::cmp::Ordering::Equal => less(&mut draw, bits),
    };
    !(less && draw.bernoulli_exp(bits))
}
