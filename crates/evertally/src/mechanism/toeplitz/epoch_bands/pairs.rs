//! Inner products of columns that share rows, for units that return before as many steps as there are bands.

use crate::mechanism::Participation;
use crate::mechanism::accounting::chain::{self, ColumnProducts, Pattern};
use crate::mechanism::accounting::participation::rounded_up;
use crate::privacy::Spread;

/// Roundings of an inner product and of a square: integers below 2^53, except for the last product and sum.
const OPERATIONS: u64 = 16;
/// Maximum number of products for one bound.
pub(super) const MAX_PRODUCTS: u64 = 1 << 27;

/// An upper bound of the squared sensitivity, from the integers of the matrix.
pub(super) fn squared(rounded: &[u32], weights: &[u32], bits: u32, participation: Participation) -> f64 {
    let unit = libm::exp2(-f64::from(bits));
    unit * unit * chain::of_steps(&Pairs::new(rounded, weights), participation, u64::MAX, OPERATIONS)
}

/// An upper bound of `‖R̃ u‖²` over the counts of a unit in one sum; infinite if there are too many steps.
pub(super) fn spread_squared(rounded: &[u32], weights: &[u32], spread: Spread) -> f64 {
    let pattern = Pattern::new(spread);
    let squared = chain::largest(&Pairs::new(rounded, weights), pattern);
    // Sums of positive numbers: one of a step's pairs, one of steps.
    rounded_up(squared, OPERATIONS + 8 * pattern.full.min(weights.len() as u64) + 256)
}

struct Pairs<'a> {
    /// `F_j` of the bands.
    rounded: &'a [u32],
    /// `W_j`.
    weights: Vec<f64>,
}

impl<'a> Pairs<'a> {
    fn new(rounded: &'a [u32], weights: &[u32]) -> Self {
        Self { rounded, weights: weights.iter().map(|w| f64::from(*w)).collect() }
    }

    /// `Σ_i F_i F_(i+d)` over the first terms, for each number of terms from 1.
    fn sums(&self, distance: usize) -> Vec<f64> {
        let pairs = self.rounded.iter().zip(&self.rounded[distance..]);
        let sums = pairs.scan(0u64, |sum, (a, b)| {
            *sum += u64::from(*a) * u64::from(*b); // fits: 2^14 terms of 2^32
            Some(*sum as f64)
        });
        sums.collect()
    }
}

impl ColumnProducts for Pairs<'_> {
    fn steps(&self) -> usize {
        self.weights.len()
    }

    /// The largest product at this distance or beyond; for distance 0 the squares.
    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        into.fill(0.0);
        let end = if distance == 0 { 1 } else { self.rounded.len() };
        for distance in distance..end {
            let sums = self.sums(distance);
            for t in distance..into.len() {
                // Rows from t to the last.
                let product = sums[(into.len() - t).min(sums.len()) - 1];
                into[t] = into[t].max(product * self.weights[t] * self.weights[t - distance]);
            }
        }
    }

    /// Never called: these bounds go step by step.
    fn between(&self, _distance: usize, _earlier: (usize, usize), _later: (usize, usize)) -> f64 {
        f64::INFINITY
    }
}
