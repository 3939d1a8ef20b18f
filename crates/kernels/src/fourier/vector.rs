//! Registers: a few lanes of a line, with the three operations of a transform.
//!
//! The compiler does not use these registers by itself in a butterfly's thirty operations, so the code names them.
//! Every operation is one IEEE operation in every lane, whatever the width.

/// Some neighbouring lanes of a line.
///
/// The functions of the wide types may be called only if the processor has their instructions: in the functions that
/// `for_every_width` compiles for them, into which they are inlined. Code outside this module cannot name them.
pub(super) trait Vector: Copy {
    type Number: Copy;
    /// Lanes; a divisor of the lanes of a line.
    const WIDTH: usize;

    /// The first `WIDTH` numbers.
    fn load(numbers: &[Self::Number]) -> Self;
    fn store(self, numbers: &mut [Self::Number]);
    fn splat(number: Self::Number) -> Self;
    fn plus(self, b: Self) -> Self;
    fn minus(self, b: Self) -> Self;
    fn times(self, b: Self) -> Self;
}

/// Plain Rust, for processors whose registers are not named here: a whole line.
macro_rules! plain {
    ($number:ident, $width:literal) => {
        impl Vector for [$number; $width] {
            type Number = $number;
            const WIDTH: usize = $width;

            #[inline(always)]
            fn load(numbers: &[$number]) -> Self {
                let mut lanes = [0.0; $width];
                lanes.copy_from_slice(&numbers[..$width]);
                lanes
            }
            #[inline(always)]
            fn store(self, numbers: &mut [$number]) {
                numbers[..$width].copy_from_slice(&self);
            }
            #[inline(always)]
            fn splat(number: $number) -> Self {
                [number; $width]
            }
            #[inline(always)]
            fn plus(mut self, b: Self) -> Self {
                for l in 0..$width {
                    self[l] += b[l];
                }
                self
            }
            #[inline(always)]
            fn minus(mut self, b: Self) -> Self {
                for l in 0..$width {
                    self[l] -= b[l];
                }
                self
            }
            #[inline(always)]
            fn times(mut self, b: Self) -> Self {
                for l in 0..$width {
                    self[l] *= b[l];
                }
                self
            }
        }
    };
}
plain!(f32, 16);
plain!(f64, 8);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    macro_rules! register {
        (
            $type:ident, $number:ident, $width:literal,
            $load:ident, $store:ident, $splat:ident, $add:ident, $sub:ident, $mul:ident
        ) => {
            // SAFETY (of everything below): these types are used only in functions compiled for their instructions,
            // which run only on a set that has them; loads and stores are unaligned and inside the slice whose length
            // is checked.
            impl Vector for $type {
                type Number = $number;
                const WIDTH: usize = $width;

                #[inline(always)]
                fn load(numbers: &[$number]) -> Self {
                    assert!(numbers.len() >= $width);
                    unsafe { $load(numbers.as_ptr()) }
                }
                #[inline(always)]
                fn store(self, numbers: &mut [$number]) {
                    assert!(numbers.len() >= $width);
                    unsafe { $store(numbers.as_mut_ptr(), self) }
                }
                #[inline(always)]
                fn splat(number: $number) -> Self {
                    unsafe { $splat(number) }
                }
                #[inline(always)]
                fn plus(self, b: Self) -> Self {
                    unsafe { $add(self, b) }
                }
                #[inline(always)]
                fn minus(self, b: Self) -> Self {
                    unsafe { $sub(self, b) }
                }
                #[inline(always)]
                fn times(self, b: Self) -> Self {
                    unsafe { $mul(self, b) }
                }
            }
        };
    }
    register!(__m128, f32, 4, _mm_loadu_ps, _mm_storeu_ps, _mm_set1_ps, _mm_add_ps, _mm_sub_ps, _mm_mul_ps);
    register!(__m128d, f64, 2, _mm_loadu_pd, _mm_storeu_pd, _mm_set1_pd, _mm_add_pd, _mm_sub_pd, _mm_mul_pd);
    register!(
        __m256,
        f32,
        8,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_set1_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps
    );
    register!(
        __m256d,
        f64,
        4,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_set1_pd,
        _mm256_add_pd,
        _mm256_sub_pd,
        _mm256_mul_pd
    );
    register!(
        __m512,
        f32,
        16,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_set1_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps
    );
    register!(
        __m512d,
        f64,
        8,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_set1_pd,
        _mm512_add_pd,
        _mm512_sub_pd,
        _mm512_mul_pd
    );
}
