//! Double precision: one 64-bit word per normal.

use super::{Aligned, RARE, Tail, tables};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::InstructionSet;
use crate::instruction_set::Instructions;
use crate::quantile::of_long_word;

/// Row l + 16 h: octave l, half h.
pub(super) static ROWS: Aligned<[[f64; 12]; 32]> = Aligned(tables::F64);

/// The value of the offset's last bit.
pub(super) const UNIT: f64 = 1.0 / 2_251_799_813_685_248.0; // 2^-51

/// Standard normal variables: `out[i]` is the quantile of `words[i]`, the same bytes on every instruction set.
///
/// About one word in 2¹⁵ lies far out in the tail; for it, `tail` is called with its position i and returns 128 more
/// random bits, once and in increasing order of i. The bits must depend on nothing but the normal's identity if the
/// noise is to be reproducible.
///
/// The error is below 10⁻¹², tails reach 16.1 standard deviations, and 0 is never a result. Lengths that are multiples
/// of 64 are fastest.
///
/// # Panics
///
/// If `words` and `out` differ in length.
pub fn normals_f64(instructions: InstructionSet, words: &[u64], out: &mut [f64], tail: &mut dyn FnMut(usize) -> u128) {
    assert_eq!(words.len(), out.len(), "one word per normal");
    match instructions.kind() {
        Instructions::Portable => portable(words, out, 0, tail),
        // SAFETY: a set exists only if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { avx2::normals_f64(words, out, tail) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { avx512::normals_f64(words, out, tail) },
    }
}

/// The normals of all words, including the rare ones; the first word has position `first`.
pub(super) fn portable(words: &[u64], out: &mut [f64], first: usize, tail: Tail) {
    for (i, (&word, out)) in words.iter().zip(out).enumerate() {
        *out = if octave(word) < RARE { usual(word) } else { rare(word, tail(first + i)) };
    }
}

/// For a block with rare words, after its other normals are computed.
#[cfg(target_arch = "x86_64")]
#[cold]
pub(super) fn mend(words: &[u64], out: &mut [f64], first: usize, tail: Tail) {
    for (i, (&word, out)) in words.iter().zip(out).enumerate() {
        if octave(word) >= RARE {
            *out = rare(word, tail(first + i));
        }
    }
}

/// Leading zeros of the magnitude; 64 for magnitude 0.
#[inline]
fn octave(word: u64) -> u32 {
    (word << 1).leading_zeros()
}

/// The normal of a word whose octave is not rare.
#[inline]
pub(super) fn usual(word: u64) -> f64 {
    let octave = octave(word);
    // The leading one is shifted out; the next bit selects the half, and as a sign it makes the offset count from the
    // nearer end. 52 bits are kept, which every instruction set converts exactly.
    let offset = ((word << 2) << octave) as i64 >> 12;
    let row = &ROWS.0[octave as usize | (offset as u64 >> 59) as usize & 16];
    let u = offset as f64 * UNIT;
    let size = row[..tables::F64_DEGREE].iter().rev().fold(row[tables::F64_DEGREE], |sum, c| sum * u + c);
    f64::from_bits(size.to_bits() ^ (word & 1 << 63))
}

fn rare(word: u64, bits: u128) -> f64 {
    let size = of_long_word(word & !(1 << 63), bits, 64);
    if word >> 63 == 1 { -size } else { size }
}
