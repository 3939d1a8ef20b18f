//! The change of a state over a number of steps: coefficients and covariances in closed form.

use super::powers::Powers;
use super::response::BufferRow;
use crate::mechanism::state_space::response::{PartialFractions, joined, row};
use std::iter::repeat_n;

/// Constants that all leaps of a BLT share. With `g_i = λ_i u_i`:
#[derive(Clone)]
pub(in crate::mechanism) struct LeapConstants {
    buffers: usize,
    powers: Powers,
    /// `λ_0²`: the growth of `Var M` per step, for `D = 1`.
    walk: f64,
    /// `λ_0 λ_i / (1 - θ̂_i)`: `Cov(M, g_i)` after infinitely many steps, for `D = 1`.
    drift: BufferRow,
    /// `λ_i λ_k / (1 - θ̂_i θ̂_k)`: `Cov(g_i, g_k)` after infinitely many steps.
    coupling: Vec<BufferRow>,
    /// The entries with `i = k`.
    diagonal: BufferRow,
}

/// `g_i` becomes `θ̂_i^n g_i + η_i`, and `M` becomes `M + Σ c_i g_i + η_0` of the `g` before, with `η` normal and
/// independent of everything before, and `Cov(η_i, η_k) = λ_i λ_k (1 - (θ̂_i θ̂_k)^n) / (1 - θ̂_i θ̂_k)`.
#[derive(Clone)]
pub(in crate::mechanism) struct Leap {
    /// `1 - θ̂_i^n`.
    pub(in crate::mechanism) decayed: BufferRow,
    /// `c`.
    pub(in crate::mechanism) gains: BufferRow,
    /// `Cov(η_0, η_i)`.
    pub(in crate::mechanism) covariances: BufferRow,
    /// `Var η_0`.
    pub(in crate::mechanism) variance: f64,
}

impl LeapConstants {
    /// For leaps of up to `longest` steps.
    pub(in crate::mechanism) fn new(response: &PartialFractions, longest: u64) -> Self {
        let PartialFractions { inverse, floor, .. } = response;
        let mut drift = BufferRow::default();
        for ((drift, weight), pole) in drift.iter_mut().zip(&inverse.weights).zip(&inverse.poles) {
            *drift = floor * weight / pole.q;
        }
        let coupling =
            |i: usize| std::array::from_fn(|k| inverse.weights[i] * inverse.weights[k] * inverse.pairs[i][k]);
        let buffers = inverse.poles.len();
        let coupling: Vec<BufferRow> = (0..buffers).map(coupling).collect();
        let diagonal = row((0..buffers).map(|i| coupling[i][i]));
        let powers = Powers::new(inverse, longest);
        Self { buffers, powers, walk: floor * floor, drift, coupling, diagonal }
    }

    /// `d`.
    pub(in crate::mechanism) fn buffers(&self) -> usize {
        self.buffers
    }

    /// `steps ≥ 0` steps with `D = scale`, and then a fall of `D` by `fall`.
    pub(in crate::mechanism) fn leap(&self, steps: u64, scale: f64, fall: f64) -> Leap {
        let decayed = self.powers.decayed(steps);
        let covariances: BufferRow = std::array::from_fn(|i| scale * self.drift[i] * decayed[i]);
        let variance = scale * scale * self.walk * steps as f64;
        Leap { decayed, gains: BufferRow::default(), covariances, variance }
            .gaining(self, &row(repeat_n(fall, self.buffers)))
    }

    /// `Var η_i` for all `i`.
    pub(in crate::mechanism) fn variances(&self, decayed: &BufferRow) -> BufferRow {
        std::array::from_fn(|i| joined(decayed[i], decayed[i]) * self.diagonal[i])
    }

    /// `Cov(η_i, η_k)` for all `k`.
    pub(in crate::mechanism) fn couplings(&self, decayed: &BufferRow, i: usize) -> BufferRow {
        std::array::from_fn(|k| joined(decayed[i], decayed[k]) * self.coupling[i][k])
    }
}

impl Leap {
    /// This leap, after which `M` grows by `Σ c_i g_i`.
    fn gaining(mut self, shape: &LeapConstants, factors: &BufferRow) -> Self {
        if *factors == BufferRow::default() {
            return self;
        }
        let mut coupled = BufferRow::default();
        for (i, factor) in factors.iter().enumerate().take(shape.buffers) {
            let row = shape.couplings(&self.decayed, i);
            coupled = std::array::from_fn(|k| coupled[k] + factor * row[k]);
        }
        for i in 0..shape.buffers {
            self.variance += factors[i] * (2.0 * self.covariances[i] + coupled[i]);
        }
        self.gains = std::array::from_fn(|i| self.gains[i] + (1.0 - self.decayed[i]) * factors[i]);
        self.covariances = std::array::from_fn(|i| self.covariances[i] + coupled[i]);
        self
    }

    /// This leap and then the next.
    pub(in crate::mechanism) fn then(self, shape: &LeapConstants, next: &Leap) -> Self {
        let leap = self.gaining(shape, &next.gains);
        Self {
            decayed: std::array::from_fn(|i| joined(leap.decayed[i], next.decayed[i])),
            gains: leap.gains,
            covariances: std::array::from_fn(|i| next.covariances[i] + (1.0 - next.decayed[i]) * leap.covariances[i]),
            variance: leap.variance + next.variance,
        }
    }
}
