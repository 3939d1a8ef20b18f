//! The square root of the prefix-sum matrix, and the same with columns scaled to one length.
//!
//! `√A` is the lower triangular Toeplitz matrix with coefficients `f_0 = 1`, `f_j = f_{j-1}(2j-1)/(2j)`; `√A √A = A`
//! (Fichtenberger, Henzinger, Upadhyay 2023, arXiv 2202.11205; Henzinger, Upadhyay, Upadhyay 2023, arXiv 2211.05006).
//!
//! * `sqrt`: `L = R = √A`;
//! * `normalized-sqrt`: `R = √A D⁻¹` with `D` the column norms of `√A`, so that every step is equally protected, and
//!   `L = A D √A⁻¹`.
//!
//! **Exact release.** `R` is rounded to integers: `R̃_tj = F_{t-j} W_j` with `F_j ≈ 2^16 f_j` and `W_j ≈ 2^14 D_T / D_j` (1
//! for `sqrt`). The node sums `R̃ x` are integers, protected by integer noise `z`, and the columns of `R̃` give their exact
//! sensitivity. The release is `L̃ (R̃ x + z)` with `L̃ = A R̃⁻¹` exactly, hence `A x + L̃ z`: the exact prefix sum plus a
//! number that depends on the noise alone. That number is rounded to `2^-8` of the grid **correctly** (see [`Filter`]),
//! and as `A x` is a whole number, rounding the noise is rounding the release: post-processing of `R̃ x + z`.
//!
//! The figures are those of the unrounded matrices; the rounding moves them by less than one part in 10³.

use super::filter::{Filter, Rows, WEIGHT_BITS};
use super::rounding::FRACTION_BITS;
use super::row_norms::RowNorms;
use super::{ColumnNorms, Cursor, DensePair, Matrix, Mechanism, RowLaw, Spread, check_horizon};
use crate::Result;
use crate::noise::Node;
use std::sync::Arc;

/// The square-root factorization, plain or with normalized columns.
#[derive(Clone, Debug)]
pub struct SquareRoot {
    normalized: bool,
    /// `f_j` for `j < T`.
    coefficients: Arc<[f64]>,
    /// `D_j`, the column norms of `√A` (all 1 for the plain factorization, which does not use them).
    scales: Arc<[f64]>,
    /// `‖L_t‖²`.
    row_norms: RowNorms,
    /// `F_j`.
    rounded: Arc<[u32]>,
    /// The same for the filter.
    rows: Rows,
    /// `W_j`.
    weights: Arc<[u32]>,
}

/// Longest horizon of the plain square root: a step costs `O(T)`.
const MAX_HORIZON: u64 = 1 << 20;
/// Longest horizon of the normalized one, whose figures cost `O(T²)`.
const MAX_NORMALIZED: u64 = 1 << 14;
/// Bits of the integer coefficients `F`.
const COEFFICIENT_BITS: u32 = 16;

impl SquareRoot {
    /// `L = R = √A` over `horizon` steps, 1 ..= 2^20. `O(T)` time and memory, and `O(T)` for each step released.
    pub fn new(horizon: u64) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "sqrt")?;
        let coefficients = coefficients(horizon);
        let row_norms = prefix_sums(&coefficients);
        let scales = vec![1.0; coefficients.len()];
        Ok(Self::assemble(false, coefficients, scales, row_norms))
    }

    /// The normalized factorization over `horizon` steps, 1 ..= 2^14. `O(T²)` to build.
    pub fn normalized(horizon: u64) -> Result<Self> {
        check_horizon(horizon, MAX_NORMALIZED, "normalized-sqrt")?;
        let coefficients = coefficients(horizon);
        let mut scales: Vec<f64> = prefix_sums(&coefficients).into_iter().map(f64::sqrt).collect();
        scales.reverse();
        let row_norms = normalized_row_norms(&coefficients, &scales);
        Ok(Self::assemble(true, coefficients, scales, row_norms))
    }

    fn assemble(normalized: bool, coefficients: Vec<f64>, scales: Vec<f64>, row_norms: Vec<f64>) -> Self {
        let unit = f64::from(1 << COEFFICIENT_BITS);
        let rounded: Arc<[u32]> = coefficients.iter().map(|f| (f * unit).round() as u32).collect();
        let last = scales.last().copied().unwrap_or(1.0);
        let weight = |d: &f64| if normalized { (f64::from(1 << WEIGHT_BITS) * last / d).round() as u32 } else { 1 };
        let weights = scales.iter().map(weight).collect();
        Self {
            normalized,
            coefficients: coefficients.into(),
            scales: scales.into(),
            row_norms: RowNorms::new(row_norms),
            rows: Rows::toeplitz(&rounded),
            rounded,
            weights,
        }
    }

    /// `Σ_{k<n} F_k F_{k+lag}` for `n = T - lag`: the inner product of two columns of the Toeplitz part.
    fn correlation(&self, lag: usize) -> u128 {
        let products = self.rounded.iter().zip(&self.rounded[lag..]).map(|(a, b)| u64::from(*a) * u64::from(*b));
        products.map(u128::from).sum()
    }

    /// The largest of some sum over the columns, where column `j` has the first `T - j` coefficients, times `W_j^power`.
    fn largest_column(&self, power: u32, term: impl Fn(u128) -> u128) -> u128 {
        let (mut sum, mut largest) = (0, 0);
        for (f, w) in self.rounded.iter().zip(self.weights.iter().rev()) {
            sum += term(u128::from(*f));
            largest = largest.max(sum * u128::from(*w).pow(power));
        }
        largest
    }
}

