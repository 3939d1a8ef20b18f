//! AVX2: eight f32 or four f64 at a time; each lane's row of coefficients is read and turned into columns.

use super::tables::{F32_DEGREE, F64_DEGREE};
use super::{BLOCK, RARE, Tail, f32, f64};
use std::arch::x86_64::*;

/// As `f32::portable`.
#[target_feature(enable = "avx2,aes")]
pub(super) fn normals_f32(words: &[u32], out: &mut [f32], tail: Tail) {
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<BLOCK>();
    for (i, (words, out)) in blocks.iter().zip(out_blocks).enumerate() {
        let mut octaves = _mm256_setzero_si256();
        for (words, out) in words.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
            let (x, octave) = eight(load_u32(words));
            octaves = _mm256_max_epi32(octaves, octave);
            store_f32(out, x);
        }
        if any_is_rare(octaves) {
            f32::mend(words, out, i * BLOCK, tail);
        }
    }
    f32::portable(rest, out_rest, blocks.len() * BLOCK, tail);
}

/// As `f32::usual` where the octave, returned too, is not rare.
#[inline]
#[target_feature(enable = "avx2")]
fn eight(words: __m256i) -> (__m256, __m256i) {
    let octave = leading_zeros(_mm256_srli_epi32::<1>(_mm256_slli_epi32::<1>(words)));
    let offset = _mm256_sllv_epi32(_mm256_slli_epi32::<2>(words), octave);
    let half = _mm256_and_si256(_mm256_srli_epi32::<27>(offset), _mm256_set1_epi32(16));
    let coefficients = columns_f32(store_u32(_mm256_or_si256(octave, half)));
    let u = _mm256_mul_ps(_mm256_cvtepi32_ps(offset), _mm256_set1_ps(f32::UNIT));
    let mut sum = coefficients[F32_DEGREE];
    for &coefficient in coefficients[..F32_DEGREE].iter().rev() {
        sum = _mm256_add_ps(_mm256_mul_ps(sum, u), coefficient);
    }
    let sign = _mm256_and_ps(_mm256_castsi256_ps(words), _mm256_set1_ps(-0.0));
    (_mm256_xor_ps(sum, sign), octave)
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

#[inline]
#[target_feature(enable = "avx2")]
fn any_is_rare(octaves: __m256i) -> bool {
    _mm256_movemask_epi8(_mm256_cmpgt_epi32(octaves, _mm256_set1_epi32(RARE as i32 - 1))) != 0
}

/// Coefficient by coefficient, those of eight rows.
#[inline]
#[target_feature(enable = "avx2")]
fn columns_f32(rows: [u32; 8]) -> [__m256; 8] {
    let (quads, _) = f32::ROWS.0.as_flattened().as_chunks::<4>();
    let four = |quad: usize| {
        // Lanes 0..4 in the lower half, 4..8 in the upper.
        let pairs: [__m256; 4] = std::array::from_fn(|i| {
            let of = |lane: usize| load_four(&quads[(rows[lane] & 31) as usize * 2 + quad]);
            _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(of(i)), of(i + 4))
        });
        let low = [_mm256_unpacklo_ps(pairs[0], pairs[1]), _mm256_unpacklo_ps(pairs[2], pairs[3])];
        let high = [_mm256_unpackhi_ps(pairs[0], pairs[1]), _mm256_unpackhi_ps(pairs[2], pairs[3])];
        [
            _mm256_shuffle_ps::<0x44>(low[0], low[1]),
            _mm256_shuffle_ps::<0xee>(low[0], low[1]),
            _mm256_shuffle_ps::<0x44>(high[0], high[1]),
            _mm256_shuffle_ps::<0xee>(high[0], high[1]),
        ]
    };
    let [a, b, c, d] = four(0);
    let [e, f, g, h] = four(1);
    [a, b, c, d, e, f, g, h]
}

