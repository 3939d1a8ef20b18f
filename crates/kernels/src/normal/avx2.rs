//! AVX2: eight words at a time, and coefficients by permutation of registers. On Zen 5 this is faster
//! than gathering from memory, and than reading a row for each word and transposing.

use super::tables::{F32_DEGREE, F64, F64_DEGREE};
use super::{BLOCK, CacheAligned, ExtraBits, f32, f64};
use std::arch::x86_64::*;

/// Octaves whose coefficients are chosen by permutation; the words beyond, one in 256, are computed one by one.
const OCTAVES: usize = 8;

/// As `f32::portable`.
#[target_feature(enable = "avx2,aes")]
pub(super) fn normals_f32(words: &[u32], out: &mut [f32], tail: ExtraBits) {
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<BLOCK>();
    for (i, (words, out)) in blocks.iter().zip(out_blocks).enumerate() {
        // A bit for every word beyond the registers.
        let mut beyond = 0u64;
        for (j, (words, out)) in words.as_chunks().0.iter().zip(out.as_chunks_mut().0).enumerate() {
            let (x, octave) = eight(load_u32(words));
            let far = _mm256_cmpgt_epi32(octave, _mm256_set1_epi32(OCTAVES as i32 - 1));
            beyond |= u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(far)) as u32) << (8 * j);
            store_f32(out, x);
        }
        while beyond != 0 {
            let j = beyond.trailing_zeros() as usize;
            f32::portable(&words[j..=j], &mut out[j..=j], i * BLOCK + j, tail);
            beyond &= beyond - 1;
        }
    }
    f32::portable(rest, out_rest, blocks.len() * BLOCK, tail);
}

/// As `f32::usual` if the octave, which is returned too, is below `OCTAVES`.
#[inline]
#[target_feature(enable = "avx2")]
fn eight(words: __m256i) -> (__m256, __m256i) {
    let octave = leading_zeros(_mm256_srli_epi32::<1>(_mm256_slli_epi32::<1>(words)));
    let offset = _mm256_sllv_epi32(_mm256_slli_epi32::<2>(words), octave);
    // The half is the sign of the offset, and of `u`.
    let u = _mm256_mul_ps(_mm256_cvtepi32_ps(offset), _mm256_set1_ps(f32::UNIT));
    let half = _mm256_castsi256_ps(offset);
    let mut sum = of_singles(F32_DEGREE, octave, half);
    for degree in (0..F32_DEGREE).rev() {
        sum = _mm256_add_ps(_mm256_mul_ps(sum, u), of_singles(degree, octave, half));
    }
    let sign = _mm256_and_ps(_mm256_castsi256_ps(words), _mm256_set1_ps(-0.0));
    (_mm256_xor_ps(sum, sign), octave)
}

/// A coefficient of eight words.
#[inline]
#[target_feature(enable = "avx2")]
fn of_singles(degree: usize, octave: __m256i, half: __m256) -> __m256 {
    let (eights, _) = f32::COLUMNS.0[degree].as_chunks::<OCTAVES>();
    choose(load_f32(&eights[0]), load_f32(&eights[2]), octave, half)
}

/// A choice by octave from the first half's column or, if the sign is set, the second's. Permutations ignore all but
/// three bits of the octave.
#[inline]
#[target_feature(enable = "avx2")]
fn choose(first: __m256, second: __m256, octave: __m256i, half: __m256) -> __m256 {
    _mm256_blendv_ps(_mm256_permutevar8x32_ps(first, octave), _mm256_permutevar8x32_ps(second, octave), half)
}

/// Leading zeros of numbers below 2^31, less one; 157 for 0.
#[inline]
#[target_feature(enable = "avx2")]
fn leading_zeros(x: __m256i) -> __m256i {
    // The bit after the first is cleared, so that rounding never reaches the next power of two.
    let below = _mm256_andnot_si256(_mm256_srli_epi32::<1>(x), x);
    let exponent = _mm256_srli_epi32::<23>(_mm256_castps_si256(_mm256_cvtepi32_ps(below)));
    _mm256_sub_epi32(_mm256_set1_epi32(127 + 30), exponent)
}

/// As `f64::portable`.
#[target_feature(enable = "avx2,aes")]
pub(super) fn normals_f64(words: &[u64], out: &mut [f64], tail: ExtraBits) {
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<BLOCK>();
    for (i, (words, out)) in blocks.iter().zip(out_blocks).enumerate() {
        let mut beyond = 0u64;
        for (j, (words, out)) in words.as_chunks().0.iter().zip(out.as_chunks_mut().0).enumerate() {
            beyond |= eight_doubles(words, out) << (8 * j);
        }
        while beyond != 0 {
            let j = beyond.trailing_zeros() as usize;
            f64::portable(&words[j..=j], &mut out[j..=j], i * BLOCK + j, tail);
            beyond &= beyond - 1;
        }
    }
    f64::portable(rest, out_rest, blocks.len() * BLOCK, tail);
}

