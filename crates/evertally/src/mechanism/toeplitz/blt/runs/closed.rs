//! The norms of patterns of columns in closed form, with their derivatives: for searches.
//!
//! With `W_i = Σ_{m<k} θ_i^(mb)` the sum of the `k` columns decays as `Σ_i ω_i W_i θ_i^y` after the last one has begun,
//! so `N(x)² = N(0)² + Σ_ij ω_i W_i ω_j W_j Σ_{s<x} (θ_i θ_j)^s`.

use super::ColumnSums;
use crate::mechanism::Participation;
use crate::mechanism::state_space::response::{BufferRow, Modes, joined, row};
use crate::mechanism::toeplitz::blt::adjoint::{Adjoint, Terms};

/// `N(0)²` is a sum over all rows of a pattern, if it has at most this many.
const MAX_SUMMED_ROWS: u64 = 64;

/// `N(x)²` in closed form, for searches: it cancels if poles are much slower than the pattern is long.
pub(in crate::mechanism::toeplitz::blt) struct Closed<'a> {
    modes: &'a Modes,
    runs: Participation,
    before: f64,
    whole: BufferRow,
}

impl<'a> Closed<'a> {
    pub(in crate::mechanism::toeplitz::blt) fn new(modes: &'a Modes, runs: Participation) -> Self {
        let (most, separation) = (runs.most(), runs.separation());
        let before = if most.saturating_mul(separation) <= MAX_SUMMED_ROWS {
            super::last_squared(modes, runs)
        } else {
            closed_before(modes, most as f64, separation as f64)
        };
        Self::after(modes, runs, before)
    }

    /// The same with a known `N(0)²`: no sum cancels.
    pub(super) fn after(modes: &'a Modes, runs: Participation, before: f64) -> Self {
        let sums = ColumnSums::new(modes, runs.separation());
        let whole = row((0..modes.poles.len()).map(|i| sums.columns(i, runs.most())));
        Self { modes, runs, before, whole }
    }

    /// `N(x)²`.
    pub(in crate::mechanism::toeplitz::blt) fn at(&self, x: f64) -> f64 {
        let decayed = self.modes.decayed(x);
        let loud = |i: usize| self.modes.weights[i] * self.whole[i];
        let term = |i: usize, j: usize| loud(i) * loud(j) * joined(decayed[i], decayed[j]) * self.modes.pairs[i][j];
        let count = self.modes.poles.len();
        self.before + (0..count).map(|i| (0..count).map(|j| term(i, j)).sum::<f64>()).sum::<f64>()
    }

    /// Adds the derivatives of `Σ share · N(x)²` over pairs of `x` and a share.
    pub(in crate::mechanism::toeplitz::blt) fn add_derivatives(
        &self,
        points: impl Iterator<Item = (f64, f64)>,
        adjoint: &mut Adjoint,
    ) {
        let Self { modes, runs, whole, .. } = self;
        let loud = Modes { weights: row(modes.weights.iter().zip(whole).map(|(w, n)| w * n)), ..(*modes).clone() };
        let (mut total, mut by_loud) = (0.0, BufferRow::default());
        for (x, share) in points {
            let rows = Terms { n: x, decayed: modes.decayed(x) };
            adjoint.direct.add_quadratic(&loud, rows, share, &BufferRow::default(), &mut by_loud);
            total += share;
        }
        let sums = ColumnSums::new(modes, runs.separation());
        for i in 0..modes.poles.len() {
            adjoint.echoes[i] += by_loud[i] * whole[i];
            adjoint.direct.a[i] += by_loud[i] * modes.weights[i] * sums.slope(i, runs.most());
        }
        if runs.most().saturating_mul(runs.separation()) <= MAX_SUMMED_ROWS {
            sums.add_derivatives(*runs, total, adjoint);
        } else {
            add_derivatives_before(modes, *runs, total, adjoint);
        }
    }
}

/// `Σ_{n≤k} S_n(0)² + Σ_{n<k} Σ_{0<r<b} S_n(r)²` with `S_n(r) = Σ_{i<n} c_(r+ib)`.
fn closed_before(modes: &Modes, most: f64, separation: f64) -> f64 {
    let count = modes.poles.len();
    let apart = modes.decayed(separation);
    let loud = row((0..count).map(|i| modes.weights[i] / apart[i]));
    let rates = row(modes.poles.iter().map(|pole| pole.a));
    // Σ_{n<k} θ^(nb).
    let geometric = |rate: f64| {
        let (once, all) = (-libm::expm1(-rate * separation), -libm::expm1(-rate * separation * (most - 1.0)));
        (1.0 - once) * all / once
    };
    let single = row(rates[..count].iter().map(|rate| geometric(*rate)));
    let first = row((0..count).map(|i| loud[i] * libm::exp(-(separation - 1.0) * rates[i])));
    let mut sum = most;
    for i in 0..count {
        sum += 2.0 * first[i] * (most - 1.0 - single[i]);
        for j in 0..count {
            let double = most - 1.0 - single[i] - single[j] + geometric(rates[i] + rates[j]);
            sum += first[i] * first[j] * double;
            let within = -libm::expm1(-(rates[i] + rates[j]) * (separation - 1.0)) * modes.pairs[i][j];
            sum += loud[i] * loud[j] * within * double;
        }
    }
    sum
}

