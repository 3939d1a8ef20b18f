//! Every path against the portable twin, bit for bit, and the twin against an independent quantile function.

use super::{RARE, normals_f32, normals_f64, tail};
use crate::Path;

/// Φ⁻¹ in double precision, without the tables: AS 241's middle, and its tails from the module that makes rare normals.
fn quantile_of_upper(p: f64) -> f64 {
    let centred = 0.5 - p;
    if centred > 0.425 {
        return tail::upper(p);
    }
    let r = 0.180625 - centred * centred;
    let horner = |coefficients: [f64; 8]| coefficients.into_iter().rev().fold(0.0, |sum, c| sum * r + c);
    let numerator = horner([
        3.387_132_872_796_366_5,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ]);
    let denominator = horner([
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_659_7e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_854e3,
    ]);
    centred * numerator / denominator
}

/// Random words: a multiplicative generator's upper half.
fn words(count: usize) -> Vec<u64> {
    let mut state = 0x1234_5678_9abc_def1_u128;
    let mut next = || {
        state = state.wrapping_mul(0xda94_2042_e4dd_58b5_u128 << 64 | 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645_u128);
        (state >> 64) as u64
    };
    (0..count).map(|_| next()).collect()
}

/// Words about every border of octaves, halves and rarity, of `bits` bits, both signs.
fn edges(bits: u32) -> Vec<u64> {
    let magnitudes =
        (0..bits).flat_map(|shift| [2u64 << shift >> 1, (3u64 << shift) >> 1, 5 << shift >> 2, 7 << shift >> 2]);
    let near = magnitudes.flat_map(|m| (0..9).map(move |step| m.wrapping_add(step).wrapping_sub(4)));
    let sign = 1u64 << (bits - 1);
    let all = sign | (sign - 1);
    near.flat_map(|w| [w & all, !w & all]).chain([0, 1, all, sign, sign - 1]).collect()
}

/// Bits for a tail that depend on the position.
fn tail_bits(position: usize) -> u128 {
    (position as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

fn singles(path: Path, words: &[u32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; words.len()];
    normals_f32(path, words, &mut out, &mut tail_bits);
    out
}

fn doubles(path: Path, words: &[u64]) -> Vec<f64> {
    let mut out = vec![f64::NAN; words.len()];
    normals_f64(path, words, &mut out, &mut tail_bits);
    out
}

#[test]
fn every_path_gives_the_same_single_bits() {
    let words: Vec<u32> = edges(32).into_iter().chain(words(3_000_000)).map(|word| word as u32).collect();
    let bits = |path| singles(path, &words).into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let expected = bits(Path::PORTABLE);
    for path in Path::available() {
        assert!(bits(path) == expected, "{path:?}");
    }
}

#[test]
fn every_path_gives_the_same_double_bits() {
    // Random words are moved to all octaves.
    let random = words(3_000_000).into_iter().enumerate().map(|(i, word)| word & (1 << 63 | u64::MAX >> (i % 18)));
    let words: Vec<u64> = edges(64).into_iter().chain(random).collect();
    let bits = |path| doubles(path, &words).into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let expected = bits(Path::PORTABLE);
    for path in Path::available() {
        assert!(bits(path) == expected, "{path:?}");
    }
}

/// Ragged lengths, and each rare position asked for once, in order.
#[test]
fn tails_are_asked_for_by_position() {
    let is_rare = |i: usize| i % 7 == 3 || i % 64 == 63;
    for path in Path::available() {
        for length in [0, 1, 15, 16, 63, 64, 65, 129, 200] {
            let expected: Vec<usize> = (0..length).filter(|&i| is_rare(i)).collect();
            let words: Vec<u32> = (0..length).map(|i| if is_rare(i) { i as u32 } else { 0x8fff_ffff }).collect();
            let mut asked = vec![];
            let mut out = vec![0.0; length];
            normals_f32(path, &words, &mut out, &mut |i| {
                asked.push(i);
                tail_bits(i)
            });
            assert_eq!(asked, expected, "{path:?}");
            assert_eq!(out, singles(Path::PORTABLE, &words));
            let words: Vec<u64> = words.into_iter().map(|word| u64::from(word) << 32).collect();
            let mut asked = vec![];
            let mut out = vec![0.0; length];
            normals_f64(path, &words, &mut out, &mut |i| {
                asked.push(i);
                tail_bits(i)
            });
            assert_eq!(asked, expected, "{path:?}");
            assert_eq!(out, doubles(Path::PORTABLE, &words));
        }
    }
}

/// The value of a magnitude, from the definition.
fn expected(magnitude: u64, bits: i32) -> f64 {
    let cell = 2f64.powi(-bits);
    quantile_of_upper(magnitude as f64 * cell + cell / 2.0)
}

#[test]
fn singles_are_quantiles() {
    let words: Vec<u32> =
        (0..1u32 << 31).rev().step_by(1009).chain((0..31).map(|k| (1 << k) - 1)).filter(|w| w >> 16 > 0).collect();
    let (mut error, mut ulps) = (0f64, 0f64);
    for (&word, x) in words.iter().zip(singles(Path::best(), &words)) {
        let exact = expected(u64::from(word), 32);
        let off = (f64::from(x) - exact).abs();
        error = error.max(off / exact.max(1.0));
        ulps = ulps.max(off / f64::from(exact as f32 - (exact as f32).next_down()));
    }
    println!("f32: {error:e}, {ulps} ulp");
    assert!(error < 1.5e-7, "{error:e}");
}

#[test]
fn doubles_are_quantiles() {
    let words: Vec<u64> = (0..1u64 << 63).rev().step_by((1 << 43) + 12_345).filter(|w| w >> 48 > 0).collect();
    let mut error = 0f64;
    for (&word, x) in words.iter().zip(doubles(Path::best(), &words)) {
        error = error.max((x - expected(word, 64)).abs());
    }
    println!("f64: {error:e}");
    assert!(error < 2e-12, "{error:e}");
}
