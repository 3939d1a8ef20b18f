//! The binomial law with an exact rational probability.

use num_bigint::BigInt;

use super::RandomBits;
use super::hat::{Hat, LogConcave};
use super::real::LogSum;
use super::stirling::{BoundedSum, difference, factorial_deviance, log_of_step};
use crate::{Error, Result};

/// The number k in 0 ..= n with probability C(n, k)·pᵏ(1 − p)ⁿ⁻ᵏ, for p = near/(near + far).
///
/// It is the law of a Poisson process at a point between two points where it is known: n points, uniform on a stretch
/// of length near + far, of which k are in its first part.
///
/// **Algorithm**: rejection from a discrete Laplace law around the mode m = ⌊(n + 1)p⌋, by exact coins; O(1) for any n.
/// For near > far, n − k is drawn instead. c_k = ln(1 + 1/k) + ln(1 + 1/(n − k)) ≥ 1/(k + 1) + 1/(n − k + 1). Above the
/// mode, as long as k − m < x, that is at least 1/(m + x) + 1/(n − m), below it at least 1/m + 1/(n − m + x), and both
/// are at least 1/(V + x) with V = m(n − m)/n, because (V + x)(n + x) ≥ (m + x)(n − m) and the like. So the lemma of
/// the hat holds with C = 1. p(m − 1) = p(m) exactly if (n + 1)p = m. If m = 0, then p(1)/p(0) = n·near/far < 1.
///
/// ```
/// use evertally::noise::{Binomial, KeyedNoise, Node, Purpose, SecretKey};
///
/// let law = Binomial::new(1_000_000, 1, 2)?;
/// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// let k: u128 = law.sample(&mut noise.bits(Node { level: 0, index: 0 }));
/// assert!(k <= 1_000_000);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binomial {
    n: u128,
    /// near and far, the less first.
    less: u64,
    more: u64,
    swapped: bool,
    mode: u128,
    /// (n + 1)p − m, in units of 1/(near + far).
    rest: u64,
    hat: Hat,
}

impl Binomial {
    /// The greatest number of trials: 2¹²⁶.
    pub const MAX_TRIALS: u128 = 1 << 126;

    /// The binomial law of `n` trials that succeed with probability near/(near + far).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `near` or `far` is 0, near + far is 2⁶⁴ or more, or n is
    /// above 2¹²⁶.
    ///
    /// ```
    /// # use evertally::noise::Binomial;
    /// assert!(Binomial::new(10, 0, 1).is_err());
    /// ```
    pub fn new(n: u128, near: u64, far: u64) -> Result<Self> {
        check_split(near, far)?;
        if n > Self::MAX_TRIALS {
            return Err(Error::invalid(format!("a binomial law may have at most 2^126 trials, got {n}")));
        }
        Ok(Self::of_parts(n, near, far))
    }

    /// As [`new`](Self::new), for parameters that it would accept.
    #[inline]
    pub(in crate::noise) fn of_parts(n: u128, near: u64, far: u64) -> Self {
        let (less, more) = (near.min(far), near.max(far));
        let (mode, rest) = share(n + 1, less, less + more);
        let v = if n == 0 { 0.0 } else { mode as f64 * ((n - mode) as f64 / n as f64) };
        // For m = 0: (n + 1) · less < less + more, so n · less < more.
        let fall = if mode == 0 { (u128::from(more) - n * u128::from(less)) as f64 / more as f64 } else { 0.0 };
        let hat = Hat::new(mode, rest == 0, v, 1.0, fall);
        Self { n, less, more, swapped: near > far, mode, rest, hat }
    }

    /// One draw; at most n.
    ///
    /// ```
    /// # use evertally::noise::{Binomial, ScriptedBits};
    /// // E = 0.5 of a scale of 3 steps, sign bit 1: 1 below the mode 5, and a coin whose number is above γ.
    /// let mut bits = ScriptedBits::new(vec![0, 0x80, 0, 0xc0, 1, 0xff, 0xff]);
    /// assert_eq!(Binomial::new(10, 1, 1)?.sample(&mut bits), 4);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[inline]
    pub fn sample(&self, bits: &mut impl RandomBits) -> u128 {
        self.sample_by::<true>(bits)
    }

    #[inline]
    pub(super) fn sample_by<const FAST: bool>(&self, bits: &mut impl RandomBits) -> u128 {
        let k = self.hat.sample_by::<FAST>(self, bits);
        if self.swapped { self.n - k } else { k }
    }

    #[cfg(test)]
    pub(super) fn hat(&self) -> &Hat {
        &self.hat
    }
}

/// (⌊n·part/total⌋, (n·part) mod total) for 0 ≤ part ≤ total, 1 ≤ total.
#[inline]
pub(super) fn share(n: u128, part: u64, total: u64) -> (u128, u64) {
    let (part, total) = (u128::from(part), u128::from(total));
    // n = a·total + b: n·part/total = a·part + b·part/total; a·part ≤ n and b·part < 2^128.
    let rest = n % total * part;
    (n / total * part + rest / total, (rest % total) as u64)
}

/// Checks the two distances of a split.
pub(super) fn check_split(near: u64, far: u64) -> Result<()> {
    if near == 0 || far == 0 || near.checked_add(far).is_none() {
        return Err(Error::invalid(format!(
            "a split needs two distances from 1 on, below 2^64 together, got {near}, {far}"
        )));
    }
    Ok(())
}

impl LogConcave for Binomial {
    fn end(&self) -> u128 {
        self.n
    }

    /// L = ln(k!/m!) + ln((n−k)!/(n−m)!) − x ln(a/b): two deviances, and x ln(z₁b/(z₂a)) with z₁ = m + ½, z₂ = n − m +
    /// ½.
    #[inline]
    fn estimate(&self, k: u128) -> BoundedSum {
        let (m, others) = (self.mode, self.n - self.mode);
        let (a, b) = (self.less as f64, self.more as f64);
        // z₁b − z₂a = m(a + b) − na + (b − a)/2 = (a + b)/2 − rest, below 2^64 in size.
        let total = i128::from(self.less) + i128::from(self.more);
        let gap = (total - 2 * i128::from(self.rest)) as f64 * 0.5;
        let slope = log_of_step((others as f64 + 0.5) * a, (m as f64 + 0.5) * b, gap);
        factorial_deviance(m, k).and(factorial_deviance(others, self.n - k)).plus(difference(k, m) * slope)
    }

    fn exact(&self, k: u128) -> LogSum {
        let x = BigInt::from(k) - self.mode;
        LogSum::default().factorials(k, self.mode).factorials(self.n - k, self.n - self.mode).logarithm(
            -x,
            self.less.into(),
            self.more.into(),
        )
    }
}
