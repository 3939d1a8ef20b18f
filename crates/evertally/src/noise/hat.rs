//! One exact sampler for log-concave laws on the whole numbers.
//!
//! Let m be a mode of the probabilities p, L(x) = ln p(m) − ln p(m + x) and |x| come from the discrete Laplace law of a
//! whole scale t. Accepted with probability exp(−γ), γ = L(x) + ½ − |x|/t, the value m + x has probability proportional
//! to exp(−|x|/t)·exp(−γ) ∝ p(m + x). This needs γ ≥ 0:
//!
//! **Lemma.** Let V, C ≥ 0 with L(x) ≥ x(x − 1)/(2(V + Cx)) for both signs of x = |x|, and W = max(V, C², 1). If t ≥
//! W/(√(W + C) − (1 + C)/2), then L(x) ≥ |x|/t − ½. *Proof.* With W instead of V the bound of L is smaller still. Twice
//! the claim, times W + Cx, reads (1 − 2C/t)x² − (2W/t + 1 − C)x + W ≥ 0, which holds if (2W/t + 1 − C)² ≤ 4W(1 −
//! 2C/t): then 1 − 2C/t ≥ 0 and the discriminant is not positive. As (2W/t + 1 − C)² = (2W/t + 1 + C)² − 8WC/t − 4C,
//! this is 2W/t + 1 + C ≤ 2√(W + C). And √(W + C) ≥ (1 + C)/√2 by the choice of W, so t exists, and it need not be
//! above 3.5√W. ∎
//!
//! For large V, t is √V + (1 + C)/2 or little more.
//!
//! V is about the variance and C about the skewness times the deviation. The bound of L comes from second differences:
//! L(0) = 0, L(±1) ≥ 0, and L(x + 1) − 2L(x) + L(x − 1) = c_{m+x}, where c_k = −ln(p(k+1)p(k−1)/p(k)²) ≥ 0.
//! * If c_k ≥ 1/(V + x) wherever 0 < |k − m| < x, then L(x) ≥ x(x − 1)/(2(V + x)): the case C = 1.
//! * Or a function F with F(0) = F(1) = 0 and second differences at most c is below L. For x(x − 1)/(2(V + Cx)) they
//!   are v(v + 1)/(C(v + x − 1)(v + x)(v + x + 1)), where v = V/C (partial fractions).
//!
//! If m misses the mode by so little that L(x) is smaller than that by at most ηx, the lemma holds for a t greater by
//! the factor 1/(1 − ηt).
//!
//! **A law that falls from the start** (m = 0) has only x ≥ 0. If p(1)/p(0) ≤ exp(−1/t), then L(x) ≥ x/t, and γ = L(x)
//! − x/t without the ½ is possible too; the hat with the least weight is used.
//!
//! **Cost.** About 1.4 candidates for laws close to a normal one, at most about 5 for the others.
//!
//! **The coin** compares a uniform number with γ: 16 binary digits of γ's fraction decide, except once in 2¹⁶. They
//! come from floating-point bounds, or from [`LogSum`] when the bounds leave them open, and further digits from there.
//! As γ is one real number, the outcome does not depend on how its digits were found. They can always be found, because
//! γ is not a binary fraction unless L = 0: exp(−L) is a rational number, or for the negative binomial law a rational
//! number other than 1 times e to a rational power; a rational L would make e to some rational power other than 0
//! rational, which it is not (Lambert). L = 0 only at x = 0 and if p(m − 1) = p(m), since the c_k are positive, and
//! there γ is a ratio, compared as such.

use num_bigint::{BigInt, BigUint};

use super::bernoulli::{exp_coin, exp_coin_by};
use super::laplace::signed;
use super::lazy::bernoulli_exp_one;
use super::real::LogSum;
use super::stirling::BoundedSum;
use super::{Geometric, RandomBits};

/// A log-concave law on 0 ..= `end`.
pub(super) trait LogConcave {
    /// The greatest possible value, at most 2^127.
    fn end(&self) -> u128;
    /// L at k, in floating point.
    fn estimate(&self, k: u128) -> BoundedSum;
    /// L at k, to any precision.
    fn exact(&self, k: u128) -> LogSum;
}

/// The hat that covers the law: exp(½ − j/t) or exp(−j/t), where j = ⌊|x|/2^shift⌋. For scales of up to 62 bits the
/// shift is 0; for larger scales, it keeps t in 64 bits: the hat for the scale 2^shift · t is below this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hat {
    mode: u128,
    /// Is p(mode − 1) = p(mode)?
    tied: bool,
    scale: u64,
    shift: u32,
    lifted: bool,
}

impl Hat {
    /// The hat of a law with L(x) ≥ x(x − 1)/(2(V + Cx)), for V and C known to 2^−30, √V and C below 2^119.
    ///
    /// `fall` is a lower bound of 1 − p(1)/p(0), used if the mode is 0.
    #[inline]
    pub(super) fn new(mode: u128, tied: bool, v: f64, c: f64, fall: f64) -> Self {
        let w = v.max(c * c).max(1.0);
        // The factor covers the rounding, and 1/(1 − ηt) for ηt ≤ 2^-9.
        let wide = w / (libm::sqrt(w + c) - 0.5 * (1.0 + c)) * (1.0 + 1.0 / 256.0);
        // Compare the weights e^½ · t and t.
        let (scale, lifted) = match steep_scale(fall).filter(|&steep| mode == 0 && steep < 1.6 * wide) {
            Some(steep) => (steep, false),
            None => (wide, true),
        };
        // Rounded up; below 2^121, so the shift is below 60.
        let scale = libm::ceil(scale) as u128;
        let shift = (128 - scale.leading_zeros()).saturating_sub(62);
        let scale = (scale >> shift) as u64 + u64::from(shift > 0);
        Self { mode, tied, scale, shift, lifted }
    }

