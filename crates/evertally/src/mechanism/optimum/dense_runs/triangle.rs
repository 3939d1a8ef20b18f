//! What both searches minimise, and lower triangular matrices packed by rows.

use crate::mechanism::toeplitz::filter::packed;
use crate::mechanism::{Objective, Participation, SearchWatch};
use crate::number::lanes::dot;

/// The unit and the error to minimise.
pub(super) struct DenseProblem<'a> {
    pub(super) steps: usize,
    pub(super) runs: Participation,
    pub(super) objective: Objective,
    pub(super) watch: SearchWatch<'a>,
}

impl DenseProblem<'_> {
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

/// Rows that are processed together, so that a matrix is read once for all of them.
const TOGETHER: usize = 4;

/// `y += Σ factors · xs` over the places that all have, the others one by one.
fn add_all(y: &mut [f64], factors: [f64; TOGETHER], xs: [&[f64]; TOGETHER]) {
    let common = xs.iter().map(|x| x.len()).fold(y.len(), usize::min);
    let [a, b, c, d] = xs.map(|x| &x[..common]);
    let [fa, fb, fc, fd] = factors;
    for (place, y) in y[..common].iter_mut().enumerate() {
        *y += (fa * a[place] + fb * b[place]) + (fc * c[place] + fd * d[place]);
    }
    for (factor, x) in factors.into_iter().zip(xs) {
        let end = x.len().min(y.len());
        add(&mut y[common..end], factor, &x[common..end]);
    }
}

/// Each of some vectors `y` gets its factor times `x`.
fn add_to_all(ys: &mut [Vec<f64>; TOGETHER], factors: [f64; TOGETHER], x: &[f64]) {
    let [a, b, c, d] = ys.each_mut().map(|y| &mut y[..x.len()]);
    let [fa, fb, fc, fd] = factors;
    for (place, x) in x.iter().enumerate() {
        a[place] += fa * x;
        b[place] += fb * x;
        c[place] += fc * x;
        d[place] += fd * x;
    }
}

/// The inverse of a lower triangular matrix.
pub(super) fn inverse(c: &[f64], steps: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; c.len()];
    for first in (0..steps).step_by(TOGETHER) {
        let block = TOGETHER.min(steps - first);
        let entry = |i: usize, j: usize| if i < block { -c[packed(first + i) + j] } else { 0.0 };
        let mut sums: [Vec<f64>; TOGETHER] = std::array::from_fn(|_| vec![0.0; first + block]);
        for j in 0..first {
            let factors = std::array::from_fn(|i| entry(i, j));
            if factors != [0.0; TOGETHER] {
                add_to_all(&mut sums, factors, row(&inverse, j));
            }
        }
        for (t, mut own) in (first..first + block).zip(sums) {
            for j in first..t {
                add(&mut own[..=j], -c[packed(t) + j], row(&inverse, j));
            }
            own[t] = 1.0;
            let diagonal = c[packed(t) + t];
            let into = &mut inverse[packed(t)..packed(t + 1)];
            into.iter_mut().zip(own).for_each(|(into, value)| *into = value / diagonal);
        }
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
    weighted_gram(c, |_| 1.0, steps)
}

/// The lower triangle of `CᵀPC` for weights `P` of the rows.
pub(crate) fn weighted_gram(c: &[f64], weight: impl Fn(usize) -> f64, steps: usize) -> Vec<f64> {
    let mut x = vec![0.0; c.len()];
    for first in (0..steps).step_by(TOGETHER) {
        let block = TOGETHER.min(steps - first);
        let rows: [&[f64]; TOGETHER] = std::array::from_fn(|i| if i < block { row(c, first + i) } else { &[] });
        let weights: [f64; TOGETHER] = std::array::from_fn(|i| if i < block { weight(first + i) } else { 0.0 });
        for s in 0..first + block {
            let factors = std::array::from_fn(|i| rows[i].get(s).map_or(0.0, |entry| weights[i] * entry));
            if factors != [0.0; TOGETHER] {
                // Rows that end before place `s` have the factor 0.
                let rows = rows.map(|row| &row[..row.len().min(s + 1)]);
                add_all(&mut x[packed(s)..=packed(s) + s], factors, rows);
            }
        }
    }
    x
}

/// The squared lengths of the rows.
pub(super) fn squared_lengths(left: &[f64], steps: usize) -> Vec<f64> {
    (0..steps).map(|t| dot(row(left, t), row(left, t))).collect()
}

/// The logarithm of the power mean with these weights, and its slopes.
pub(super) fn log_power_mean(values: &[f64], weights: &[f64], power: f64) -> (f64, Vec<f64>) {
    let largest = values.iter().copied().fold(0.0, f64::max);
    let raise = |ratio: f64| if power == 1.0 { ratio } else { libm::pow(ratio, power) };
    let raised: Vec<f64> = values.iter().zip(weights).map(|(v, weight)| weight * raise(v / largest)).collect();
    let total: f64 = raised.iter().sum();
    let slopes = raised.iter().zip(values).map(|(r, v)| r / total / v).collect();
    (libm::log(largest) + libm::log(total) / power, slopes)
}

/// The slopes of `Σ share_t ‖L_t‖²` by the entries of `C`: `-2 LᵀSL C⁻ᵀ`.
pub(super) fn slopes_of_variance(left: &[f64], inverse: &[f64], shares: &[f64], steps: usize) -> Vec<f64> {
    let products = weighted_gram(left, |t| shares[t], steps);
    let mut slopes = vec![0.0; left.len()];
    for first in (0..steps).step_by(TOGETHER) {
        let block = TOGETHER.min(steps - first);
        for j in 0..first + block {
            let of_column = row(inverse, j);
            for i in first.max(j)..first + block {
                slopes[packed(i) + j] = -2.0 * dot(&row(&products, i)[..=j], of_column);
            }
        }
    }
    slopes
}

/// Adds the slopes of `Σ by_entry_st X_st`, over the lower triangle of `X = CᵀC`, by the entries of `C`.
pub(super) fn add_slopes_of_gram(c: &[f64], by_entry: &[f64], steps: usize, slopes: &mut [f64]) {
    for first in (0..steps).step_by(TOGETHER) {
        let block = TOGETHER.min(steps - first);
        let entry = |i: usize, s: usize| if i < block && s <= first + i { c[packed(first + i) + s] } else { 0.0 };
        let mut sums: [Vec<f64>; TOGETHER] = std::array::from_fn(|_| vec![0.0; first + block]);
        for s in 0..first + block {
            let of_entry = row(by_entry, s);
            let factors = std::array::from_fn(|i| entry(i, s));
            if factors != [0.0; TOGETHER] {
                add_to_all(&mut sums, factors, of_entry);
            }
            for (i, sums) in sums.iter_mut().enumerate().take(block).filter(|(i, _)| s <= first + i) {
                sums[s] += dot(&row(c, first + i)[..=s], of_entry);
            }
        }
        for (i, sums) in (first..).zip(&sums).take(block) {
            add(&mut slopes[packed(i)..packed(i + 1)], 1.0, sums);
        }
    }
}
