//! Quantiles with bounds that hold for all keys of a step at once.
//!
//! Let `C(x)` be the exact number of keys below `x` and `N` the number of all keys. The `q`-quantile is the least key
//! `k` with `C(k+1) ≥ q N`. `D(x) = C(x) - q N` rises with `x`; its estimate `D̂(x)` is a sum of nodes with weights,
//! and does not rise strictly.
//!
//! **Bounds.** Let `band(x)` be such that `P(D̂(x) - D(x) > band(x)) ≤ α/(2·2^bits)`, and the same below. By the union
//! bound all `2^bits` keys are within their bands at once with probability at least `1 - α`, so it does not matter
//! which of them a search reads, nor that it chooses them adaptively. This holds for one `q` and one step, chosen
//! without looking at the noise of that step: among many steps some miss, and a step that was chosen because it looks
//! odd may be one of these. If `D̂(x) + band(x) < 0`, then `D(x) < 0` and `k ≥ x`; if `D̂(x) - band(x) ≥ 0`, then
//! `D(x) ≥ 0` and `k < x`. Three bisections, for `D̂ + band`, `D̂` and `D̂ - band`, give the lower end, the estimate
//! and the upper end: whenever the first bisection goes right, so do the others, so the three are in order.
//!
//! **Band.** By Chernoff's bound. A sum of noises with squared weights that sum to `V` is beyond `t` with probability
//! at most `exp(-t²/(2Vσ²))` for discrete Gaussian noise of parameter `σ²`, as each has the moment generating function
//! of the continuous law as a bound (Canonne, Kamath, Steinke 2020, corollary 17). For discrete Laplace noise of scale
//! `s` the same holds: `E e^{θX} = 1/(1 - (cosh θ - 1)/(cosh(1/s) - 1)) ≤ 1/(1 - s²θ²)`, because `(cosh x - 1)/x²`
//! rises. As `-ln(1 - w²y)` is convex in `w²` and 0 at 0, weights up to 1 give
//! `P(sum ≥ t) ≤ exp(-tθ - V ln(1 - s²θ²))`, for any `0 < θ < 1/s`. Skellam noise, which lazy plans draw instead of
//! discrete Gaussian noise on a grid where a cell's variance `m` is at least `2^34`, has
//! `ln E e^{θX} = m (cosh θ - 1)`; in the same way squared weights add up, in units of the largest, to at least 1. At
//! the Gaussian bound's `θ`, below `10^-4`, `cosh θ - 1 < (θ²/2)(1 + 10^-9)`: the bound is the Gaussian one up to that
//! factor. The rounding of releases, half a unit per node, is added.

use super::queries::{Nodes, weighted};
use super::{Estimate, Quantile};
use crate::mechanism::RowLaw;
use crate::plan::NoiseKind;
use crate::stream::{LazyPlan, LazySampling};
use crate::{Error, Result};

/// `t` with `P(Σ w z > t) ≤ p` for noise of single cells at a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellTail {
    kind: NoiseKind,
    /// Scale of the largest Laplace variable in a cell, or standard deviation of its Gaussian noise, in units of the
    /// data.
    scale: f64,
    /// Sum of the squared weights of a cell's noise variables, in those units.
    squared: f64,
    /// The error that rounding adds to a cell.
    rounding: f64,
    /// `ln 1/p`.
    surprise: f64,
}

