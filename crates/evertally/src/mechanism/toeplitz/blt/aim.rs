//! The objective of the optimiser: the logarithm of 2ρ·variance, with its gradient by reverse accumulation.
//!
//! Coordinates: `a = -ln θ` of the interlacing poles, shortest first, is `a_0 = e^(y_0)`,
//! `ln a_m = ln a_(m-1) + e^(y_m)`. Any `y` gives poles that interlace.
//!
//! The value is that of [`RowFigures`](super::figures::RowFigures) on a coarse grid of steps, with real column scales,
//! and the maximum is softened to a power mean. It only decides where the optimiser stops; the norms of the result are
//! computed from the result. The plain BLT has a single column scale, and its largest row is the last.

use super::adjoint::{Adjoint, Terms};
use super::runs::Closed;
use crate::mechanism::state_space::response::{BufferRow, PartialFractions, Pole, row};
use crate::mechanism::toeplitz::ColumnScaling;
use crate::mechanism::{Objective, Participation};

/// Ratio of neighbouring grid steps.
const RATIO: f64 = 1.2;

/// A grid of steps, and the aggregate of the row norms there.
#[derive(Clone, Debug)]
pub(super) struct GridObjective {
    /// Steps, ascending; the last is the horizon.
    steps: Vec<f64>,
    scaling: ColumnScaling,
    aggregate: Aggregate,
}

#[derive(Clone, Debug)]
enum Aggregate {
    /// The power mean of this exponent.
    Power(f64),
    /// The mean with these weights.
    Mean(Vec<f64>),
}

impl GridObjective {
    /// The mean over the steps.
    pub(super) fn mean(horizon: u64, scaling: ColumnScaling) -> Self {
        let steps = grid(horizon);
        let gaps = |i: usize| {
            let before = if i == 0 { 1.0 - 0.5 } else { 0.5 * (steps[i - 1] + steps[i]) };
            let after = if i + 1 == steps.len() { steps[i] + 0.5 } else { 0.5 * (steps[i] + steps[i + 1]) };
            (after - before) / horizon as f64
        };
        let weights = (0..steps.len()).map(gaps).collect();
        Self { steps, scaling, aggregate: Aggregate::Mean(weights) }
    }

    /// The mean, or the maximum for one power after the other.
    pub(super) fn of(horizon: u64, scaling: ColumnScaling, objective: Objective, powers: &[f64]) -> Vec<Self> {
        match objective {
            Objective::Mean => vec![Self::mean(horizon, scaling)],
            // The largest row of a plain one is the last.
            Objective::Max if !scaling.are_normalized() => vec![Self::max(horizon, scaling, 1.0)],
            Objective::Max => powers.iter().map(|power| Self::max(horizon, scaling, *power)).collect(),
        }
    }

    /// The maximum over the steps, softened by a power.
    pub(super) fn max(horizon: u64, scaling: ColumnScaling, power: f64) -> Self {
        let steps = if scaling.are_normalized() { grid(horizon) } else { vec![horizon as f64] };
        Self { steps, scaling, aggregate: Aggregate::Power(power) }
    }

    /// The value at `y` and its gradient.
    pub(super) fn evaluate(&self, y: &[f64]) -> (f64, Vec<f64>) {
        let rates = rates(y);
        let (poles, inverse) = interlaced(&rates);
        let response = PartialFractions::from_poles(poles, inverse);
        let mut adjoint = Adjoint::default();
        let columns = self.columns(&response);
        let norms: Vec<f64> = columns.iter().map(|column| 1.0 + response.direct.energy(&column.decayed)).collect();
        let scales: Vec<f64> = if self.scaling.are_normalized() {
            norms.iter().map(|norm| libm::sqrt(*norm)).collect()
        } else {
            vec![1.0; self.steps.len()]
        };
        let walk = GridStates::forward(&response, &self.steps, &scales);
        let (mut value, shares) = self.aggregate(&walk.norms);
        let by_scale = walk.backward(&response, &shares, &mut adjoint);
        if self.scaling.are_normalized() {
            for ((column, by_scale), scale) in columns.into_iter().zip(by_scale).zip(scales) {
                adjoint.add_column(&response, column, by_scale / (2.0 * scale));
            }
        } else {
            value += libm::log(norms[0]);
            adjoint.add_column(&response, columns[0], 1.0 / norms[0]);
        }
        let mut gradient = adjoint.of_rates(&response);
        chain_to_coordinates(y, &rates, &mut gradient);
        (value, gradient)
    }

