//! What the optimiser minimises: the logarithm of 2ρ·variance, with its gradient by reverse accumulation.
//!
//! Coordinates: `a = -ln θ` of the interlacing poles, shortest first, is `a_0 = e^(y_0)`, `ln a_m = ln a_(m-1) + e^(y_m)`. Any
//! `y` gives poles that interlace.
//!
//! The figure is that of [`RowFigures`](super::figures::RowFigures) on a coarse grid of steps, with real column scales,
//! and the maximum is softened to a power mean: it decides only where the optimiser stops, the figures of the
//! result are computed from the result. The plain BLT has a single column scale, and its largest row is the last.

use super::adjoint::Adjoint;
use super::response::{Pole, Response, joined};

/// Ratio of neighbouring grid steps.
const RATIO: f64 = 1.2;

/// A grid of steps, and what to make of the row norms there.
#[derive(Clone, Debug)]
pub(super) struct Objective {
    /// Steps, ascending; the last is the horizon.
    steps: Vec<f64>,
    normalized: bool,
    aggregate: Aggregate,
}

#[derive(Clone, Debug)]
enum Aggregate {
    /// The power mean of this exponent.
    Power(f64),
    /// The mean with these weights.
    Mean(Vec<f64>),
}

impl Objective {
    /// The mean over the steps.
    pub(super) fn mean(horizon: u64, normalized: bool) -> Self {
        let steps = grid(horizon);
        let gaps = |i: usize| {
            let before = if i == 0 { 1.0 - 0.5 } else { 0.5 * (steps[i - 1] + steps[i]) };
            let after = if i + 1 == steps.len() { steps[i] + 0.5 } else { 0.5 * (steps[i] + steps[i + 1]) };
            (after - before) / horizon as f64
        };
        let weights = (0..steps.len()).map(gaps).collect();
        Self { steps, normalized, aggregate: Aggregate::Mean(weights) }
    }

    /// The maximum over the steps, softened by a power.
    pub(super) fn max(horizon: u64, normalized: bool, power: f64) -> Self {
        let steps = if normalized { grid(horizon) } else { vec![horizon as f64] };
        Self { steps, normalized, aggregate: Aggregate::Power(power) }
    }

    /// The value at `y` and its gradient.
    pub(super) fn evaluate(&self, y: &[f64]) -> (f64, Vec<f64>) {
        let rates = rates(y);
        let (poles, inverse) = interlaced(&rates);
        let response = Response::of_poles(poles, inverse);
        let mut adjoint = Adjoint::new(&response);
        let horizon = self.steps[self.steps.len() - 1];

        let scales = self.scales(&response);
        let walk = Walk::forward(&response, &self.steps, &scales);
        let (aggregate, shares) = self.aggregate(&walk.norms);
        let mut scale_adjoints = walk.backward(&response, &self.steps, &scales, &shares, &mut adjoint);
        let mut value = aggregate;
        if self.normalized {
            for ((adjoint_of, scale), step) in scale_adjoints.iter_mut().zip(&scales).zip(&self.steps) {
                adjoint.add_column(&response, horizon - step, *adjoint_of / (2.0 * scale));
            }
        } else {
            let norm = response.column_norm_squared(horizon);
            value += libm::log(norm);
            adjoint.add_column(&response, horizon - 1.0, 1.0 / norm);
        }
        let mut gradient = adjoint.of_rates(&response);
        chain_to_coordinates(y, &rates, &mut gradient);
        (value, gradient)
    }

    /// `D` up to each grid step: the norm of the column that begins there, which is the shortest of its range.
    fn scales(&self, response: &Response) -> Vec<f64> {
        let horizon = self.steps[self.steps.len() - 1];
        let scale = |step: &f64| {
            if self.normalized { libm::sqrt(response.column_norm_squared(horizon - step + 1.0)) } else { 1.0 }
        };
        self.steps.iter().map(scale).collect()
    }

