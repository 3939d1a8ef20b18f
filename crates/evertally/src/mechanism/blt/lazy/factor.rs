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
    let mut couplings = [Row::default(); MAX_BUFFERS];
    let mut deviations = Row::default();
    let mut inverse = Row::default();
    for i in 0..buffers {
        couplings[i] = shape.couplings(&leap.decayed, i);
        deviations[i] = couplings[i][i].sqrt();
        inverse[i] = if deviations[i] > 0.0 { 1.0 / deviations[i] } else { 0.0 };
    }
    let deviation = leap.variance.sqrt();
    let first = normal();
    let mut columns = [Row::default(); MAX_BUFFERS + 1];
    columns[0] = std::array::from_fn(|i| leap.covariances[i] * inverse[i] / deviation);
    let mut open: Row = std::array::from_fn(|i| couplings[i.min(buffers - 1)][i] * inverse[i] * inverse[i]);
    open = std::array::from_fn(|i| open[i] - columns[0][i] * columns[0][i]);
    let mut drawn: Row = std::array::from_fn(|i| columns[0][i] * first);
    for round in 1..=buffers {
        let mut pivot = 0;
        for i in 1..buffers {
            if open[i] > open[pivot] {
                pivot = i;
            }
        }
        let left = open[pivot];
        if left <= NEGLIGIBLE {
            break;
        }
        let mut column: Row = std::array::from_fn(|i| couplings[pivot][i] * inverse[pivot] * inverse[i]);
        for known in &columns[..round] {
            let factor = known[pivot];
            column = std::array::from_fn(|i| column[i] - factor * known[i]);
        }
        let root = left.sqrt();
        column = std::array::from_fn(|i| if open[i] > 0.0 { column[i] / root } else { 0.0 });
        column[pivot] = root;
        let next = normal();
        open = std::array::from_fn(|i| open[i] - column[i] * column[i]);
        open[pivot] = 0.0;
        drawn = std::array::from_fn(|i| drawn[i] + column[i] * next);
        columns[round] = column;
    }
    (deviation * first, std::array::from_fn(|i| deviations[i] * drawn[i]))
}
