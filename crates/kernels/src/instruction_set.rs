//! Choice of instructions: made at run time, and without influence on any result.
//!
//! Wheels and distributed binaries are built for the oldest processors of their kind, but AVX-512 makes these kernels
//! several times faster. So every kernel is compiled several times, and an [`InstructionSet`] selects the copy that
//! runs. An `InstructionSet` can only be obtained for instructions that the processor has, which makes the calls sound.
//!
//! **Same bytes.** Plain Rust floating-point arithmetic is IEEE 754 arithmetic, operation by operation: the compiler
//! neither fuses a multiplication with an addition nor reorders a sum, whatever instructions it may use. So a body that
//! is written once and compiled for several instruction sets ([`for_every_instruction_set`]) gives equal results by
//! construction; tests compare hand-written intrinsics with their safe twins.

use std::fmt;

/// The instructions a kernel may use.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct InstructionSet(Instructions);

/// Private, so that no code can claim instructions that the processor lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Instructions {
    /// The instructions of every processor of the target.
    Portable,
    /// AVX2, AES and the extensions that come with them.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 (F, BW, CD, DQ, VL) and vector AES.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl InstructionSet {
    /// The instructions that every processor of the target has.
    pub const PORTABLE: InstructionSet = InstructionSet(Instructions::Portable);

    /// The fastest that this processor has.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::PORTABLE)
    }

    /// All sets that this processor supports, the fastest last.
    pub fn available() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "no set to add"))]
        let mut sets = vec![Self::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("aes") {
                sets.push(Self(Instructions::Avx2));
                let more = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512cd")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("vaes");
                if more {
                    sets.push(Self(Instructions::Avx512));
                }
            }
        }
        sets
    }

    /// `portable`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "avx512",
        }
    }

    pub(crate) fn kind(self) -> Instructions {
        self.0
    }
}

impl fmt::Debug for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Compiles one safe body for every [`InstructionSet`]. The function's first argument is the set; the
/// others are passed on.
macro_rules! for_every_instruction_set {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$($life:lifetime),*>)? (
            $instructions:ident: InstructionSet $(, $arg:ident: $type:ty)* $(,)?
        ) $(-> $out:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name $(<$($life),*>)? ($instructions: $crate::InstructionSet $(, $arg: $type)*) $(-> $out)? {
            #[inline(always)]
            fn body $(<$($life),*>)? ($($arg: $type),*) $(-> $out)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,aes")]
            fn avx2 $(<$($life),*>)? ($($arg: $type),*) $(-> $out)? {
                body($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,aes,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,vaes")]
            fn avx512 $(<$($life),*>)? ($($arg: $type),*) $(-> $out)? {
                body($($arg),*)
            }

            match $instructions.kind() {
                $crate::instruction_set::Instructions::Portable => body($($arg),*),
                // SAFETY: a set exists only if the processor has its instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::instruction_set::Instructions::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::instruction_set::Instructions::Avx512 => unsafe { avx512($($arg),*) },
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    for_every_instruction_set! {
        fn axpy<'a>(instructions: InstructionSet, sums: &'a mut [f32], factor: f32, values: &[f32]) -> &'a [f32] {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += factor * value;
            }
            sums
        }
    }

    #[test]
    fn a_body_gives_the_same_bits_on_every_path() {
        let values: Vec<f32> = (0..1000).map(|i| 1.0 / (i as f32 + 0.3)).collect();
        let run = |instructions| {
            axpy(instructions, &mut vec![1.7; 1000], 0.1, &values).iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        for instructions in InstructionSet::available() {
            assert_eq!(run(instructions), run(InstructionSet::PORTABLE), "{instructions:?}");
        }
        assert_eq!(InstructionSet::best(), *InstructionSet::available().last().unwrap());
    }
}
