//! Normal numbers with the covariance of a leap, which may be singular.
//!
//! The Cholesky factorization with complete pivoting of the matrix of correlations: first the walk, then in every round
//! the buffer that is least determined by those before. A pivot is the largest diagonal entry that is left, so no entry
//! of its row exceeds it but by roundings: no round enlarges the rounding errors of those before, however small the
//! pivot is, and what they leave of a row that is done is as small. The rounds end where no variance is left but what
//! rounding may have made; covariances that are left then are as small too, because the matrix is positive
//! semidefinite.

use super::Row;
use super::leap::{Leap, Shape};
use crate::mechanism::toeplitz::blt::MAX_BUFFERS;

/// A part of a variance that is not told from 0: some roundings of 1.
const NEGLIGIBLE: f64 = 4e-15;

/// `η_0`, and `η_i` of the buffers. How many numbers are drawn depends on the leap only.
pub(super) fn draw<F: FnMut() -> f64>(shape: &Shape, leap: &Leap, mut normal: F) -> (f64, Row) {
    let buffers = shape.buffers();
    let deviations = shape.variances(&leap.decayed).map(f64::sqrt);
    // A buffer without variance stays as it is.
    let inverse = deviations.map(|deviation| if deviation > 0.0 { 1.0 / deviation } else { 0.0 });
    let walk = leap.variance.sqrt();
    let by_walk: Row = std::array::from_fn(|i| leap.covariances[i] * inverse[i] / walk);
    // What is left of the correlations, and its diagonal.
    let mut left: Row = std::array::from_fn(|i| deviations[i] * inverse[i] - by_walk[i] * by_walk[i]);
    let mut rest = [Row::default(); MAX_BUFFERS];
    for (i, rest) in rest[..buffers].iter_mut().enumerate() {
        let couplings = shape.couplings(&leap.decayed, i);
        *rest = std::array::from_fn(|k| couplings[k] * (inverse[i] * inverse[k]) - by_walk[i] * by_walk[k]);
    }
    let first = normal();
    let mut drawn = by_walk.map(|entry| entry * first);
    for _ in 0..buffers {
        let (mut pivot, mut most) = (0, left[0]);
        for (i, left) in left[..buffers].iter().enumerate() {
            (pivot, most) = if *left > most { (i, *left) } else { (pivot, most) };
        }
        if most <= NEGLIGIBLE {
            break;
        }
        let column = rest[pivot];
        let share = 1.0 / most;
        left = std::array::from_fn(|i| left[i] - column[i] * column[i] * share);
        for (i, rest) in rest[..buffers].iter_mut().enumerate() {
            let factor = column[i] * share;
            *rest = std::array::from_fn(|k| rest[k] - factor * column[k]);
        }
        let next = normal() / most.sqrt();
        drawn = std::array::from_fn(|i| drawn[i] + column[i] * next);
    }
    (walk * first, std::array::from_fn(|i| deviations[i] * drawn[i]))
}
