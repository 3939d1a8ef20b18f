//! The norm of the bound by [patterns](super::patterns) with proven rounding.

use super::eigenvalues::{Eigenvalues, row_start};
use crate::mechanism::weighted_gram;
use crate::number::lanes::dot;

/// Weight of each single step, which is a pattern, too: no pivot of `M` vanishes.
pub(super) const SINGLE: f64 = 1e-12;
/// Margin for other rounding, in units of `T³ ε`: that of the factor `F` changes `tr(M X)` by at most `T² k u` of `s²`,
/// and that of its sums changes the norm by at most `T² √k u`.
const MARGIN: f64 = 4.0;

/// The nuclear norm of `P^½ A F` for a mean `M = F Fᵀ`, row after row, rounded down. Up to 1024 steps, `O(T³)`.
pub(super) fn nuclear_norm(mut mean: Vec<f64>, rows: &[f64]) -> f64 {
    let steps = rows.len();
    (0..steps).for_each(|t| mean[t * steps + t] += SINGLE);
    let factor = cholesky(mean, steps);
    let mut sums: Vec<f64> = (0..steps).flat_map(|t| factor[t * steps..=t * steps + t].iter().copied()).collect();
    for step in 1..steps {
        let (before, own) = sums.split_at_mut(row_start(step));
        own.iter_mut().zip(&before[row_start(step - 1)..]).for_each(|(own, before)| *own += before);
    }
    let found = Eigenvalues::new(weighted_gram(&sums, |t| rows[t], steps), steps);
    // The products of rows were rounded, too.
    let trace: f64 = found.values.iter().map(|value| value.abs()).sum();
    let error = found.error + 2.0 * steps as f64 * f64::EPSILON * trace;
    let nuclear: f64 = found.values.iter().map(|value| libm::sqrt((value - error).max(0.0))).sum();
    // Single steps were added, and pivots that vanish have the same weight.
    let margin = MARGIN * (steps * steps * steps) as f64 * f64::EPSILON;
    nuclear / libm::sqrt(1.0 + 2.0 * SINGLE * steps as f64) * (1.0 - margin)
}

/// The lower triangular `F` with `F Fᵀ = M`, row after row.
pub(super) fn cholesky(mut m: Vec<f64>, steps: usize) -> Vec<f64> {
    for i in 0..steps {
        let (before, own) = m.split_at_mut(i * steps);
        for j in 0..i {
            let above = &before[j * steps..=j * steps + j];
            own[j] = (own[j] - dot(&own[..j], &above[..j])) / above[j];
        }
        own[i] = libm::sqrt((own[i] - dot(&own[..i], &own[..i])).max(SINGLE));
        own[i + 1..steps].fill(0.0);
    }
    m
}
