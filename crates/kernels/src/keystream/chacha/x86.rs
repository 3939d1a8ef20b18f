//! The rounds of ChaCha with the vectors of x86-64 processors: a vector has one word of the state of 8 or 16 blocks.

use std::arch::x86_64::*;

use super::{BlockState, LANES, Rounds, StateWord, double_round};

/// As `mix_portable`.
#[target_feature(enable = "avx2,aes,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,vaes")]
pub(super) fn mix_avx512(start: &BlockState, rounds: Rounds, blocks: &mut BlockState) {
    let load = |row: &StateWord| {
        // SAFETY: `row` are the 64 bytes that are read, with any alignment.
        unsafe { _mm512_loadu_si512(row.as_ptr().cast()) }
    };
    let mut state: [__m512i; 16] = std::array::from_fn(|i| load(&start[i]));
    for _ in 0..rounds as u32 {
        double_round!(sixteen_quarter_rounds, &mut state);
    }
    for ((block, row), start) in blocks.iter_mut().zip(state).zip(start) {
        let sum = _mm512_add_epi32(row, load(start));
        // SAFETY: `block` are the 64 bytes that are written, with any alignment.
        unsafe { _mm512_storeu_si512(block.as_mut_ptr().cast(), sum) };
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sixteen_quarter_rounds(x: &mut [__m512i; 16], a: usize, b: usize, c: usize, d: usize) {
    x[a] = _mm512_add_epi32(x[a], x[b]);
    x[d] = _mm512_rol_epi32::<16>(_mm512_xor_si512(x[d], x[a]));
    x[c] = _mm512_add_epi32(x[c], x[d]);
    x[b] = _mm512_rol_epi32::<12>(_mm512_xor_si512(x[b], x[c]));
    x[a] = _mm512_add_epi32(x[a], x[b]);
    x[d] = _mm512_rol_epi32::<8>(_mm512_xor_si512(x[d], x[a]));
    x[c] = _mm512_add_epi32(x[c], x[d]);
    x[b] = _mm512_rol_epi32::<7>(_mm512_xor_si512(x[b], x[c]));
}

/// Lanes of a vector of AVX2.
const HALF: usize = LANES / 2;

/// As `mix_portable`, in two halves.
#[target_feature(enable = "avx2,aes")]
pub(super) fn mix_avx2(start: &BlockState, rounds: Rounds, blocks: &mut BlockState) {
    for half in 0..2 {
        let load = |row: &StateWord| {
            let lanes = &row.as_chunks::<HALF>().0[half];
            // SAFETY: `lanes` are the 32 bytes that are read, with any alignment.
            unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
        };
        let mut state: [__m256i; 16] = std::array::from_fn(|i| load(&start[i]));
        for _ in 0..rounds as u32 {
            double_round!(eight_quarter_rounds, &mut state);
        }
        for ((block, row), start) in blocks.iter_mut().zip(state).zip(start) {
            let sum = _mm256_add_epi32(row, load(start));
            let lanes = &mut block.as_chunks_mut::<HALF>().0[half];
            // SAFETY: `lanes` are the 32 bytes that are written, with any alignment.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn eight_quarter_rounds(x: &mut [__m256i; 16], a: usize, b: usize, c: usize, d: usize) {
    // Rotations by whole bytes are permutations of bytes.
    let by_16 = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0d0c_0f0e_0908_0b0a, 0x0504_0706_0100_0302));
    let by_8 = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0e0d_0c0f_0a09_080b, 0x0605_0407_0201_0003));
    x[a] = _mm256_add_epi32(x[a], x[b]);
    x[d] = _mm256_shuffle_epi8(_mm256_xor_si256(x[d], x[a]), by_16);
    x[c] = _mm256_add_epi32(x[c], x[d]);
    let mixed = _mm256_xor_si256(x[b], x[c]);
    x[b] = _mm256_or_si256(_mm256_slli_epi32::<12>(mixed), _mm256_srli_epi32::<20>(mixed));
    x[a] = _mm256_add_epi32(x[a], x[b]);
    x[d] = _mm256_shuffle_epi8(_mm256_xor_si256(x[d], x[a]), by_8);
    x[c] = _mm256_add_epi32(x[c], x[d]);
    let mixed = _mm256_xor_si256(x[b], x[c]);
    x[b] = _mm256_or_si256(_mm256_slli_epi32::<7>(mixed), _mm256_srli_epi32::<25>(mixed));
}
