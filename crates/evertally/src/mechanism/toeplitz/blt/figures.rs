//! Row norms of `L = A D C⁻¹` with column scales `D` that are constant on segments.
//!
//! Let `u_i(t) = Σ_{s≤t} θ̂_i^(t-s) z_s`. While `D` is constant, the noise of the release is `N = M + D Σ λ_i u_i`,
//! where `M` is a random walk with increments `D λ_0 z`: this is the partial-fraction form of `A C⁻¹`. As `N` itself
//! does not jump where `D` falls by `δ`, `M` grows there by `δ Σ λ_i u_i`. With `z` of variance 1, `v = Var M`,
//! `K_i = Cov(M, u_i)` and `V_ij = Cov(u_i, u_j) = Σ_{s<t} (θ̂_i θ̂_j)^s`,
//!
//! ```text
//! ‖L_t‖² = v + 2 D Σ λ_i K_i + D² Σ λ_i λ_j V_ij
//! m steps on: v + D² λ_0² m,  θ̂_i^m K_i + D λ_0 (1 - θ̂_i^m) / (1 - θ̂_i)
//! at a fall:  v + 2 δ Σ λ_i K_i + δ² Σ λ_i λ_j V_ij,  K_i + δ Σ_j λ_j V_ij
//! ```
//!
//! All terms are positive. Inside a segment all of them grow with `m` except `θ̂_i^m K_i`, which falls: so the values
//! at both ends of a range of steps bound the norms inside it, and bisection proves the maximum. Sums over `m` are
//! geometric.

use crate::mechanism::MAX_BUFFERS;
use crate::mechanism::state_space::response::{BufferRow, Modes, PartialFractions, joined, sum_of_sums};
use crate::mechanism::state_space::segments::Segment;

/// The largest row norm is known to this relative error.
const MAX_TOLERANCE: f64 = 1e-7;

/// `M` and its covariances at the start of a segment.
#[derive(Clone, Copy, Debug)]
struct SegmentState {
    /// Steps before the segment.
    before: u64,
    /// Last step of the segment.
    last: u64,
    /// `D`.
    scale: f64,
    /// `v`.
    variance: f64,
    /// `K`.
    covariances: BufferRow,
}

/// `‖L_t‖²` of every step in `O(d² + log T)`, with the largest and the mean.
#[derive(Clone, Debug)]
pub(super) struct RowFigures {
    response: PartialFractions,
    stages: Vec<SegmentState>,
    max: f64,
    mean: f64,
}

impl RowFigures {
    /// From a response and segments of weights `2^weight_bits / D`.
    pub(super) fn new(response: PartialFractions, segments: &[Segment], weight_bits: u32) -> Self {
        let mut figures = Self { response, stages: Vec::with_capacity(segments.len()), max: 0.0, mean: 0.0 };
        let scale = |segment: &Segment| libm::exp2(f64::from(weight_bits)) / f64::from(segment.weight);
        let first = SegmentState {
            before: 0,
            last: 0,
            scale: scale(&segments[0]),
            variance: 0.0,
            covariances: BufferRow::default(),
        };
        for segment in segments {
            let stage = figures.stages.last().map_or(first, |stage| figures.after(stage, scale(segment)));
            figures.stages.push(SegmentState { last: segment.last, ..stage });
        }
        figures.max = figures.largest();
        figures.mean = figures.total() / segments[segments.len() - 1].last as f64;
        figures
    }

