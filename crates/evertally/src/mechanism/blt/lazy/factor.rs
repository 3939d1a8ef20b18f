//! Normal numbers with the covariance of a leap, which may be singular.
//!
//! Cholesky with complete pivoting on the matrix of correlations, first the walk, then in every round the buffer that is least
//! determined by those before. It stops where nothing is left of any but rounding errors. What is left is then positive
//! semidefinite up to roundings, so none of its entries exceeds its diagonal, and the rounds before are exact up to roundings
//! of the correlations, whatever the pivots were: the error is a few roundings of the unit diagonal.

use super::Row;
use super::leap::{Leap, Shape};
use crate::mechanism::blt::MAX_BUFFERS;

/// Parts of a variance that are not told from 0.
const NEGLIGIBLE: f64 = 4e-15;

/// `η_0`, and `η_i` of the buffers.
pub(super) fn draw<F: FnMut() -> f64>(shape: &Shape, leap: &Leap, mut normal: F) -> (f64, Row) {
    let buffers = shape.buffers();
    let deviations = shape.variances(&leap.decayed).map(f64::sqrt);
    // A buffer without variance stays as it is.
    let inverse = deviations.map(|deviation| if deviation > 0.0 { 1.0 / deviation } else { 0.0 });
    let walk = leap.variance.sqrt();
    let by_walk: Row = std::array::from_fn(|i| leap.covariances[i] * inverse[i] / walk);
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
