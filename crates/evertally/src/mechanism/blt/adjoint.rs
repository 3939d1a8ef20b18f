//! Derivatives of a function of a BLT's responses, collected against the flow of the computation.

use super::response::{Pole, Response, joined};

/// Derivatives by everything a [`Response`] holds, and by `1 - θ` and `-ln θ` of the poles as if they were independent.
pub(super) struct Adjoint {
    direct: ByPoles,
    inverse: ByPoles,
    echoes: Vec<f64>,
    pub(super) lambda: Vec<f64>,
    pub(super) floor: f64,
}

/// Derivatives by the poles of one response.
struct ByPoles {
    q: Vec<f64>,
    a: Vec<f64>,
}

impl ByPoles {
    fn new(count: usize) -> Self {
        Self { q: vec![0.0; count], a: vec![0.0; count] }
    }

    /// Adds the derivatives of `square Σ w_i w_j V_ij + Σ linear_i w_j V_ij` with `V_ij = Σ_{s<n} (θ_i θ_j)^s`, by the
    /// poles here and by the weights `w` to `by_weight`.
    fn add_quadratic(
        &mut self,
        (weights, poles): (&[f64], &[Pole]),
        n: f64,
        (square, linear): (f64, &[f64]),
        by_weight: &mut [f64],
    ) {
        let decayed: Vec<f64> = poles.iter().map(|pole| pole.decayed(n)).collect();
        for i in 0..poles.len() {
            let mut by_decay = 0.0;
            for j in 0..poles.len() {
                let gap = joined(poles[i].q, poles[j].q);
                let covariance = joined(decayed[i], decayed[j]) / gap;
                by_weight[i] += (2.0 * square * weights[j] + linear[j]) * covariance;
                // V_ij and V_ji are one number.
                let share = (2.0 * square * weights[i] + linear[i]) * weights[j] + linear[j] * weights[i];
                by_decay += share * (1.0 - decayed[j]) / gap;
                self.q[i] -= share * covariance * (1.0 - poles[j].q) / gap;
            }
            self.a[i] += by_decay * n * (1.0 - decayed[i]);
        }
    }
}

impl Adjoint {
    pub(super) fn new(response: &Response) -> Self {
        let count = response.poles.len();
        let zeros = || vec![0.0; count];
        let (direct, inverse) = (ByPoles::new(count), ByPoles::new(count));
        Self { direct, inverse, echoes: zeros(), lambda: zeros(), floor: 0.0 }
    }

    /// Adds `factor` times the derivatives of the squared column norm of `entries + 1` entries.
    pub(super) fn add_column(&mut self, response: &Response, entries: f64, factor: f64) {
        let zeros = vec![0.0; response.poles.len()];
        let terms = (&response.echoes[..], &response.poles[..]);
        self.direct.add_quadratic(terms, entries, (factor, &zeros), &mut self.echoes);
    }

    /// Adds the derivatives of `square Σ λ_i λ_j V_ij + Σ linear_i λ_j V_ij` after `step` steps.
    pub(super) fn add_couplings(&mut self, response: &Response, step: f64, square: f64, linear: &[f64]) {
        let terms = (&response.lambda[..], &response.inverse[..]);
        self.inverse.add_quadratic(terms, step, (square, linear), &mut self.lambda);
    }

    /// Adds the derivative by `θ̂_i^m`, and one by `1 - θ̂_i` where that stands for itself.
    pub(super) fn add_decay(&mut self, i: usize, by_power: f64, m: f64, power: f64, by_gap: f64) {
        self.inverse.a[i] -= by_power * m * power;
        self.inverse.q[i] += by_gap;
    }

    /// The derivatives by the rates `-ln θ` of all poles, in ascending order.
    pub(super) fn of_rates(mut self, response: &Response) -> Vec<f64> {
        self.resolve_residues(response);
        let chained = |by: &ByPoles, poles: &[Pole], i: usize| by.q[i] * (1.0 - poles[i].q) + by.a[i];
        let pair = |i: usize| [chained(&self.direct, &response.poles, i), chained(&self.inverse, &response.inverse, i)];
        (0..response.poles.len()).flat_map(pair).collect()
    }

    /// Residues are products of differences of gaps: logarithmic derivatives.
    fn resolve_residues(&mut self, response: &Response) {
        let Response { poles, echoes, inverse, floor, lambda } = response;
        let by_floor = self.floor * floor;
        for i in 0..poles.len() {
            add_echo(self.echoes[i] * echoes[i], i, (poles, &mut self.direct.q), (inverse, &mut self.inverse.q));
            let by_lambda = self.lambda[i] * lambda[i];
            add_echo(by_lambda, i, (inverse, &mut self.inverse.q), (poles, &mut self.direct.q));
            self.inverse.q[i] -= (by_lambda + by_floor) / inverse[i].q;
            self.direct.q[i] += by_floor / poles[i].q;
        }
    }
}

/// Adds `by_log` times the derivatives of `ln (Π_k (r_k - p_i) / Π_{k≠i} (p_k - p_i))`.
fn add_echo(by_log: f64, i: usize, (own, by_own): (&[Pole], &mut [f64]), (others, by_others): (&[Pole], &mut [f64])) {
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
