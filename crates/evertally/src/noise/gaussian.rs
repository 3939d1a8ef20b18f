//! The discrete Gaussian law.

use std::f64::consts::PI;
use std::fmt;

use num_bigint::BigUint;
use serde::{Deserialize, Serialize};

use super::bernoulli::exp_coin;
use super::laplace::signed;
use super::{Geometric, RandomBits};
use crate::number::Ratio;
use crate::{Error, Result};

/// The discrete Gaussian law: P(x) proportional to exp(−x²/(2σ²)) on the integers, for an exact rational σ².
///
/// **Algorithm** (Canonne, Kamath and Steinke, doi 10.29012/jpc.784, algorithm 3, where t = ⌊σ⌋ + 1): let t be σ
/// rounded to the nearest integer, at least 1; draw y from the
/// discrete Laplace law of scale t and accept it with probability exp(−γ), γ = (|y| − σ²/t)²/(2σ²). As
/// γ = y²/(2σ²) − |y|/t + σ²/(2t²), accepted values have probability proportional to
/// exp(−|y|/t)·exp(−γ) ∝ exp(−y²/(2σ²)). About 1.33 candidates are drawn for σ ≥ 2, at most 2.3 below.
///
/// **Arithmetic.** The coin needs ⌊γ⌋ and 16 binary digits of its fraction, and the fraction itself once in 2¹⁶. They
/// are read from an enclosure of γ in 64-bit fixed point; if it does not decide, γ is computed as an exact quotient of
/// big integers. Both ways give the same value.
///
/// ```
/// use evertally::noise::{DiscreteGaussian, KeyedNoise, Node, Purpose, SecretKey};
/// use evertally::number::Ratio;
///
/// let law = DiscreteGaussian::new(Ratio::new(200, 1)?)?;
/// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// let x: i128 = law.sample(&mut noise.bits(Node { level: 0, index: 0 }));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Ratio", into = "Ratio")]
pub struct DiscreteGaussian {
    variance: Ratio,
    /// The law of |y|: scale t.
    envelope: Geometric,
    fixed: Option<FixedPoint>,
}

impl DiscreteGaussian {
    /// The discrete Gaussian law of this parameter σ². Its variance is a little less: see
    /// [`variance`](Self::variance). Every ratio is allowed.
    ///
    /// # Errors
    /// None at present; the result type allows for future limits.
    ///
    /// ```
    /// # use evertally::noise::DiscreteGaussian;
    /// # use evertally::number::Ratio;
    /// let law = DiscreteGaussian::new(Ratio::new(1, 3)?)?;
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(variance: Ratio) -> Result<Self> {
        // ⌊2σ⌋ = ⌊√⌊4n/d⌋⌋ < 2^65.
        let (n, d) = variance.big();
        let twice = u128::try_from(((n << 2u32) / d).sqrt()).expect("a square root of less than 2^130");
        let t = twice.div_ceil(2).max(1);
        let envelope = Geometric::new(Ratio::new(t, 1)?)?;
        Ok(Self { variance, envelope, fixed: FixedPoint::new(variance, t) })
    }