/// As `f64::usual`, except for the words whose bits are returned.
#[inline]
#[target_feature(enable = "avx2")]
fn eight_doubles(words: &[u64; 8], out: &mut [f64; 8]) -> u64 {
    let (quads, _) = words.as_chunks::<4>();
    let words = [load_u64(&quads[0]), load_u64(&quads[1])];
    // In 32-bit lanes, in the order 0 1 4 5 2 3 6 7: the upper parts determine all octaves here.
    let upper = _mm256_shuffle_ps::<0xdd>(_mm256_castsi256_ps(words[0]), _mm256_castsi256_ps(words[1]));
    let upper = _mm256_castps_si256(upper);
    let octave = leading_zeros(_mm256_srli_epi32::<1>(_mm256_slli_epi32::<1>(upper)));
    let half = _mm256_castsi256_ps(_mm256_sllv_epi32(_mm256_slli_epi32::<2>(upper), octave));
    let zero = _mm256_setzero_si256();
    let us =
        [offset(words[0], _mm256_unpacklo_epi32(octave, zero)), offset(words[1], _mm256_unpackhi_epi32(octave, zero))];
    let mut sums = of_doubles(F64_DEGREE, octave, half);
    for degree in (0..F64_DEGREE).rev() {
        let coefficients = of_doubles(degree, octave, half);
        sums[0] = _mm256_add_pd(_mm256_mul_pd(sums[0], us[0]), coefficients[0]);
        sums[1] = _mm256_add_pd(_mm256_mul_pd(sums[1], us[1]), coefficients[1]);
    }
    for (i, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
        let sign = _mm256_and_pd(_mm256_castsi256_pd(words[i]), _mm256_set1_pd(-0.0));
        store_f64(out, _mm256_xor_pd(sums[i], sign));
    }
    let far = _mm256_cmpgt_epi32(octave, _mm256_set1_epi32(OCTAVES as i32 - 1));
    // Pairs of lanes back into their order.
    let far = _mm256_permute4x64_epi64::<0b11_01_10_00>(far);
    u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(far)) as u32)
}

/// The offset of four words as a number.
#[inline]
#[target_feature(enable = "avx2")]
fn offset(words: __m256i, octave: __m256i) -> __m256d {
    let offset = _mm256_srli_epi64::<12>(_mm256_sllv_epi64(_mm256_slli_epi64::<2>(words), octave));
    // A signed number of 52 bits, which becomes the mantissa of 2^52 + 2^51 + offset.
    let start = _mm256_set1_pd(MIDDLE);
    let number = _mm256_sub_pd(_mm256_xor_pd(_mm256_castsi256_pd(offset), start), start);
    _mm256_mul_pd(number, _mm256_set1_pd(f64::UNIT))
}

/// A coefficient of the first four and of the last four words.
#[inline]
#[target_feature(enable = "avx2")]
fn of_doubles(degree: usize, octave: __m256i, half: __m256) -> [__m256d; 2] {
    let [lower, upper] = &DOUBLES.0[degree];
    let lower = choose(load_bits(&lower[0]), load_bits(&lower[1]), octave, half);
    let upper = choose(load_bits(&upper[0]), load_bits(&upper[1]), octave, half);
    [_mm256_castps_pd(_mm256_unpacklo_ps(lower, upper)), _mm256_castps_pd(_mm256_unpackhi_ps(lower, upper))]
}

/// 2^52 + 2^51.
const MIDDLE: f64 = 6_755_399_441_055_744.0;

/// Lower and upper 32 bits of the coefficients, of both halves.
static DOUBLES: CacheAligned<[[[[u32; OCTAVES]; 2]; 2]; F64_DEGREE + 1]> = CacheAligned(doubles());

const fn doubles() -> [[[[u32; OCTAVES]; 2]; 2]; F64_DEGREE + 1] {
    let mut columns = [[[[0; OCTAVES]; 2]; 2]; F64_DEGREE + 1];
    let mut place = 0;
    while place < 2 * OCTAVES * (F64_DEGREE + 1) {
        let (octave, half, degree) = (place % OCTAVES, place / OCTAVES % 2, place / OCTAVES / 2);
        let bits = F64[octave + 16 * half][degree].to_bits();
        columns[degree][0][half][octave] = bits as u32;
        columns[degree][1][half][octave] = (bits >> 32) as u32;
        place += 1;
    }
    columns
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_u32(from: &[u32; 8]) -> __m256i {
    // SAFETY: the array has 32 bytes; no alignment is required.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_f32(from: &[f32; 8]) -> __m256 {
    // SAFETY: the array has 32 bytes; no alignment is required.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_bits(from: &[u32; 8]) -> __m256 {
    _mm256_castsi256_ps(load_u32(from))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_u64(from: &[u64; 4]) -> __m256i {
    // SAFETY: the array has 32 bytes; no alignment is required.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_f32(to: &mut [f32; 8], x: __m256) {
    // SAFETY: the array has 32 bytes; no alignment is required.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_f64(to: &mut [f64; 4], x: __m256d) {
    // SAFETY: the array has 32 bytes; no alignment is required.
    unsafe { _mm256_storeu_pd(to.as_mut_ptr(), x) }
}
