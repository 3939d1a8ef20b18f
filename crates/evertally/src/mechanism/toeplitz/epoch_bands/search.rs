//! Bands and weights of epochs with little error: descent on the error itself.
//!
//! Variables are the coefficients `c_1 … c_(bands-1)` and the logarithms of the epochs' weights `w_2, w_3, …`
//! (`c_0 = w_1 = 1`). Minimised is `log S + log V`: `S` the sum of the `k` largest weights, `V` the mean of the
//! variances of the steps, or a power mean that comes near to the largest from round to round. What a release is made
//! of is a linear recursion over the increments ([`Loop`]), so that variances and their slopes are one pass forwards
//! and one backwards over every column of the inverse. `O(T²)` for every look.

use crate::mechanism::{Objective, Participation};
use crate::number::descent::minimise;

/// Columns that are followed side by side.
const LANES: usize = 8;
/// Exponents by which the maximum is softened, one descent after the other.
const POWERS: [f64; 3] = [30.0, 120.0, 480.0];
const MOST_STEPS: usize = 60;
const LEAST_GAIN: f64 = 1e-6;

/// What is made of the increments `x_t`: `m_t = momentum · m_(t-1) + x_t`, `u_t = kept_t u_(t-1) + rate_t m_t`; running
/// sums where all of these are 1 and there is no momentum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loop {
    pub(crate) momentum: f64,
    /// `(kept, rate)` of every step.
    pub(crate) steps: Vec<(f64, f64)>,
}

impl Loop {
    /// Running sums.
    pub(crate) fn sums(horizon: u64) -> Self {
        Self { momentum: 0.0, steps: vec![(1.0, 1.0); horizon as usize] }
    }
}

/// What is looked for.
pub(super) struct Problem<'a> {
    pub(super) bands: usize,
    /// Steps of an epoch are this many, and its example takes part in so many epochs.
    pub(super) runs: Participation,
    pub(super) objective: Objective,
    pub(super) of: &'a Loop,
}

/// Coefficients `c` and the weight of every epoch.
pub(super) struct Found {
    pub(super) coefficients: Vec<f64>,
    pub(super) weights: Vec<f64>,
}

impl Problem<'_> {
    fn horizon(&self) -> usize {
        self.of.steps.len()
    }

    pub(super) fn search(&self) -> Found {
        let epochs = self.horizon().div_ceil(self.epoch());
        let first = first_coefficients(self.bands);
        let mut point = first[1..].to_vec();
        point.resize(self.bands - 1 + epochs - 1, 0.0);
        let rounds: &[Option<f64>] = match self.objective {
            Objective::Mean => &[None],
            Objective::Max => &POWERS.map(Some),
        };
        for power in rounds {
            minimise(&mut point, MOST_STEPS, LEAST_GAIN, &mut |point| self.look(point, *power));
        }
        self.taken_apart(&point)
    }

    fn epoch(&self) -> usize {
        usize::try_from(self.runs.separation()).unwrap_or(usize::MAX)
    }

    fn taken_apart(&self, point: &[f64]) -> Found {
        let (coefficients, logarithms) = point.split_at(self.bands - 1);
        let coefficients = std::iter::once(1.0).chain(coefficients.iter().copied()).collect();
        let weights = std::iter::once(1.0).chain(logarithms.iter().map(|l| libm::exp(*l))).collect();
        Found { coefficients, weights }
    }

    /// `log S + log V` and its slopes.
    fn look(&self, point: &[f64], power: Option<f64>) -> (f64, Vec<f64>) {
        let Found { coefficients, weights } = self.taken_apart(point);
        let (horizon, epoch) = (self.horizon(), self.epoch());
        let (together, counted) = self.largest_weights(&weights);
        let squares = squares_of_columns(&coefficients, horizon);
        let scales: Vec<f64> = squares.iter().zip(0..).map(|(n, t)| (n / weights[t / epoch]).sqrt()).collect();
        let inverse = reciprocal(&coefficients, horizon);
        let variances = variances(self.of, &scales, &inverse);
        let (value, shares) = mean_of(&variances, power);
        if !value.is_finite() {
            return (f64::INFINITY, vec![0.0; point.len()]);
        }
        let Slopes { scales: by_scale, inverse: by_inverse } = slopes(self.of, &scales, &inverse, &shares);
        let mut by_coefficient = through_reciprocal(&coefficients, &inverse, by_inverse);
        let mut by_weight = vec![0.0; weights.len()];
        let mut by_square = vec![0.0; self.bands];
        for (t, (slope, scale)) in by_scale.iter().zip(&scales).enumerate() {
            // scale² = square / weight
            by_square[(horizon - 1 - t).min(self.bands - 1)] += 0.5 * slope * scale / squares[t];
            by_weight[t / epoch] -= 0.5 * slope * scale;
        }
        let mut rest = 0.0;
        for (j, coefficient) in coefficients.iter().enumerate().rev() {
            rest += by_square[j];
            by_coefficient[j] += 2.0 * coefficient * rest;
        }
        let by_coefficient = by_coefficient[1..].iter().map(|slope| slope / value);
        let of_epoch = |(e, slope): (usize, &f64)| slope / value + if counted[e] { weights[e] / together } else { 0.0 };
        let by_weight = by_weight.iter().enumerate().skip(1).map(of_epoch);
        (libm::log(together) + libm::log(value), by_coefficient.chain(by_weight).collect())
    }

    /// The sum of the `k` largest weights, and which they are.
    fn largest_weights(&self, weights: &[f64]) -> (f64, Vec<bool>) {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
        let mut counted = vec![false; weights.len()];
        let most = usize::try_from(self.runs.most()).unwrap_or(usize::MAX).min(weights.len());
        order[..most].iter().for_each(|e| counted[*e] = true);
        (order[..most].iter().map(|e| weights[*e]).sum(), counted)
    }
}

