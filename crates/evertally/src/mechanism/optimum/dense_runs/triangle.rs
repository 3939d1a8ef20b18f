//! What both searches minimise, and lower triangular matrices packed by rows.

use crate::mechanism::toeplitz::filter::packed;
use crate::mechanism::{Objective, Participation};
use crate::number::lanes::dot;

/// Exponents of the power means, one after the other.
pub(super) const POWERS: [f64; 3] = [30.0, 300.0, 3000.0];

/// The unit and the error to minimise.
pub(super) struct DenseProblem {
    pub(super) steps: usize,
    pub(super) runs: Participation,
    pub(super) objective: Objective,
}

impl DenseProblem {
    /// The coefficients of the square root of the prefix sums.
    pub(super) fn first_coefficients(&self) -> Vec<f64> {
        let next = |f: &mut f64, j: usize| {
            *f *= if j == 0 { 1.0 } else { (2 * j - 1) as f64 / (2 * j) as f64 };
            Some(*f)
        };
        (0..self.steps).scan(1.0, next).collect()
    }
}

/// Row `t` of a packed triangle.
pub(super) fn row(matrix: &[f64], t: usize) -> &[f64] {
    &matrix[packed(t)..packed(t + 1)]
}

/// `y += factor · x`.
fn add(y: &mut [f64], factor: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}

/// The inverse of a lower triangular matrix.
pub(super) fn inverse(c: &[f64], steps: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; c.len()];
    for t in 0..steps {
        let (above, own) = inverse.split_at_mut(packed(t));
        let own = &mut own[..=t];
        let entries = row(c, t);
        for (j, entry) in entries[..t].iter().enumerate().filter(|(_, entry)| **entry != 0.0) {
            add(&mut own[..=j], -entry, row(above, j));
        }
        own[t] = 1.0;
        own.iter_mut().for_each(|value| *value /= entries[t]);
    }
    inverse
}

/// The running sums of the rows: `A C⁻¹`.
pub(super) fn running_sums(inverse: &[f64], steps: usize) -> Vec<f64> {
    let mut sums = inverse.to_vec();
    for t in 1..steps {
        let (above, own) = sums.split_at_mut(packed(t));
        add(own, 1.0, row(above, t - 1));
    }
    sums
}

/// The lower triangle of `CᵀC`.
pub(super) fn gram(c: &[f64], steps: usize) -> Vec<f64> {
    let mut x = vec![0.0; c.len()];
    for entries in (0..steps).map(|t| row(c, t)) {
        for (s, entry) in entries.iter().enumerate().filter(|(_, entry)| **entry != 0.0) {
            add(&mut x[packed(s)..=packed(s) + s], *entry, &entries[..=s]);
        }
    }
    x
}

/// The logarithm of the largest or the mean squared row norm, and its slopes by each.
pub(super) fn row_variances(left: &[f64], steps: usize, objective: Objective, power: f64) -> (f64, Vec<f64>) {
    let rows: Vec<f64> = (0..steps).map(|t| dot(row(left, t), row(left, t))).collect();
    log_power_mean(&rows, if objective == Objective::Max { power } else { 1.0 })
}

/// The logarithm of the power sum's root, or for the exponent 1 of the mean, and its slopes.
pub(super) fn log_power_mean(values: &[f64], power: f64) -> (f64, Vec<f64>) {
    let largest = values.iter().copied().fold(0.0, f64::max);
    let raised: Vec<f64> =
        values.iter().map(|v| if power == 1.0 { v / largest } else { libm::pow(v / largest, power) }).collect();
    let total: f64 = raised.iter().sum();
    let count = if power == 1.0 { values.len() as f64 } else { 1.0 };
    let slopes = raised.iter().zip(values).map(|(r, v)| r / total / v).collect();
    (libm::log(largest) + libm::log(total / count) / power, slopes)
}

/// The slopes of `Σ share_t ‖L_t‖²` by the entries of `C`: `-2 LᵀSL C⁻ᵀ`.
pub(super) fn slopes_of_variance(left: &[f64], inverse: &[f64], shares: &[f64], steps: usize) -> Vec<f64> {
    let mut products = vec![0.0; left.len()];
    for (t, share) in shares.iter().enumerate() {
        let entries = row(left, t);
        for (i, entry) in entries.iter().enumerate() {
            add(&mut products[packed(i)..=packed(i) + i], share * entry, &entries[..=i]);
        }
    }
    let slope = |i: usize, j: usize| -2.0 * dot(&row(&products, i)[..=j], row(inverse, j));
    (0..steps).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| slope(i, j)).collect()
}

/// Adds the slopes of `Σ by_entry_st X_st`, over the lower triangle of `X = CᵀC`, by the entries of `C`.
pub(super) fn add_slopes_of_gram(c: &[f64], by_entry: &[f64], steps: usize, slopes: &mut [f64]) {
    let mut full = vec![0.0; steps * steps];
    for s in 0..steps {
        for (t, slope) in row(by_entry, s).iter().enumerate() {
            full[s * steps + t] += slope;
            full[t * steps + s] += slope;
        }
    }
    for i in 0..steps {
        let own = &mut slopes[packed(i)..packed(i + 1)];
        for (s, entry) in row(c, i).iter().enumerate().filter(|(_, entry)| **entry != 0.0) {
            add(own, *entry, &full[s * steps..=s * steps + i]);
        }
    }
}
