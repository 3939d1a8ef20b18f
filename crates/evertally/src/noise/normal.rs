//! Standard normal numbers in floating point.

use super::RandomBits;
use evertally_kernels::quantile::{in_the_tail, near_the_middle};

/// A tail of fewer words than this is so thin that 64 more bits are drawn for its probability.
const THIN: u64 = 1 << 50;

/// A standard normal number: the quantile of a uniform number with 64 bits, or 128 if the tail is thinner than 2⁻¹⁴.
///
/// The quantile function is M. Wichura's AS 241 (Applied Statistics 37, 1988), relative error about 10⁻¹⁶; the tails
/// reach 13 standard deviations. Only additions, multiplications, divisions, square roots and one portable logarithm
/// are used: the same bits give the same number on every machine. It is **not exact**: no floating-point number is.
/// `docs/threat-model.md` explains the consequences for privacy.
///
/// ```
/// use evertally::noise::{ScriptedBits, standard_normal};
///
/// // The upper quartile.
/// let x = standard_normal(&mut ScriptedBits::new(0x4000_0000_0000_0000_u64.to_le_bytes().to_vec()));
/// assert!((x - 0.6744897501960817).abs() < 1e-15);
/// ```
#[inline]
pub fn standard_normal(bits: &mut impl RandomBits) -> f64 {
    const UNIT: f64 = 1.0 / 18_446_744_073_709_551_616.0; // 2^-64
    let word = bits.next_u64() as i64;
    // In (-1/2, 1/2).
    let centred = (word as f64 + 0.5) * UNIT;
    if centred.abs() <= 0.425 {
        return near_the_middle(centred);
    }
    // The number of words farther out on this side.
    let farther = if word < 0 { word.wrapping_sub(i64::MIN) } else { i64::MAX - word } as u64;
    let part = if farther < THIN { (bits.next_u64() as f64 + 0.5) * UNIT } else { 0.5 };
    let tail = (farther as f64 + part) * UNIT;
    let size = in_the_tail(tail);
    if word < 0 { -size } else { size }
}

/// A standard exponential number: minus the logarithm of a uniform number with 52 bits, or 116 if it is below 2⁻³².
/// Never 0; the tail reaches 81. Not exact either.
pub(crate) fn standard_exponential(bits: &mut impl RandomBits) -> f64 {
    const UNIT: f64 = 1.0 / 4_503_599_627_370_496.0; // 2^-52
    let word = bits.next_u64() >> 12;
    // Below 2^52 by a half at least, which a double holds: the logarithm is not 0.
    let part = if word < 1 << 20 { (bits.next_u64() as f64 + 0.5) / 18_446_744_073_709_551_616.0 } else { 0.5 };
    -libm::log((word as f64 + part) * UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{KeyedNoise, Node, Purpose, ScriptedBits, SecretKey, TestSeed};
    use statrs::distribution::{ContinuousCDF, Normal};
    use statrs::function::erf::erfc;

    fn of_words(words: &[u64]) -> f64 {
        standard_normal(&mut ScriptedBits::new(words.iter().flat_map(|w| w.to_le_bytes()).collect()))
    }

    /// The probability beyond the value is the tail it was made from, from the middle to 13 standard deviations.
    #[test]
    fn quantiles_belong_to_their_tails() {
        for shift in 0..63 {
            for scale in [1u64, 3, 5, 7] {
                let farther = ((scale << 60) >> shift).min(i64::MAX as u64);
                let word = i64::MAX as u64 - farther;
                let value = of_words(&[word, 1 << 63]);
                let tail = (farther as f64 + 0.5) / 2f64.powi(64);
                let there = 0.5 * erfc(value / 2f64.sqrt());
                // The oracle's own error is a few units of 10^-12 of the tail's logarithm.
                assert!((there / tail).ln().abs() < 1e-8 * (1.0 + value * value), "{tail:e}: {value}, {there:e}");
                assert_eq!(of_words(&[!word, 1 << 63]), -value);
            }
        }
        assert!(of_words(&[i64::MAX as u64, 0]) > 12.9);
        let law = Normal::standard();
        for step in 1..200 {
            let p = f64::from(step) / 200.0;
            let word = ((p - 0.5) * 2f64.powi(64)) as i64 as u64;
            assert!((of_words(&[word, 0]) - law.inverse_cdf(p)).abs() < 1e-9, "{p}");
        }
    }

    #[test]
    fn exponentials_are_never_zero_and_have_long_tails() {
        let of_words = |words: &[u64]| {
            standard_exponential(&mut ScriptedBits::new(words.iter().flat_map(|w| w.to_le_bytes()).collect()))
        };
        assert!(of_words(&[u64::MAX]) > 1e-16);
        assert!((of_words(&[1 << 63]) - 2f64.ln()).abs() < 1e-15);
        assert!(of_words(&[0, 0]) > 80.0);
        let tail = of_words(&[5 << 12, 1 << 62]);
        assert!((tail + (5.25 / 2f64.powi(52)).ln()).abs() < 1e-13, "{tail}");
    }

    /// Fourth moments and a Kolmogorov-Smirnov distance of 10^6 numbers; significance below 10^-6.
    #[test]
    fn the_law_is_normal() {
        let key = SecretKey::insecure_from_test_seed(TestSeed(40));
        let noise = KeyedNoise::unrecorded(&key, &"normals".parse().unwrap(), &[0; 32], Purpose::Total);
        let mut bits = noise.bits(Node { level: 0, index: 0 });
        let count = 1_000_000;
        let mut values: Vec<f64> = (0..count).map(|_| standard_normal(&mut bits)).collect();
        let moment = |p: i32| values.iter().map(|x| x.powi(p)).sum::<f64>() / f64::from(count);
        let allowed = 5.0 / f64::from(count).sqrt();
        for (p, mean, deviation) in [(1, 0.0, 1.0), (2, 1.0, 2f64), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            assert!((moment(p) - mean).abs() < allowed * deviation.sqrt(), "moment {p}: {}", moment(p));
        }
        values.sort_by(f64::total_cmp);
        let law = Normal::standard();
        let apart = |(i, x): (usize, &f64)| (law.cdf(*x) - (i as f64 + 0.5) / f64::from(count)).abs();
        let distance = values.iter().enumerate().map(apart).fold(0.0, f64::max);
        assert!(distance < 2.7 / f64::from(count).sqrt(), "{distance}");
    }
}
