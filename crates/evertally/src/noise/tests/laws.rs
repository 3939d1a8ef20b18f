//! Edge cases of the laws: outcomes enumerated from scripts, variances, extreme parameters.

use std::num::NonZeroU128;

use num_bigint::BigUint;
use proptest::prelude::*;

use super::super::lazy::LazyUniform;
use super::super::{
    BernoulliExp, DiscreteGaussian, DiscreteLaplace, Geometric, RandomBits, ScriptedBits, uniform_below,
};
use super::{Coarse, node, noise, ratio};
use crate::number::Ratio;

/// A script of 16-bit numbers, then bytes 0.
fn script(numbers: &[u16]) -> ScriptedBits {
    ScriptedBits::new(numbers.iter().flat_map(|number| number.to_le_bytes()).chain([0; 64]).collect())
}

/// Over all triples of numbers of 6 levels, C(u, n) of the 6ⁿ fall n times in a row from level u: the discrete form of
/// Uⁿ/n!; and the coin is the parity of the run.
#[test]
fn runs_are_counted_exactly() {
    const LEVELS: u16 = 6;
    for start in 0..LEVELS {
        // Number of ways in which the first n numbers fall strictly from `start`, for n = 1, 2, 3.
        let mut falls = [0u32; 4];
        for code in 0..LEVELS.pow(3) {
            let digits = [code / 36, code / 6 % 6, code % 6];
            let mut last = start;
            let length = digits.iter().take_while(|&&digit| std::mem::replace(&mut last, digit) > digit).count();
            falls[1..=length].iter_mut().for_each(|fall| *fall += 1);
            // The same order with distinct numbers: of equal levels the later number is greater.
            let spaced: Vec<u16> = digits.iter().enumerate().map(|(i, d)| d * 100 + i as u16 + 1).collect();
            let mut bits = script(&[spaced.as_slice(), &[0xffff]].concat());
            let even = LazyUniform::from_first(start * 100).bernoulli_exp(&mut bits);
            assert_eq!(even, length % 2 == 0, "{start} {digits:?}");
            assert_eq!(bits.consumed(), 2 * (length + 1));
        }
        let start = u32::from(start);
        assert_eq!(falls[1], start * 36);
        assert_eq!(falls[2], start * start.saturating_sub(1) / 2 * 6);
    }
}

/// A comparison with p/q is decided by the digits of p/q, for any number of them.
#[test]
fn comparison_with_a_ratio_reads_until_it_is_decided() {
    let third = |bits: &mut ScriptedBits| {
        LazyUniform::draw(bits).less_than_ratio(&BigUint::from(1u8), &BigUint::from(3u8), bits)
    };
    // 1/3 = 0.0101…: ties for 16 + 64 bits, then less, then greater.
    for (last, less) in [(0x54, true), (0x56, false)] {
        let mut bits = ScriptedBits::new([vec![0x55; 17], vec![last]].concat());
        assert_eq!(third(&mut bits), less);
        assert_eq!(bits.consumed(), 18);
    }
    // The same from the digits of 1/3.
    let digits = |places: u64| (BigUint::from(1u8) << places) / 3u8;
    for (last, less) in [(0x54, true), (0x56, false)] {
        let mut bits = ScriptedBits::new([vec![0x55; 17], vec![last]].concat());
        assert_eq!(LazyUniform::draw(&mut bits).less_than_digits(digits, &mut bits), less);
        assert_eq!(bits.consumed(), 18);
    }
    // 1/2 ends after the first digit: U = 0.1… is not less, whatever follows.
    let mut bits = ScriptedBits::new(vec![0, 0x80]);
    assert!(!LazyUniform::draw(&mut bits).less_than_ratio(&BigUint::from(1u8), &BigUint::from(2u8), &mut bits));
}

#[test]
fn whole_parts_are_exact_at_their_borders() {
    let word = |value: u64| ScriptedBits::new([value.to_le_bytes(), [0xff; 8], [0; 8]].concat());
    let n = |n: u128| NonZeroU128::new(n).unwrap();
    // 3·U just below 1 (undecided: 3·0x5555…5555 + 3 > 2^64): the next word decides.
    let mut bits = word(0x5555_5555_5555_5555);
    assert_eq!(uniform_below(n(3), &mut bits), 1);
    assert_eq!(bits.consumed(), 16);
    let mut bits = ScriptedBits::new([[0x55; 8], [0x54; 8]].concat());
    assert_eq!(uniform_below(n(3), &mut bits), 0);
    // The second word can leave it undecided as well; the third decides.
    for (third, value) in [(0x54, 0), (0x56, 1)] {
        let mut bits = ScriptedBits::new([[0x55; 8], [0x55; 8], [third; 8]].concat());
        assert_eq!((uniform_below(n(3), &mut bits), bits.consumed()), (value, 24));
    }
    // A factor that divides 2^64 is decided at once.
    let mut bits = word(u64::MAX);
    assert_eq!((uniform_below(n(1 << 64), &mut bits), bits.consumed()), (u128::from(u64::MAX), 8));
    let mut bits = word(1 << 63);
    assert_eq!((uniform_below(n(2), &mut bits), bits.consumed()), (1, 8));
    assert_eq!(uniform_below(n(1), &mut word(u64::MAX)), 0);
}