/// `f_0 … f_{T-1}`.
fn coefficients(horizon: u64) -> Vec<f64> {
    let mut f = 1.0;
    (0..horizon)
        .map(|j| {
            if j > 0 {
                f *= (2 * j - 1) as f64 / (2 * j) as f64;
            }
            f
        })
        .collect()
}

/// `Σ_{j ≤ t} f_j²`.
fn prefix_sums(coefficients: &[f64]) -> Vec<f64> {
    let add = |sum: &mut f64, f: &f64| {
        *sum += f * f;
        Some(*sum)
    };
    coefficients.iter().scan(0.0, add).collect()
}

/// The inverse of `√A`: Toeplitz with coefficients 1 and `-f_j / (2j-1)`.
fn inverse_coefficient(coefficients: &[f64], j: usize) -> f64 {
    if j == 0 { 1.0 } else { -coefficients[j] / (2 * j - 1) as f64 }
}

/// `‖L_t‖²` of `L = A D √A⁻¹`: `L_tj = Σ_{k=j..t} D_k r_{k-j}`.
fn normalized_row_norms(coefficients: &[f64], scales: &[f64]) -> Vec<f64> {
    let inverse: Vec<f64> = (0..coefficients.len()).map(|j| inverse_coefficient(coefficients, j)).collect();
    let mut norms = vec![0.0; scales.len()];
    for j in 0..scales.len() {
        let mut entry = 0.0;
        for ((norm, d), r) in norms[j..].iter_mut().zip(&scales[j..]).zip(&inverse) {
            entry += d * r;
            *norm += entry * entry;
        }
    }
    norms
}

impl Mechanism for SquareRoot {
    fn name(&self) -> String {
        if self.normalized { "normalized-sqrt" } else { "sqrt" }.into()
    }

    fn horizon(&self) -> u64 {
        self.coefficients.len() as u64
    }

    fn column_norms(&self) -> ColumnNorms {
        // Column j has T - j coefficients over D_j; the plain columns are longest at j = 0.
        let (mut l1, mut l2, mut largest) = (0.0, 0.0, ColumnNorms { l1: 0.0, l2_squared: 0.0 });
        for (f, d) in self.coefficients.iter().zip(self.scales.iter().rev()) {
            (l1, l2) = (l1 + f, l2 + f * f);
            largest.l1 = largest.l1.max(l1 / d);
            largest.l2_squared = largest.l2_squared.max(l2 / (d * d));
        }
        largest
    }

    fn noise_bits(&self) -> u32 {
        COEFFICIENT_BITS + if self.normalized { WEIGHT_BITS } else { 0 }
    }

    fn l1_column_sum(&self) -> u128 {
        self.largest_column(1, |f| f)
    }

    /// In squared units of `2^-noise_bits`, exactly. Where a step holds fewer events than all, the plain factorization
    /// uses that two columns `d` steps apart have an inner product of at most `G_d` (that of the first and the `d+1`-st):
    /// `‖R̃ u‖² = Σ u_i u_j G_ij ≤ total · per_step · (G_0 + 2 Σ_{0<d≤n} G_d)` with `2n + 1 ≥ total / per_step`, since `G_d`
    /// falls with `d`.
    fn capped_column_sum(&self, spread: Spread) -> u128 {
        let total = u128::from(spread.total);
        let together = total * self.largest_column(2, |f| f * f);
        let reach = ((spread.total.div_ceil(spread.per_step) / 2) as usize).min(self.rounded.len() - 1);
        let cheap = reach.saturating_mul(self.rounded.len()) < 1 << 28;
        if self.normalized || spread.per_step == spread.total || !cheap {
            return together;
        }
        let apart: u128 = (1..=reach).map(|lag| 2 * self.correlation(lag)).sum();
        together.min(u128::from(spread.per_step) * (self.correlation(0) + apart))
    }

    fn exact_l2_squared(&self) -> Option<f64> {
        Some(self.column_norms().l2_squared) // L is square
    }

    fn random_access(&self) -> bool {
        false
    }

    fn row_norm_squared(&self, step: u64) -> f64 {
        self.row_norms.at(step)
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.row_norms.max()
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.row_norms.mean()
    }

    /// Under Gaussian noise, the only one, the number of terms does not matter.
    fn row_law(&self, step: u64) -> RowLaw {
        RowLaw::Like { norm_squared: self.row_norm_squared(step), terms: 1 }
    }

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let t = step as usize - 1;
        for j in 0..=t {
            let entry = if self.normalized {
                (j..=t).map(|k| self.scales[k] * inverse_coefficient(&self.coefficients, k - j)).sum()
            } else {
                self.coefficients[t - j]
            };
            visit(Node { level: 0, index: j as u64 }, entry);
        }
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        (1, node.index + 1)
    }

    fn fraction_bits(&self) -> u32 {
        FRACTION_BITS
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(Filter::new(self.rows.clone(), self.normalized.then(|| self.weights.clone())))
    }

    fn draws_per_step(&self) -> f64 {
        1.0
    }

    fn memory_words(&self) -> u64 {
        5 * self.horizon()
    }

    fn dense(&self) -> DensePair {
        let mut pair = DensePair::of(self);
        let steps = self.coefficients.len();
        pair.r = Matrix::zeros(steps, steps);
        for t in 0..steps {
            for j in 0..=t {
                pair.r.set(t, j, self.coefficients[t - j] / self.scales[j]);
            }
        }
        pair
    }
}

#[cfg(test)]
mod tests;