    /// The logarithm of the aggregate, and its derivatives by the norms.
    fn aggregate(&self, norms: &[f64]) -> (f64, Vec<f64>) {
        match &self.aggregate {
            Aggregate::Mean(weights) => {
                let mean: f64 = weights.iter().zip(norms).map(|(weight, norm)| weight * norm).sum();
                (libm::log(mean), weights.iter().map(|weight| weight / mean).collect())
            }
            Aggregate::Power(power) => {
                let largest = norms.iter().copied().fold(0.0, f64::max);
                let powers: Vec<f64> = norms.iter().map(|norm| libm::pow(norm / largest, *power)).collect();
                let total: f64 = powers.iter().sum();
                let value = libm::log(largest) + libm::log(total) / power;
                (value, powers.iter().zip(norms).map(|(share, norm)| share / total / norm).collect())
            }
        }
    }
}

/// Steps that grow geometrically from 1 to the middle and from there towards the end.
fn grid(horizon: u64) -> Vec<f64> {
    let (mut steps, mut offset) = (vec![], 1u64);
    while offset <= horizon.div_ceil(2) {
        steps.extend([offset, horizon + 1 - offset]);
        offset = (offset + 1).max((offset as f64 * RATIO) as u64);
    }
    steps.sort_unstable();
    steps.dedup();
    steps.into_iter().map(|step| step as f64).collect()
}

/// `a` of the coordinates, ascending.
pub(super) fn rates(y: &[f64]) -> Vec<f64> {
    let mut log = y[0];
    let rest = y[1..].iter().map(|y| {
        log += libm::exp(*y);
        libm::exp(log)
    });
    [libm::exp(y[0])].into_iter().chain(rest.collect::<Vec<_>>()).collect()
}

/// The coordinates of ascending rates.
pub(super) fn coordinates(rates: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = rates.iter().map(|a| libm::log(*a)).collect();
    [logs[0]].into_iter().chain(logs.windows(2).map(|pair| libm::log(pair[1] - pair[0]))).collect()
}

/// Poles and inverse poles of ascending rates.
pub(super) fn interlaced(rates: &[f64]) -> (Vec<Pole>, Vec<Pole>) {
    let every_other = |start: usize| rates[start..].iter().step_by(2).map(|a| Pole::from_rate(*a)).collect();
    (every_other(0), every_other(1))
}

/// From derivatives by the rates to derivatives by the coordinates.
fn chain_to_coordinates(y: &[f64], rates: &[f64], gradient: &mut [f64]) {
    // ln a_m depends on y_0 and on every y_l with l ≤ m.
    let mut above = 0.0;
    for m in (0..y.len()).rev() {
        above += gradient[m] * rates[m];
        gradient[m] = if m == 0 { above } else { above * libm::exp(y[m]) };
    }
}

/// The states of [`RowFigures`](super::figures::RowFigures) at the grid steps, kept for the way back.
struct Walk {
    /// `v` and `K` before each range of steps.
    before: Vec<(f64, Vec<f64>)>,
    norms: Vec<f64>,
}

/// What the state is at the end of a range, before the scale falls.
struct Arrival {
    /// `θ̂^m`.
    kept: Vec<f64>,
    variance: f64,
    covariances: Vec<f64>,
    couplings: Vec<f64>,
    /// `Σ λ K` and `Σ λ λ V`.
    crossed: f64,
    coupled: f64,
}

