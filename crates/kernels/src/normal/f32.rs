//! Single precision: one 32-bit word per normal.

use super::{CacheAligned, ExtraBits, RARE, tables};
use crate::quantile::of_long_word;

/// Row l + 16 h: octave l, half h.
pub(super) static ROWS: CacheAligned<[[f32; 8]; 32]> = CacheAligned(tables::F32);

/// The same, coefficient by coefficient.
#[cfg(target_arch = "x86_64")]
pub(super) static COLUMNS: CacheAligned<[[f32; 32]; tables::F32_DEGREE + 1]> =
    CacheAligned(super::columns(&tables::F32));

/// The value of the offset's last bit.
pub(super) const UNIT: f32 = 1.0 / 2_147_483_648.0; // 2^-31

/// The normals of all words, including the rare ones; the first word has position `first`.
pub(super) fn portable(words: &[u32], out: &mut [f32], first: usize, tail: ExtraBits) {
    for (i, (&word, out)) in words.iter().zip(out).enumerate() {
        *out = if octave(word) < RARE { usual(word) } else { rare(word, tail(first + i)) };
    }
}

/// For a block with rare words, after its other normals are computed.
#[cfg(target_arch = "x86_64")]
#[cold]
pub(super) fn mend(words: &[u32], out: &mut [f32], first: usize, tail: ExtraBits) {
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
