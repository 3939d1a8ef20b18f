//! The sums of a block with vectors. A product of the lower halves of 64-bit lanes is one instruction, so the words of
//! a pair are neighbours.

use super::{BLOCK, BlockSums, SHIFT};
use std::arch::x86_64::*;

/// As `portable`.
#[target_feature(enable = "avx2,aes,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,vaes")]
pub(super) fn avx512(words: &[u32; BLOCK], secret: &[u32; BLOCK + SHIFT]) -> BlockSums {
    let load = |words: &[u32; 16]| {
        // SAFETY: `words` are the 64 bytes that are read, with any alignment.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    };
    let (words, secret) = (words.as_chunks().0, secret.as_chunks().0);
    let (mut first, mut second) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    let mut key = load(&secret[0]);
    for (words, secret) in words.iter().zip(&secret[1..]) {
        let (words, shifted) = (load(words), load(secret));
        let (one, two) = (_mm512_add_epi32(words, key), _mm512_add_epi32(words, shifted));
        first = _mm512_add_epi64(first, _mm512_mul_epu32(one, _mm512_srli_epi64::<32>(one)));
        second = _mm512_add_epi64(second, _mm512_mul_epu32(two, _mm512_srli_epi64::<32>(two)));
        key = shifted;
    }
    [first, second].map(|lanes| _mm512_reduce_add_epi64(lanes) as u64)
}

/// As `portable`.
#[target_feature(enable = "avx2,aes")]
pub(super) fn avx2(words: &[u32; BLOCK], secret: &[u32; BLOCK + SHIFT]) -> BlockSums {
    let load = |words: &[u32; 8]| {
        // SAFETY: `words` are the 32 bytes that are read, with any alignment.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    };
    let (words, secret) = (words.as_chunks().0, secret.as_chunks().0);
    let (mut first, mut second) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for ((words, key), shifted) in words.iter().zip(secret).zip(&secret[SHIFT / 8..]) {
        let words = load(words);
        let (one, two) = (_mm256_add_epi32(words, load(key)), _mm256_add_epi32(words, load(shifted)));
        first = _mm256_add_epi64(first, _mm256_mul_epu32(one, _mm256_srli_epi64::<32>(one)));
        second = _mm256_add_epi64(second, _mm256_mul_epu32(two, _mm256_srli_epi64::<32>(two)));
    }
    [first, second].map(|lanes| {
        let two = _mm_add_epi64(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
        (_mm_cvtsi128_si64(two) as u64).wrapping_add(_mm_extract_epi64::<1>(two) as u64)
    })
}
