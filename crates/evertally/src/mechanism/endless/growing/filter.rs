//! The frozen numbers of a filter whose memory grows: rates, gains and weights, and the norms of its columns.

use crate::mechanism::Participation;
use crate::mechanism::endless::grids::WEIGHT_BITS;
use crate::mechanism::state_space::segments::Segment;
use crate::mechanism::toeplitz::settled::WeightedStage;

/// Longest horizon; slower buffers than for it do not fit the grid.
pub(in crate::mechanism::endless) const LONGEST: u64 = 1 << 44;
/// Longest pattern of a unit, in steps.
pub(super) const LONGEST_PATTERN: u64 = 1 << 32;
/// Ratio of neighbouring rates.
const RATIO: f64 = 8.0;
/// The slowest rate, at least.
const SLOWEST: f64 = 1.0 / (4.0 * LONGEST as f64);

/// The constants of the header of [`growing`](super).
struct GrowthConstants {
    fastest: f64,
    /// The factor of all echoes.
    echo: f64,
    kappa: f64,
    power: f64,
    /// `s_0`.
    lead: u64,
}

impl GrowthConstants {
    fn new(runs: Participation) -> Self {
        let (most, separation) = (runs.most() as f64, runs.separation() as f64);
        let steps = most * separation;
        if runs == Participation::ONCE {
            return Self { fastest: 1.0, echo: 1.0, kappa: 0.22, power: 0.25, lead: 2 };
        }
        let lead = ((0.3 * steps) as u64).max(1);
        let (fastest, echo) = if runs.separation() == 1 { (0.27 / steps, 1.4) } else { (1.0, 1.7) };
        Self { fastest, echo: echo / libm::sqrt(most), kappa: 0.4, power: 0.3, lead }
    }
}

/// Consecutive steps with the same gains and weight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GrowthStage {
    /// Steps before it.
    pub(super) before: u64,
    /// Its last step.
    pub(super) last: u64,
    /// `w` in units of `2^-14`.
    pub(super) weight: u32,
    /// `γ_i` in units of `2^-64`.
    pub(super) gains: Vec<u64>,
}

/// The frozen numbers of a filter, and their values.
#[derive(Debug)]
pub(super) struct GrowingFilter {
    /// `1 - θ_i` in units of `2^-64`.
    pub(super) gaps: Vec<u64>,
    pub(super) stages: Vec<GrowthStage>,
    /// `1 - θ_i`.
    pub(super) q: Vec<f64>,
    /// `-ln θ_i`.
    pub(super) rates: Vec<f64>,
}

/// The value of a multiple of `2^-64`.
fn fraction(integer: u64) -> f64 {
    integer as f64 * libm::exp2(-64.0)
}

impl GrowingFilter {
    pub(super) fn new(horizon: u64, runs: Participation) -> Self {
        let shape = GrowthConstants::new(runs);
        let mut rates = vec![shape.fastest];
        while rates[rates.len() - 1] > SLOWEST * RATIO {
            rates.push(rates[rates.len() - 1] / RATIO);
        }
        let frozen = |value: f64| (value * libm::exp2(64.0)) as u64;
        let gaps: Vec<u64> = rates.iter().map(|rate| frozen(-libm::expm1(-rate))).collect();
        let q: Vec<f64> = gaps.iter().map(|gap| fraction(*gap)).collect();
        let rates: Vec<f64> = q.iter().map(|q| -libm::log1p(-q)).collect();
        let mut filter = Self { gaps, stages: vec![], q, rates };
        let whole = libm::log(RATIO) / std::f64::consts::PI * shape.echo;
        let mut before = 0;
        while before < horizon {
            let age = before + shape.lead; // fits: both are below 2^45
            let last = (before + (age / 2).max(1)).min(horizon);
            let gain = |rate: &f64| {
                let x = rate * age as f64;
                let open = libm::pow(x / (x + shape.kappa), shape.power);
                frozen(whole * libm::sqrt(*rate) * libm::exp(-rate) * open)
            };
            filter.stages.push(GrowthStage { before, last, weight: 0, gains: filter.rates.iter().map(gain).collect() });
            before = last;
        }
        filter.set_weights(runs);
        filter
    }