/// As `f64::portable`.
#[target_feature(enable = "avx2,aes")]
pub(super) fn normals_f64(words: &[u64], out: &mut [f64], tail: Tail) {
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<BLOCK>();
    for (i, (words, out)) in blocks.iter().zip(out_blocks).enumerate() {
        let mut octaves = _mm256_setzero_si256();
        for (words, out) in words.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
            let (x, octave) = four(load_u64(words));
            octaves = _mm256_max_epi32(octaves, octave);
            store_f64(out, x);
        }
        if any_is_rare(octaves) {
            f64::mend(words, out, i * BLOCK, tail);
        }
    }
    f64::portable(rest, out_rest, blocks.len() * BLOCK, tail);
}

/// As `f64::usual` where the octave, returned too, is not rare.
#[inline]
#[target_feature(enable = "avx2")]
fn four(words: __m256i) -> (__m256d, __m256i) {
    // The upper 31 bits of the magnitude tell every octave that is not rare. The upper halves of lanes hold 157: clear them.
    let octave = leading_zeros(_mm256_srli_epi64::<33>(_mm256_slli_epi64::<1>(words)));
    let octave = _mm256_and_si256(octave, _mm256_set1_epi64x(0xff));
    let offset = _mm256_srli_epi64::<12>(_mm256_sllv_epi64(_mm256_slli_epi64::<2>(words), octave));
    let half = _mm256_and_si256(_mm256_srli_epi64::<47>(offset), _mm256_set1_epi64x(16));
    let coefficients = columns_f64(store_u64(_mm256_or_si256(octave, half)));
    // The offset is a signed number of 52 bits. It becomes the mantissa of 2^52 + 2^51 + offset.
    let start = _mm256_set1_pd(MIDDLE);
    let number = _mm256_sub_pd(_mm256_xor_pd(_mm256_castsi256_pd(offset), start), start);
    let u = _mm256_mul_pd(number, _mm256_set1_pd(f64::UNIT));
    let mut sum = coefficients[F64_DEGREE];
    for &coefficient in coefficients[..F64_DEGREE].iter().rev() {
        sum = _mm256_add_pd(_mm256_mul_pd(sum, u), coefficient);
    }
    let sign = _mm256_and_pd(_mm256_castsi256_pd(words), _mm256_set1_pd(-0.0));
    (_mm256_xor_pd(sum, sign), octave)
}

/// 2^52 + 2^51.
const MIDDLE: f64 = 6_755_399_441_055_744.0;

/// Coefficient by coefficient, those of four rows.
#[inline]
#[target_feature(enable = "avx2")]
fn columns_f64(rows: [u64; 4]) -> [__m256d; 12] {
    let (pairs, _) = f64::ROWS.0.as_flattened().as_chunks::<2>();
    let mut columns = [_mm256_setzero_pd(); 12];
    for pair in 0..6 {
        let of = |lane: usize| load_two(&pairs[(rows[lane] & 31) as usize * 6 + pair]);
        let even = _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(of(0)), of(2));
        let odd = _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(of(1)), of(3));
        columns[2 * pair] = _mm256_unpacklo_pd(even, odd);
        columns[2 * pair + 1] = _mm256_unpackhi_pd(even, odd);
    }
    columns
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_u32(from: &[u32; 8]) -> __m256i {
    // SAFETY: the array has 32 bytes; no alignment is asked for.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_u64(from: &[u64; 4]) -> __m256i {
    // SAFETY: the array has 32 bytes; no alignment is asked for.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_four(from: &[f32; 4]) -> __m128 {
    // SAFETY: the array has 16 bytes; no alignment is asked for.
    unsafe { _mm_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_two(from: &[f64; 2]) -> __m128d {
    // SAFETY: the array has 16 bytes; no alignment is asked for.
    unsafe { _mm_loadu_pd(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_u32(x: __m256i) -> [u32; 8] {
    let mut to = [0; 8];
    // SAFETY: the array has 32 bytes; no alignment is asked for.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) };
    to
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_u64(x: __m256i) -> [u64; 4] {
    let mut to = [0; 4];
    // SAFETY: the array has 32 bytes; no alignment is asked for.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) };
    to
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_f32(to: &mut [f32; 8], x: __m256) {
    // SAFETY: the array has 32 bytes; no alignment is asked for.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_f64(to: &mut [f64; 4], x: __m256d) {
    // SAFETY: the array has 32 bytes; no alignment is asked for.
    unsafe { _mm256_storeu_pd(to.as_mut_ptr(), x) }
}
