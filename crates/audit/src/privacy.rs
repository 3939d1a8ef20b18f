//! Lower confidence bounds on the information that the releases of two neighbouring streams reveal.
//!
//! A test distinguishes two streams by a set of outcomes, "the statistic exceeds a threshold", with probabilities `q`
//! under the first and `p` under the second. For any mechanism, (ε, δ)-differential privacy implies `p ≤ e^ε q + δ`,
//! also with the streams exchanged, or the set replaced by its complement; so Clopper–Pearson bounds on `p` and `q`
//! bound ε from below. If no test may do better than between normal laws μ deviations apart, `μ ≥ Φ⁻¹(p) - Φ⁻¹(q)`
//! likewise.
//!
//! Thresholds are fixed before anything is drawn; the level is divided by their number (and by two, for `p` and `q`).
//!
//! The statistics: for μ the linear one along `C⁻¹ Δ`, which is the likelihood ratio under normal noise. For ε under
//! Laplace noise `Σ_n (|ẑ_n| - |ẑ_n - d_n|)/s` with the least-squares estimates `ẑ = Lᵀ C⁻¹ r` of the node variables
//! and `d` that of the difference: the likelihood ratio itself if `L` is square. Otherwise the likelihood is an
//! integral, and this is an approximation, which costs power but not validity.

use crate::linear::{column, dot};
use crate::pair::Pair;
use crate::promise::Promise;
use crate::statistic::{LinearStatistic, ThresholdCounts};
use crate::tails::{at_least, at_most, normal_quantile};

/// The maximum number of weights of a likelihood ratio over all its nodes; beyond it, the nodes that differ most are
/// used.
const MAX_WEIGHTS: usize = 1 << 13;

/// A lower confidence bound, and the limit that it must not exceed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfidenceBound {
    pub(crate) bound: f64,
    pub(crate) promise: f64,
}

/// Two streams, the statistics that distinguish them, and the observations.
#[derive(Debug)]
pub(crate) struct NeighbourTest {
    /// Difference of the exact running sums, in units of the data.
    difference: Vec<f64>,
    /// The fraction of the allowed difference that they have: see [`Promise::spent`].
    spent: Option<f64>,
    linear: LinearStatistic,
    linear_counts: [ThresholdCounts; 2],
    ratio: Option<LikelihoodRatio>,
    ratio_counts: [ThresholdCounts; 2],
}

impl NeighbourTest {
    pub(crate) fn new(promise: &Promise, pair: &Pair) -> Self {
        let difference = promise.of_all_sums(&pair.difference());
        let linear = LinearStatistic::between(promise, &difference);
        let middle = linear.shift(&difference) / 2.0;
        let thresholds = (-8..=8).map(|i| middle + 0.25 * f64::from(i)).collect();
        let linear_counts = ThresholdCounts::new(thresholds);
        let ratio = promise.law.is_laplace().then(|| LikelihoodRatio::new(promise, &difference));
        let largest = ratio.as_ref().map_or(0.0, LikelihoodRatio::largest);
        let ratio_counts = ThresholdCounts::new((-9..=9).map(|i| 0.1 * f64::from(i) * largest).collect());
        Self {
            spent: promise.spent(&difference),
            difference,
            linear,
            linear_counts: [linear_counts.clone(), linear_counts],
            ratio,
            ratio_counts: [ratio_counts.clone(), ratio_counts],
        }
    }

    /// Records releases of the first (0) or second (1) stream, minus the exact running sums of that stream.
    pub(crate) fn observe(&mut self, side: usize, residual: &[f64], normal: f64) {
        let moved: Vec<f64>;
        let from_first = if side == 0 {
            residual
        } else {
            moved = residual.iter().zip(&self.difference).map(|(r, d)| r + d).collect();
            &moved
        };
        self.linear_counts[side].observe(self.linear.value(from_first, normal));
        if let Some(ratio) = &self.ratio {
            self.ratio_counts[side].observe(ratio.value(from_first));
        }
    }

    /// The fraction of the budget's allowed difference that these streams have, under the promised noise.
    pub(crate) fn spent(&self) -> Option<f64> {
        self.spent
    }

