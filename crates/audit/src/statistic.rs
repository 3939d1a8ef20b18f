//! Linear statistics of releases, with their exact law under the promise.

use crate::law::SumLaw;
use crate::linear::dot;
use crate::promise::Promise;
use crate::tails::{binomial_at_least, binomial_at_most};

/// Standard deviation of the dither, in deviations of the statistic: it costs 1/5000 of the power.
const DITHER: f64 = 0.02;

/// `Σ_t v_t (out_t - truth_t)`, scaled to deviation 1, plus dither.
#[derive(Debug)]
pub(crate) struct LinearStatistic {
    v: Vec<f64>,
    law: SumLaw,
    /// The maximum effect of rounding.
    slack: f64,
}

impl LinearStatistic {
    /// The direction `v` must not be 0.
    pub(crate) fn new(promise: &Promise, v: &[f64]) -> Self {
        let weights = promise.node_weights(v);
        let deviation = dot(&weights, &weights).sqrt() * promise.node_deviation();
        let v: Vec<f64> = v.iter().map(|v| v / deviation).collect();
        let weights: Vec<f64> = weights.iter().map(|w| w * promise.unit / deviation).collect();
        let slack = promise.rounding * v.iter().map(|v| v.abs()).sum::<f64>();
        Self { law: SumLaw::new(&promise.law, &weights, DITHER), v, slack }
    }

    /// The statistic that distinguishes two streams best if the noise is normal: along `C⁻¹ Δ`.
    pub(crate) fn between(promise: &Promise, difference: &[f64]) -> Self {
        Self::new(promise, &promise.factor.solve(difference))
    }

    /// Its value; `normal` is a standard normal number that is independent of the releases.
    pub(crate) fn value(&self, residual: &[f64], normal: f64) -> f64 {
        dot(&self.v, residual) + self.law.dither() * normal
    }

    /// The shift caused by a difference of the streams.
    pub(crate) fn shift(&self, difference: &[f64]) -> f64 {
        dot(&self.v, difference)
    }

    /// The smallest and the largest P(value ≤ x) that rounding allows.
    pub(crate) fn below(&self, x: f64) -> (f64, f64) {
        let low = self.law.below(x - self.slack);
        (low, if self.slack == 0.0 { low } else { self.law.below(x + self.slack) })
    }
}

/// Counts the values at most, or above, each of some thresholds.
#[derive(Clone, Debug)]
pub(crate) struct ThresholdCounts {
    thresholds: Vec<f64>,
    /// The number of values above exactly 0, 1, 2, … thresholds: one entry more than thresholds.
    above: Vec<u64>,
}

impl ThresholdCounts {
    /// Thresholds in rising order.
    pub(crate) fn new(thresholds: Vec<f64>) -> Self {
        let above = vec![0; thresholds.len() + 1];
        Self { thresholds, above }
    }

    pub(crate) fn thresholds(&self) -> &[f64] {
        &self.thresholds
    }

    pub(crate) fn observe(&mut self, value: f64) {
        self.above[self.thresholds.partition_point(|t| *t < value)] += 1;
    }

    pub(crate) fn total(&self) -> u64 {
        self.above.iter().sum()
    }

    /// For each threshold the number of values at most as large.
    pub(crate) fn below(&self) -> Vec<u64> {
        let add = |sum: &mut u64, n: &u64| {
            *sum += n;
            Some(*sum)
        };
        self.above[..self.thresholds.len()].iter().scan(0, add).collect()
    }
}

/// Compares a statistic with its law: an exact binomial test at each of many thresholds.
#[derive(Debug)]
pub(crate) struct LawTest {
    statistic: LinearStatistic,
    counts: ThresholdCounts,
}

impl LawTest {
    pub(crate) fn new(statistic: LinearStatistic) -> Self {
        let thresholds = (-16..=16).map(|i| 0.25 * f64::from(i)).collect();
        Self { statistic, counts: ThresholdCounts::new(thresholds) }
    }

    pub(crate) fn observe(&mut self, residual: &[f64], normal: f64) {
        self.counts.observe(self.statistic.value(residual, normal));
    }

    /// Two-sided p-values, one per threshold.
    pub(crate) fn p_values(&self) -> impl Iterator<Item = f64> {
        let total = self.counts.total();
        self.counts.thresholds().iter().zip(self.counts.below()).map(move |(&at, below)| {
            let (low, high) = self.statistic.below(at);
            2.0 * binomial_at_least(below, total, high).min(binomial_at_most(below, total, low)).min(0.5)
        })
    }
}
