//! The search among matrices with as many bands as steps until the unit returns.
//!
//! Columns that share no row are orthogonal, so the squared sensitivity is the largest sum of squared column lengths
//! `x_t` over a pattern. The patterns are the corners of `{q ≥ 0 : Σ over any b steps ≤ 1, Σ q ≤ k}` (see
//! [`spaced`](super::spaced)), so by the duality of linear programs this sum is at most 1 exactly if
//! `x_t ≤ λ + Σ_{w∋t} y_w` for weights of the windows `w` of `b` steps with `Σ y_w + kλ = 1`. With the weights as
//! variables there is nothing left to constrain, and columns of any lengths are considered.

use super::triangle::{DenseProblem, inverse, log_power_mean, row, running_sums, slopes_of_variance, squared_lengths};
use crate::mechanism::Objective;
use crate::mechanism::toeplitz::filter::packed;
use crate::number::descent::minimise;

/// Steps of each descent, and the part that ten of them gain at its end.
const STEPS: usize = 400;
const MIN_GAIN: f64 = 1e-7;
/// Exponents of the power means of variances, one after the other.
const POWERS: [f64; 3] = [30.0, 300.0, 3000.0];
/// The logarithm of the weight of all patterns at the start; that of windows is 0.
const FIRST_COMMON: f64 = -4.0;

/// The places of the variables: entries below the diagonal within the bands, then logarithms of weights.
pub(super) struct BandsOfUnit<'a> {
    of: &'a DenseProblem<'a>,
    bands: usize,
    /// Row and column of each entry.
    places: Vec<(usize, usize)>,
}

impl<'a> BandsOfUnit<'a> {
    pub(super) fn new(of: &'a DenseProblem<'a>) -> Self {
        let bands = (of.runs.separation() as usize).min(of.steps); // fits: within the horizon
        let places = (0..of.steps).flat_map(|t| (t.saturating_sub(bands - 1)..t).map(move |j| (t, j))).collect();
        Self { of, bands, places }
    }

    /// `C`, row by row; its squared sensitivity is 1.
    pub(super) fn search(&self) -> Vec<f64> {
        let first = self.of.first_coefficients();
        let mut point: Vec<f64> = self.places.iter().map(|(t, j)| first[t - j]).collect();
        point.resize(point.len() + self.windows(), 0.0);
        point.push(FIRST_COMMON);
        let powers: &[f64] = match self.of.objective {
            Objective::Mean => &[1.0],
            Objective::Max => &POWERS,
        };
        for power in powers {
            let watch = self.of.watch;
            minimise(&mut point, STEPS, MIN_GAIN, &mut |point| watch.evaluate(|| self.evaluate(point, *power)));
        }
        self.taken_apart(&point).1
    }

    fn windows(&self) -> usize {
        self.of.steps - self.bands + 1
    }

    /// The squared lengths of the columns, and `C`.
    fn taken_apart(&self, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (steps, entries) = (self.of.steps, self.places.len());
        let (windows, total) = self.weights(point);
        let common = libm::exp(point[point.len() - 1]);
        let mut sums = vec![common; steps];
        for (w, weight) in windows.iter().enumerate() {
            sums[w..w + self.bands].iter_mut().for_each(|sum| *sum += weight);
        }
        let lengths: Vec<f64> = sums.iter().map(|sum| sum / total).collect();
        let mut squares = vec![1.0; steps];
        for ((_, j), c) in self.places.iter().zip(&point[..entries]) {
            squares[*j] += c * c;
        }
        let scale = |j: usize| (lengths[j] / squares[j]).sqrt();
        let mut matrix = vec![0.0; packed(steps)];
        (0..steps).for_each(|t| matrix[packed(t) + t] = scale(t));
        for ((t, j), c) in self.places.iter().zip(&point[..entries]) {
            matrix[packed(*t) + j] = c * scale(*j);
        }
        (lengths, matrix)
    }

    /// The weights of the windows, and what all are divided by.
    fn weights(&self, point: &[f64]) -> (Vec<f64>, f64) {
        let (windows, common) = (&point[self.places.len()..point.len() - 1], libm::exp(point[point.len() - 1]));
        let windows: Vec<f64> = windows.iter().map(|y| libm::exp(*y)).collect();
        let total = windows.iter().sum::<f64>() + self.of.runs.most() as f64 * common;
        (windows, total)
    }

    /// The logarithm of the variance, and its slopes.
    fn evaluate(&self, point: &[f64], power: f64) -> (f64, Vec<f64>) {
        let steps = self.of.steps;
        let (lengths, matrix) = self.taken_apart(point);
        if (0..steps).any(|t| matrix[packed(t) + t].is_nan() || matrix[packed(t) + t] <= 0.0) {
            return (f64::INFINITY, vec![0.0; point.len()]);
        }
        let inverse = inverse(&matrix, steps);
        let left = running_sums(&inverse, steps);
        let equal = vec![1.0 / steps as f64; steps];
        let (value, shares) = log_power_mean(&squared_lengths(&left, steps), &equal, power);
        let by_entry = slopes_of_variance(&left, &inverse, &shares, steps);
        // Along a column, all of it.
        let mut along = vec![0.0; steps];
        for t in 0..steps {
            for ((along, slope), c) in along.iter_mut().zip(row(&by_entry, t)).zip(row(&matrix, t)) {
                *along += slope * c;
            }
        }
        let mut slopes = Vec::with_capacity(point.len());
        for (t, j) in &self.places {
            let (entry, scale) = (matrix[packed(*t) + j], matrix[packed(*j) + j]);
            // The scale is that of the diagonal, whose entry is 1.
            slopes.push(scale * (by_entry[packed(*t) + j] - along[*j] * entry / lengths[*j]));
        }
        let by_length: Vec<f64> = along.iter().zip(&lengths).map(|(along, x)| 0.5 * along / x).collect();
        let common: f64 = along.iter().map(|along| 0.5 * along).sum();
        let (windows, total) = self.weights(point);
        for (w, weight) in windows.iter().enumerate() {
            slopes.push(weight / total * (by_length[w..w + self.bands].iter().sum::<f64>() - common));
        }
        let shared = libm::exp(point[point.len() - 1]) / total;
        slopes.push(shared * (by_length.iter().sum::<f64>() - self.of.runs.most() as f64 * common));
        (value, slopes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{Participation, SearchWatch};

    /// Slopes against differences.
    #[test]
    fn slopes_are_those_of_the_value() {
        for objective in Objective::BOTH {
            let runs = Participation::new(2, 3).unwrap();
            let of = DenseProblem { steps: 9, runs, objective, watch: SearchWatch::NONE };
            let problem = BandsOfUnit::new(&of);
            let entries = problem.places.len();
            let point: Vec<f64> =
                (0..entries + problem.windows() + 1).map(|i| 0.3 + 0.02 * ((7 * i) % 5) as f64).collect();
            let power = objective.of(30.0, 1.0);
            let (_, slopes) = problem.evaluate(&point, power);
            for i in [0, 1, 5, entries - 1, entries, entries + 3, point.len() - 1] {
                let value = |by: f64| {
                    let mut moved = point.clone();
                    moved[i] += by;
                    problem.evaluate(&moved, power).0
                };
                let want = (value(1e-6) - value(-1e-6)) / 2e-6;
                assert!((slopes[i] - want).abs() < 1e-6 * (1.0 + want.abs()), "{i}: {} {want}", slopes[i]);
            }
        }
    }
}
