//! Fourier transforms of many short series at once, one per lane.
//!
//! A **line** is 64 bytes: 16 lanes of `f32` or 8 of `f64`. A **point** is two lines, the real and the imaginary parts
//! of one complex number in every lane, and a series of `N` points is `N` consecutive points. So every operation is the
//! same addition or multiplication in all lanes: no shuffles, no reductions, and **the same bytes from every
//! [`InstructionSet`]** because there is one body for registers of any width and all of its operations are single IEEE
//! operations.
//!
//! Two real series share one complex series: with a real filter, real and imaginary parts stay separate.
//!
//! **Order.** [`LaneTransform::forward`] decimates in frequency by 4, and leaves the spectrum in the order in which its
//! stages produce it; [`LaneTransform::inverse`] decimates in time and expects that order. Products of spectra, their
//! only use, do not depend on the order.
//!
//! **Rounding.** A stage of radix 4 has at most 5 rounded operations in sequence, so an `f32` transform errs, relative
//! to the norm of the series, by about `2^-24 √log N`: a few units in the last place.

use crate::fourier::Twiddles;
use crate::{InstructionSet, Real};

pub use crate::fourier::ComplexFactor;

/// The transform of one length, for all lanes of a line.
pub struct LaneTransform<F> {
    points: usize,
    twiddles: Twiddles<F>,
}

impl<F: Real> LaneTransform<F> {
    /// Minimum length.
    pub const MIN_POINTS: usize = 16;

    /// For series of `points` points, a power of two of at least 16. `O(points)` time and memory.
    ///
    /// # Panics
    /// If `points` is not such a number.
    pub fn new(points: usize) -> Self {
        assert!(points.is_power_of_two() && points >= Self::MIN_POINTS, "no transform of {points} points");
        Self { points, twiddles: Twiddles::new(points, F::of) }
    }

    /// Points of a series.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Numbers in a series: two lines per point.
    pub fn numbers(&self) -> usize {
        self.points * 2 * F::LANES
    }

    /// `X_f = Σ_j x_j exp(-2πi f j / N)` in every lane, in the order of the stages. `O(N log N)`.
    ///
    /// # Panics
    /// If `data` is not [`numbers`](Self::numbers) long.
    pub fn forward(&self, instructions: InstructionSet, data: &mut [F]) {
        assert_eq!(data.len(), self.numbers());
        F::forward(instructions, data, &self.twiddles);
    }

    /// [`forward`](Self::forward) of `N / 2` points followed by as many zeros: point `j` are the numbers from
    /// `rows[j · stride]` on.
    ///
    /// # Panics
    /// If `rows` or `data` are too short or `stride` is less than a point.
    pub fn forward_padded(&self, instructions: InstructionSet, rows: &[F], stride: usize, data: &mut [F]) {
        assert_eq!(data.len(), self.numbers());
        self.check_rows(rows, stride);
        F::forward_padded(instructions, rows, stride, data, &self.twiddles);
    }

    /// `N` times the inverse of [`forward`](Self::forward).
    ///
    /// # Panics
    /// If `data` is not [`numbers`](Self::numbers) long.
    pub fn inverse(&self, instructions: InstructionSet, data: &mut [F]) {
        assert_eq!(data.len(), self.numbers());
        F::inverse(instructions, data, &self.twiddles);
    }

    /// The first `N / 2` points of [`inverse`](Self::inverse), written to the rows that
    /// [`forward_padded`](Self::forward_padded) reads. `data` is overwritten.
    ///
    /// # Panics
    /// If `rows` or `data` are too short or `stride` is less than a point.
    pub fn inverse_half(&self, instructions: InstructionSet, data: &mut [F], rows: &mut [F], stride: usize) {
        assert_eq!(data.len(), self.numbers());
        self.check_rows(rows, stride);
        F::inverse_half(instructions, data, rows, stride, &self.twiddles);
    }

    fn check_rows(&self, rows: &[F], stride: usize) {
        let point = 2 * F::LANES;
        assert!(stride >= point && rows.len() >= (self.points / 2 - 1) * stride + point, "rows are too short");
    }
}

/// Adds the products of spectra and filters, or of the same part of all of them, to `sums`: one after the other in the
/// given order, so that one call or several give the same result.
///
/// # Panics
/// If there are not as many filters as spectra, or one is shorter than the sums.
pub fn multiply_add<F: Real>(
    instructions: InstructionSet,
    sums: &mut [F],
    spectra: &[&[F]],
    filters: &[&[ComplexFactor<F>]],
) {
    assert_eq!(spectra.len(), filters.len());
    let (spectra, last_spectra) = spectra.as_chunks::<4>();
    let (filters, last_filters) = filters.as_chunks::<4>();
    for (spectra, filters) in spectra.iter().zip(filters) {
        F::multiply_add_four(instructions, sums, *spectra, *filters);
    }
    for (spectrum, filter) in last_spectra.iter().zip(last_filters) {
        F::multiply_add_one(instructions, sums, [spectrum], [filter]);
    }
}

#[cfg(test)]
mod tests;
