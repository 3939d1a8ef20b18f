//! The Pólya law: beta-binomial with whole shapes.

use super::RandomBits;
use super::binomial::{check_split, share};
use super::hat::{Hat, LogConcave};
use super::real::LogSum;
use super::stirling::{BoundedSum, rise};
use super::uniform::uniform_below;
use crate::{Error, Result};
use std::num::NonZeroU128;

/// The number k in 0 ..= n with probability C(k + a − 1, k)·C(n − k + b − 1, n − k)/C(n + a + b − 1, n), for whole
/// shapes a = near and b = far.
///
/// It is the law of a sum of a geometric numbers, given that this sum and b more add up to n, for any scale. Also: the
/// a-th of a + b − 1 positions chosen from n + a + b − 1, minus a.
///
/// **Algorithm**: rejection from a discrete Laplace law around the mode m = ⌊(n + 1)A/(A + B)⌋, A = a − 1 and B = b −
/// 1, by exact coins; O(1) for any n and shapes. For near > far, n − k is drawn instead; if both are 1 the law is
/// uniform.
/// * L is the sum of a part of k and a part of n − k. As shown at [`NegativeBinomial`](super::NegativeBinomial), the
///   first is at least x(x−1)/(2(V_a + C_a x)) above the mode and x(x−1)/(2V_a) below, with V_a = (m+1)(m+a)/A, C_a =
///   (m+a)/A; the second likewise with n − m and b, with the sides exchanged. (There the sum of second differences is
///   used, so the parts may be added.)
/// * 1/(V_a + C_a x) + 1/V_b ≥ 1/(V + Cx) with V = V_a V_b/(V_a + V_b) and C = C_a V_b/(V_a + V_b); the greater of this
///   C and the one with a and b exchanged serves for both sides. If A = 0 the first part is 0: V = V_b, C = 0 (there is
///   no side below).
/// * p(m − 1) = p(m) exactly if (n + 1)A = m(A + B) > 0. If m = 0, then p(1)/p(0) = na/(n + B).
///
/// ```
/// use evertally::noise::{KeyedNoise, Node, Polya, Purpose, SecretKey};
///
/// let law = Polya::new(1_000_000, 3, 5)?;
/// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// let k: u128 = law.sample(&mut noise.bits(Node { level: 0, index: 0 }));
/// assert!(k <= 1_000_000);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polya {
    n: u128,
    /// The shapes minus 1, the smaller first.
    less: u64,
    more: u64,
    swapped: bool,
    mode: u128,
    hat: Hat,
}

impl Polya {
    /// The greatest n: 2¹¹⁸.
    pub const MAX_TOTAL: u128 = 1 << 118;

    /// The Pólya law on 0 ..= n with these shapes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a shape is 0, near + far is 2⁶⁴ or more, or n is above
    /// 2¹¹⁸.
    ///
    /// ```
    /// # use evertally::noise::Polya;
    /// assert!(Polya::new(10, 1, 0).is_err());
    /// ```
    pub fn new(n: u128, near: u64, far: u64) -> Result<Self> {
        check_split(near, far)?;
        if n > Self::MAX_TOTAL {
            return Err(Error::invalid(format!("a Pólya law may have a total of at most 2^118, got {n}")));
        }
        Ok(Self::of_parts(n, near, far))
    }

    /// As [`new`](Self::new), for parameters that it would accept.
    #[inline]
    pub(in crate::noise) fn of_parts(n: u128, near: u64, far: u64) -> Self {
        let (less, more) = (near.min(far) - 1, near.max(far) - 1);
        // At most (n + 1)/2 for n ≥ 1.
        let (mode, rest) = match n {
            0 => (0, 0),
            _ => share(n + 1, less, (less + more).max(1)),
        };
        let part = |m: u128, further: u64| {
            let c = (m as f64 + further as f64 + 1.0) / further as f64;
            ((m as f64 + 1.0) * c, c)
        };
        let (v, c) = match (part(mode, less), part(n - mode, more)) {
            _ if more == 0 => (0.0, 0.0),
            (_, (v, _)) if less == 0 => (v, 0.0),
            ((va, ca), (vb, cb)) => (va / (va + vb) * vb, (ca * (vb / (va + vb))).max(cb * (va / (va + vb)))),
        };
        let fall = if mode == 0 {
            // n + B − na ≥ 0, because (n + 1)A < A + B; and n·A < A + B < 2^64 then.
            (u128::from(more) - n * u128::from(less)) as f64 / (n as f64 + more as f64)
        } else {
            0.0
        };
        let hat = Hat::new(mode, rest == 0 && mode > 0, v, c, fall);
        Self { n, less, more, swapped: near > far, mode, hat }
    }

    /// One draw; at most n.
    ///
    /// ```
    /// # use evertally::noise::{Polya, ScriptedBits};
    /// // Shapes 1 and 1: uniform on 0 ..= 9.
    /// let mut bits = ScriptedBits::new(vec![0, 0, 0, 0, 0, 0, 0, 0x80]);
    /// assert_eq!(Polya::new(9, 1, 1)?.sample(&mut bits), 5);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[inline]
    pub fn sample(&self, bits: &mut impl RandomBits) -> u128 {
        self.sample_by::<true>(bits)
    }

    #[inline]
    pub(super) fn sample_by<const FAST: bool>(&self, bits: &mut impl RandomBits) -> u128 {
        if self.more == 0 {
            return uniform_below(NonZeroU128::MIN.saturating_add(self.n), bits);
        }
        let k = self.hat.sample_by::<FAST>(self, bits);
        if self.swapped { self.n - k } else { k }
    }

    #[cfg(test)]
    pub(super) fn hat(&self) -> &Hat {
        &self.hat
    }
}

impl LogConcave for Polya {
    fn end(&self) -> u128 {
        self.n
    }

    /// L = −ln((k+1)···(k+A)) + ln((m+1)···(m+A)), and the same of n − k, n − m and B.
    #[inline]
    fn estimate(&self, k: u128) -> BoundedSum {
        let here = rise(self.less, self.mode, k);
        let there = rise(self.more, self.n - self.mode, self.n - k);
        BoundedSum::default().less(here).less(there)
    }

    fn exact(&self, k: u128) -> LogSum {
        let (a, b) = (u128::from(self.less), u128::from(self.more));
        let (from, to) = (self.n - self.mode, self.n - k);
        LogSum::default()
            .factorials(k, self.mode)
            .factorials(self.mode + a, k + a)
            .factorials(to, from)
            .factorials(from + b, to + b)
    }
}