impl ColumnSums<'_> {
    /// The derivative of `Σ_{m<n} θ^(mb)` by `-ln θ`.
    fn slope(&self, i: usize, n: u64) -> f64 {
        let (n, apart) = (n as f64, self.apart[i]);
        let decayed = self.modes.poles[i].decayed(n * self.separation);
        self.separation * (n * (1.0 - decayed) - decayed / apart * (1.0 - apart)) / apart
    }

    /// Adds `share` times the derivatives of `N(0)²`, row by row.
    fn add_derivatives(&self, runs: Participation, share: f64, adjoint: &mut Adjoint) {
        let (most, separation, poles) = (runs.most(), runs.separation(), &self.modes.poles);
        for n in 1..=most {
            for r in 0..if n == most { 1 } else { separation } {
                let (from, count) = if r == 0 { (separation - 1, n - 1) } else { (r - 1, n) };
                if count == 0 {
                    continue;
                }
                let by_sum = 2.0 * share * self.at(r, n);
                for (i, pole) in poles.iter().enumerate() {
                    let by_echo = by_sum * libm::exp(-(from as f64) * pole.a);
                    let columns = self.columns(i, count);
                    adjoint.echoes[i] += by_echo * columns;
                    let slope = self.slope(i, count) - from as f64 * columns;
                    adjoint.direct.a[i] += by_echo * self.modes.weights[i] * slope;
                }
            }
        }
    }
}

/// Adds `share` times the derivatives of [`closed_before`], which is
/// `k + 2 Σ l_i θ_i^(b-1) f_i + Σ_ij l_i l_j V_ij f_ij` with `l = ω/(1-θ^b)`, `V_ij = Σ_{s<b} (θ_i θ_j)^s`,
/// `f_i = Σ_{n<k} (1-θ_i^(nb))` and `f_ij = Σ_{n<k} (1-θ_i^(nb)) (1-θ_j^(nb))`.
fn add_derivatives_before(modes: &Modes, runs: Participation, share: f64, adjoint: &mut Adjoint) {
    let (separation, steps) = (runs.separation() as f64, (runs.most() - 1) as f64);
    let (count, apart) = (modes.poles.len(), modes.decayed(separation));
    let loud = row((0..count).map(|i| modes.weights[i] / apart[i]));
    let of_rate = |rate: f64| PowerSums::new(rate * separation, steps);
    let single = modes.poles.iter().map(|pole| of_rate(pole.a)).collect::<Vec<_>>();
    for (i, pole) in modes.poles.iter().enumerate() {
        let first = 2.0 * share * libm::exp(-(separation - 1.0) * pole.a);
        let falling = steps - single[i].sum;
        let mut by_loud = first * falling;
        let mut by_rate = first * loud[i] * (separation * single[i].weighted - (separation - 1.0) * falling);
        for (j, other) in modes.poles.iter().enumerate() {
            let both = of_rate(pole.a + other.a);
            let rows = joined(apart[i], apart[j]) * modes.pairs[i][j];
            let columns = steps - single[i].sum - single[j].sum + both.sum;
            // Of the two equal terms of a pair.
            let by_pair = 2.0 * share * loud[j];
            by_loud += by_pair * rows * columns;
            let by_rows = by_pair * loud[i] * columns * modes.pairs[i][j];
            by_rate += by_rows * (1.0 - apart[j]) * separation * (1.0 - apart[i]);
            adjoint.direct.q[i] -= by_rows * rows * (1.0 - other.q);
            by_rate += by_pair * loud[i] * rows * separation * (single[i].weighted - both.weighted);
        }
        adjoint.echoes[i] += by_loud / apart[i];
        adjoint.direct.a[i] += by_rate - by_loud * loud[i] * separation * (1.0 - apart[i]) / apart[i];
    }
}

/// Sums of the powers `u^n`, `n` from 1 to `m`, of `u = e^(-rate)`.
struct PowerSums {
    /// `Σ u^n`.
    sum: f64,
    /// `Σ n u^n`.
    weighted: f64,
}

impl PowerSums {
    fn new(rate: f64, m: f64) -> Self {
        let (once, all) = (-libm::expm1(-rate), -libm::expm1(-rate * m));
        let sum = (1.0 - once) * all / once;
        Self { sum, weighted: (sum - m * (1.0 - once) * (1.0 - all)) / once }
    }
}