    /// The columns whose norms matter, without their first entry: the longest; or, for a normalized BLT, the one that
    /// begins at each grid step, whose norm is the scale of the steps before.
    fn columns(&self, response: &PartialFractions) -> Vec<Terms> {
        let horizon = self.steps[self.steps.len() - 1];
        let first = if self.scaling.are_normalized() { &self.steps[..] } else { &[1.0] };
        first.iter().map(|step| horizon - step).map(|n| Terms { n, decayed: response.direct.decayed(n) }).collect()
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

/// The same objective for units with events in several steps.
#[derive(Clone, Debug)]
pub(super) struct PatternObjective {
    grid: GridObjective,
    runs: Participation,
}

impl PatternObjective {
    /// For patterns that fit the horizon.
    pub(super) fn new(grid: GridObjective, runs: Participation) -> Self {
        Self { grid, runs }
    }

    /// The value at `y` and its gradient, if the value passes a test. Plain: `2ρ·variance` with the length of the
    /// packed pattern from the first step on. Normalized: the columns have the weights for [patterns](super::runs), so
    /// that the longest pattern has length 1.
    pub(super) fn evaluate(&self, y: &[f64], passes: &dyn Fn(f64) -> bool) -> Option<(f64, Vec<f64>)> {
        let Self { grid, runs } = self;
        let rates = rates(y);
        let (poles, inverse) = interlaced(&rates);
        let response = PartialFractions::from_poles(poles, inverse);
        let patterns = Closed::new(&response.direct, *runs);
        let horizon = grid.steps[grid.steps.len() - 1];
        // Before this step there is no whole pattern.
        let first = ((runs.most() - 1) * runs.separation() + 1) as f64; // fits: a pattern within the horizon
        // The scale of the steps up to a grid step is the length of the pattern that ends there.
        let ends: Vec<f64> = match grid.scaling.are_normalized() {
            true => grid.steps.iter().map(|step| horizon - step.max(first)).collect(),
            false => vec![horizon - first],
        };
        let norms: Vec<f64> = ends.iter().map(|end| patterns.at(*end)).collect();
        let scales: Vec<f64> = match grid.scaling.are_normalized() {
            true => norms.iter().map(|norm| libm::sqrt(*norm)).collect(),
            false => vec![1.0; grid.steps.len()],
        };
        let walk = GridStates::forward(&response, &grid.steps, &scales);
        let (mut value, shares) = grid.aggregate(&walk.norms);
        if !grid.scaling.are_normalized() {
            value += libm::log(norms[0]);
        }
        if !passes(value) {
            return None;
        }
        let mut adjoint = Adjoint::default();
        let by_scale = walk.backward(&response, &shares, &mut adjoint);
        let by_norm: Vec<f64> = match grid.scaling.are_normalized() {
            true => by_scale.iter().zip(&scales).map(|(by_scale, scale)| by_scale / (2.0 * scale)).collect(),
            false => vec![1.0 / norms[0]],
        };
        patterns.add_derivatives(ends.into_iter().zip(by_norm), &mut adjoint);
        let mut gradient = adjoint.of_rates(&response);
        chain_to_coordinates(y, &rates, &mut gradient);
        Some((value, gradient))
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

/// The states of [`RowFigures`](super::figures::RowFigures) at the grid steps, kept for the backward pass.
struct GridStates {
    ranges: Vec<GridSegment>,
    norms: Vec<f64>,
}

/// Values for the steps between two grid steps, which have one scale.
struct GridSegment {
    /// Number of steps.
    length: f64,
    /// All steps up to the last of them.
    so_far: Terms,
    scale: f64,
    /// The amount by which the scale falls at the end.
    fall: f64,
    /// `K` before the range.
    before: BufferRow,
    /// `1 - θ̂^m`.
    decayed: BufferRow,
    /// At the end, before the scale falls: `K`, `Σ_j λ_j V_ij`, `Σ λ K` and `Σ λ λ V`.
    covariances: BufferRow,
    couplings: BufferRow,
    crossed: f64,
    coupled: f64,
}

impl GridStates {
    fn forward(response: &PartialFractions, steps: &[f64], scales: &[f64]) -> Self {
        let PartialFractions { inverse, floor, .. } = response;
        let (mut variance, mut before, mut start) = (0.0, BufferRow::default(), 0.0);
        let mut walk = Self { ranges: Vec::with_capacity(steps.len()), norms: Vec::with_capacity(steps.len()) };
        for (p, (last, scale)) in steps.iter().copied().zip(scales.iter().copied()).enumerate() {
            let (length, fall) = (last - start, scale - scales.get(p + 1).unwrap_or(&scale));
            let decayed = inverse.decayed(length);
            let gained = |i: usize| decayed[i] * (scale * floor / inverse.poles[i].q - before[i]);
            let covariances = row((0..inverse.poles.len()).map(|i| before[i] + gained(i)));
            let so_far = Terms { n: last, decayed: inverse.decayed(last) };
            let couplings = inverse.couplings(&so_far.decayed);
            let (crossed, coupled) = (inverse.weighted(&covariances), inverse.weighted(&couplings));
            variance += scale * scale * floor * floor * length;
            walk.norms.push(variance + scale * (2.0 * crossed + scale * coupled));
            walk.ranges.push(GridSegment {
                length,
                so_far,
                scale,
                fall,
                before,
                decayed,
                covariances,
                couplings,
                crossed,
                coupled,
            });
            variance += fall * (2.0 * crossed + fall * coupled);
            before = row(covariances.iter().zip(couplings).map(|(k, y)| k + fall * y));
            start = last;
        }
        walk
    }

    /// Adds the derivatives of `Σ shares · norms` by poles and residues to `adjoint`; returns those by the scales.
    fn backward(&self, response: &PartialFractions, shares: &[f64], adjoint: &mut Adjoint) -> Vec<f64> {
        let PartialFractions { inverse, floor, .. } = response;
        let mut by_scale = vec![0.0; shares.len()];
        let (mut variance, mut covariances) = (0.0, BufferRow::default()); // derivatives by the state after the range
        for (p, (range, share)) in self.ranges.iter().zip(shares.iter().copied()).enumerate().rev() {
            let GridSegment { length: m, scale, fall, crossed, coupled, .. } = *range;
            // The fall of the scale, and the norm at the end of the range.
            let product: f64 = covariances.iter().zip(range.couplings).map(|(k, y)| k * y).sum();
            let by_fall = 2.0 * variance * (crossed + fall * coupled) + product;
            let by_crossed = 2.0 * (fall * variance + scale * share);
            let by_coupled = fall * fall * variance + scale * scale * share;
            adjoint.add_couplings(response, range.so_far, by_coupled, &covariances.map(|k| fall * k));
            by_scale[p] += 2.0 * share * (crossed + scale * coupled) + by_fall;
            if let Some(next) = by_scale.get_mut(p + 1) {
                *next -= by_fall;
            }
            variance += share;
            // The range itself.
            for (i, pole) in inverse.poles.iter().enumerate() {
                adjoint.lambda[i] += by_crossed * range.covariances[i];
                let by_arrival = covariances[i] + by_crossed * inverse.weights[i];
                let sum = range.decayed[i] / pole.q;
                by_scale[p] += by_arrival * floor * sum;
                adjoint.floor += by_arrival * scale * sum;
                let by_decay = by_arrival * (scale * floor / pole.q - range.before[i]);
                adjoint.add_decay(
                    i,
                    by_decay,
                    m * (1.0 - range.decayed[i]),
                    -by_arrival * scale * floor * sum / pole.q,
                );
                covariances[i] = by_arrival * (1.0 - range.decayed[i]);
            }
            by_scale[p] += variance * 2.0 * scale * floor * floor * m;
            adjoint.floor += variance * 2.0 * scale * scale * floor * m;
        }
        by_scale
    }
}
