//! Standard normal variables from words of a keystream, by the inverse of the distribution function: one word per
//! normal.
//!
//! # The law
//!
//! A word of B bits (32 for f32, 64 for f64) is a sign and a magnitude w of B − 1 bits, and w stands for the tail
//! probability p = (w + ½) / 2ᴮ, below ½. The normal is x = −Φ⁻¹(p) > 0, or −x if the sign bit is set: small w are far
//! out, w near 2ᴮ⁻¹ is the middle. Inversion preserves independence: independent uniform words become independent
//! normals, none is rejected, and a coordinate's normal depends on its own word alone.
//!
//! **Tails are accurate.** One word has too little resolution for a tail: the least of 2³² probabilities would end the
//! law at 6.2 standard deviations, and its last steps would be coarse. So words with w < 2ᴮ⁻¹⁶, one in 2¹⁵, take 128
//! more bits b, and p = (w + (b + ½) / 2¹²⁸) / 2ᴮ down to 2⁻¹⁶¹ (f32: |x| ≤ 14.7) or 2⁻¹⁹³ (f64: |x| ≤ 16.2), uniform
//! as before. These are computed in double precision by AS 241, relative error below 10⁻¹⁴.
//!
//! # The polynomials
//!
//! The other words fall into 30 segments: fifteen octaves of w (l leading zeros, 0 ≤ l ≤ 14), each in two halves by the
//! bit after the leading one. Within a segment w is counted from a power of two, the end shared with the next octave:
//! shifting out the leading one leaves a signed integer, negative in the second half, exact until its one conversion to
//! floating point. (f64 keeps 52 bits of it.) The normal is a polynomial in this offset, of degree 6 for f32 and 10 for
//! f64, by Horner's rule, each multiplication and each addition rounded: the same bytes from every instruction set.
//! Thirty rows of coefficients fit a permutation of two AVX-512 registers, a single instruction per coefficient.
//! `tables/normal.py` fits them.
//!
//! Next to the middle the power of two is x = 0 itself, so small normals have small errors, too.
//!
//! # Accuracy
//!
//! | | f32 | f64 |
//! |---|---|---|
//! | error of x, divided by max(1, \|x\|) | ≤ 1.2·10⁻⁷ | ≤ 10⁻¹² |
//! | relative error near 0 | ≤ 7·10⁻⁷ | |
//! | error of the polynomials' density, relative | ≤ 8.3·10⁻⁶, at ends of segments | ≤ 1.2·10⁻⁹ |
//! | smallest \|x\|, and spacing there | 2.9·10⁻¹⁰, 5.8·10⁻¹⁰ | 7·10⁻¹⁷, 1.4·10⁻¹⁶ |
//!
//! 0 is never a result. The spacing of f32 is that of the words, 2⁻³² / φ(x), or that of the format, whichever is
//! wider; a double in the middle half has a probability of at least 2⁻⁵⁴. Neighbouring words may be out of order by one
//! unit in the last place (f32: one pair in 14 000).
//!
//! Over **all 2³² words**, f32 has these probabilities of intervals whose borders lie between neighbouring f32 (a test
//! counts them): every border x is displaced by less than 4.4·10⁻⁸ max(1, |x|), less than a unit in the last place.
//! With 1000 intervals of equal probability that is a total variation of 1.1·10⁻⁶ and a relative error of at most
//! 1.1·10⁻⁵, mostly from rounding, which has a different sign in each; wider intervals have proportionally less.
//!
//! No floating-point number is exactly normal. The threat model explains the consequences for privacy.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod dispatch;
mod f32;
mod f64;
#[cfg(test)]
mod quantiles;
mod tables;
#[cfg(test)]
mod tests;

pub use dispatch::{normals_f32, normals_f64};

/// The coefficients of the polynomials in single precision, for code that computes the same normals elsewhere: row l +
/// 16 h for octave l and half h, the constant first.
pub const SINGLE_ROWS: [[f32; 8]; 32] = tables::F32;

/// Segments of this octave and beyond are rare: their words need more bits.
const RARE: u32 = 15;

/// Normals that share a test for rare words.
#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 64;

/// More random bits for the normal at a position of the slice.
type ExtraBits<'a> = &'a mut dyn FnMut(usize) -> u128;

/// Aligned to cache lines.
#[repr(C, align(64))]
struct CacheAligned<T>(T);

/// Rows to columns.
#[cfg(target_arch = "x86_64")]
const fn columns<T: Copy, const WIDTH: usize, const COUNT: usize>(rows: &[[T; WIDTH]; 32]) -> [[T; 32]; COUNT] {
    let mut columns = [[rows[0][0]; 32]; COUNT];
    let mut place = 0;
    while place < 32 * COUNT {
        columns[place / 32][place % 32] = rows[place % 32][place / 32];
        place += 1;
    }
    columns
}