    /// The bound on ε at this δ.
    pub(crate) fn epsilon(&self, delta: f64, level: f64) -> f64 {
        let [first, second] = if self.ratio.is_some() { &self.ratio_counts } else { &self.linear_counts };
        let (n, m) = (first.total(), second.total());
        // Two outcomes and two bounds per threshold; the sign of the statistic decides the roles of the streams.
        let each = level / (4 * first.thresholds().len()) as f64;
        let ratio = |more: f64, less: f64| libm::log((more - delta).max(0.0) / less);
        let at = |(first, second): (u64, u64)| {
            let above = ratio(at_least(m - second, m, each), at_most(n - first, n, each));
            let below = ratio(at_least(first, n, each), at_most(second, m, each));
            above.max(below)
        };
        first.below().into_iter().zip(second.below()).map(at).fold(0.0, f64::max)
    }

    /// The bound on μ at the threshold where it comes closest to the limit, or exceeds it most. The limit is
    /// `anywhere`, or this test's value for the promised mechanism at this threshold if that is larger, as it is with
    /// coarse noise; the latter only for streams that differ no more than the budget allows. (So a mechanism that
    /// promises too narrow a noise is not compared with that noise.)
    pub(crate) fn mu(&self, anywhere: Option<f64>, level: f64) -> ConfidenceBound {
        let [first, second] = &self.linear_counts;
        let (n, m) = (first.total(), second.total());
        let each = level / (2 * first.thresholds().len()) as f64;
        let shift = self.linear.shift(&self.difference) / self.spent.unwrap_or(1.0).max(1.0);
        let counts = first.below().into_iter().zip(second.below());
        let bounds = first.thresholds().iter().zip(counts).map(|(&at, (first, second))| {
            let (p, q) = (at_least(m - second, m, each), at_most(n - first, n, each));
            let here = normal_quantile(self.linear.below(at).1) - normal_quantile(self.linear.below(at - shift).0);
            let promise = anywhere.map_or(here, |mu| mu.max(here));
            ConfidenceBound { bound: (normal_quantile(p) - normal_quantile(q)).max(0.0), promise }
        });
        let bounds: Vec<ConfidenceBound> = bounds.filter(|b| b.promise.is_finite()).collect();
        let excess = |b: &ConfidenceBound| b.bound - b.promise;
        bounds.into_iter().max_by(|a, b| excess(a).total_cmp(&excess(b))).expect("the middle is finite")
    }
}

/// See the [module](self).
#[derive(Debug)]
struct LikelihoodRatio {
    nodes: Vec<NodeEstimate>,
    scale: f64,
}

/// `ẑ_n = v · r` in steps of the noise grid, and `d_n`.
#[derive(Debug)]
struct NodeEstimate {
    v: Vec<(usize, f64)>,
    shift: f64,
}

impl LikelihoodRatio {
    fn new(promise: &Promise, difference: &[f64]) -> Self {
        let shifts = promise.node_weights(&promise.factor.solve(difference));
        let mut order: Vec<usize> = (0..shifts.len()).filter(|&n| (shifts[n] / promise.unit).abs() > 1e-9).collect();
        order.sort_by(|&a, &b| shifts[b].abs().total_cmp(&shifts[a].abs()));
        let mut nodes = Vec::new();
        let mut weights = 0;
        for n in order {
            let v = sparse(&promise.factor.solve(&column(&promise.l, n)), promise.unit);
            weights += v.len();
            if weights > MAX_WEIGHTS {
                break;
            }
            nodes.push(NodeEstimate { v, shift: shifts[n] / promise.unit });
        }
        Self { nodes, scale: promise.law.scale() }
    }

    fn largest(&self) -> f64 {
        self.nodes.iter().map(|n| n.shift.abs()).sum::<f64>() / self.scale
    }

    fn value(&self, residual: &[f64]) -> f64 {
        let loss = |node: &NodeEstimate| {
            let z: f64 = node.v.iter().map(|&(t, v)| v * residual[t]).sum();
            z.abs() - (z - node.shift).abs()
        };
        self.nodes.iter().map(loss).sum::<f64>() / self.scale
    }
}

/// The nonzero entries, divided by `unit`.
pub(crate) fn sparse(v: &[f64], unit: f64) -> Vec<(usize, f64)> {
    let largest = dot(v, v).sqrt();
    v.iter().enumerate().filter(|(_, v)| v.abs() > 1e-10 * largest).map(|(t, v)| (t, v / unit)).collect()
}
