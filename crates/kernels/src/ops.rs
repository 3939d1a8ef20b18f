//! Sums of vectors, piece by piece: the operations on normal variables after they are drawn.
//!
//! Every function here performs, for each coordinate, exactly the floating-point operations of its description, in that
//! order; no multiplication is fused with an addition. So results do not depend on the
//! [`InstructionSet`](crate::InstructionSet), nor on how coordinates are split into pieces.

use crate::fourier::Kernels;
use crate::{BlockName, InstructionSet, Normals, UniversalHash};
use std::borrow::Cow;

/// The elements of a vector, in single or double precision.
#[derive(Clone, Copy, Debug)]
pub enum FloatSlice<'a> {
    /// `f32`
    Single(&'a [f32]),
    /// `f64`
    Double(&'a [f64]),
}

/// A floating-point number that vectors consist of: `f32` or `f64`.
///
/// All slices of one call have the same length.
pub trait Real: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + Kernels + 'static {
    /// Number of bits.
    const BITS: u32;
    /// Numbers in a line of 64 bytes.
    const LANES: usize = 512 / Self::BITS as usize;

    /// The nearest number.
    fn of(value: f64) -> Self;

    /// The number as a double.
    fn double(self) -> f64;

    /// The numbers with their type.
    fn numbers(values: &[Self]) -> FloatSlice<'_>;

    /// The bits of up to [`UniversalHash::BLOCK`] words of numbers, the lower word of a double first, padded with 0.
    ///
    /// # Panics
    /// If there are more.
    fn words(values: &[Self]) -> Cow<'_, [u32; UniversalHash::BLOCK]>;

    /// The sum of squares, computed in parallel lanes of the type. In single precision, for up to 2^16 numbers, its
    /// relative error is below 10^-4, except that each number below 2^-63 may count as 0. It is not finite if a number
    /// is not, or if squares are too large.
    fn squares(instructions: InstructionSet, values: &[Self]) -> f64;

    /// Appends the bytes of numbers, least significant byte first.
    fn append_all(values: &[Self], bytes: &mut Vec<u8>);

    /// Reads numbers from such bytes, up to the shorter of the two lengths.
    fn read_into(bytes: &[u8], values: &mut [Self]);

    /// Writes the standard normal variables of a node, from the coordinate `first` on.
    fn draw(normals: &Normals, node: BlockName, first: u64, values: &mut [Self]);

    /// `sums += weight · values`.
    fn add_scaled(instructions: InstructionSet, sums: &mut [Self], weight: Self, values: &[Self]);

    /// `values = 0 + weight · values`: the first summand of a sum.
    fn begin_sum(instructions: InstructionSet, values: &mut [Self], weight: Self);

    /// `values *= factor`.
    fn scale(instructions: InstructionSet, values: &mut [Self], factor: Self);

    /// `sums += values`.
    fn add(instructions: InstructionSet, sums: &mut [Self], values: &[Self]);

    /// `values -= others`.
    fn subtract(instructions: InstructionSet, values: &mut [Self], others: &[Self]);

    /// `sums += values`, then `values = sums`.
    fn accumulate(instructions: InstructionSet, sums: &mut [Self], values: &mut [Self]);

    /// `last = values` and `values = values - (last as it was)`.
    fn difference(instructions: InstructionSet, last: &mut [Self], values: &mut [Self]);

    /// One step of the inverse of a buffered linear Toeplitz matrix:
    ///
    /// ```text
    /// u = values - (((0 + echo_0 · B_0) + echo_1 · B_1) + …)
    /// B_i = B_i + (u - gap_i · B_i)
    /// values = u · factor
    /// ```
    ///
    /// A decay `1 - gap` next to 1 would lose its digits in 32 bits; its gap keeps them.
    ///
    /// # Panics
    /// If there are not 1 to 8 buffers with as many gaps and echoes, or lengths differ.
    fn undo_buffers(
        instructions: InstructionSet,
        values: &mut [Self],
        buffers: &mut [&mut [Self]],
        gaps: &[Self],
        echoes: &[Self],
        factor: Self,
    );
}

/// Coordinates that the recurrence processes together. Copied out and back, they stay in registers: the compiler cannot
/// know that slices in a slice do not overlap.
const TOGETHER: usize = 16;

/// Sums that the lanes of squares consist of: several registers, so that additions do not wait for each other.
const SUMMED: usize = 64;

