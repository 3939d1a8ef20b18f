//! Checks for impossible sums of clipped vectors.
//!
//! The guarantee of a plan is for vectors that were clipped to its norm. A sum with a non-finite number, or one longer
//! than its number of clipped vectors allows, shows that an earlier stage has failed. Such a sum is refused before
//! noise is added, so that neither noise nor parameters are wasted on it. This finds mistakes; it proves nothing about
//! sums that pass.

use super::{InstructionSet, Real};
use evertally::number::{power, threads};
use evertally::{Error, Result};

/// Sums in single precision may exceed the exact length by this fraction.
const TOLERANCE: f64 = 1e-3;
/// Numbers that one thread checks in one piece.
const PIECE: usize = 1 << 16;
/// Squares of single-precision numbers may lose this for each number: the smallest normal number.
const LOST: f64 = 1.2e-38;
/// The fraction of a sum of squares that may be lost.
const LOST_FRACTION: f64 = 1e-6;

/// Refuses a sum of vectors of this clipping norm if it has a non-finite number, or, if `examples` is known, if it is
/// longer than that many vectors allow. A part of a sum may be passed. Uses up to `threads` threads (0: as many as
/// processors). `O(coordinates)`.
///
/// # Errors
/// If the sum cannot be one of such vectors.
///
/// ```
/// use evertally_training::check_sum;
/// assert!(check_sum(&[3.0f32, -4.0], 1.0, Some(5), 1).is_ok());
/// assert!(check_sum(&[3.0f32, -4.0], 1.0, Some(4), 1).is_err());
/// assert!(check_sum(&[f32::NAN, 0.0], 1.0, None, 1).is_err());
/// ```
pub fn check_sum<F: Real>(sum: &[F], norm: f64, examples: Option<u64>, threads: usize) -> Result<()> {
    check_length(length(sum, threads), norm, examples)
}

/// As [`check_sum`], if the sum of [squares](Real::squares), over pieces of at most 2^16 numbers each, is known from
/// another pass over the vector. `O(1)`, except for sums whose squares leave the range of the type.
///
/// # Errors
/// As [`check_sum`].
///
/// ```
/// use evertally_training::{InstructionSet, Real, check_squares};
/// let sum = [3.0f32, -4.0];
/// let squares = Real::squares(InstructionSet::best(), &sum);
/// assert!(check_squares(&sum, squares, 1.0, Some(5)).is_ok());
/// assert!(check_squares(&sum, squares, 1.0, Some(4)).is_err());
/// ```
pub fn check_squares<F: Real>(sum: &[F], squares: f64, norm: f64, examples: Option<u64>) -> Result<()> {
    check_length(length_from(sum, squares), norm, examples)
}

/// Refuses a sum by its length, which is not finite if a number of the sum is not.
fn check_length(length: f64, norm: f64, examples: Option<u64>) -> Result<()> {
    if !length.is_finite() {
        return Err(Error::invalid(
            "the sum has a number that is NaN or infinite: clip every example's vector before adding it, and count an \
             example whose vector is not finite as zero",
        ));
    }
    let Some(examples) = examples else { return Ok(()) };
    if length > norm * examples as f64 * (1.0 + TOLERANCE) {
        // The number of examples may be secret.
        return Err(Error::invalid(format!(
            "the sum is longer than possible for its number of examples, each of norm at most {norm} by the plan: clip \
             the vector of every example before adding it"
        )));
    }
    Ok(())
}

/// The length of a vector; NaN or infinite if one of its numbers is.
fn length<F: Real>(vector: &[F], threads: usize) -> f64 {
    let (instructions, pieces) = (InstructionSet::best(), std::sync::Mutex::new(0.0f64));
    threads::share(threads::helpful(threads, vector.len()), vector.chunks(PIECE), |some| {
        let own: f64 = some.map(|piece| F::squares(instructions, piece)).sum();
        *pieces.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += own;
    });
    length_from(vector, pieces.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// The length, from the sum of squares if that is in range.
fn length_from<F: Real>(vector: &[F], squares: f64) -> f64 {
    if squares.is_finite() && squares * LOST_FRACTION >= LOST * vector.len() as f64 {
        return squares.sqrt();
    }
    scaled_length(vector)
}

/// The length where squares leave the range of the type.
fn scaled_length<F: Real>(vector: &[F]) -> f64 {
    let largest = vector.iter().fold(0.0f64, |largest, number| {
        let size = number.double().abs();
        if size > largest || size.is_nan() { size } else { largest }
    });
    if !largest.is_finite() || largest == 0.0 {
        return largest;
    }
    let squares: f64 = vector.iter().map(|number| power(number.double() / largest, 2)).sum();
    // Infinite only above every allowed norm times 2^64 examples.
    (largest * squares.sqrt()).min(f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_that_is_not_finite_is_found_wherever_it_is() {
        for length in [1, 15, 16, 17, PIECE + 3, 3 * PIECE] {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for place in [0, length / 2, length - 1] {
                    let mut sum = vec![0.5f32; length];
                    sum[place] = bad;
                    assert!(check_sum(&sum, 1.0, None, 2).is_err(), "{bad} at {place} of {length}");
                }
            }
        }
        // Larger numbers do not mask a NaN.
        assert!(check_sum(&[f64::NAN, 1e308, 1e308], 1.0, None, 1).is_err());
    }

    #[test]
    fn lengths_that_examples_cannot_have_are_refused() {
        let of = |length: f64, size: usize| vec![(length / (size as f64).sqrt()) as f32; size];
        for size in [1, 16, 1000, 4 * PIECE] {
            assert!(check_sum(&of(0.7 * 12.0, size), 0.7, Some(12), 2).is_ok());
            assert!(check_sum(&of(0.7 * 12.0 * 1.01, size), 0.7, Some(12), 2).is_err());
            assert!(check_sum(&of(0.7 * 12.0 * 1.01, size), 0.7, None, 2).is_ok());
        }
        assert!(check_sum(&[0.0f64; 4], 1.0, Some(0), 1).is_ok());
        assert!(check_sum(&[1e-9f64; 4], 1.0, Some(0), 1).is_err());
        // The squares of these are 0 in single precision, or infinite, but their lengths are neither.
        assert!(check_sum(&[1e-30f32; 4], 1e-30, Some(2), 1).is_ok());
        assert!(check_sum(&[1e-30f32; 4], 1e-30, Some(1), 1).is_err());
        assert!(check_sum(&[1e30f32; 4], 1e30, Some(2), 1).is_ok());
        assert!(check_sum(&[1e30f32; 4], 1e30, Some(1), 1).is_err());
        // The squares of these are infinite, but the numbers are finite.
        assert!(check_sum(&[1e200f64; 4], 1e30, None, 1).is_ok());
        assert!(check_sum(&[1e200f64; 4], 1e30, Some(u64::MAX), 1).is_err());
    }
}
