//! Single precision: one 32-bit word per normal.

use super::{Aligned, RARE, Tail, tables};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::InstructionSet;
use crate::instruction_set::Instructions;
use crate::quantile::of_long_word;

/// Row l + 16 h: octave l, half h.
pub(super) static ROWS: Aligned<[[f32; 8]; 32]> = Aligned(tables::F32);

/// The same, coefficient by coefficient.
#[cfg(target_arch = "x86_64")]
pub(super) static COLUMNS: Aligned<[[f32; 32]; tables::F32_DEGREE + 1]> = Aligned(super::columns(&tables::F32));

/// The value of the offset's last bit.
pub(super) const UNIT: f32 = 1.0 / 2_147_483_648.0; // 2^-31

/// Standard normal variables: `out[i]` is the quantile of `words[i]`, the same bytes on every instruction set.
///
/// About one word in 2¹⁵ lies far out in the tail; for it, `tail` is called with its position i and returns 128 more
/// random bits, once and in increasing order of i. The bits must depend on nothing but the normal's identity if the
/// noise is to be reproducible.
///
/// The error is below 1.2·10⁻⁷ max(1, |x|), tails reach 14.7 standard deviations, and 0 is never a result. Lengths that
/// are multiples of 64 are fastest.
///
/// # Panics
///
/// If `words` and `out` differ in length.
pub fn normals_f32(instructions: InstructionSet, words: &[u32], out: &mut [f32], tail: &mut dyn FnMut(usize) -> u128) {
    assert_eq!(words.len(), out.len(), "one word per normal");
    match instructions.kind() {
        Instructions::Portable => portable(words, out, 0, tail),
        // SAFETY: a set exists only if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { avx2::normals_f32(words, out, tail) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { avx512::normals_f32(words, out, tail) },
    }
}

/// The normals of all words, including the rare ones; the first word has position `first`.
pub(super) fn portable(words: &[u32], out: &mut [f32], first: usize, tail: Tail) {
    for (i, (&word, out)) in words.iter().zip(out).enumerate() {
        *out = if octave(word) < RARE { usual(word) } else { rare(word, tail(first + i)) };
    }
}

/// For a block with rare words, after its other normals are computed.
#[cfg(target_arch = "x86_64")]
#[cold]
pub(super) fn mend(words: &[u32], out: &mut [f32], first: usize, tail: Tail) {
    for (i, (&word, out)) in words.iter().zip(out).enumerate() {
        if octave(word) >= RARE {
            *out = rare(word, tail(first + i));
        }
    }
}

/// Leading zeros of the magnitude; 32 for magnitude 0.
#[inline]
fn octave(word: u32) -> u32 {
    (word << 1).leading_zeros()
}

/// The normal of a word whose octave is not rare.
#[inline]
pub(super) fn usual(word: u32) -> f32 {
    let octave = octave(word);
    // The leading one is shifted out; the next bit selects the half, and as a sign it makes the offset count from the
    // nearer end.
    let offset = ((word << 2) << octave) as i32;
    let row = &ROWS.0[(octave | (offset as u32 >> 27) & 16) as usize];
    let u = offset as f32 * UNIT;
    let size = row[..tables::F32_DEGREE].iter().rev().fold(row[tables::F32_DEGREE], |sum, c| sum * u + c);
    f32::from_bits(size.to_bits() ^ (word & 1 << 31))
}

fn rare(word: u32, bits: u128) -> f32 {
    let size = of_long_word(u64::from(word & !(1 << 31)), bits, 32) as f32;
    if word >> 31 == 1 { -size } else { size }
}