/// The first coefficients of the square root of the prefix sums.
fn first_coefficients(bands: usize) -> Vec<f64> {
    let next = |f: &mut f64, j: usize| {
        *f *= if j == 0 { 1.0 } else { (2 * j - 1) as f64 / (2 * j) as f64 };
        Some(*f)
    };
    (0..bands).scan(1.0, next).collect()
}

/// `Σ c_i²` over the coefficients that column `t` has room for.
fn squares_of_columns(coefficients: &[f64], horizon: usize) -> Vec<f64> {
    let mut sums: Vec<f64> = coefficients.to_vec();
    let mut sum = 0.0;
    for c in &mut sums {
        sum += *c * *c;
        *c = sum;
    }
    (0..horizon).map(|t| sums[(horizon - 1 - t).min(sums.len() - 1)]).collect()
}

/// The first `length` coefficients of `1 / Σ c_j x^j`, `c_0 = 1`.
pub(super) fn reciprocal(c: &[f64], length: usize) -> Vec<f64> {
    crate::mechanism::toeplitz::square_root::reciprocal(c, length)
}

/// From slopes by the reciprocal to those by the coefficients, by the transposed recursion.
fn through_reciprocal(coefficients: &[f64], inverse: &[f64], mut by_inverse: Vec<f64>) -> Vec<f64> {
    for t in (0..by_inverse.len()).rev() {
        let slope = by_inverse[t];
        for (i, c) in coefficients.iter().enumerate().skip(1).take(t) {
            by_inverse[t - i] -= c * slope;
        }
    }
    let of = |i: usize| -by_inverse[i..].iter().zip(inverse).map(|(slope, r)| slope * r).sum::<f64>();
    (0..coefficients.len()).map(of).collect()
}

/// The mean, or the power mean over the largest, with its slopes by every variance.
fn mean_of(variances: &[f64], power: Option<f64>) -> (f64, Vec<f64>) {
    let count = variances.len() as f64;
    let Some(power) = power else {
        return (variances.iter().sum::<f64>() / count, vec![1.0 / count; variances.len()]);
    };
    let largest = variances.iter().copied().fold(0.0, f64::max);
    let raised: Vec<f64> = variances.iter().map(|v| libm::pow(v / largest, power)).collect();
    let mean = raised.iter().sum::<f64>() / count;
    let root = libm::pow(mean, 1.0 / power);
    let slopes = raised.iter().zip(variances).map(|(r, v)| root / mean * r * largest / v / count).collect();
    (largest * root, slopes)
}