impl CellTail {
    pub(super) fn new(plan: &LazyPlan, step: u64, surprise: f64) -> Self {
        let (lazy, plan) = (plan, plan.plan());
        let grid = plan.request().grid().to_f64(1);
        let variable = plan.law().scale() / plan.noise_divisor() as f64 * grid;
        let norm_squared = plan.mechanism().row_norm_squared(step);
        let (scale, squared) = match plan.noise_kind() {
            // The parameter of the discrete law, or the variance of the noise drawn instead.
            NoiseKind::Gaussian => ((variable * norm_squared.sqrt()).max(lazy.std_error(step)), 1.0),
            NoiseKind::Laplace => {
                let largest = match plan.mechanism().row_law(step) {
                    RowLaw::Sum(terms) => terms.iter().map(|(weight, _)| *weight).fold(0.0, f64::max),
                    // Not smaller than the largest weight.
                    RowLaw::Like { norm_squared, .. } => norm_squared.sqrt(),
                };
                (variable * largest, norm_squared / (largest * largest))
            }
        };
        // Exact noise in whole steps of the grid is not rounded.
        let whole = lazy.fraction_bits() == 0 && lazy.sampling() != LazySampling::Float;
        let rounding = if whole { 0.0 } else { grid * libm::exp2(-f64::from(lazy.fraction_bits()) - 1.0) };
        Self { kind: plan.noise_kind(), scale, squared, rounding, surprise }
    }

    /// For cells with these weights, none above 1 in absolute value: the sums of their squares and of their absolute
    /// values.
    pub(super) fn bound(&self, squares: f64, sizes: f64) -> f64 {
        let squared = squares * self.squared;
        let unit = match self.kind {
            NoiseKind::Gaussian => (2.0 * squared * self.surprise).sqrt(),
            NoiseKind::Laplace => laplace(squared, self.surprise),
        };
        // Rounded up: for Skellam noise, and because the formulas are right to a few units in the last place.
        (self.scale * unit + self.rounding * sizes) * (1.0 + 1e-8)
    }
}

/// The minimum of `(λ - V ln(1 - θ²))/θ` over `0 < θ < 1`, by ternary search: the function falls, then rises. Any θ
/// gives a bound.
fn laplace(squared: f64, surprise: f64) -> f64 {
    let bound = |theta: f64| (surprise - squared * libm::log1p(-theta * theta)) / theta;
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..80 {
        let third = (high - low) / 3.0;
        if bound(low + third) < bound(high - third) { high -= third } else { low += third }
    }
    bound(0.5 * (low + high))
}

/// The `q`-quantile of a tree's keys, and keys that bound it.
pub(super) fn quantile(nodes: &mut impl Nodes, q: f64, tail: CellTail) -> Result<Quantile> {
    let mut end = |sign: f64| {
        let (mut low, mut high) = (0u64, 1u64 << nodes.tree().bits());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let (estimate, band) = excess(nodes, middle, q, &tail)?;
            if estimate.value + sign * band < 0.0 { low = middle } else { high = middle }
        }
        Ok::<_, Error>(low)
    };
    let (lower, key, upper) = (end(1.0)?, end(0.0)?, end(-1.0)?);
    Ok(Quantile { step: nodes.closed(), key, lower, upper })
}

/// `D̂(x)` and its band.
fn excess(nodes: &mut impl Nodes, below: u64, q: f64, tail: &CellTail) -> Result<(Estimate, f64)> {
    let tree = nodes.tree();
    let mut terms: Vec<_> =
        tree.cover(&(0..u128::from(below))).into_iter().map(|(node, weight)| (node, f64::from(weight))).collect();
    match terms.iter_mut().find(|(node, _)| *node == tree.root()) {
        Some((_, weight)) => *weight -= q, // from 1, so it stays within -1 .. 1
        None => terms.push((tree.root(), -q)),
    }
    let (squares, sizes) = terms.iter().fold((0.0, 0.0), |(s, a), (_, w)| (s + w * w, a + w.abs()));
    Ok((weighted(nodes, terms.into_iter())?, tail.bound(squares, sizes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chernoff's bound is above the exact quantile of Laplace sums (by the tail of `median`'s module) and not far
    /// above it.
    #[test]
    fn laplace_bounds_are_above_exact_quantiles() {
        for n in [1u32, 2, 7, 40] {
            for p in [1e-3, 1e-9, 1e-14] {
                let bound = laplace(f64::from(n), -f64::ln(p));
                let reached = super::super::median::laplace_tail(n.into(), bound);
                assert!(reached <= p && reached > p * 1e-3, "{n} {p}: {reached}");
            }
        }
    }
}
