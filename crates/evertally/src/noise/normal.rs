//! Standard normal numbers in floating point.

use super::RandomBits;

/// A tail of fewer words than this is so thin that 64 more bits are drawn for its probability.
const THIN: u64 = 1 << 50;

/// A standard normal number: the quantile of a uniform number with 64 bits, or 128 where the tail is thinner than 2⁻¹⁴.
///
/// The quantile function is M. Wichura's AS 241 (Applied Statistics 37, 1988), relative error about 10⁻¹⁶; the tails
/// reach 13 standard deviations. Only additions, multiplications, divisions, square roots and one portable logarithm are
/// used: the same bits give the same number on every machine. It is **not exact**: no floating-point number is. What
/// that means for privacy is said in `docs/threat-model.md`.
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
    // How many words lie farther out on this side.
    let farther = if word < 0 { word.wrapping_sub(i64::MIN) } else { i64::MAX - word } as u64;
    let part = if farther < THIN { (bits.next_u64() as f64 + 0.5) * UNIT } else { 0.5 };
    let tail = (farther as f64 + part) * UNIT;
    let size = in_the_tail(tail);
    if word < 0 { -size } else { size }
}

/// A standard exponential number: minus the logarithm of a uniform number with 52 bits, or 116 where it is below 2⁻³². Never 0;
/// the tail reaches 81. Not exact either.
pub(super) fn standard_exponential(bits: &mut impl RandomBits) -> f64 {
    const UNIT: f64 = 1.0 / 4_503_599_627_370_496.0; // 2^-52
    let word = bits.next_u64() >> 12;
    // Below 2^52 by a half at least, which a double holds: the logarithm is not 0.
    let part = if word < 1 << 20 { (bits.next_u64() as f64 + 0.5) / 18_446_744_073_709_551_616.0 } else { 0.5 };
    -libm::log((word as f64 + part) * UNIT)
}

#[inline]
fn horner<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    coefficients.into_iter().rev().fold(0.0, |sum, c| sum * x + c)
}

#[inline]
fn near_the_middle(centred: f64) -> f64 {
    let r = 0.180625 - centred * centred;
    let numerator = horner(
        r,
        [
            3.387_132_872_796_366_5,
            1.331_416_678_917_843_8e2,
            1.971_590_950_306_551_3e3,
            1.373_169_376_550_946e4,
            4.592_195_393_154_987e4,
            6.726_577_092_700_87e4,
            3.343_057_558_358_813e4,
            2.509_080_928_730_122_7e3,
        ],
    );
    let denominator = horner(
        r,
        [
            1.0,
            4.231_333_070_160_091e1,
            6.871_870_074_920_579e2,
            5.394_196_021_424_751e3,
            2.121_379_430_158_659_7e4,
            3.930_789_580_009_271e4,
            2.872_908_573_572_194_3e4,
            5.226_495_278_852_854e3,
        ],
    );
    centred * numerator / denominator
}

/// The quantile at 1 − `tail`, `tail` < 0.075.
fn in_the_tail(tail: f64) -> f64 {
    let r = libm::sqrt(-libm::log(tail));
    if r <= 5.0 {
        let r = r - 1.6;
        let numerator = horner(
            r,
            [
                1.423_437_110_749_683_5,
                4.630_337_846_156_546,
                5.769_497_221_460_691,
                3.647_848_324_763_204_5,
                1.270_458_252_452_368_4,
                2.417_807_251_774_506e-1,
                2.272_384_498_926_918_4e-2,
                7.745_450_142_783_414e-4,
            ],
        );
        let denominator = horner(
            r,
            [
                1.0,
                2.053_191_626_637_759,
                1.676_384_830_183_803_8,
                6.897_673_349_851e-1,
                1.481_039_764_274_800_8e-1,
                1.519_866_656_361_645_7e-2,
                5.475_938_084_995_345e-4,
                1.050_750_071_644_416_9e-9,
            ],
        );
        numerator / denominator
    } else {
        let r = r - 5.0;
        let numerator = horner(
            r,
            [
                6.657_904_643_501_103,
                5.463_784_911_164_114,
                1.784_826_539_917_291_3,
                2.965_605_718_285_048_7e-1,
                2.653_218_952_657_612_4e-2,
                1.242_660_947_388_078_4e-3,
                2.711_555_568_743_487_6e-5,
                2.010_334_399_292_288_1e-7,
            ],
        );
        let denominator = horner(
            r,
            [
                1.0,
                5.998_322_065_558_88e-1,
                1.369_298_809_227_358e-1,
                1.487_536_129_085_061_5e-2,
                7.868_691_311_456_133e-4,
                1.846_318_317_510_054_7e-5,
                1.421_511_758_316_446e-7,
                2.044_263_103_389_939_8e-15,
            ],
        );
        numerator / denominator
    }
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
        let noise = KeyedNoise::new(&key, &"normals".parse().unwrap(), &[0; 32], Purpose::Total);
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
