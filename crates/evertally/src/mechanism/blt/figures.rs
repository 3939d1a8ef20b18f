//! Row norms of `L = A D C⁻¹` with column scales `D` that are constant on segments.
//!
//! Let `u_i(t) = Σ_{s≤t} θ̂_i^(t-s) z_s`. While `D` is constant, the noise of the release is `N = M + D Σ λ_i u_i`, where
//! `M` is a random walk with increments `D λ_0 z`: this is the partial-fraction form of `A C⁻¹`. As `N` itself does not jump
//! where `D` falls by `δ`, `M` grows there by `δ Σ λ_i u_i`. With `z` of variance 1, `v = Var M`, `K_i = Cov(M, u_i)` and
//! `V_ij = Cov(u_i, u_j) = Σ_{s<t} (θ̂_i θ̂_j)^s`,
//!
//! ```text
//! ‖L_t‖² = v + 2 D Σ λ_i K_i + D² Σ λ_i λ_j V_ij
//! m steps on: v + D² λ_0² m,  θ̂_i^m K_i + D λ_0 (1 - θ̂_i^m) / (1 - θ̂_i)
//! at a fall:  v + 2 δ Σ λ_i K_i + δ² Σ λ_i λ_j V_ij,  K_i + δ Σ_j λ_j V_ij
//! ```
//!
//! All terms are positive. Inside a segment all of them grow with `m` but `θ̂_i^m K_i`, which falls: so the values at both ends
//! of a range of steps bound the norms inside it, and bisection proves the maximum. Sums over `m` are geometric.

use super::MAX_BUFFERS;
use super::response::{Pole, Response, joined, sum_of_sums};
use super::segments::Segment;

/// The largest row norm is known to this relative error.
const MAX_TOLERANCE: f64 = 1e-8;

/// `M` and its covariances where a segment begins.
#[derive(Clone, Copy, Debug)]
struct Stage {
    /// Steps before the segment.
    before: u64,
    /// Last step of the segment.
    last: u64,
    /// `D`.
    scale: f64,
    /// `v`.
    variance: f64,
    /// `K`.
    covariances: [f64; MAX_BUFFERS],
}

/// `‖L_t‖²` of every step in `O(d² + log T)`, with the largest and the mean.
#[derive(Clone, Debug)]
pub(super) struct RowFigures {
    response: Response,
    stages: Vec<Stage>,
    max: f64,
    mean: f64,
}

impl RowFigures {
    /// Of a response and segments of weights `2^weight_bits / D`.
    pub(super) fn new(response: Response, segments: &[Segment], weight_bits: u32) -> Self {
        let mut figures = Self { response, stages: Vec::with_capacity(segments.len()), max: 0.0, mean: 0.0 };
        let scale = |segment: &Segment| libm::exp2(f64::from(weight_bits)) / f64::from(segment.weight);
        let first = Stage { before: 0, last: 0, scale: scale(&segments[0]), variance: 0.0, covariances: [0.0; MAX_BUFFERS] };
        for segment in segments {
            let stage = figures.stages.last().map_or(first, |stage| figures.after(stage, scale(segment)));
            figures.stages.push(Stage { last: segment.last, ..stage });
        }
        figures.max = figures.largest();
        figures.mean = figures.total() / segments[segments.len() - 1].last as f64;
        figures
    }

    pub(super) fn response(&self) -> &Response {
        &self.response
    }

    pub(super) fn max(&self) -> f64 {
        self.max
    }

    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// `‖L_t‖²` of a step from 1.
    pub(super) fn at(&self, step: u64) -> f64 {
        let stage = &self.stages[self.stages.partition_point(|stage| stage.last < step)];
        let (growing, falling) = self.parts(stage, step);
        growing + falling
    }

    /// `D` of a step.
    pub(super) fn scale(&self, step: u64) -> f64 {
        self.stages[self.stages.partition_point(|stage| stage.last < step)].scale
    }

    /// `1 - θ̂_i^n`.
    fn decayed(&self, n: u64) -> [f64; MAX_BUFFERS] {
        let mut out = [0.0; MAX_BUFFERS];
        out.iter_mut().zip(&self.response.inverse).for_each(|(out, pole)| *out = pole.decayed(n as f64));
        out
    }

    /// `Σ_j λ_j V_ij` for every `i`, after `step` steps.
    fn couplings(&self, step: u64) -> [f64; MAX_BUFFERS] {
        let Response { inverse, lambda, .. } = &self.response;
        let decayed = self.decayed(step);
        let mut out = [0.0; MAX_BUFFERS];
        for i in 0..inverse.len() {
            for j in 0..=i {
                let covariance = joined(decayed[i], decayed[j]) / joined(inverse[i].q, inverse[j].q);
                out[i] += lambda[j] * covariance;
                if i != j {
                    out[j] += lambda[i] * covariance;
                }
            }
        }
        out
    }

