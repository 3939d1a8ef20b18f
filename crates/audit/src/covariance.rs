//! Compares means and covariance of releases with the promise.
//!
//! In units of a node's deviation, `y = (out - truth)/(unit · σ)` is `L z` with independent `z` of variance 1 and
//! fourth cumulant `κ`, so its covariance is `C = L Lᵀ`. Every statistic is a quadratic form of the empirical
//! covariance `Ĉ = mean(y yᵀ)` with a weight matrix `B`; its mean is `tr(B C)`, and its variance over `N` paths is
//! exactly
//!
//! ```text
//! N · Var tr(B Ĉ) = 2 tr(B C B C) + κ Σ_n (l_nᵀ B l_n)²       (l_n = column n of L)
//! ```
//!
//! Only the last step, from the variance to a p-value, is the central limit theorem: the caller must not use it for
//! fewer paths than [`enough_paths`] says.

use crate::law::NodeLaw;
use crate::linear::{Cholesky, column, dot};
use crate::promise::Promise;
use crate::tails::{chi_square_tail, normal_tail};
use evertally::mechanism::Matrix;
use evertally::number::power;

/// The maximum number of steps whose covariance is computed: all steps, or this many, spread evenly.
const MAX_STEPS: usize = 64;

/// Sums over paths.
#[derive(Debug)]
pub(crate) struct Moments {
    steps: Vec<usize>,
    paths: f64,
    /// `Σ y` for every step.
    sums: Vec<f64>,
    /// `Σ y yᵀ` over the chosen steps, lower triangle, row after row.
    products: Vec<f64>,
    chosen: Vec<f64>,
}

/// One p-value per family of comparisons: the smallest of the family times their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    /// Every step's mean is right.
    pub(crate) means: f64,
    /// Every entry of the covariance.
    pub(crate) entries: f64,
    /// Every node's variance, measured where the releases reveal most of it.
    pub(crate) nodes: f64,
    /// One common factor of the covariance: the most sensitive test of a wrong scale.
    pub(crate) scale: f64,
    /// All entries at once: the squared distance of `Ĉ` from `C` in units of its own spread.
    pub(crate) whole: f64,
}

/// Whether the normal approximation of a mean of squares over this number of paths is good to a factor of ten at p =
/// 10⁻¹¹: by its first correction, `exp(γ z³/(6 √N))` with the skewness `γ` of a single square and `z` = 6.9.
pub(crate) fn enough_paths(law: &NodeLaw, paths: f64) -> bool {
    let [second, fourth, sixth] = law.moments();
    let variance = fourth - second * second;
    let third = sixth - 3.0 * fourth * second + 2.0 * power(second, 3);
    third / libm::pow(variance, 1.5) / paths.sqrt() <= 0.04
}

impl Moments {
    pub(crate) fn new(horizon: usize) -> Self {
        let count = horizon.min(MAX_STEPS);
        let steps: Vec<usize> =
            (0..count).map(|i| if count == 1 { 0 } else { i * (horizon - 1) / (count - 1) }).collect();
        let chosen = vec![0.0; count];
        Self { steps, paths: 0.0, sums: vec![0.0; horizon], products: vec![0.0; count * (count + 1) / 2], chosen }
    }

    pub(crate) fn observe(&mut self, residual: &[f64]) {
        self.paths += 1.0;
        self.sums.iter_mut().zip(residual).for_each(|(sum, r)| *sum += r);
        self.chosen.iter_mut().zip(&self.steps).for_each(|(y, &t)| *y = residual[t]);
        let mut products = self.products.iter_mut();
        for (i, a) in self.chosen.iter().enumerate() {
            self.chosen[..=i].iter().zip(&mut products).for_each(|(b, sum)| *sum += a * b);
        }
    }

