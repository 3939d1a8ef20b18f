//! Many steps of a recurrence in one.
//!
//! The vectors kept after the steps `a+1 ..= t`, and the sum of these steps' increments with a rate for each,
//! `y = Σ_s rate_s n_s`, are linear in the vectors kept after step `a` and in the normal variables of those steps:
//! `(x_t, y) = carry · x_a + M^T z`. An observer of only `x_t` and `y` cannot distinguish `M^T z` from `R^T w`,
//! where `M = QR` with orthonormal columns in `Q` and `w` are as many fresh standard normal variables as `R` has
//! rows: one more than there are numbers in `x`, however many steps there are.
//!
//! Givens rotations compute `R`, one row of `M` after another from step `t` backwards, so that one pass gives it for
//! every `a`. They are backward stable: the computed `R` is the exact one of a matrix whose columns are off by some
//! 10^-16 of their length times the root of the number of steps (Higham, Accuracy and Stability of Numerical
//! Algorithms, 2002, theorem 19.10), as if the weights of the steps were rounded by that much. Covariances, whose
//! Cholesky factor would be the same, would lose half of the digits.

use crate::Real;
use crate::recurrence::Recurrence;

/// Weights below this fraction of the largest in their sum are set to 0: they do not affect the sum's digits, and no
/// number becomes subnormal.
const NEGLIGIBLE: f64 = 1.0 / (1u64 << 60) as f64;

/// The steps `a+1 ..= t` in one. Results are the kept numbers, then the sum.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    /// By result: the weights of the kept numbers.
    pub(super) carry: Vec<Vec<f64>>,
    /// By fresh variable: the weights in all results. Those before the variable's index are 0.
    pub(super) fresh: Vec<Vec<f64>>,
}

/// For each predecessor `a` of a first step in `from` (descending, below `to`), the steps up to `to` in one.
/// `O((to - a) · width · (width + changed))`.
pub(super) fn gaps(recurrence: &Recurrence, rates: &[f64], from: &[u64], to: u64) -> Vec<Gap> {
    let width = recurrence.width();
    let mut carry: Vec<Vec<f64>> = (0..=width).map(|result| unit(width, result)).collect();
    let mut fresh = vec![vec![0.0; width + 1]; width + 1];
    let mut wanted = from.iter().peekable();
    let mut gaps = Vec::with_capacity(from.len());
    let mut before = to;
    while let Some(next) = wanted.peek() {
        if **next == before {
            gaps.push(Gap { carry: carry.clone(), fresh: fresh.clone() });
            wanted.next();
            continue;
        }
        let (step, rate) = (recurrence.step(before), rates[before as usize - 1]); // fits: within the horizon
        for draw in 0..step.draws {
            let mut row: Vec<f64> = carry
                .iter()
                .map(|weights| step.changed.iter().map(|(slot, form)| weights[*slot] * form.drawn[draw]).sum())
                .collect();
            row[width] += rate * step.noise.drawn[draw];
            rotate_in(&mut fresh, row);
        }
        for (result, weights) in carry.iter_mut().enumerate() {
            let through: Vec<f64> = step.changed.iter().map(|(slot, _)| std::mem::take(&mut weights[*slot])).collect();
            for ((_, form), through) in step.changed.iter().zip(through).filter(|(_, through)| *through != 0.0) {
                weights.iter_mut().zip(&form.kept).for_each(|(weight, of)| *weight += through * of);
            }
            if result == width {
                weights.iter_mut().zip(&step.noise.kept).for_each(|(weight, of)| *weight += rate * of);
            }
            // Otherwise they would decay without end, through subnormal numbers that processors handle slowly.
            weights.iter_mut().filter(|weight| weight.abs() < 1e-200).for_each(|weight| *weight = 0.0);
        }
        before -= 1;
    }
    gaps
}

/// The row of the identity; past its end 0.
fn unit(width: usize, place: usize) -> Vec<f64> {
    (0..width).map(|column| f64::from(column == place)).collect()
}

/// Adds a row to the matrix whose upper triangular factor this is.
fn rotate_in(triangle: &mut [Vec<f64>], mut row: Vec<f64>) {
    for (place, own) in triangle.iter_mut().enumerate() {
        if row[place] == 0.0 {
            continue;
        }
        let length = libm::hypot(own[place], row[place]);
        let (cosine, sine) = (own[place] / length, row[place] / length);
        for (own, new) in own[place..].iter_mut().zip(&mut row[place..]) {
            (*own, *new) = (cosine * *own + sine * *new, cosine * *new - sine * *own);
        }
    }
}

/// The weights of a gap in a vector's number type, without the zeros.
pub(super) struct GapWeights<F> {
    /// By result.
    pub(super) carry: Vec<Vec<F>>,
    /// By fresh variable, from its own index on; empty if all are 0.
    pub(super) fresh: Vec<Vec<F>>,
}

impl<F: Real> From<&Gap> for GapWeights<F> {
    fn from(gap: &Gap) -> Self {
        let results = gap.carry.len();
        let largest: Vec<f64> = (0..results)
            .map(|result| {
                let fresh = gap.fresh.iter().map(|weights| weights[result]);
                gap.carry[result].iter().copied().chain(fresh).fold(0.0, |most: f64, weight| most.max(weight.abs()))
            })
            .collect();
        let kept =
            |result: usize, weight: f64| F::of(if weight.abs() < NEGLIGIBLE * largest[result] { 0.0 } else { weight });
        let carry = gap.carry.iter().enumerate();
        let carry = carry.map(|(result, weights)| weights.iter().map(|weight| kept(result, *weight)).collect());
        let fresh = gap.fresh.iter().enumerate().map(|(variable, weights)| {
            let weights: Vec<F> = (variable..results).map(|result| kept(result, weights[result])).collect();
            if weights.iter().all(|weight| *weight == F::default()) { vec![] } else { weights }
        });
        Self { carry: carry.collect(), fresh: fresh.collect() }
    }
}