    /// `Σ λ_i w_i`.
    fn weighted(&self, values: &[f64; MAX_BUFFERS]) -> f64 {
        self.response.lambda.iter().zip(values).map(|(lambda, value)| lambda * value).sum()
    }

    /// `‖L_t‖²` as a part that grows with the step inside its segment, and one that falls.
    fn parts(&self, stage: &Stage, step: u64) -> (f64, f64) {
        let Stage { scale, .. } = *stage;
        let Response { inverse, lambda, floor, .. } = &self.response;
        let m = (step - stage.before) as f64;
        let decayed = self.decayed(step - stage.before);
        let (mut gained, mut kept) = (0.0, 0.0);
        for i in 0..inverse.len() {
            gained += lambda[i] * decayed[i] / inverse[i].q;
            kept += lambda[i] * (1.0 - decayed[i]) * stage.covariances[i];
        }
        let walk = stage.variance + scale * scale * floor * (floor * m + 2.0 * gained);
        (walk + scale * scale * self.weighted(&self.couplings(step)), 2.0 * scale * kept)
    }

    /// The beginning of the next segment, which has this scale.
    fn after(&self, stage: &Stage, scale: f64) -> Stage {
        let Response { inverse, floor, .. } = &self.response;
        let m = stage.last - stage.before;
        let decayed = self.decayed(m);
        let fall = stage.scale - scale;
        let couplings = self.couplings(stage.last);
        let mut covariances = stage.covariances;
        for (i, pole) in inverse.iter().enumerate() {
            covariances[i] += decayed[i] * (stage.scale * floor / pole.q - covariances[i]);
        }
        let walk = stage.variance + (stage.scale * floor).powi(2) * m as f64;
        let variance = walk + fall * (2.0 * self.weighted(&covariances) + fall * self.weighted(&couplings));
        covariances.iter_mut().zip(couplings).for_each(|(covariance, coupling)| *covariance += fall * coupling);
        Stage { before: stage.last, last: 0, scale, variance, covariances }
    }

    /// The largest `‖L_t‖²`, by bisection of the segments that may hold more than what is known.
    fn largest(&self) -> f64 {
        let ends = self.stages.iter().flat_map(|stage| [stage.before + 1, stage.last]);
        let mut best = ends.map(|step| self.at(step)).fold(0.0, f64::max);
        for stage in &self.stages {
            let mut open = vec![(stage.before + 1, stage.last)];
            while let Some((first, last)) = open.pop() {
                let bound = self.parts(stage, last).0 + self.parts(stage, first).1;
                if bound <= best * (1.0 + MAX_TOLERANCE) || last - first < 2 {
                    continue;
                }
                let middle = first + (last - first) / 2;
                let (growing, falling) = self.parts(stage, middle);
                best = best.max(growing + falling);
                open.extend([(first, middle), (middle, last)]);
            }
        }
        best
    }

    /// `Σ_t ‖L_t‖²`.
    fn total(&self) -> f64 {
        let Response { inverse, lambda, floor, .. } = &self.response;
        let mut total = 0.0;
        let mut coupled = 0.0; // Σ_{s≤t} Σ λ_i λ_j V_ij(s) at the last step of the stage before
        for stage in &self.stages {
            let m = (stage.last - stage.before) as f64;
            let decayed = self.decayed(stage.last - stage.before);
            let squared = stage.scale * stage.scale;
            let mut sum = stage.variance * m + squared * floor * floor * m * (m + 1.0) / 2.0;
            for i in 0..inverse.len() {
                let Pole { q, .. } = inverse[i];
                let kept = stage.covariances[i] * (1.0 - q) * decayed[i] / q;
                sum += 2.0 * stage.scale * lambda[i] * (kept + stage.scale * floor * sum_of_sums(m, q, decayed[i]));
            }
            let so_far = self.coupled_total(stage.last);
            total += sum + squared * (so_far - coupled);
            coupled = so_far;
        }
        total
    }

    /// `Σ_{s≤t} Σ λ_i λ_j V_ij(s)`.
    fn coupled_total(&self, step: u64) -> f64 {
        let Response { inverse, lambda, .. } = &self.response;
        let decayed = self.decayed(step);
        let mut total = 0.0;
        for i in 0..inverse.len() {
            for j in 0..inverse.len() {
                let gap = joined(inverse[i].q, inverse[j].q);
                total += lambda[i] * lambda[j] * sum_of_sums(step as f64, gap, joined(decayed[i], decayed[j]));
            }
        }
        total
    }
}
