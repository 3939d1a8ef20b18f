//! Inner products of the columns, as chains need them.

use super::SquareRoot;
use crate::mechanism::accounting::chain::ColumnProducts;

/// Columns of the integer matrix: they have the weights `W_j`, which grow, and the coefficients fall.
impl ColumnProducts for SquareRoot {
    fn steps(&self) -> usize {
        self.rounded.len()
    }

    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        let last = into.len() - 1;
        let mut sum = 0u64;
        for t in (distance..=last).rev() {
            // fits: products of 2^32, 2^16 of them
            sum += u64::from(self.rounded[last - t]) * u64::from(self.rounded[last - t + distance]);
            into[t] = sum as f64 * f64::from(self.weights[t]) * f64::from(self.weights[t - distance]);
        }
    }

    /// Never called: such horizons are short enough to go step by step.
    fn between(&self, distance: usize, earlier: (usize, usize), later: (usize, usize)) -> f64 {
        let tail = self.rounded.len() - (later.0 - 1);
        let products = self.rounded[..tail.min(self.rounded.len() - distance)].iter().zip(&self.rounded[distance..]);
        let sum: f64 = products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        sum * f64::from(self.weights[earlier.1 - 1]) * f64::from(self.weights[later.1 - 1])
    }
}

/// Columns of the matrix itself, normalized.
pub(super) struct Unrounded<'a>(pub(super) &'a SquareRoot);

impl ColumnProducts for Unrounded<'_> {
    fn steps(&self) -> usize {
        self.0.coefficients.len()
    }

    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        let (f, scales, last) = (&self.0.coefficients, &self.0.scales, into.len() - 1);
        let mut sum = 0.0;
        for t in (distance..=last).rev() {
            sum += f[last - t] * f[last - t + distance];
            into[t] = sum / (scales[t] * scales[t - distance]);
        }
    }

    /// Never called: these bounds go step by step.
    fn between(&self, distance: usize, _earlier: (usize, usize), _later: (usize, usize)) -> f64 {
        self.0.closest_pair(distance)
    }
}
