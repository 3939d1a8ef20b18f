//! Row norms of `L = A R⁻¹`, and the variances of the inverse filter that the release needs.
//!
//! With noise `z` of variance 1 instead of `y`, the inverse filter gives `w_k = (z_k - y_kᵀ Φ_{k-1} S_{k-1}) / R_kk`
//! and `S_k = Φ_{k-1} S_{k-1} + 1 w_k`; the noise of the release is `N_k = Σ_{s≤k} w_s`, and `‖L_k‖² = Var N_k`. Let
//! `P` and `g` be the covariances of `Φ_{k-1} S_{k-1}` with itself and with `N_{k-1}`, `u = P y_k / R_kk`,
//! `m = gᵀ y_k / R_kk`. Then
//!
//! ```text
//! Var w_k = c = (yᵀu + 1/R_kk) / R_kk,      Var N_k = Var N_{k-1} - 2m + c,
//! Cov S_k = P_ij - u_i - u_j + c,           Cov(N_k, S_k) = g_i - m - u_i + c.
//! ```
//!
//! The states are leaky sums of `w`, so that their variances are no larger than those of releases, and differences lose
//! no more than a few digits (the tests compare with matrices).

use super::frozen::Frozen;

/// The results of a pass over all steps.
pub(super) struct RowPass {
    /// `‖L_t‖²`.
    pub(super) squared: Vec<f64>,
    /// The largest variance of a state, of `w` and of `N`.
    pub(super) largest: f64,
}

/// `O(T n²)`.
pub(super) fn row_pass(frozen: &Frozen) -> RowPass {
    let n = frozen.states();
    let (mut outputs, mut decays, mut gains) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let (mut covariances, mut with_sum) = (vec![0.0; n * n], vec![0.0; n]);
    let mut pass = RowPass { squared: Vec::with_capacity(frozen.steps()), largest: 0.0 };
    let mut variance = 0.0;
    for numbers in frozen.each_step() {
        for ((y, decay), number) in outputs.iter_mut().zip(&mut decays).zip(numbers) {
            (*y, *decay) = (number.output(), number.decay());
        }
        let diagonal: f64 = outputs.iter().sum();
        let (mut step_variance, mut shared) = (1.0 / diagonal, 0.0);
        for (i, row) in covariances.chunks_exact_mut(n).enumerate() {
            let mut gain = 0.0;
            for ((p, decay), y) in row.iter_mut().zip(&decays).zip(&outputs) {
                *p *= decays[i] * decay;
                gain += *p * y;
            }
            gains[i] = gain / diagonal;
            with_sum[i] *= decays[i];
            step_variance += gains[i] * outputs[i];
            shared += with_sum[i] * outputs[i];
        }
        let (step_variance, shared) = (step_variance / diagonal, shared / diagonal);
        variance += step_variance - 2.0 * shared;
        pass.largest = pass.largest.max(step_variance).max(variance);
        for (i, row) in covariances.chunks_exact_mut(n).enumerate() {
            let rise = step_variance - gains[i];
            row.iter_mut().zip(&gains).for_each(|(p, u)| *p += rise - u);
            with_sum[i] += rise - shared;
            pass.largest = pass.largest.max(row[i]);
        }
        pass.squared.push(variance);
    }
    pass
}

/// `L z`, by the inverse filter: `O(T n)`.
pub(super) fn path(frozen: &Frozen, mut draw: impl FnMut(usize) -> f64) -> Vec<f64> {
    let mut state = vec![0.0; frozen.states()];
    let mut noise = 0.0;
    let step = |(k, numbers): (usize, &[super::frozen::Number])| {
        let (mut known, mut diagonal) = (0.0, 0.0);
        for (s, number) in state.iter_mut().zip(numbers) {
            *s *= number.decay();
            known += *s * number.output();
            diagonal += number.output();
        }
        let step = (draw(k) - known) / diagonal;
        state.iter_mut().for_each(|s| *s += step);
        noise += step;
        noise
    };
    frozen.each_step().enumerate().map(step).collect()
}

/// Row `step` of `L`, from 1: ones through the transposed inverse filter, backwards. `O(step · n)`.
pub(super) fn row(frozen: &Frozen, step: usize) -> Vec<f64> {
    let mut row = vec![0.0; step];
    let mut state = vec![0.0; frozen.states()];
    for (entry, numbers) in row.iter_mut().zip(frozen.each_step().take(step)).rev() {
        let diagonal: f64 = numbers.iter().map(|number| number.output()).sum();
        *entry = (1.0 + state.iter().sum::<f64>()) / diagonal;
        for (s, number) in state.iter_mut().zip(numbers) {
            *s = number.decay() * (*s - number.output() * *entry);
        }
    }
    row
}