    /// The parameter σ².
    ///
    /// ```
    /// # use evertally::noise::DiscreteGaussian;
    /// # use evertally::number::Ratio;
    /// assert_eq!(DiscreteGaussian::new(Ratio::new(1, 3)?)?.parameter(), Ratio::new(1, 3)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn parameter(&self) -> Ratio {
        self.variance
    }

    /// The variance of the law: less than σ², and equal to it within 10⁻⁷ from σ² = 1 on. Relative error below 10⁻¹²; 0
    /// if it is below the least floating-point number (σ² < 1/1500).
    ///
    /// ```
    /// # use evertally::noise::DiscreteGaussian;
    /// # use evertally::number::Ratio;
    /// let variance = |n, d| Ok::<_, evertally::Error>(DiscreteGaussian::new(Ratio::new(n, d)?)?.variance());
    /// assert_eq!(variance(100, 1)?, 100.0);
    /// assert!((variance(1, 10)? - 0.0133).abs() < 1e-4);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn variance(&self) -> f64 {
        let parameter = self.variance.to_f64();
        let series = |rate: f64| {
            let (mut mass, mut square) = (1.0, 0.0);
            for k in 1..=60 {
                let k = f64::from(k);
                let weight = 2.0 * libm::exp(-rate * k * k);
                mass += weight;
                square += k * k * weight;
            }
            square / mass
        };
        if parameter < 0.5 {
            // The definition: terms exp(−k²/(2σ²)) ≤ exp(−k²).
            series(0.5 / parameter)
        } else {
            // Poisson summation: Σ exp(−x²/(2σ²)) = √(2πσ²) Σ exp(−2π²σ²k²); differentiate the logarithm by −1/(2σ²).
            // Terms are at most exp(−π²k²).
            let curvature = 2.0 * PI * parameter;
            parameter - curvature * curvature * series(2.0 * PI * PI * parameter)
        }
    }

    /// One draw; below 2¹²⁷ in size.
    ///
    /// ```
    /// # use evertally::noise::{DiscreteGaussian, ScriptedBits};
    /// # use evertally::number::Ratio;
    /// // Magnitude ⌊10 · 0.25⌋ = 2, sign bit 0, and a coin whose first number is above γ.
    /// let mut bits = ScriptedBits::new(vec![0, 0x40, 0, 0x80, 0, 0xff, 0xff]);
    /// assert_eq!(DiscreteGaussian::new(Ratio::new(100, 1)?)?.sample(&mut bits), 2);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[inline]
    pub fn sample(&self, bits: &mut impl RandomBits) -> i128 {
        self.sample_by::<true>(bits)
    }

    #[inline]
    pub(super) fn sample_by<const FAST: bool>(&self, bits: &mut impl RandomBits) -> i128 {
        loop {
            let size = self.envelope.sample_by::<FAST>(bits);
            let Some(value) = signed(size, bits) else { continue };
            let digits = self.fixed.as_ref().filter(|_| FAST).and_then(|fixed| fixed.digits(size));
            let accepted = match digits {
                Some((whole, first)) => exp_coin(whole, first, bits, || {
                    let (_, rest, denominator) = self.exact(size);
                    (rest, denominator)
                }),
                None => self.exact_coin(size, bits),
            };
            if accepted {
                return value;
            }
        }
    }

    /// The coin exp(−γ) by big integers alone.
    #[cold]
    #[inline(never)]
    fn exact_coin(&self, size: u128, bits: &mut impl RandomBits) -> bool {
        let (whole, rest, denominator) = self.exact(size);
        let first = u16::try_from((&rest << 16u32) / &denominator).expect("a fraction below 1");
        // γ is below 2^128 unless σ² is far below 2^-120, and then no run of coins comes near either bound.
        exp_coin(whole.try_into().unwrap_or(u128::MAX), first, bits, || (rest, denominator))
    }

    /// γ as whole part, numerator and denominator of the fraction.
    #[cold]
    #[inline(never)]
    fn exact(&self, size: u128) -> (BigUint, BigUint, BigUint) {
        // With σ² = n/d: γ = (|y|·t·d − n)²/(2·n·d·t²).
        let (n, d) = self.variance.big();
        let t = BigUint::from(self.envelope.scale().numerator());
        let shifted = size * &t * &d;
        let distance = if shifted > n { shifted - &n } else { &n - shifted };
        let numerator = &distance * &distance;
        let denominator = 2u32 * n * d * &t * &t;
        (&numerator / &denominator, &numerator % &denominator, denominator)
    }
}

/// 1/σ and σ/t in fixed point, to enclose γ = (|y|/σ − σ/t)²/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FixedPoint {
    /// m = ⌊2^s/σ⌋ with 2^63 ≤ m < 2^64.
    reciprocal: u64,
    /// s − 48, at least 0.
    shift: u32,
    /// ⌊2^48·σ/t⌋.
    center: u64,
}

