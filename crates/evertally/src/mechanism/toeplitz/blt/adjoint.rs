//! Derivatives of a function of a BLT's responses, by reverse accumulation.

use crate::mechanism::state_space::response::{BufferRow, Modes, PartialFractions, Pole, joined};

/// The number of terms of a geometric sum, with `1 - θ_i^n`.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub(super) n: f64,
    pub(super) decayed: BufferRow,
}

/// Derivatives by everything a [`PartialFractions`] holds, and by `1 - θ` and `-ln θ` of the poles as if they were
/// independent.
#[derive(Default)]
pub(super) struct Adjoint {
    pub(super) direct: ByPoles,
    inverse: ByPoles,
    pub(super) echoes: BufferRow,
    pub(super) lambda: BufferRow,
    pub(super) floor: f64,
}

/// Derivatives by the poles of one response.
#[derive(Default)]
pub(super) struct ByPoles {
    pub(super) q: BufferRow,
    pub(super) a: BufferRow,
}

impl ByPoles {
    /// Adds the derivatives of `square Σ w_i w_j V_ij + Σ linear_i w_j V_ij` with `V_ij = Σ_{s<n} (θ_i θ_j)^s`, by the
    /// poles here and by the weights `w` to `by_weight`.
    pub(super) fn add_quadratic(
        &mut self,
        modes: &Modes,
        terms: Terms,
        square: f64,
        linear: &BufferRow,
        by_weight: &mut BufferRow,
    ) {
        let Modes { weights, poles, pairs } = modes;
        let Terms { n, decayed } = terms;
        for i in 0..poles.len() {
            let mut by_decay = 0.0;
            for (j, other) in poles.iter().enumerate() {
                let covariance = joined(decayed[i], decayed[j]) * pairs[i][j];
                by_weight[i] += (2.0 * square * weights[j] + linear[j]) * covariance;
                // V_ij and V_ji are one number.
                let share = (2.0 * square * weights[i] + linear[i]) * weights[j] + linear[j] * weights[i];
                by_decay += share * (1.0 - decayed[j]) * pairs[i][j];
                self.q[i] -= share * covariance * (1.0 - other.q) * pairs[i][j];
            }
            self.a[i] += by_decay * n * (1.0 - decayed[i]);
        }
    }
}

impl Adjoint {
    /// Adds `factor` times the derivatives of the squared column norm of `entries.n + 1` entries.
    pub(super) fn add_column(&mut self, response: &PartialFractions, entries: Terms, factor: f64) {
        self.direct.add_quadratic(&response.direct, entries, factor, &BufferRow::default(), &mut self.echoes);
    }

    /// Adds the derivatives of `square Σ λ_i λ_j V_ij + Σ linear_i λ_j V_ij` after `steps.n` steps.
    pub(super) fn add_couplings(&mut self, response: &PartialFractions, steps: Terms, square: f64, linear: &BufferRow) {
        self.inverse.add_quadratic(&response.inverse, steps, square, linear, &mut self.lambda);
    }

    /// Adds the derivative by `1 - θ̂_i^m`, whose own derivative by `-ln θ̂_i` is `by_rate`, and one by `1 - θ̂_i` for
    /// its direct occurrences.
    pub(super) fn add_decay(&mut self, i: usize, by_decay: f64, by_rate: f64, by_gap: f64) {
        self.inverse.a[i] += by_decay * by_rate;
        self.inverse.q[i] += by_gap;
    }

    /// The derivatives by the rates `-ln θ` of all poles, in ascending order.
    pub(super) fn of_rates(mut self, response: &PartialFractions) -> Vec<f64> {
        self.resolve_residues(response);
        let chained = |by: &ByPoles, modes: &Modes, i: usize| by.q[i] * (1.0 - modes.poles[i].q) + by.a[i];
        let pair = |i| [chained(&self.direct, &response.direct, i), chained(&self.inverse, &response.inverse, i)];
        (0..response.direct.poles.len()).flat_map(pair).collect()
    }

    /// Residues are products of differences of gaps: logarithmic derivatives.
    fn resolve_residues(&mut self, response: &PartialFractions) {
        let PartialFractions { direct, inverse, floor } = response;
        let by_floor = self.floor * floor;
        for i in 0..direct.poles.len() {
            let by_echo = self.echoes[i] * direct.weights[i];
            add_echo(by_echo, i, (&direct.poles, &mut self.direct.q), (&inverse.poles, &mut self.inverse.q));
            let by_lambda = self.lambda[i] * inverse.weights[i];
            add_echo(by_lambda, i, (&inverse.poles, &mut self.inverse.q), (&direct.poles, &mut self.direct.q));
            self.inverse.q[i] -= (by_lambda + by_floor) / inverse.poles[i].q;
            self.direct.q[i] += by_floor / direct.poles[i].q;
        }
    }
}

/// Adds `by_log` times the derivatives of `ln (Π_k (r_k - p_i) / Π_{k≠i} (p_k - p_i))`.
fn add_echo(
    by_log: f64,
    i: usize,
    (own, by_own): (&[Pole], &mut BufferRow),
    (others, by_others): (&[Pole], &mut BufferRow),
) {
    for k in 0..own.len() {
        let share = by_log / (others[k].q - own[i].q);
        by_others[k] += share;
        by_own[i] -= share;
        if k != i {
            let share = by_log / (own[k].q - own[i].q);
            by_own[k] -= share;
            by_own[i] += share;
        }
    }
}
