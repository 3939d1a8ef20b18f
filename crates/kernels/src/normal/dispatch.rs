//! Normals by the best code for an instruction set.

#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use super::{f32, f64};
use crate::instruction_set::{InstructionSet, Instructions};

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
        Instructions::Portable => f32::portable(words, out, 0, tail),
        // SAFETY: a set exists only if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { avx2::normals_f32(words, out, tail) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { avx512::normals_f32(words, out, tail) },
    }
}

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
        Instructions::Portable => f64::portable(words, out, 0, tail),
        // SAFETY: a set exists only if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { avx2::normals_f64(words, out, tail) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { avx512::normals_f64(words, out, tail) },
    }
}
