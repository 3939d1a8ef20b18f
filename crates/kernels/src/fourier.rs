//! The kernels of [`transform`](crate::transform), for both types of numbers and every instruction set.

mod butterflies;
mod twiddles;
mod vector;

use crate::instruction_set::InstructionSet;

pub(crate) use twiddles::Twiddles;

/// A complex factor that all lanes share: its real and its imaginary part.
pub type ComplexFactor<F> = [F; 2];

/// The bodies for one type, compiled for every instruction set.
pub trait Kernels: Sized {
    fn forward(instructions: InstructionSet, data: &mut [Self], twiddles: &Twiddles<Self>);
    fn forward_padded(
        instructions: InstructionSet,
        rows: &[Self],
        stride: usize,
        data: &mut [Self],
        twiddles: &Twiddles<Self>,
    );
    fn inverse(instructions: InstructionSet, data: &mut [Self], twiddles: &Twiddles<Self>);
    fn inverse_half(
        instructions: InstructionSet,
        data: &mut [Self],
        rows: &mut [Self],
        stride: usize,
        twiddles: &Twiddles<Self>,
    );
    fn multiply_add_one(
        instructions: InstructionSet,
        sums: &mut [Self],
        spectrum: [&[Self]; 1],
        filter: [&[ComplexFactor<Self>]; 1],
    );
    fn multiply_add_four(
        instructions: InstructionSet,
        sums: &mut [Self],
        spectra: [&[Self]; 4],
        filters: [&[ComplexFactor<Self>]; 4],
    );
}

/// The kernels of one type, each compiled for the registers of every instruction set.
macro_rules! for_every_width {
    ($real:ident, $wide:ident, $widest:ident:
     $(fn $name:ident($($arg:ident: $type:ty),*);)*) => {
        #[cfg(target_arch = "x86_64")]
        mod wide {
            use super::{ComplexFactor, LANES, Twiddles, butterflies};
            $(
                #[target_feature(enable = "avx2")]
                pub(super) fn $name($($arg: $type),*) {
                    butterflies::$name::<std::arch::x86_64::$wide, LANES>($($arg),*);
                }
            )*
        }

        #[cfg(target_arch = "x86_64")]
        mod widest {
            use super::{ComplexFactor, LANES, Twiddles, butterflies};
            $(
                #[target_feature(enable = "avx512f")]
                pub(super) fn $name($($arg: $type),*) {
                    butterflies::$name::<std::arch::x86_64::$widest, LANES>($($arg),*);
                }
            )*
        }

        $(
            pub(super) fn $name(instructions: InstructionSet, $($arg: $type),*) {
                match instructions.kind() {
                    Instructions::Portable => butterflies::$name::<Portable, LANES>($($arg),*),
                    // SAFETY: a set exists only if the processor has its instructions.
                    #[cfg(target_arch = "x86_64")]
                    Instructions::Avx2 => unsafe { wide::$name($($arg),*) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    Instructions::Avx512 => unsafe { widest::$name($($arg),*) },
                }
            }
        )*
    };
}

macro_rules! kernels {
    ($real:ident, $module:ident, $narrow:ident, $wide:ident, $widest:ident) => {
        impl Kernels for $real {
            fn forward(instructions: InstructionSet, data: &mut [Self], twiddles: &Twiddles<Self>) {
                $module::forward(instructions, data, twiddles);
            }
            fn forward_padded(
                instructions: InstructionSet,
                rows: &[Self],
                stride: usize,
                data: &mut [Self],
                twiddles: &Twiddles<Self>,
            ) {
                $module::forward_padded(instructions, rows, stride, data, twiddles);
            }
            fn inverse(instructions: InstructionSet, data: &mut [Self], twiddles: &Twiddles<Self>) {
                $module::inverse(instructions, data, twiddles);
            }
            fn inverse_half(
                instructions: InstructionSet,
                data: &mut [Self],
                rows: &mut [Self],
                stride: usize,
                twiddles: &Twiddles<Self>,
            ) {
                $module::inverse_half(instructions, data, rows, stride, twiddles);
            }
            fn multiply_add_one(
                instructions: InstructionSet,
                sums: &mut [Self],
                spectrum: [&[Self]; 1],
                filter: [&[ComplexFactor<Self>]; 1],
            ) {
                $module::multiply_add_one(instructions, sums, spectrum, filter);
            }
            fn multiply_add_four(
                instructions: InstructionSet,
                sums: &mut [Self],
                spectra: [&[Self]; 4],
                filters: [&[ComplexFactor<Self>]; 4],
            ) {
                $module::multiply_add_four(instructions, sums, spectra, filters);
            }
        }

        mod $module {
            use super::{ComplexFactor, Twiddles, butterflies};
            use crate::instruction_set::{InstructionSet, Instructions};

            const LANES: usize = 64 / size_of::<$real>();
            #[cfg(target_arch = "x86_64")]
            type Portable = std::arch::x86_64::$narrow;
            #[cfg(not(target_arch = "x86_64"))]
            type Portable = [$real; LANES];

            for_every_width! { $real, $wide, $widest:
                fn forward(data: &mut [$real], twiddles: &Twiddles<$real>);
                fn forward_padded(rows: &[$real], stride: usize, data: &mut [$real], twiddles: &Twiddles<$real>);
                fn inverse(data: &mut [$real], twiddles: &Twiddles<$real>);
                fn inverse_half(data: &mut [$real], rows: &mut [$real], stride: usize, twiddles: &Twiddles<$real>);
                fn multiply_add_one(sums: &mut [$real], spectrum: [&[$real]; 1], filter: [&[ComplexFactor<$real>]; 1]);
                fn multiply_add_four(sums: &mut [$real], spectra: [&[$real]; 4], filters: [&[ComplexFactor<$real>]; 4]);
            }
        }
    };
}
kernels!(f32, single, __m128, __m256, __m512);
kernels!(f64, double, __m128d, __m256d, __m512d);

#[cfg(test)]
mod tests;
