//! The lower triangular factor of `X`, as a filter with one state per pole.
//!
//! Above the diagonal, `X_ik = 1ᵀ Φ_i Φ_{i+1} … Φ_{k-1} h_k` with diagonal `Φ_m` (the ratios of the ladders) and `h_k`
//! (their diagonal entries). The Cholesky factorization `X = U Uᵀ`, `U` upper triangular, from the last column to the
//! first, keeps that form: let `U_ik = 1ᵀ Φ_i … Φ_{k-1} y_k`. Then `Σ_{m>k} U_im U_km = 1ᵀ Φ_i … Φ_{k-1} Q_k 1` with
//! `Q_k = Σ_{m>k} Φ_k … Φ_{m-1} y_m y_mᵀ Φ_{m-1} … Φ_k`, hence
//!
//! ```text
//! U_kk y_k = h_k - Q_k 1,   U_kk² = 1ᵀ(h_k - Q_k 1),   Q_{k-1} = Φ_{k-1} (Q_k + y_k y_kᵀ) Φ_{k-1}.
//! ```
//!
//! `R = Uᵀ`, so node `k` sums `y_kᵀ S_k` with the state `S_k = Φ_{k-1} S_{k-1} + 1 x_k`: `O(T n²)` in total instead of
//! `O(T³)`, and `O(n)` for an entry of `R`. The inverse filter has the same states.

use crate::mechanism::optimum::poles::LANES;
use crate::mechanism::optimum::weights::{Ladder, Weights};

/// `R` in states: `n` numbers per step, one step after the other.
#[derive(Clone, Debug)]
pub(super) struct StateFactor {
    states: usize,
    /// `Φ_k`, the decay from step `k+1` to step `k`.
    ratios: Vec<f64>,
    /// `y_k`.
    outputs: Vec<f64>,
    /// `R_kk`.
    diagonal: Vec<f64>,
}

impl StateFactor {
    /// The factor of `X`, scaled so that its largest column norm is 1.
    pub(super) fn of(weights: &Weights) -> Self {
        let (steps, states) = (weights.rows.len(), weights.poles.len());
        let ladder = Ladder::new(&weights.rows, &weights.columns, &weights.poles);
        let ratios = ladder.ratios();
        let scale = weights.diagonal.iter().copied().fold(0.0, f64::max);
        let (mut outputs, mut diagonal) = (vec![0.0; steps * states], vec![0.0; steps]);
        let mut known = vec![0.0; states * states];
        ladder.each_diagonal(|k, entries| {
            let output = &mut outputs[k * states..(k + 1) * states];
            for ((y, h), row) in output.iter_mut().zip(entries).zip(known.chunks_exact(states)) {
                *y = h / scale - sum(row);
            }
            diagonal[k] = sum(output).sqrt();
            output.iter_mut().for_each(|y| *y /= diagonal[k]);
            if k > 0 {
                let ratios = &ratios[(k - 1) * states..k * states];
                for ((row, y), r) in known.chunks_exact_mut(states).zip(&*output).zip(ratios) {
                    for ((q, z), s) in row.iter_mut().zip(&*output).zip(ratios) {
                        *q = r * s * (*q + y * z);
                    }
                }
            }
        });
        Self { states, ratios, outputs, diagonal }
    }

    pub(super) fn steps(&self) -> usize {
        self.diagonal.len()
    }

    fn of_step<'a>(&self, numbers: &'a [f64], step: usize) -> &'a [f64] {
        &numbers[step * self.states..(step + 1) * self.states]
    }

    /// Row `step` of `R`, from 0. `O(step · n)`.
    pub(super) fn row(&self, step: usize) -> Vec<f64> {
        let mut row = vec![0.0; step + 1];
        let mut state = self.of_step(&self.outputs, step).to_vec();
        row[step] = self.diagonal[step];
        for i in (0..step).rev() {
            state.iter_mut().zip(self.of_step(&self.ratios, i)).for_each(|(q, r)| *q *= r);
            row[i] = sum(&state);
        }
        row
    }

    /// `A R⁻¹ z`, by the inverse filter: `O(T n)`.
    pub(super) fn path(&self, mut draw: impl FnMut(usize) -> f64) -> Vec<f64> {
        let mut state = vec![0.0; self.states];
        let (mut path, mut noise) = (Vec::with_capacity(self.steps()), 0.0);
        for k in 0..self.steps() {
            if k > 0 {
                state.iter_mut().zip(self.of_step(&self.ratios, k - 1)).for_each(|(s, r)| *s *= r);
            }
            let known: f64 = state.iter().zip(self.of_step(&self.outputs, k)).map(|(s, y)| s * y).sum();
            let step = (draw(k) - known) / self.diagonal[k];
            state.iter_mut().for_each(|s| *s += step);
            noise += step;
            path.push(noise);
        }
        path
    }

    /// The row vector `row · R⁻¹`. The inverse filter gives `w_k = (z_k - y_kᵀ Φ_{k-1} S_{k-1}) / R_kk`; its steps are
    /// visited backwards. `O(len · n)`.
    pub(super) fn times_inverse(&self, row: &[f64]) -> Vec<f64> {
        let mut result = vec![0.0; row.len()];
        let mut state = vec![0.0; self.states];
        for k in (0..row.len()).rev() {
            let entry = (row[k] + sum(&state)) / self.diagonal[k];
            result[k] = entry;
            if k > 0 {
                let numbers = self.of_step(&self.ratios, k - 1).iter().zip(self.of_step(&self.outputs, k));
                for (s, (r, y)) in state.iter_mut().zip(numbers) {
                    *s = r * (*s - y * entry);
                }
            }
        }
        result
    }
}

/// The sum, in independent lanes; the length is a multiple of [`LANES`].
fn sum(numbers: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    for chunk in numbers.chunks_exact(LANES) {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += x);
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}