impl FixedPoint {
    /// None if σ is so small that s would be below 48.
    fn new(variance: Ratio, t: u128) -> Option<Self> {
        let (n, d) = variance.big();
        // From σ = 1 on 2σ/3 ≤ t < 2σ; so for the first s tried 2^s/σ is in (2^60, 2^63), and it doubles with s.
        let first = if n < d { 48 } else { 189 - t.leading_zeros() };
        // ⌊2^s/σ⌋ = ⌊√⌊2^(2s)·d/n⌋⌋.
        let (s, reciprocal) = (first..=128)
            .map(|s| (s, ((&d << (2 * s)) / &n).sqrt()))
            .find(|(_, m)| m.bits() >= 64)
            .filter(|(_, m)| m.bits() == 64)?;
        let center = ((&n << 96u32) / (d * t * t)).sqrt();
        Some(Self { reciprocal: reciprocal.try_into().ok()?, shift: s - 48, center: center.try_into().ok()? })
    }

    /// ⌊γ⌋ and the first 16 binary digits of its fraction, if they are certain.
    #[inline]
    fn digits(&self, size: u128) -> Option<(u128, u16)> {
        let (low, high) = self.enclosure(size)?;
        // γ·2^16 = (2^48·x)²/2^81 with x = |y|/σ − σ/t. The bounds are below 2^63, so their squares fit.
        let (low, high) = ((low * low) >> 81, (high * high) >> 81);
        (low == high).then_some((low >> 16, low as u16))
    }

    /// Bounds of 2^48·||y|/σ − σ/t|; `None` if they would not fit 63 bits.
    #[inline]
    fn enclosure(&self, size: u128) -> Option<(u128, u128)> {
        let size = u64::try_from(size).ok()?;
        let scaled = (u128::from(size) * u128::from(self.reciprocal)) >> self.shift;
        if scaled >= 1 << 62 {
            return None;
        }
        // 2^48·|y|/σ is in [scaled, scaled + 2): the shift loses less than 1, and rounding the reciprocal down loses
        // less than |y|/2^shift, which is below 1 because 2^63·|y|/2^shift < scaled + 1 ≤ 2^62. Hence
        // 2^48·(|y|/σ − σ/t) is in (scaled − center − 1, scaled − center + 2).
        let distance = (scaled as u64).abs_diff(self.center);
        Some((distance.saturating_sub(2).into(), (distance + 2).into()))
    }
}

impl TryFrom<Ratio> for DiscreteGaussian {
    type Error = Error;

    fn try_from(variance: Ratio) -> Result<Self> {
        Self::new(variance)
    }
}

impl From<DiscreteGaussian> for Ratio {
    fn from(law: DiscreteGaussian) -> Self {
        law.parameter()
    }
}

impl fmt::Display for DiscreteGaussian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "discrete Gaussian, σ² = {}", self.parameter())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The enclosure holds the exact γ, for sizes up to the greatest it accepts.
        #[test]
        fn fixed_point_encloses_the_exponent(n: u128, d: u128, s in 0..128u32, r in 0..128u32, part in 0.0..20_000f64) {
            let law = DiscreteGaussian::new(Ratio::new((n >> s).max(1), (d >> r).max(1)).unwrap()).unwrap();
            let size = (law.parameter().to_f64().sqrt() * part) as u128;
            for size in [size, size + 1, 0, 1] {
                let Some((low, high)) = law.fixed.and_then(|fixed| fixed.enclosure(size)) else { continue };
                let (whole, rest, denominator) = law.exact(size);
                // γ·2^97 = (2^48·x)².
                let exact: BigUint = (whole * &denominator + rest) << 97u32;
                prop_assert!(low * low * &denominator <= exact);
                prop_assert!(exact <= high * high * &denominator);
            }
        }
    }

    /// The fast path serves all relevant scales: it is missing only for σ < 2⁻¹⁵.
    #[test]
    fn fixed_point_is_there() {
        for (n, d, there) in
            [(1, 1 << 28, true), (1, 10_000, true), (1, 1, true), (1 << 120, 1, true), (1, 1 << 34, false)]
        {
            let law = DiscreteGaussian::new(Ratio::new(n, d).unwrap()).unwrap();
            assert_eq!(law.fixed.is_some(), there, "{n}/{d}");
            if there {
                let deviation = law.parameter().to_f64().sqrt().max(0.01) as u128;
                assert!((0..4).all(|k| law.fixed.unwrap().enclosure(k * deviation).is_some()));
            }
        }
    }
}
