//! AVX-512: sixteen f32 or eight f64 at a time, and coefficients by permutation of registers.

use super::tables::{F32_DEGREE, F64, F64_DEGREE};
use super::{BLOCK, CacheAligned, ExtraBits, RARE, columns, f32, f64};
use std::arch::x86_64::*;

static DOUBLES: CacheAligned<[[f64; 32]; F64_DEGREE + 1]> = CacheAligned(columns(&F64));

/// One coefficient of all segments.
type Singles = [__m512; 2];

/// As `f32::portable`.
#[target_feature(enable = "avx2,aes,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,vaes")]
pub(super) fn normals_f32(words: &[u32], out: &mut [f32], tail: ExtraBits) {
    let mut coefficients = [[_mm512_setzero_ps(); 2]; F32_DEGREE + 1];
    for (coefficient, column) in coefficients.iter_mut().zip(&f32::COLUMNS.0) {
        let (halves, _) = column.as_chunks::<16>();
        *coefficient = [load_f32(&halves[0]), load_f32(&halves[1])];
    }
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<BLOCK>();
    for (i, (words, out)) in blocks.iter().zip(out_blocks).enumerate() {
        let mut octaves = _mm512_setzero_si512();
        for (words, out) in words.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
            let (x, octave) = sixteen(load_u32(words), &coefficients);
            octaves = _mm512_max_epu32(octaves, octave);
            store_f32(out, x);
        }
        if _mm512_cmpge_epu32_mask(octaves, _mm512_set1_epi32(RARE as i32)) != 0 {
            f32::mend(words, out, i * BLOCK, tail);
        }
    }
    f32::portable(rest, out_rest, blocks.len() * BLOCK, tail);
}

/// As `f32::usual` if the octave, which is returned too, is not rare.
#[inline]
#[target_feature(enable = "avx512f,avx512cd")]
fn sixteen(words: __m512i, coefficients: &[Singles; F32_DEGREE + 1]) -> (__m512, __m512i) {
    let octave = _mm512_lzcnt_epi32(_mm512_slli_epi32::<1>(words));
    let offset = _mm512_sllv_epi32(_mm512_slli_epi32::<2>(words), octave);
    // octave | (offset >> 27) & 16. A permutation ignores all but five bits.
    let row = _mm512_ternarylogic_epi32::<0xf8>(octave, _mm512_srli_epi32::<27>(offset), _mm512_set1_epi32(16));
    let of = |[low, high]: Singles| _mm512_permutex2var_ps(low, row, high);
    let u = _mm512_mul_ps(_mm512_cvtepi32_ps(offset), _mm512_set1_ps(f32::UNIT));
    let mut sum = of(coefficients[F32_DEGREE]);
    for &coefficient in coefficients[..F32_DEGREE].iter().rev() {
        sum = _mm512_add_ps(_mm512_mul_ps(sum, u), of(coefficient));
    }
    // sum ^ (words & sign)
    let sign = _mm512_set1_epi32(i32::MIN);
    let signed = _mm512_ternarylogic_epi32::<0x78>(_mm512_castps_si512(sum), words, sign);
    (_mm512_castsi512_ps(signed), octave)
}

/// As `f64::portable`.
#[target_feature(enable = "avx2,aes,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,vaes")]
pub(super) fn normals_f64(words: &[u64], out: &mut [f64], tail: ExtraBits) {
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<BLOCK>();
    for (i, (words, out)) in blocks.iter().zip(out_blocks).enumerate() {
        let mut octaves = _mm512_setzero_si512();
        for (words, out) in words.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
            let octave = thirty_two(words, out);
            octaves = _mm512_max_epu64(octaves, octave);
        }
        if _mm512_cmpge_epu64_mask(octaves, _mm512_set1_epi64(i64::from(RARE))) != 0 {
            f64::mend(words, out, i * BLOCK, tail);
        }
    }
    f64::portable(rest, out_rest, blocks.len() * BLOCK, tail);
}

/// Vectors that share one load of the coefficients.
const TOGETHER: usize = 4;

/// As `f64::usual` if the octaves, whose greatest are returned, are not rare.
#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn thirty_two(words: &[u64; 8 * TOGETHER], out: &mut [f64; 8 * TOGETHER]) -> __m512i {
    let words: [__m512i; TOGETHER] = std::array::from_fn(|i| load_u64(&words.as_chunks().0[i]));
    let octaves = words.map(|words| _mm512_lzcnt_epi64(_mm512_slli_epi64::<1>(words)));
    let offsets: [__m512i; TOGETHER] = std::array::from_fn(|i| {
        _mm512_srai_epi64::<12>(_mm512_sllv_epi64(_mm512_slli_epi64::<2>(words[i]), octaves[i]))
    });
    let halves = offsets.map(|offset| _mm512_movepi64_mask(offset));
    let us = offsets.map(|offset| _mm512_mul_pd(_mm512_cvtepi64_pd(offset), _mm512_set1_pd(f64::UNIT)));
    let mut sums = [_mm512_setzero_pd(); TOGETHER];
    for degree in (0..=F64_DEGREE).rev() {
        let (column, _) = DOUBLES.0[degree].as_chunks::<8>();
        let parts: [__m512d; 4] = std::array::from_fn(|i| load_f64(&column[i]));
        for i in 0..TOGETHER {
            // A permutation ignores all but four bits.
            let low = _mm512_permutex2var_pd(parts[0], octaves[i], parts[1]);
            let high = _mm512_permutex2var_pd(parts[2], octaves[i], parts[3]);
            let coefficient = _mm512_mask_blend_pd(halves[i], low, high);
            sums[i] = if degree == F64_DEGREE {
                coefficient
            } else {
                _mm512_add_pd(_mm512_mul_pd(sums[i], us[i]), coefficient)
            };
        }
    }
    let sign = _mm512_set1_epi64(i64::MIN);
    for (i, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
        // sum ^ (words & sign)
        let signed = _mm512_ternarylogic_epi64::<0x78>(_mm512_castpd_si512(sums[i]), words[i], sign);
        store_f64(out, _mm512_castsi512_pd(signed));
    }
    octaves.into_iter().reduce(|a, b| _mm512_max_epu64(a, b)).expect("vectors")
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_u32(from: &[u32; 16]) -> __m512i {
    // SAFETY: the array has 64 bytes; no alignment is required.
    unsafe { _mm512_loadu_epi32(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_f32(from: &[f32; 16]) -> __m512 {
    // SAFETY: the array has 64 bytes; no alignment is required.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_f32(to: &mut [f32; 16], x: __m512) {
    // SAFETY: the array has 64 bytes; no alignment is required.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_u64(from: &[u64; 8]) -> __m512i {
    // SAFETY: the array has 64 bytes; no alignment is required.
    unsafe { _mm512_loadu_epi64(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_f64(from: &[f64; 8]) -> __m512d {
    // SAFETY: the array has 64 bytes; no alignment is required.
    unsafe { _mm512_loadu_pd(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_f64(to: &mut [f64; 8], x: __m512d) {
    // SAFETY: the array has 64 bytes; no alignment is required.
    unsafe { _mm512_storeu_pd(to.as_mut_ptr(), x) }
}