macro_rules! kernels_of {
    ($real:ident in $module:ident, $variant:ident, $fill:ident) => {
        mod $module {
            use super::{SUMMED, TOGETHER};

            for_every_instruction_set! {
                pub(super) fn add_scaled(
                    instructions: InstructionSet,
                    sums: &mut [$real],
                    weight: $real,
                    values: &[$real],
                ) {
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum += weight * value;
                    }
                }
            }

            for_every_instruction_set! {
                pub(super) fn begin_sum(instructions: InstructionSet, values: &mut [$real], weight: $real) {
                    for value in values {
                        *value = 0.0 + weight * *value;
                    }
                }
            }

            for_every_instruction_set! {
                pub(super) fn scale(instructions: InstructionSet, values: &mut [$real], factor: $real) {
                    for value in values {
                        *value *= factor;
                    }
                }
            }

            for_every_instruction_set! {
                pub(super) fn add(instructions: InstructionSet, sums: &mut [$real], values: &[$real]) {
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum += value;
                    }
                }
            }

            for_every_instruction_set! {
                pub(super) fn subtract(instructions: InstructionSet, values: &mut [$real], others: &[$real]) {
                    for (value, other) in values.iter_mut().zip(others) {
                        *value -= other;
                    }
                }
            }

            for_every_instruction_set! {
                pub(super) fn accumulate(instructions: InstructionSet, sums: &mut [$real], values: &mut [$real]) {
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum += *value;
                        *value = *sum;
                    }
                }
            }

            for_every_instruction_set! {
                pub(super) fn difference(instructions: InstructionSet, last: &mut [$real], values: &mut [$real]) {
                    for (last, value) in last.iter_mut().zip(values) {
                        let before = std::mem::replace(last, *value);
                        *value -= before;
                    }
                }
            }

            for_every_instruction_set! {
                pub(super) fn squares(instructions: InstructionSet, values: &[$real]) -> f64 {
                    let mut lanes = [0.0; SUMMED];
                    let (chunks, rest) = values.as_chunks::<SUMMED>();
                    for chunk in chunks {
                        for l in 0..SUMMED {
                            lanes[l] += chunk[l] * chunk[l];
                        }
                    }
                    for (lane, value) in lanes.iter_mut().zip(rest) {
                        *lane += value * value;
                    }
                    lanes.iter().map(|lane| f64::from(*lane)).sum()
                }
            }

            for_every_instruction_set! {
                pub(super) fn undo_buffers(
                    instructions: InstructionSet,
                    values: &mut [$real],
                    buffers: &mut [&mut [$real]],
                    gaps: &[$real],
                    echoes: &[$real],
                    factor: $real,
                ) {
                    match buffers.len() {
                        1 => undo::<1>(values, buffers, gaps, echoes, factor),
                        2 => undo::<2>(values, buffers, gaps, echoes, factor),
                        3 => undo::<3>(values, buffers, gaps, echoes, factor),
                        4 => undo::<4>(values, buffers, gaps, echoes, factor),
                        5 => undo::<5>(values, buffers, gaps, echoes, factor),
                        6 => undo::<6>(values, buffers, gaps, echoes, factor),
                        7 => undo::<7>(values, buffers, gaps, echoes, factor),
                        8 => undo::<8>(values, buffers, gaps, echoes, factor),
                        count => panic!("1 to 8 buffers, not {count}"),
                    }
                }
            }

            /// With the number of buffers known to the compiler, which turns plain counting loops into registers.
            #[allow(clippy::needless_range_loop)]
            #[inline(always)]
            fn undo<const N: usize>(
                values: &mut [$real],
                buffers: &mut [&mut [$real]],
                gaps: &[$real],
                echoes: &[$real],
                factor: $real,
            ) {
                let buffers: &mut [&mut [$real]; N] = buffers.try_into().expect("the count was matched");
                let gaps: &[$real; N] = gaps.try_into().expect("one gap per buffer");
                let echoes: &[$real; N] = echoes.try_into().expect("one echo per buffer");
                let length = values.len();
                assert!(buffers.iter().all(|buffer| buffer.len() == length), "buffers as long as the values");
                let (groups, rest) = values.as_chunks_mut::<TOGETHER>();
                let whole = groups.len() * TOGETHER;
                let grouped = buffers.each_mut().map(|buffer| buffer.as_chunks_mut::<TOGETHER>().0);
                for (at, group) in groups.iter_mut().enumerate() {
                    let mut known = [0.0; TOGETHER];
                    for i in 0..N {
                        let b = grouped[i][at];
                        for l in 0..TOGETHER {
                            known[l] += echoes[i] * b[l];
                        }
                    }
                    let mut u = *group;
                    for l in 0..TOGETHER {
                        u[l] -= known[l];
                    }
                    for i in 0..N {
                        let mut b = grouped[i][at];
                        for l in 0..TOGETHER {
                            b[l] += u[l] - gaps[i] * b[l];
                        }
                        grouped[i][at] = b;
                    }
                    for l in 0..TOGETHER {
                        u[l] *= factor;
                    }
                    *group = u;
                }
                for (value, i) in rest.iter_mut().zip(whole..) {
                    let known = buffers.iter().zip(echoes).fold(0.0, |known, (buffer, echo)| known + *echo * buffer[i]);
                    let u = *value - known;
                    buffers.iter_mut().zip(gaps).for_each(|(buffer, gap)| buffer[i] += u - *gap * buffer[i]);
                    *value = u * factor;
                }
            }
        }

        impl Real for $real {
            const BITS: u32 = 8 * size_of::<Self>() as u32;

            fn of(value: f64) -> Self {
                value as Self
            }

            fn double(self) -> f64 {
                self.into()
            }

            fn numbers(values: &[Self]) -> FloatSlice<'_> {
                FloatSlice::$variant(values)
            }

            fn words(values: &[Self]) -> Cow<'_, [u32; UniversalHash::BLOCK]> {
                #[cfg(target_endian = "little")]
                if size_of_val(values) == size_of::<[u32; UniversalHash::BLOCK]>() {
                    // SAFETY: these are the bytes of as many words, aligned at least as strictly, and all bits are
                    // valid words.
                    return Cow::Borrowed(unsafe { &*values.as_ptr().cast() });
                }
                let mut words = [0; UniversalHash::BLOCK];
                let each = size_of::<Self>() / 4;
                assert!(values.len() * each <= words.len(), "up to a block of words");
                for (words, value) in words.chunks_mut(each).zip(values) {
                    let bytes = value.to_le_bytes();
                    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                        *word = u32::from_le_bytes(*bytes);
                    }
                }
                Cow::Owned(words)
            }

            fn squares(instructions: InstructionSet, values: &[Self]) -> f64 {
                $module::squares(instructions, values)
            }

            fn append_all(values: &[Self], bytes: &mut Vec<u8>) {
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }

            fn read_into(bytes: &[u8], values: &mut [Self]) {
                for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *value = Self::from_le_bytes(*bytes);
                }
            }

            fn draw(normals: &Normals, node: BlockName, first: u64, values: &mut [Self]) {
                normals.$fill(node, first, values);
            }

            fn add_scaled(instructions: InstructionSet, sums: &mut [Self], weight: Self, values: &[Self]) {
                $module::add_scaled(instructions, sums, weight, values);
            }

            fn begin_sum(instructions: InstructionSet, values: &mut [Self], weight: Self) {
                $module::begin_sum(instructions, values, weight);
            }

            fn scale(instructions: InstructionSet, values: &mut [Self], factor: Self) {
                $module::scale(instructions, values, factor);
            }

            fn add(instructions: InstructionSet, sums: &mut [Self], values: &[Self]) {
                $module::add(instructions, sums, values);
            }

            fn subtract(instructions: InstructionSet, values: &mut [Self], others: &[Self]) {
                $module::subtract(instructions, values, others);
            }

            fn accumulate(instructions: InstructionSet, sums: &mut [Self], values: &mut [Self]) {
                $module::accumulate(instructions, sums, values);
            }

            fn difference(instructions: InstructionSet, last: &mut [Self], values: &mut [Self]) {
                $module::difference(instructions, last, values);
            }

            fn undo_buffers(
                instructions: InstructionSet,
                values: &mut [Self],
                buffers: &mut [&mut [Self]],
                gaps: &[Self],
                echoes: &[Self],
                factor: Self,
            ) {
                $module::undo_buffers(instructions, values, buffers, gaps, echoes, factor);
            }
        }
    };
}

kernels_of!(f32 in single, Single, fill_f32);
kernels_of!(f64 in double, Double, fill_f64);

#[cfg(test)]
mod tests;
