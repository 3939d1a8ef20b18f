//! The error that noise causes in the median of a few rows.
//!
//! Let `M` be the median of `r = 2m + 1` independent symmetric variables of variance 1 with upper tail
//! `p(x) = P(X > x)`. `M` is above `x` exactly if at least `m + 1` of them are, so
//! `P(M > x) = Σ_{j > m} C(r, j) p^j (1-p)^(r-j)`, and by symmetry
//! `Var M = 2 ∫_0^∞ x P(|M| > x) dx = 4 ∫_0^∞ x P(M > x) dx`: one integral over the tail of a single row, computed
//! once.
//!
//! **Tails.** Gaussian noise: the normal law. Laplace noise: a cell's noise is a sum of `n` Laplace variables, whose
//! tail is a mixture of gamma tails, `Σ_i C(2n-i-1, n-i) 2^-(2n-i) Q_i(x)` with `Q_i(x) = e^-x Σ_{j<i} x^j/j!`. Above
//! `n` = 64 the distance from the normal value, which falls like `1/n`, is extrapolated from there. If the variables
//! have different weights, `n` is the number of equal ones with the same fourth moment. Discrete laws are treated as
//! continuous, which matters only if the noise is smaller than the grid.

use crate::mechanism::RowLaw;
use crate::number::power;
use crate::number::special::normal_cdf;
use crate::plan::{NoiseKind, Plan};
use std::collections::HashMap;

/// Above this many Laplace terms, the distance from the normal value falls like 1/n.
pub(super) const MAX_EXACT_TERMS: u64 = 64;
/// The integral ends where the tail of a single Laplace variable is below 10^-18 (29 standard deviations), and uses
/// Simpson's rule with steps of 1/64 of a standard deviation.
const STEPS: u32 = 30 * 64;

/// Standard errors of medians of the rows of a table.
#[derive(Debug)]
pub(super) struct MedianNoise {
    rows: u32,
    /// Variance of the median of normal rows, relative to one row.
    normal: f64,
    /// The same for sums of this many Laplace variables.
    sums: HashMap<u64, f64>,
    /// The factor at a step.
    last: (u64, f64),
}

impl MedianNoise {
    pub(super) fn new(rows: u32) -> Self {
        let normal = relative_variance(rows, |x| normal_cdf(-x));
        Self { rows, normal, sums: HashMap::new(), last: (0, 0.0) }
    }

    /// Variance of the median of normal rows, relative to one row.
    pub(super) fn of_normal_rows(&self) -> f64 {
        self.normal
    }

    /// Variance of the median of the rows at a step (≥ 1), relative to one row.
    pub(super) fn factor(&mut self, plan: &Plan, step: u64) -> f64 {
        if self.last.0 != step {
            self.last = (step, self.at(plan, step));
        }
        self.last.1
    }

    fn at(&mut self, plan: &Plan, step: u64) -> f64 {
        match plan.noise_kind() {
            NoiseKind::Gaussian => self.normal,
            NoiseKind::Laplace => self.laplace(terms(&plan.mechanism().row_law(step))),
        }
    }

    fn laplace(&mut self, terms: u64) -> f64 {
        let (rows, counted) = (self.rows, terms.min(MAX_EXACT_TERMS));
        let exact = *self.sums.entry(counted).or_insert_with(|| {
            let deviation = (2.0 * counted as f64).sqrt();
            relative_variance(rows, |x| laplace_tail(counted, x * deviation))
        });
        self.normal + (exact - self.normal) * (counted as f64 / terms as f64)
    }
}

/// The number of equal Laplace variables with the fourth moment of a row.
pub(super) fn terms(law: &RowLaw) -> u64 {
    match law {
        RowLaw::Like { terms, .. } => (*terms).max(1),
        RowLaw::Sum(terms) => {
            let moment = |order: i32| terms.iter().map(|(w, n)| power(*w, order) * *n as f64).sum::<f64>();
            let (second, fourth) = (moment(2), moment(4));
            if fourth > 0.0 { libm::rint(second * second / fourth).max(1.0) as u64 } else { 1 }
        }
    }
}

fn relative_variance(rows: u32, tail: impl Fn(f64) -> f64) -> f64 {
    if rows == 1 {
        return 1.0;
    }
    let integrand = |k: u32| {
        let x = f64::from(k) / 64.0;
        x * median_tail(rows, tail(x))
    };
    // Simpson's rule: weights 1 4 2 4 … 4 1, and both ends are 0.
    let sum: f64 = (1..STEPS).map(|k| integrand(k) * if k % 2 == 1 { 4.0 } else { 2.0 }).sum();
    4.0 * sum / (3.0 * 64.0)
}

