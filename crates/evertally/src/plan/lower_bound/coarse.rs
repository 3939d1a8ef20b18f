//! The bound by few patterns and few steps, with the best weights.
//!
//! Patterns that begin in the steps `s_l = 1 + ⌊(l-1) T/N⌋`, with `c` events in every `b`-th step from there on, and
//! releases of the steps `T + 1 - s_l`. The events of a pattern that a release counts depend only on the steps between
//! them, so the matrix is symmetric if its rows are reversed, `H_al = f(T + 1 - s_a - s_l + 1)`, and with the same
//! weights for both its nuclear norm is the sum of the absolute eigenvalues of `V^½ H V^½`. It is concave in the
//! weights; `v_l ← v_l (Σ |λ| U_l² / v_l)^a`, normalised, climbs to its maximum. Any weights give a bound.

use super::symmetric::Symmetric;
use crate::number::power;
use crate::privacy::Spread;

/// Maximum number of patterns.
const PATTERNS: u64 = 64;
/// Rounds of the iteration.
const ROUNDS: usize = 14;
/// The exponent `a`.
const POWER: f64 = 1.5;

/// The largest nuclear norm found.
pub(super) fn bound(horizon: u64, spread: Spread) -> f64 {
    let count = horizon.min(PATTERNS);
    let first = |l: u64| (u128::from(l) * u128::from(horizon) / u128::from(count)) as u64;
    let counted = |a: usize, l: usize| {
        let between = horizon.saturating_sub(first(a as u64) + first(l as u64));
        spread.per_step.saturating_mul(between.div_ceil(spread.separation)).min(spread.per_group) as f64
    };
    let count = count as usize;
    let mut weights = vec![1.0 / count as f64; count];
    let mut vectors = None;
    let mut best = 0.0f64;
    for _ in 0..ROUNDS {
        let root: Vec<f64> = weights.iter().map(|v| libm::sqrt(*v)).collect();
        let entry = |a: usize, l: usize| root[a] * counted(a, l) * root[l];
        let spectrum = Symmetric::new(count, entry).diagonalised(vectors.take());
        let nuclear: f64 = spectrum.values.iter().map(|value| value.abs()).sum();
        best = best.max(nuclear);
        let share = |l: usize| {
            let own = |k: usize| spectrum.values[k].abs() * power(spectrum.vector(k)[l], 2);
            (0..count).map(own).sum::<f64>()
        };
        // v (d/nuclear)^a with d = share/v: no division by a weight that has vanished.
        let raised = |(l, v): (usize, &f64)| v * libm::pow(share(l) / (nuclear * v.max(1e-300)), POWER);
        let next: Vec<f64> = weights.iter().enumerate().map(raised).collect();
        let total: f64 = next.iter().sum();
        weights = next.into_iter().map(|v| v / total).collect();
        vectors = Some(spectrum);
    }
    // Headroom for the rounding of the eigenvalues.
    best * (1.0 - 1e-9)
}