    #[cfg(test)]
    pub(super) fn mode(&self) -> u128 {
        self.mode
    }

    #[cfg(test)]
    pub(super) fn scale(&self) -> u128 {
        u128::from(self.scale) << self.shift
    }

    /// One draw from `law`, with floating-point bounds if they suffice, or with big integers alone. The values are the
    /// same.
    #[inline]
    pub(super) fn sample_by<const FAST: bool>(&self, law: &impl LogConcave, bits: &mut impl RandomBits) -> u128 {
        let envelope = Geometric::whole(self.scale);
        loop {
            let Some(size) = self.within(envelope.sample_by::<FAST>(bits), bits) else { continue };
            let value = if self.mode == 0 {
                Some(size)
            } else {
                signed(size, bits).and_then(|x| self.mode.checked_add_signed(x))
            };
            let Some(value) = value.filter(|&value| value <= law.end()) else { continue };
            if self.accept::<FAST>(law, value, size, bits) {
                return value;
            }
        }
    }

    /// A uniform number of the stretch j; `None` if it is not below 2^127.
    #[inline]
    fn within(&self, j: u128, bits: &mut impl RandomBits) -> Option<u128> {
        match self.shift {
            0 => Some(j),
            shift if j >> (127 - shift) > 0 => None,
            shift => Some(j << shift | u128::from(bits.next_u64() >> (64 - shift))),
        }
    }

    /// The coin exp(−γ).
    #[inline]
    fn accept<const FAST: bool>(
        &self,
        law: &impl LogConcave,
        value: u128,
        size: u128,
        bits: &mut impl RandomBits,
    ) -> bool {
        if size == 0 {
            // γ = ½ or 0.
            return !self.lifted || exp_coin(0, 1 << 15, bits, || (1u32.into(), 2u32.into()));
        }
        if self.tied && value + 1 == self.mode {
            // γ = ½ − j/t with j = 1 or 0, and 2 ≤ t < 2^63.
            let numerator = self.scale - if self.shift == 0 { 2 } else { 0 };
            let denominator = 2 * self.scale;
            let first = ((u128::from(numerator) << 16) / u128::from(denominator)) as u16;
            return exp_coin(0, first, bits, || (numerator.into(), denominator.into()));
        }
        let gamma = || self.gamma(law, value, size);
        if !FAST {
            return exact_coin(0, &gamma(), bits);
        }
        let (low, high) = self.bounds(law, value, size);
        // Coins that must be true regardless of the further digits.
        let certain = low.min(64.0) as u32;
        for _ in 0..certain {
            if !bernoulli_exp_one(bits) {
                return false;
            }
        }
        // Below 2^16 · 2^16; the bounds are not negative.
        let (digits, last) = (low * 65536.0, high * 65536.0);
        if high < 65536.0 && digits as u64 == last as u64 {
            let digits = digits as u64;
            let whole = u128::from(digits >> 16) - u128::from(certain);
            return exp_coin_by(whole, digits as u16, bits, |draw, bits| {
                let gamma = gamma();
                let whole = BigUint::from(digits >> 16);
                draw.less_than_digits(|places| gamma.floor(places) - (&whole << places), bits)
            });
        }
        exact_coin(certain.into(), &gamma(), bits)
    }

    /// Bounds of γ.
    #[inline]
    pub(super) fn bounds(&self, law: &impl LogConcave, value: u128, size: u128) -> (f64, f64) {
        let lift = if self.lifted { 0.5 } else { 0.0 };
        let slope = (size >> self.shift) as f64 / self.scale as f64;
        let (low, high) = law.estimate(value).plus(lift).plus(-slope).bounds();
        // γ ≥ 0.
        (low.max(0.0), high.max(0.0))
    }

    /// γ to any precision.
    pub(super) fn gamma(&self, law: &impl LogConcave, value: u128, size: u128) -> LogSum {
        let sum = law.exact(value).quotient(-BigInt::from(size >> self.shift), self.scale.into());
        if self.lifted { sum.quotient(1, 2u32.into()) } else { sum }
    }
}

/// A scale t with 1 − fall ≤ exp(−1/t).
#[inline]
fn steep_scale(fall: f64) -> Option<f64> {
    match fall {
        // 0.36 < 1/e
        fall if fall >= 0.64 => Some(1.0),
        // −ln(1 − fall) ≥ fall
        fall if fall > 0.0 => Some(1.0 / fall * (1.0 + 1e-9)),
        _ => None,
    }
}

/// The coin exp(−γ) by big integers alone, after `certain` of the coins of γ's whole part.
#[cold]
#[inline(never)]
fn exact_coin(certain: u128, gamma: &LogSum, bits: &mut impl RandomBits) -> bool {
    let digits = gamma.floor(16);
    let whole = &digits >> 16u32;
    let first = u16::try_from(&digits - (&whole << 16u32)).expect("16 binary digits");
    // No run of coins comes near the bound.
    let left = u128::try_from(&whole).unwrap_or(u128::MAX) - certain;
    exp_coin_by(left, first, bits, |draw, bits| {
        draw.less_than_digits(|places| gamma.floor(places) - (&whole << places), bits)
    })
}