    pub(crate) fn judge(&self, promise: &Promise) -> Verdict {
        let unit = promise.node_deviation();
        let [second, fourth, _] = promise.law.moments();
        let cumulant = fourth / (second * second) - 3.0;
        let p = |deviation: f64, variance: f64| normal_tail(deviation / (variance / self.paths).sqrt());

        let means = smallest(self.sums.iter().enumerate().map(|(t, sum)| {
            let off = ((sum / self.paths).abs() - promise.rounding).max(0.0) / unit;
            p(off, dot(promise.l.row(t), promise.l.row(t)))
        }));

        let l = rows(&promise.l, &self.steps);
        let c = l.times(&l.transpose());
        let factor = Cholesky::new(&c).expect("a part of a regular covariance is regular");
        let seen = self.empirical(unit);

        let squares = map(&l, |weight| weight * weight);
        let shared = squares.times(&squares.transpose());
        let places = (0..self.steps.len()).flat_map(|s| (0..=s).map(move |t| (s, t)));
        let entries = smallest(places.map(|(s, t)| {
            let variance = c.row(s)[s] * c.row(t)[t] + power(c.row(s)[t], 2) + cumulant * shared.row(s)[t];
            p(seen.row(s)[t] - c.row(s)[t], variance)
        }));

        // B = u uᵀ with u = C⁻¹ l_n: uᵀ C u = l_nᵀ C⁻¹ l_n = H_nn, and u · l_m = H_nm.
        let directions: Vec<Vec<f64>> = (0..l.shape().1).map(|n| factor.solve(&column(&l, n))).collect();
        let transposed = l.transpose();
        let (mut own, mut fourths) = (0.0, 0.0);
        let nodes = smallest(directions.iter().enumerate().map(|(n, u)| {
            let h: Vec<f64> = (0..directions.len()).map(|m| dot(u, transposed.row(m))).collect();
            let fourth: f64 = h.iter().map(|h| power(*h, 4)).sum();
            own += h[n] * h[n];
            fourths += fourth;
            if h[n] < 1e-9 {
                return 1.0; // no chosen step reads it
            }
            p(quadratic(u, &seen) - h[n], 2.0 * power(h[n], 2) + cumulant * fourth)
        }));

        // B = C⁻¹. Row i of D is (Ĉ C⁻¹ - 1)_i, as C⁻¹ is symmetric.
        let count = self.steps.len();
        let mut d: Vec<Vec<f64>> = (0..count).map(|i| factor.solve(seen.row(i))).collect();
        d.iter_mut().enumerate().for_each(|(i, row)| row[i] -= 1.0);
        let trace: f64 = d.iter().enumerate().map(|(i, row)| row[i]).sum();
        let scale = p(trace, 2.0 * count as f64 + cumulant * own);

        // N/2 · ‖K⁻¹ (Ĉ - C) K⁻ᵀ‖² is a weighted sum of χ²; these are its first two moments.
        let square: f64 = (0..count).map(|i| (0..count).map(|j| d[i][j] * d[j][i]).sum::<f64>()).sum();
        let free = (count * (count + 1)) as f64;
        let mean = 0.5 * (free + cumulant * own);
        let variance = 0.5 * (2.0 * free + 4.0 * cumulant * own + power(cumulant, 2) * fourths);
        let whole = chi_square_tail(self.paths * square * mean / variance, 2.0 * mean * mean / variance);
        Verdict { means, entries, nodes, scale, whole }
    }

    /// `Ĉ`.
    fn empirical(&self, unit: f64) -> Matrix {
        let count = self.steps.len();
        let mut seen = Matrix::zeros(count, count);
        let mut products = self.products.iter().map(|sum| sum / (self.paths * unit * unit));
        for i in 0..count {
            for (j, product) in (0..=i).zip(&mut products) {
                seen.set(i, j, product);
                seen.set(j, i, product);
            }
        }
        seen
    }
}

fn quadratic(u: &[f64], matrix: &Matrix) -> f64 {
    u.iter().enumerate().map(|(i, x)| x * dot(matrix.row(i), u)).sum()
}

fn rows(matrix: &Matrix, chosen: &[usize]) -> Matrix {
    let mut out = Matrix::zeros(chosen.len(), matrix.shape().1);
    for (i, &row) in chosen.iter().enumerate() {
        matrix.row(row).iter().enumerate().for_each(|(j, x)| out.set(i, j, *x));
    }
    out
}

fn map(matrix: &Matrix, f: impl Fn(f64) -> f64) -> Matrix {
    let (rows, columns) = matrix.shape();
    let mut out = Matrix::zeros(rows, columns);
    (0..rows).for_each(|i| (0..columns).for_each(|j| out.set(i, j, f(matrix.row(i)[j]))));
    out
}

/// The smallest p-value times their number, at most 1.
pub(crate) fn smallest(values: impl Iterator<Item = f64>) -> f64 {
    let (least, count) = values.fold((1.0f64, 0.0), |(least, count), p| (least.min(p), count + 1.0));
    (least * count).min(1.0)
}
