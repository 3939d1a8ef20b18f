//! Normal numbers with the covariance of a leap, which may be singular.
//!
//! The Cholesky factorization with complete pivoting of the matrix of correlations: first the walk, then in every round
//! the buffer that is least determined by those before. A pivot is the largest remaining diagonal entry, so no entry of
//! its row exceeds it, except by roundings. Hence no round enlarges the rounding errors of earlier rounds, however
//! small the pivot is, and the residual errors of a finished row are as small. The rounds end when the remaining
//! variance can be explained by rounding alone; the remaining covariances are then as small, because the matrix is
//! positive semidefinite.

use super::leap::{Leap, LeapConstants};
use super::response::BufferRow;
use crate::mechanism::name::buffers::MAX_BUFFERS;

/// The part of a variance that is treated as 0: a few roundings of 1.
const NEGLIGIBLE: f64 = 4e-15;

/// `η_0`, and `η_i` of the buffers. The number of draws depends on the leap only.
pub(in crate::mechanism) fn draw<F: FnMut() -> f64>(
    shape: &LeapConstants,
    leap: &Leap,
    mut normal: F,
) -> (f64, BufferRow) {
    let buffers = shape.buffers();
    let deviations = shape.variances(&leap.decayed).map(f64::sqrt);
    // A buffer without variance stays unchanged.
    let inverse = deviations.map(|deviation| if deviation > 0.0 { 1.0 / deviation } else { 0.0 });
    let walk = leap.variance.sqrt();
    let by_walk: BufferRow = std::array::from_fn(|i| leap.covariances[i] * inverse[i] / walk);
    // The remaining correlations, and their diagonal.
    let mut left: BufferRow = std::array::from_fn(|i| deviations[i] * inverse[i] - by_walk[i] * by_walk[i]);
    let mut rest = [BufferRow::default(); MAX_BUFFERS];
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