proptest! {
    #[test]
    fn uniform_numbers_are_below_their_bound(n in 1..=u128::MAX, shift in 0..128u32, seed: u64) {
        let n = NonZeroU128::new((n >> shift).max(1)).unwrap();
        let noise = noise(seed);
        for index in 0..20 {
            prop_assert!(uniform_below(n, &mut noise.bits(node(index))) < n.get());
            prop_assert!(uniform_below(n, &mut Coarse(noise.bits(node(index)))) < n.get());
        }
    }

    /// ⌊n·U⌋ by words equals the quotient of the whole script.
    #[test]
    fn uniform_numbers_are_whole_parts(n in 1..=1u128 << 64, shift in 0..64u32, words: [u64; 3], ties in 0..3usize) {
        let n = (n >> shift).max(1);
        // Words that make n·U close to a whole number.
        let mut words = words;
        for word in &mut words[..ties] {
            *word = (((u128::from(*word) % n) << 64) / n) as u64;
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bits = ScriptedBits::new([bytes, vec![0; 512]].concat());
        let value = uniform_below(NonZeroU128::new(n).unwrap(), &mut bits);
        let whole = words.iter().fold(BigUint::ZERO, |all, &word| (all << 64u32) + word);
        prop_assert_eq!(BigUint::from(value), (whole * n) >> 192u32);
    }

    #[test]
    fn coins_never_fail(p: u128, q in 1..=u128::MAX, seed: u64) {
        let coin = BernoulliExp::new(p, q).unwrap();
        coin.sample(&mut Coarse(noise(seed).bits(node(0))));
    }
}

#[test]
fn certain_coins_are_certain() {
    let noise = noise(5);
    for index in 0..1000 {
        assert!(BernoulliExp::new(0, 7).unwrap().sample(&mut noise.bits(node(index))));
        assert!(!BernoulliExp::new(u128::MAX, 1).unwrap().sample(&mut noise.bits(node(index))));
    }
    assert!(BernoulliExp::new(1, 0).unwrap_err().is_invalid());
}

/// Σ x²·w(x) / Σ w(x) over |x| ≤ reach, summed directly in floating point.
fn variance_by_sum(weight: impl Fn(f64) -> f64, reach: i32) -> f64 {
    // From the smallest terms on, to keep the sums accurate.
    let (mut mass, mut square) = (0.0, 0.0);
    for x in (1..=reach).rev() {
        let x = f64::from(x);
        mass += 2.0 * weight(x);
        square += 2.0 * x * x * weight(x);
    }
    square / (mass + weight(0.0))
}

#[test]
fn variances_are_those_of_the_sums() {
    for text in ["1/100", "1/20", "1/3", "49/100", "499999/1000000", "1/2", "51/100", "2/3", "1", "7/3", "100", "98765"]
    {
        let law = DiscreteGaussian::new(ratio(text)).unwrap();
        let s2 = law.parameter().to_f64();
        let sum = variance_by_sum(|x| libm::exp(-x * x / (2.0 * s2)), 10 + (40.0 * s2.sqrt()) as i32);
        assert!((law.variance() / sum - 1.0).abs() < 1e-12, "{text}: {} against {sum}", law.variance());
    }
    for text in ["1/50", "1/10", "1/3", "1", "7/3", "100", "9876"] {
        let law = DiscreteLaplace::new(ratio(text)).unwrap();
        let s = law.scale().to_f64();
        let sum = variance_by_sum(|x| libm::exp(-x / s), 10 + (60.0 * s) as i32);
        assert!((law.variance() / sum - 1.0).abs() < 1e-12, "{text}: {} against {sum}", law.variance());
    }
    // Limits: σ² and 2s², and 0 below the range of the type.
    assert_eq!(DiscreteGaussian::new(ratio("1000000000000000000")).unwrap().variance(), 1e18);
    assert!((DiscreteLaplace::new(ratio("1000000000000000000")).unwrap().variance() / 2e36 - 1.0).abs() < 1e-12);
    assert_eq!(DiscreteGaussian::new(ratio("1/10000")).unwrap().variance(), 0.0);
    assert_eq!(DiscreteLaplace::new(ratio("1/10000")).unwrap().variance(), 0.0);
}

/// Every representable parameter samples, at once and within its range.
#[test]
fn extreme_parameters_sample() {
    let noise = noise(9);
    let extremes = [1, 2, 3, u128::from(u64::MAX), 1 << 64, (1 << 64) + 1, 1 << 100, u128::MAX - 1, u128::MAX];
    for n in extremes {
        for d in extremes {
            let ratio = Ratio::new(n, d).unwrap();
            let gaussian = DiscreteGaussian::new(ratio).unwrap();
            let sigma = ratio.to_f64().sqrt();
            for index in 0..20 {
                let x = gaussian.sample(&mut noise.bits(node(index)));
                assert!((x as f64).abs() <= 10.0 * sigma.max(0.1), "{ratio}: {x}");
            }
            if let Ok(law) = DiscreteLaplace::new(ratio) {
                for index in 0..20 {
                    let x = law.sample(&mut noise.bits(node(index)));
                    assert!((x as f64).abs() <= 40.0 * ratio.to_f64(), "{ratio}: {x}");
                }
            }
        }
    }
}

/// A draw nearly always reads one block: the cost of a draw relies on this.
#[test]
fn draws_read_few_bytes() {
    let noise = noise(3);
    let mean = |draw: &dyn Fn(&mut ScriptedBits)| {
        let consumed = (0..2000).map(|index| {
            let mut bits = ScriptedBits::new(noise.bits(node(index)).take::<4096>().to_vec());
            draw(&mut bits);
            bits.consumed()
        });
        consumed.sum::<usize>() as f64 / 2000.0
    };
    let gaussian = DiscreteGaussian::new(ratio("1000000")).unwrap();
    let laplace = DiscreteLaplace::new(ratio("1000")).unwrap();
    let geometric = Geometric::new(ratio("1000000")).unwrap();
    assert!(mean(&|bits| _ = gaussian.sample(bits)) < 32.0);
    assert!(mean(&|bits| _ = laplace.sample(bits)) < 12.0);
    assert!(mean(&|bits| _ = geometric.sample(bits)) < 18.0);
}
