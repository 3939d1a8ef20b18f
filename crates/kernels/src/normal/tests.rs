//! Every instruction set compared with the portable twin, bit for bit, and the twin with an independent quantile
//! function.

use super::quantiles::{MIDDLES, TAILS};
use super::{normals_f32, normals_f64};
use crate::InstructionSet;
use crate::quantile::{in_the_tail, near_the_middle, of_long_word};

/// Φ⁻¹ in double precision, without the tables.
fn quantile_of_upper(p: f64) -> f64 {
    let centred = 0.5 - p;
    if centred > 0.425 { in_the_tail(p) } else { near_the_middle(centred) }
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

/// Words around every border of octaves, halves and rarity, of `bits` bits, both signs.
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

fn singles(instructions: InstructionSet, words: &[u32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; words.len()];
    normals_f32(instructions, words, &mut out, &mut tail_bits);
    out
}

fn doubles(instructions: InstructionSet, words: &[u64]) -> Vec<f64> {
    let mut out = vec![f64::NAN; words.len()];
    normals_f64(instructions, words, &mut out, &mut tail_bits);
    out
}

#[test]
fn every_path_gives_the_same_single_bits() {
    let words: Vec<u32> = edges(32).into_iter().chain(words(3_000_000)).map(|word| word as u32).collect();
    let bits = |instructions| singles(instructions, &words).into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let expected = bits(InstructionSet::PORTABLE);
    for instructions in InstructionSet::available() {
        assert!(bits(instructions) == expected, "{instructions:?}");
    }
}

#[test]
fn every_path_gives_the_same_double_bits() {
    // Random words are moved to all octaves.
    let random = words(3_000_000).into_iter().enumerate().map(|(i, word)| word & (1 << 63 | u64::MAX >> (i % 18)));
    let words: Vec<u64> = edges(64).into_iter().chain(random).collect();
    let bits = |instructions| doubles(instructions, &words).into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let expected = bits(InstructionSet::PORTABLE);
    for instructions in InstructionSet::available() {
        assert!(bits(instructions) == expected, "{instructions:?}");
    }
}

/// Ragged lengths, and each rare position requested once, in order.
#[test]
fn tails_are_asked_for_by_position() {
    let is_rare = |i: usize| i % 7 == 3 || i % 64 == 63;
    for instructions in InstructionSet::available() {
        for length in [0, 1, 15, 16, 63, 64, 65, 129, 200] {
            let expected: Vec<usize> = (0..length).filter(|&i| is_rare(i)).collect();
            let words: Vec<u32> = (0..length).map(|i| if is_rare(i) { i as u32 } else { 0x8fff_ffff }).collect();
            let mut asked = vec![];
            let mut out = vec![0.0; length];
            normals_f32(instructions, &words, &mut out, &mut |i| {
                asked.push(i);
                tail_bits(i)
            });
            assert_eq!(asked, expected, "{instructions:?}");
            assert_eq!(out, singles(InstructionSet::PORTABLE, &words));
            let words: Vec<u64> = words.into_iter().map(|word| u64::from(word) << 32).collect();
            let mut asked = vec![];
            let mut out = vec![0.0; length];
            normals_f64(instructions, &words, &mut out, &mut |i| {
                asked.push(i);
                tail_bits(i)
            });
            assert_eq!(asked, expected, "{instructions:?}");
            assert_eq!(out, doubles(InstructionSet::PORTABLE, &words));
        }
    }
}

/// Both precisions: the sign bit only negates.
#[test]
fn normals_are_odd() {
    let words: Vec<u64> = edges(64).into_iter().chain(words(10_000)).collect();
    let negated: Vec<u64> = words.iter().map(|word| word ^ 1 << 63).collect();
    let (x, y) = (doubles(InstructionSet::best(), &words), doubles(InstructionSet::best(), &negated));
    assert!(x.iter().zip(&y).all(|(x, y)| *x == -y && *x != 0.0));
    assert!(words.iter().zip(&x).all(|(word, x)| (word >> 63 == 1) == (*x < 0.0)));
    let upper = |words: &[u64]| words.iter().map(|word| (word >> 32) as u32).collect::<Vec<_>>();
    let (x, y) = (singles(InstructionSet::best(), &upper(&words)), singles(InstructionSet::best(), &upper(&negated)));
    assert!(x.iter().zip(&y).all(|(x, y)| *x == -y && *x != 0.0));
    assert!(words.iter().zip(&x).all(|(word, x)| (word >> 63 == 1) == (*x < 0.0)));
}

#[test]
fn rare_normals_are_exact_quantiles() {
    for &(words, bits, exponent, exact) in TAILS {
        let x = of_long_word(words, bits, exponent);
        assert!((x / exact - 1.0).abs() < 1e-14, "{words} {bits:x} {exponent}: {x} for {exact}");
        if exponent == 32 {
            let mut out = [0.0];
            normals_f32(InstructionSet::best(), &[words as u32 | 1 << 31], &mut out, &mut |_| bits);
            assert_eq!(out, [-exact as f32]);
        } else {
            let mut out = [0.0];
            normals_f64(InstructionSet::best(), &[words | 1 << 63], &mut out, &mut |_| bits);
            assert_eq!(out, [-x]);
        }
    }
    // Beyond 14 and 15 standard deviations.
    assert!(TAILS.iter().any(|tail| tail.3 > 14.0 && tail.2 == 32) && TAILS.iter().any(|tail| tail.3 > 15.0));
}

#[test]
fn rows_and_the_oracle_are_exact_quantiles() {
    for &(magnitude, exact) in MIDDLES {
        let mut double = [0.0];
        normals_f64(InstructionSet::PORTABLE, &[magnitude], &mut double, &mut |_| unreachable!());
        assert!((double[0] - exact).abs() < 1e-12, "{magnitude:x}: {} for {exact}", double[0]);
        assert!((quantile_of_upper((magnitude as f64 + 0.5) / 2f64.powi(64)) - exact).abs() < 1e-14);
    }
}

/// Where segments meet, including rare ones, neighbouring words have neighbouring normals.
#[test]
fn segments_meet() {
    for border in (0..15).flat_map(|octave| [1u64 << 62 >> octave, 3 << 61 >> octave]) {
        let x = doubles(InstructionSet::best(), &[border - 1, border, border + 1]);
        assert!((x[1] - x[0]).abs() < 2e-12 && (x[1] - x[2]).abs() < 2e-12, "{border:x}: {x:?}");
    }
    // The last rare word with the largest bits, and the first that is not rare.
    let mut x = [0.0; 2];
    normals_f64(InstructionSet::best(), &[(1 << 48) - 1, 1 << 48], &mut x, &mut |_| u128::MAX);
    assert!(x[0] > x[1] - 1e-12 && x[0] < x[1] + 1e-12, "{x:?}");
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
    let (mut error, mut relative) = (0f64, 0f64);
    for (&word, x) in words.iter().zip(singles(InstructionSet::best(), &words)) {
        let exact = expected(u64::from(word), 32);
        let off = (f64::from(x) - exact).abs();
        error = error.max(off / exact.max(1.0));
        relative = relative.max(off / exact);
    }
    // Measured with a step of 11 words: 1.1e-7 and 5.8e-7 (the latter at the very middle).
    assert!(error < 1.2e-7, "{error:e}");
    assert!(relative < 7e-7, "{relative:e}");
}

#[test]
fn doubles_are_quantiles() {
    let words: Vec<u64> = (0..1u64 << 63).rev().step_by((1 << 43) + 12_345).filter(|w| w >> 48 > 0).collect();
    let mut error = 0f64;
    for (&word, x) in words.iter().zip(doubles(InstructionSet::best(), &words)) {
        error = error.max((x - expected(word, 64)).abs());
    }
    // Measured: 9.6e-13.
    assert!(error < 1e-12, "{error:e}");
}

/// The f32 normals of every `stride`-th word without sign, from far out to the middle.
struct Law {
    /// Σ |p − p₀| / 2 and max |p / p₀ − 1| over `bins` intervals of about equal probability.
    total_variation: f64,
    density: f64,
    /// The maximum displacement of the interval's borders x, divided by max(1, x).
    displacement: f64,
    /// Neighbouring words in the wrong order: their number, and the maximum error, in units of the larger number's last
    /// place.
    inversions: u64,
    wrong_by: f64,
    smallest: f32,
}

/// A border lies between two neighbouring f32, so rounding to f32 alone moves nothing across it: the upper of the two,
/// and the probability beyond the middle of them.
fn border(p: f64) -> (f32, f64) {
    let upper = quantile_of_upper(p) as f32;
    let middle = (f64::from(upper) + f64::from(upper.next_down())) / 2.0;
    (upper, libm::erfc(middle / 2f64.sqrt()) / 2.0)
}

fn law(stride: u32, bins: u32) -> Law {
    let borders: Vec<(f32, f64)> = (1..bins / 2).map(|i| border(f64::from(i) / f64::from(bins))).collect();
    let mut beyond = vec![0u64; borders.len()];
    let mut law =
        Law { total_variation: 0.0, density: 0.0, displacement: 0.0, inversions: 0, wrong_by: 0.0, smallest: f32::MAX };
    let mut last = f32::MAX;
    let mut out = vec![0.0; 1 << 12];
    let count = (1u32 << 31) / stride;
    for first in (0..count).step_by(out.len()) {
        let words: Vec<u32> = (0..out.len() as u32).map(|i| (first + i) * stride + stride / 2).collect();
        normals_f32(InstructionSet::best(), &words, &mut out, &mut |_| 1 << 127);
        let (least, most) = out.iter().fold((f32::MAX, f32::MIN), |(least, most), &x| (least.min(x), most.max(x)));
        law.smallest = law.smallest.min(least);
        // Borders fall from left to right: this chunk is beyond those that its least number reaches.
        let whole = borders.partition_point(|(x, _)| *x > least);
        let none = borders.partition_point(|(x, _)| *x > most);
        beyond[whole..].iter_mut().for_each(|b| *b += out.len() as u64);
        for i in none..whole {
            beyond[i] += out.iter().filter(|&&x| x >= borders[i].0).count() as u64;
        }
        let steps = || std::iter::once((last, out[0])).chain(out.windows(2).map(|pair| (pair[0], pair[1])));
        let wrong = steps().filter(|(x, y)| y > x).count() as u64;
        if wrong > 0 {
            law.inversions += wrong;
            law.wrong_by = steps().map(|(x, y)| f64::from((y - x) / (y - y.next_down()))).fold(law.wrong_by, f64::max);
        }
        last = out[out.len() - 1];
    }
    let shares = beyond.iter().map(|&b| b as f64 / f64::from(count) / 2.0).chain([0.5]);
    let exact = borders.iter().map(|border| border.1).chain([0.5]);
    let mut before = (0.0, 0.0);
    for (share, exact) in shares.clone().zip(exact) {
        let (p, q) = (share - before.0, exact - before.1);
        // Both signs.
        law.total_variation += (p - q).abs();
        law.density = law.density.max((p / q - 1.0).abs());
        before = (share, exact);
    }
    for (share, (x, exact)) in shares.zip(borders.iter()) {
        let normal = (-f64::from(x * x) / 2.0).exp() / std::f64::consts::TAU.sqrt();
        law.displacement = law.displacement.max((share - exact).abs() / normal / f64::from(x.max(1.0)));
    }
    law
}

#[test]
fn the_law_of_singles_is_normal() {
    let law = law(16, 1000);
    // Of this, 16 / 2^32 · 1000 = 4e-6 is due to the omitted words.
    assert!(law.density < 2e-5, "{:e}", law.density);
    assert!(law.total_variation < 2e-6, "{:e}", law.total_variation);
    assert!(law.wrong_by <= 1.0, "{}", law.wrong_by);
}

/// The numbers in the module's documentation.
#[test]
#[ignore = "all words: a minute"]
fn the_law_of_all_singles() {
    for bins in [1000, 10_000] {
        let law = law(1, bins);
        println!(
            "{bins} bins: total variation {:e}, density {:e}, displacement {:e}; {} inversions, by {} units; smallest \
             {:e}",
            law.total_variation, law.density, law.displacement, law.inversions, law.wrong_by, law.smallest
        );
        assert!(law.displacement < 1e-7 && law.smallest > 0.0);
    }
}