    /// Patterns get the same length in all stages, and the longest column a length of at most 1.
    fn set_weights(&mut self, runs: Participation) {
        let weight = |stage: &GrowthStage| 1.0 / libm::sqrt(self.pattern_squared(stage, runs));
        let weights: Vec<f64> = self.stages.iter().map(weight).collect();
        let columns = self.stages.iter().zip(&weights).map(|(stage, weight)| weight * libm::sqrt(self.square(stage)));
        let one = f64::from(1 << WEIGHT_BITS) / columns.fold(0.0, f64::max) * (1.0 - 1e-12);
        for (stage, weight) in self.stages.iter_mut().zip(weights) {
            stage.weight = ((weight * one) as u32).max(1);
        }
    }

    /// The stage of a step from 1.
    pub(super) fn place(&self, step: u64) -> usize {
        self.stages.partition_point(|stage| stage.last < step)
    }

    /// `θ_i^n`.
    pub(super) fn kept(&self, i: usize, n: u64) -> f64 {
        libm::exp(-(n as f64) * self.rates[i])
    }

    /// `Σ_n (θ_i θ_j)^n` over all `n ≥ 0`.
    fn pair(&self, i: usize, j: usize) -> f64 {
        1.0 / (self.q[i] + self.q[j] * (1.0 - self.q[i]))
    }

    /// `u_i`: the inner product of the column of a step in this stage, without its weight, with the echo of buffer `i`
    /// alone in an earlier column, over the value of that echo in the step.
    pub(super) fn partners(&self, stage: &GrowthStage) -> Vec<f64> {
        let gains = stage.gains();
        let coupling = |i: usize| gains.iter().enumerate().map(|(j, gain)| gain * self.pair(i, j)).sum::<f64>();
        (0..self.q.len()).map(|i| 1.0 + (1.0 - self.q[i]) * coupling(i)).collect()
    }

    /// The squared norm of a column of a stage without its weight, over all steps without an end.
    pub(super) fn square(&self, stage: &GrowthStage) -> f64 {
        let gains = stage.gains();
        let of_pair = |i: usize, j: usize| gains[i] * gains[j] * self.pair(i, j);
        let count = gains.len();
        1.0 + (0..count).map(|i| (0..count).map(|j| of_pair(i, j)).sum::<f64>()).sum::<f64>()
    }

    /// The squared norm of a pattern of columns that all have the gains of this stage. It only decides on weights.
    fn pattern_squared(&self, stage: &GrowthStage, runs: Participation) -> f64 {
        let (most, partners) = (runs.most() as f64, self.partners(stage));
        let earlier = |(i, gain): (usize, f64)| {
            let (apart, all) = (runs.separation() as f64 * self.rates[i], most * runs.separation() as f64);
            let (once, whole) = (-libm::expm1(-apart), -libm::expm1(-all * self.rates[i]));
            // Σ_{0<n<m} (m-n) θ^((n-1)b), which would cancel if memory is much longer than a pattern.
            let steps =
                if most * once < 1e-3 { most * (most - 1.0) / 2.0 } else { (most * once - whole) / (once * once) };
            gain * partners[i] * self.kept(i, runs.separation() - 1) * steps
        };
        most * self.square(stage) + 2.0 * stage.gains().into_iter().enumerate().map(earlier).sum::<f64>()
    }

    /// `w` of a stage.
    pub(super) fn weight(stage: &GrowthStage) -> f64 {
        f64::from(stage.weight) / f64::from(1 << WEIGHT_BITS)
    }
}

impl WeightedStage for GrowthStage {
    fn segment(&self) -> Segment {
        Segment { last: self.last, weight: self.weight }
    }
}

impl GrowthStage {
    pub(super) fn gains(&self) -> Vec<f64> {
        self.gains.iter().map(|gain| fraction(*gain)).collect()
    }
}