    pub(super) fn response(&self) -> &PartialFractions {
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

    /// The last step of every segment, with its `D`.
    pub(super) fn scales(&self) -> impl Iterator<Item = (u64, f64)> {
        self.stages.iter().map(|stage| (stage.last, stage.scale))
    }

    /// `‖L_t‖²` as a part that grows with the step inside its segment, and a part that falls.
    fn parts(&self, stage: &SegmentState, step: u64) -> (f64, f64) {
        let PartialFractions { inverse, floor, .. } = &self.response;
        let m = (step - stage.before) as f64;
        let decayed = inverse.decayed(m);
        let (mut gained, mut kept) = (0.0, 0.0);
        for (i, pole) in inverse.poles.iter().enumerate() {
            gained += inverse.weights[i] * decayed[i] / pole.q;
            kept += inverse.weights[i] * (1.0 - decayed[i]) * stage.covariances[i];
        }
        let coupled = inverse.energy(&inverse.decayed(step as f64));
        let squared = stage.scale * stage.scale;
        (stage.variance + squared * (floor * (floor * m + 2.0 * gained) + coupled), 2.0 * stage.scale * kept)
    }

    /// `⟨L_s, L_t⟩` of steps `s ≤ t`, from 1. With the state of step `s`, `N_t = M_s + Σ g_i λ_i u_i(s)` plus new
    /// noise; `g_i` adds up `θ̂_i^m` at each fall between them, times the fall, and at `t`, times the scale there. All
    /// terms are positive.
    pub(super) fn product(&self, earlier: u64, later: u64) -> f64 {
        let inverse = &self.response.inverse;
        let place = |step: u64| self.stages.partition_point(|stage| stage.last < step);
        let (first, last) = (place(earlier), place(later));
        let stage = &self.stages[first];
        let (walk, covariances) = self.walk(stage, earlier);
        let couplings = inverse.couplings(&inverse.decayed(earlier as f64));
        let mut kept = [0.0; MAX_BUFFERS];
        let falls = self.stages[first..=last].windows(2).map(|pair| (pair[0].last, pair[0].scale - pair[1].scale));
        for (step, weight) in falls.chain([(later, self.stages[last].scale)]) {
            let decayed = inverse.decayed((step - earlier) as f64);
            kept.iter_mut().zip(decayed).for_each(|(kept, decayed)| *kept += weight * (1.0 - decayed));
        }
        let with_states: f64 = (0..inverse.poles.len())
            .map(|i| inverse.weights[i] * kept[i] * (covariances[i] + stage.scale * couplings[i]))
            .sum();
        walk + stage.scale * inverse.weighted(&covariances) + with_states
    }

    /// `v` and `K` of a step of a stage, before any fall there.
    fn walk(&self, stage: &SegmentState, step: u64) -> (f64, BufferRow) {
        let PartialFractions { inverse, floor, .. } = &self.response;
        let m = (step - stage.before) as f64;
        let decayed = inverse.decayed(m);
        let mut covariances = stage.covariances;
        for (i, pole) in inverse.poles.iter().enumerate() {
            covariances[i] += decayed[i] * (stage.scale * floor / pole.q - covariances[i]);
        }
        (stage.variance + stage.scale * stage.scale * floor * floor * m, covariances)
    }

    /// The start of the next segment, which has this scale.
    fn after(&self, stage: &SegmentState, scale: f64) -> SegmentState {
        let inverse = &self.response.inverse;
        let fall = stage.scale - scale;
        let couplings = inverse.couplings(&inverse.decayed(stage.last as f64));
        let (walk, mut covariances) = self.walk(stage, stage.last);
        let variance = walk + fall * (2.0 * inverse.weighted(&covariances) + fall * inverse.weighted(&couplings));
        covariances.iter_mut().zip(couplings).for_each(|(covariance, coupling)| *covariance += fall * coupling);
        SegmentState { before: stage.last, last: 0, scale, variance, covariances }
    }

    /// The largest `‖L_t‖²`, by bisection of the segments that may exceed the known maximum.
    fn largest(&self) -> f64 {
        if let [stage] = &self.stages[..] {
            return self.at(stage.last); // rows of a Toeplitz matrix grow
        }
        let ends = self.stages.iter().flat_map(|stage| [stage.before + 1, stage.last]);
        let mut best = ends.map(|step| self.at(step)).fold(0.0, f64::max);
        for stage in &self.stages {
            let mut open = vec![(stage.before + 1, stage.last)];
            while let Some((first, last)) = open.pop() {
                let bound = self.parts(stage, last).0 + self.parts(stage, first).1;
                if bound.is_nan() {
                    return f64::INFINITY;
                }
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
        let PartialFractions { inverse, floor, .. } = &self.response;
        let (mut total, mut coupled) = (0.0, 0.0);
        for stage in &self.stages {
            let m = (stage.last - stage.before) as f64;
            let decayed = inverse.decayed(m);
            let squared = stage.scale * stage.scale;
            let mut sum = stage.variance * m + squared * floor * floor * m * (m + 1.0) / 2.0;
            for (i, pole) in inverse.poles.iter().enumerate() {
                let kept = stage.covariances[i] * (1.0 - pole.q) * decayed[i] / pole.q;
                let gained = stage.scale * floor * sum_of_sums(m, pole.q, decayed[i]);
                sum += 2.0 * stage.scale * inverse.weights[i] * (kept + gained);
            }
            let coupled_now = coupled_total(inverse, stage.last as f64);
            total += sum + squared * (coupled_now - coupled);
            coupled = coupled_now;
        }
        total
    }
}

/// `Σ_{s≤t} Σ λ_i λ_j V_ij(s)`.
fn coupled_total(inverse: &Modes, step: f64) -> f64 {
    let decayed = inverse.decayed(step);
    let mut total = 0.0;
    for (i, own) in inverse.poles.iter().enumerate() {
        for (j, other) in inverse.poles.iter().enumerate() {
            let sum = sum_of_sums(step, joined(own.q, other.q), joined(decayed[i], decayed[j]));
            total += inverse.weights[i] * inverse.weights[j] * sum;
        }
    }
    total
}