/// Rows of the inverse for [`LANES`] columns side by side: entry `i` of lane `a` is coefficient `i + a - LANES + 1`.
fn padded(inverse: &[f64]) -> Vec<f64> {
    let mut padded = vec![0.0; LANES - 1];
    padded.extend_from_slice(inverse);
    padded.resize(inverse.len() + 2 * LANES, 0.0);
    padded
}

/// The columns from `first` on: `u_t` for every step from there, in lanes (the last column first).
fn follow(of: &Loop, scales: &[f64], padded: &[f64], first: usize, mut see: impl FnMut(usize, &[f64; LANES])) {
    let (mut momentum, mut sum) = ([0.0; LANES], [0.0; LANES]);
    for (ago, t) in (first..scales.len()).enumerate() {
        let (kept, rate) = of.steps[t];
        let inverse: &[f64; LANES] = padded[ago..ago + LANES].try_into().expect("as many as lanes");
        for a in 0..LANES {
            momentum[a] = of.momentum * momentum[a] + scales[t] * inverse[a];
            sum[a] = kept * sum[a] + rate * momentum[a];
        }
        see(t, &sum);
    }
}

/// The variance after every step of what the loop makes of the increments `scale_t Σ_j r_j z_(t-j)`.
pub(super) fn variances(of: &Loop, scales: &[f64], inverse: &[f64]) -> Vec<f64> {
    let padded = padded(inverse);
    let mut variances = vec![0.0; scales.len()];
    for first in (0..scales.len()).step_by(LANES) {
        follow(of, scales, &padded, first, |t, sum| variances[t] += sum.iter().map(|u| u * u).sum::<f64>());
    }
    variances
}

/// Slopes of `Σ share_t variance_t`.
struct Slopes {
    scales: Vec<f64>,
    inverse: Vec<f64>,
}

fn slopes(of: &Loop, scales: &[f64], inverse: &[f64], shares: &[f64]) -> Slopes {
    let (horizon, padded) = (scales.len(), padded(inverse));
    let (mut by_scale, mut by_inverse) = (vec![0.0; horizon], vec![0.0; padded.len()]);
    let mut sums: Vec<[f64; LANES]> = Vec::with_capacity(horizon);
    for first in (0..horizon).step_by(LANES) {
        sums.clear();
        follow(of, scales, &padded, first, |_, sum| sums.push(*sum));
        let (mut by_momentum, mut by_sum) = ([0.0; LANES], [0.0; LANES]);
        let mut kept_after = 0.0;
        for (ago, t) in (first..horizon).enumerate().rev() {
            let (kept, rate) = of.steps[t];
            let inverse: &[f64; LANES] = padded[ago..ago + LANES].try_into().expect("as many as lanes");
            let slopes = &mut by_inverse[ago..ago + LANES];
            let mut own = 0.0;
            for a in 0..LANES {
                by_sum[a] = 2.0 * shares[t] * sums[ago][a] + kept_after * by_sum[a];
                by_momentum[a] = rate * by_sum[a] + of.momentum * by_momentum[a];
                own += by_momentum[a] * inverse[a];
                slopes[a] += scales[t] * by_momentum[a];
            }
            by_scale[t] += own;
            kept_after = kept;
        }
    }
    Slopes { scales: by_scale, inverse: by_inverse[LANES - 1..LANES - 1 + horizon].to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slopes are those of differences, for all that a problem may have.
    #[test]
    fn slopes_are_those_of_differences() {
        let steps = (0..19).map(|t| (1.0 - 0.01 * f64::from(t % 3), 0.5 + 0.1 * f64::from(t % 5))).collect();
        let decaying = Loop { momentum: 0.6, steps };
        for of in [Loop::sums(19), decaying] {
            for (objective, power) in [(Objective::Mean, None), (Objective::Max, Some(7.0))] {
                let problem = Problem { bands: 4, runs: Participation::new(3, 5).unwrap(), objective, of: &of };
                let point = [0.55, 0.3, 0.35, -0.2, 0.1, 0.3];
                let (_, slopes) = problem.look(&point, power);
                for (i, slope) in slopes.iter().enumerate() {
                    let moved = |by: f64| {
                        let mut point = point;
                        point[i] += by;
                        problem.look(&point, power).0
                    };
                    let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                    assert!((slope - difference).abs() < 1e-6 * (1.0 + slope.abs()), "{i}: {slope} {difference}");
                }
            }
        }
    }
}