/// The confidence of a row for which the median of the rows has at least this one: an interval that contains the noise
/// of a single row with the returned probability contains that of the median with this one.
///
/// With `p` the upper tail of a row at the end of the interval, that of the median is [`median_tail`], which grows with
/// `p`: the largest `p` for which it is at most half of the allowed miss probability, rounded down, gives the answer
/// `1 - 2p`.
pub(super) fn row_confidence(rows: u32, confidence: f64) -> f64 {
    if rows == 1 {
        return confidence;
    }
    let missed = (1.0 - confidence) / 2.0;
    let (mut low, mut high) = (0.0, 0.5);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if median_tail(rows, middle) <= missed { low = middle } else { high = middle }
    }
    1.0 - 2.0 * low * (1.0 - 1e-12)
}

/// `P(M > x)` from `p = P(X > x)`.
pub(super) fn median_tail(rows: u32, p: f64) -> f64 {
    let (mut binomial, mut sum) = (1.0, 0.0);
    for j in 0..=rows {
        if j > rows / 2 {
            sum += binomial * power(p, j as i32) * power(1.0 - p, (rows - j) as i32);
        }
        binomial *= f64::from(rows - j) / f64::from(j + 1);
    }
    sum
}

/// `P(S > x)` for a sum of `n` Laplace variables of scale 1.
pub(super) fn laplace_tail(n: u64, x: f64) -> f64 {
    // Weights from i = n down; the term x^j e^-x / j! is part of all gamma tails above j.
    let n = n as usize;
    let mut weights = vec![0.0; n + 1];
    weights[n] = libm::exp2(-(n as f64));
    for i in (2..=n).rev() {
        weights[i - 1] = weights[i] * 0.5 * (2 * n - i) as f64 / (n - i + 1) as f64;
    }
    let (mut term, mut gamma_tail, mut sum) = (libm::exp(-x), 0.0, 0.0);
    for (j, weight) in weights[1..].iter().enumerate() {
        gamma_tail += term;
        term *= x / (j + 1) as f64;
        sum += weight * gamma_tail;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known variances of medians: for normal numbers by an integral with 20 digits, and for 3 Laplace numbers.
    #[test]
    fn variances_of_medians_are_those_of_the_tables() {
        for (rows, variance) in
            [(1, 1.0), (3, 0.448_671_1), (5, 0.286_833_7), (7, 0.210_446_9), (9, 0.166_101_3), (31, 0.049_965_6)]
        {
            let factor = MedianNoise::new(rows).of_normal_rows();
            assert!((factor - variance).abs() < 1e-7, "{rows}: {factor}");
        }
        // The median of 3: P(M > x) = 3 p² - 2 p³ with p = e^-x/2, so E M² = 4 ∫ x (3/4 e^-2x - 1/4 e^-3x) = 3/4 - 1/9.
        let factor = MedianNoise::new(3).laplace(1);
        assert!((factor - (0.75 - 1.0 / 9.0) / 2.0).abs() < 1e-7, "{factor}");
    }

    /// The values for Laplace sums rise to the normal one, without a jump where the extrapolation starts, and as fast
    /// as stated.
    #[test]
    fn laplace_sums_tend_to_the_normal_figure() {
        for rows in [3, 5, 31] {
            let mut median = MedianNoise::new(rows);
            let factors: Vec<f64> = (1..300).map(|n| median.laplace(n)).collect();
            assert!(factors.windows(2).all(|w| w[0] < w[1]) && factors[298] < median.normal, "{rows}");
            let deviation = (2.0 * 200f64).sqrt();
            let exact = relative_variance(rows, |x| laplace_tail(200, x * deviation));
            assert!((median.laplace(200) / exact - 1.0).abs() < 1e-4, "{rows}");
        }
    }

    /// Three rows that are -1, 0 or 1, by enumeration. An interval of ±0 contains a row and the median with the stated
    /// probabilities.
    #[test]
    fn the_median_is_as_sure_as_its_rows_say() {
        for tail in [0.01, 0.1, 0.25] {
            let law = [(-1, tail), (0, 1.0 - 2.0 * tail), (1, tail)];
            let mut inside = 0.0;
            for (a, p) in law {
                for (b, q) in law {
                    for (c, r) in law {
                        let mut rows = [a, b, c];
                        rows.sort_unstable();
                        inside += if rows[1] == 0 { p * q * r } else { 0.0 };
                    }
                }
            }
            let row = row_confidence(3, inside);
            assert!((row - (1.0 - 2.0 * tail)).abs() < 1e-9, "{tail}: {row}");
        }
        for rows in [1, 3, 5, 31] {
            for confidence in [0.1, 0.5, 0.95, 0.999_999] {
                let tail = (1.0 - row_confidence(rows, confidence)) / 2.0;
                let median = median_tail(rows, tail);
                let missed = (1.0 - confidence) / 2.0;
                assert!(median <= missed * (1.0 + 1e-9) && median > missed * 0.999_99, "{rows} {confidence}");
            }
        }
    }

    #[test]
    fn equal_terms_are_counted() {
        assert_eq!(terms(&RowLaw::Sum(vec![(2.0, 7)])), 7);
        assert_eq!(terms(&RowLaw::Sum(vec![(1.0, 3), (1.0, 4)])), 7);
        assert_eq!(terms(&RowLaw::Like { norm_squared: 2.0, terms: 9 }), 9);
    }
}
