//! A lower bound on how far noise moves the parameters, for every factorization.
//!
//! As for running sums (`vector/plan/lower_bound.rs`), with the matrix `W` of the optimizer instead of `A`: with steps
//! `c = max(b, ⌈T/k⌉)` apart, `s² V ≥ ‖W‖_*²/(T c)`, and for the pattern `u = 1, 1+b, …` also `s² V ≥ ‖W u‖²/T`.
//!
//! **Nuclear norm.** `‖W‖_* ≥ ⟨W, X⟩` for every `X` with singular values of at most 1. Here `X` is orthogonal and
//! skew-circulant: `X_ts = x_(t-s)` for `s ≤ t`, with eigenvalues `e^(i arg w(θ))` at the angles `θ = π(2k+1)/T`, for a
//! symbol `w` near that of `W`. Over the whole horizon this is a few percent below the nuclear norm.

use super::{Momentum, Optimizer, OptimizerStep};
use evertally::Result;
use evertally::mechanism::Participation;

/// Longest stretch, in steps.
const MAX_STRETCH_STEPS: usize = 2048;
/// Number of parts of a horizon that are examined: the largest error is that of some of its steps.
const PARTS: [usize; 3] = [1, 2, 4];
/// Poles of the symbols are this many times `1/T` from 1, or where the weight decay puts them.
const NEAR: [f64; 2] = [2.0, 5.0];

/// A lower bound of the root of `s² V`, `V` the largest variance, for a norm of 1 and `μ = 1`: the best of the bounds
/// for the mean over stretches of counted steps, each of which starts from zero; 0 for an average of the iterates.
/// `O(min(T, 2^11)²)`.
pub(crate) fn error(horizon: u64, optimizer: &Optimizer, participation: Participation) -> Result<f64> {
    if optimizer.average.is_some() {
        return Ok(0.0);
    }
    let all = optimizer.steps(horizon)?;
    let steps = optimizer.counted(&all);
    let mut best = 0.0f64;
    for parts in PARTS {
        let length = steps.len().min(MAX_STRETCH_STEPS).div_ceil(parts);
        for number in 0..2 * parts - 1 {
            let first = (steps.len() - length) * number / (2 * parts - 2).max(1);
            best = best.max(stretch_bound(&steps[first..][..length], optimizer.momentum_of_loop(), participation));
        }
    }
    Ok(best * (1.0 - 1e-9))
}

fn stretch_bound(steps: &[OptimizerStep], momentum: Momentum, participation: Participation) -> f64 {
    let length = steps.len() as f64;
    let separation =
        participation.separation().max((steps.len() as u64).div_ceil(participation.most())).min(steps.len() as u64);
    let spread = nuclear_norm(steps, momentum) / (length * separation as f64).sqrt();
    let (mut m, mut u, mut square) = (0.0, 0.0, 0.0);
    for (step, t) in steps.iter().zip(0..) {
        let takes_part = t % participation.separation() == 0 && t / participation.separation() < participation.most();
        let own = f64::from(u8::from(takes_part));
        m = momentum.decay * m + own;
        u = step.kept * u + step.rate * (momentum.look * m + momentum.fresh * own);
        square += u * u;
    }
    spread.max((square / length).sqrt())
}

/// No more than `‖W‖_*`.
fn nuclear_norm(steps: &[OptimizerStep], momentum: Momentum) -> f64 {
    let diagonals = diagonals(steps, momentum);
    let length = steps.len() as f64;
    let kept = steps.iter().map(|step| step.kept).sum::<f64>() / length;
    let poles = NEAR.map(|near| 1.0 - near / length.max(2.0 * near));
    let own = (kept < 1.0).then_some(kept);
    let of = |pole: f64| {
        let row = skew_circulant(steps.len(), momentum.decay, pole);
        row.iter().zip(&diagonals).map(|(x, sum)| x * sum).sum::<f64>()
    };
    poles.into_iter().chain(own).map(of).fold(0.0, f64::max)
}

/// `Σ_t W_(t, t-d)` for every `d`.
fn diagonals(steps: &[OptimizerStep], momentum: Momentum) -> Vec<f64> {
    let mut sums = vec![0.0; steps.len()];
    for first in 0..steps.len() {
        let (mut m, mut u, mut own) = (1.0, 0.0, 1.0);
        for (step, sum) in steps[first..].iter().zip(&mut sums) {
            u = step.kept * u + step.rate * (momentum.look * m + momentum.fresh * own);
            (m, own) = (m * momentum.decay, 0.0);
            *sum += u;
        }
    }
    sums
}

/// `x_d` for the symbol `1/((1 - β e^(-iθ)) (1 - pole e^(-iθ)))`.
fn skew_circulant(length: usize, momentum: f64, pole: f64) -> Vec<f64> {
    let angles = (0..length).map(|k| std::f64::consts::PI * (2 * k + 1) as f64 / length as f64);
    // arg 1/(1 - a e^(-iθ)) = -atan2(a sin θ, 1 - a cos θ)
    let phase = |a: f64, angle: f64| -libm::atan2(a * libm::sin(angle), 1.0 - a * libm::cos(angle));
    let waves = angles.map(|angle| (angle, phase(momentum, angle) + phase(pole, angle)));
    let mut row = vec![0.0; length];
    for (angle, phase) in waves {
        let (turn, mut wave) = ((libm::cos(angle), libm::sin(angle)), (libm::cos(phase), libm::sin(phase)));
        for x in &mut row {
            *x += wave.0 / length as f64;
            wave = (wave.0 * turn.0 - wave.1 * turn.1, wave.0 * turn.1 + wave.1 * turn.0);
        }
    }
    row
}
