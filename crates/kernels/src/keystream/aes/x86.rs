//! AES-128 with the instructions of x86-64 processors, several blocks in flight at once: each instruction waits a few
//! cycles for the previous one in the same block, and blocks do not wait for each other.

use std::arch::x86_64::*;

use zeroize::ZeroizeOnDrop;

use crate::keystream::GROUP;

/// The eleven round keys of FIPS 197.
#[derive(ZeroizeOnDrop)]
pub(in crate::keystream) struct AesRoundKeys([__m128i; 11]);

impl AesRoundKeys {
    /// The key expansion of FIPS 197, section 5.2.
    #[target_feature(enable = "avx2,aes")]
    pub(super) fn new(key: &[u8; 16]) -> Self {
        let halves = u128::from_le_bytes(*key);
        let mut last = _mm_set_epi64x((halves >> 64) as i64, halves as i64);
        let mut keys = [last; 11];
        macro_rules! expand {
            ($($round:literal: $constant:literal),*) => {$(
                last = next(last, _mm_aeskeygenassist_si128::<$constant>(last));
                keys[$round] = last;
            )*};
        }
        expand!(1: 0x01, 2: 0x02, 3: 0x04, 4: 0x08, 5: 0x10, 6: 0x20, 7: 0x40, 8: 0x80, 9: 0x1b, 10: 0x36);
        Self(keys)
    }

    /// 8 blocks in flight.
    #[target_feature(enable = "avx2,aes")]
    pub(super) fn groups_avx2(&self, lower: u64, upper: u64, groups: &mut [[u32; GROUP]]) {
        let mut name = _mm_set_epi64x(upper as i64, lower as i64);
        let one = _mm_set_epi64x(1, 0);
        for words in groups.as_flattened_mut().as_chunks_mut::<32>().0 {
            let mut blocks = [_mm_setzero_si128(); 8];
            for block in &mut blocks {
                *block = _mm_xor_si128(name, self.0[0]);
                // Addition in 64-bit halves. Only the upper one counts, and as its counter is below 2^56 nothing is
                // carried into the level, except after the very last block, whose name is not used.
                name = _mm_add_epi64(name, one);
            }
            for key in &self.0[1..10] {
                for block in &mut blocks {
                    *block = _mm_aesenc_si128(*block, *key);
                }
            }
            for (words, block) in words.as_chunks_mut::<4>().0.iter_mut().zip(blocks) {
                let block = _mm_aesenclast_si128(block, self.0[10]);
                // SAFETY: `words` are the 16 bytes that are written, with any alignment.
                unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), block) };
            }
        }
    }

    /// 32 blocks in flight, four to a vector.
    #[target_feature(enable = "avx2,aes,avx512f,vaes")]
    pub(super) fn groups_avx512(&self, lower: u64, upper: u64, groups: &mut [[u32; GROUP]]) {
        let mut keys = [_mm512_setzero_si512(); 11];
        for (wide, key) in keys.iter_mut().zip(self.0) {
            *wide = _mm512_broadcast_i32x4(key);
        }
        let name = _mm512_broadcast_i32x4(_mm_set_epi64x(upper as i64, lower as i64));
        // Addition in 64-bit halves, as above.
        let mut names = _mm512_add_epi64(name, _mm512_set_epi64(3, 0, 2, 0, 1, 0, 0, 0));
        let four = _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0);
        for words in groups.as_flattened_mut().as_chunks_mut::<128>().0 {
            let mut blocks = [_mm512_setzero_si512(); 8];
            for block in &mut blocks {
                *block = _mm512_xor_si512(names, keys[0]);
                names = _mm512_add_epi64(names, four);
            }
            for key in &keys[1..10] {
                for block in &mut blocks {
                    *block = _mm512_aesenc_epi128(*block, *key);
                }
            }
            for (words, block) in words.as_chunks_mut::<16>().0.iter_mut().zip(blocks) {
                let block = _mm512_aesenclast_epi128(block, keys[10]);
                // SAFETY: `words` are the 64 bytes that are written, with any alignment.
                unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), block) };
            }
        }
    }
}

/// The next round key: from the last and from RotWord, SubWord and the round constant, which `assist` has in its top
/// word.
#[inline]
#[target_feature(enable = "avx2,aes")]
fn next(last: __m128i, assist: __m128i) -> __m128i {
    // Each word is the exclusive or of the words up to it; then all take the assist.
    let two = _mm_xor_si128(last, _mm_slli_si128::<4>(last));
    let four = _mm_xor_si128(two, _mm_slli_si128::<8>(two));
    _mm_xor_si128(four, _mm_shuffle_epi32::<0xff>(assist))
}
