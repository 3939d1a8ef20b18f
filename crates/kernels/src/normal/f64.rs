//! Double precision: one 64-bit word per normal.

use super::{CacheAligned, ExtraBits, RARE, tables};
use crate::quantile::of_long_word;

/// Row l + 16 h: octave l, half h.
pub(super) static ROWS: CacheAligned<[[f64; 12]; 32]> = CacheAligned(tables::F64);

/// The value of the offset's last bit.
pub(super) const UNIT: f64 = 1.0 / 2_251_799_813_685_248.0; // 2^-51

/// The normals of all words, including the rare ones; the first word has position `first`.
pub(super) fn portable(words: &[u64], out: &mut [f64], first: usize, tail: ExtraBits) {
    for (i, (&word, out)) in words.iter().zip(out).enumerate() {
        *out = if octave(word) < RARE { usual(word) } else { rare(word, tail(first + i)) };
    }
}

/// For a block with rare words, after its other normals are computed.
#[cfg(target_arch = "x86_64")]
#[cold]
pub(super) fn mend(words: &[u64], out: &mut [f64], first: usize, tail: ExtraBits) {
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