impl Arrival {
    fn new(response: &Response, before: &(f64, Vec<f64>), steps: (f64, f64), scale: f64) -> Self {
        let Response { inverse, lambda, floor, .. } = response;
        let m = steps.1 - steps.0;
        let kept: Vec<f64> = inverse.iter().map(|pole| libm::exp(-m * pole.a)).collect();
        let gained = |i: usize| scale * floor * inverse[i].sum(m);
        let covariances: Vec<f64> = (0..lambda.len()).map(|i| kept[i] * before.1[i] + gained(i)).collect();
        let decayed: Vec<f64> = inverse.iter().map(|pole| pole.decayed(steps.1)).collect();
        let covariance = |i: usize, j: usize| joined(decayed[i], decayed[j]) / joined(inverse[i].q, inverse[j].q);
        let coupling = |i: usize| (0..lambda.len()).map(|j| lambda[j] * covariance(i, j)).sum();
        let couplings: Vec<f64> = (0..lambda.len()).map(coupling).collect();
        let (crossed, coupled) = (dot(lambda, &covariances), dot(lambda, &couplings));
        let variance = before.0 + (scale * floor).powi(2) * m;
        Self { kept, variance, covariances, couplings, crossed, coupled }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Walk {
    fn forward(response: &Response, steps: &[f64], scales: &[f64]) -> Self {
        let mut state = (0.0, vec![0.0; response.lambda.len()]);
        let mut walk = Self { before: vec![], norms: vec![] };
        for (p, scale) in scales.iter().enumerate() {
            let at = Arrival::new(response, &state, range(steps, p), *scale);
            walk.norms.push(at.variance + scale * (2.0 * at.crossed + scale * at.coupled));
            let fall = scale - scales.get(p + 1).unwrap_or(scale);
            let variance = at.variance + fall * (2.0 * at.crossed + fall * at.coupled);
            let covariances = at.covariances.iter().zip(&at.couplings).map(|(k, y)| k + fall * y).collect();
            walk.before.push(std::mem::replace(&mut state, (variance, covariances)));
        }
        walk
    }

    /// Adds the derivatives of `Σ shares · norms` by poles and residues to `adjoint`; returns those by the scales.
    fn backward(
        &self,
        response: &Response,
        steps: &[f64],
        scales: &[f64],
        shares: &[f64],
        adjoint: &mut Adjoint,
    ) -> Vec<f64> {
        let Response { inverse, lambda, floor, .. } = response;
        let count = lambda.len();
        let mut by_scale = vec![0.0; scales.len()];
        let (mut variance, mut covariances) = (0.0, vec![0.0; count]); // derivatives by the state after the range
        for p in (0..scales.len()).rev() {
            let (scale, share, m) = (scales[p], shares[p], range(steps, p).1 - range(steps, p).0);
            let fall = scale - scales.get(p + 1).unwrap_or(&scale);
            let at = Arrival::new(response, &self.before[p], range(steps, p), scale);
            // The fall of the scale, and the norm at the end of the range.
            let by_fall = 2.0 * variance * (at.crossed + fall * at.coupled) + dot(&covariances, &at.couplings);
            let crossed = 2.0 * (fall * variance + scale * share);
            let coupled = fall * fall * variance + scale * scale * share;
            let couplings: Vec<f64> = covariances.iter().map(|k| fall * k).collect();
            adjoint.add_couplings(response, range(steps, p).1, coupled, &couplings);
            by_scale[p] += 2.0 * share * (at.crossed + scale * at.coupled) + by_fall;
            if p + 1 < scales.len() {
                by_scale[p + 1] -= by_fall;
            }
            variance += share;
            // The range itself.
            for i in 0..count {
                adjoint.lambda[i] += crossed * at.covariances[i];
                let by_arrival = covariances[i] + crossed * lambda[i];
                let sum = inverse[i].sum(m);
                by_scale[p] += by_arrival * floor * sum;
                adjoint.floor += by_arrival * scale * sum;
                let by_kept = by_arrival * (self.before[p].1[i] - scale * floor / inverse[i].q);
                let by_gap = -by_arrival * scale * floor * sum / inverse[i].q;
                adjoint.add_decay(i, by_kept, m, at.kept[i], by_gap);
                covariances[i] = by_arrival * at.kept[i];
            }
            by_scale[p] += variance * 2.0 * scale * floor * floor * m;
            adjoint.floor += variance * 2.0 * scale * scale * floor * m;
        }
        by_scale
    }
}

/// First and last step of a range of the grid: after the one, up to the other.
fn range(steps: &[f64], p: usize) -> (f64, f64) {
    (if p == 0 { 0.0 } else { steps[p - 1] }, steps[p])
}
