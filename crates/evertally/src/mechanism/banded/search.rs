//! The pieces with the least error: descent on the product of the sensitivity and the variance of the release.
//!
//! The search minimises `F(r) · (1/2π) ∫ (|W|² + δ² E)/|r|² dθ`, with `F` as in [`Distances`](super::pieces::Distances)
//! for the steps of a unit, and `E` without the zeros of `W`, which would otherwise draw zeros of `r` across the unit
//! circle: then the inverse of `R` would not fade. `δ` is large first, and smaller from round to round. The starting
//! point has falling positive coefficients, and so no zero inside the circle (Eneström, Kakeya).

use super::pieces::{BandedResponse, Pieces};
use super::spectrum::{frequencies, squared_envelope, squared_symbol};
use crate::mechanism::{Participation, SearchWatch, Workload};
use crate::number::descent;
use crate::number::lanes::dot;

/// `δ` in every round.
const FILLED: [f64; 4] = [1.0, 0.3, 0.1, 0.07];
/// Steps of descent per round, and the tolerance at which a round ends.
const STEPS: usize = 80;
const TOLERANCE: f64 = 1e-6;
/// This many pieces of one band; each next piece is longer by this share of the bands before it in its stretch.
const SINGLE_BANDS: u64 = 4;
const GROWTH: f64 = 0.35;

/// Pieces for a workload, and values derived from them.
pub(super) struct BandedSolution {
    pub(super) pieces: Pieces,
    pub(super) response: BandedResponse,
}

/// The best pieces for windows and decays; `None` if no pieces with a fading inverse were found.
pub(super) fn search(workload: Workload, runs: Participation, watch: SearchWatch<'_>) -> Option<BandedSolution> {
    let edges = edges(workload)?;
    let problem = BandedProblem::new(workload, runs, &edges);
    let mut point = problem.start(workload);
    let mut rounds = Vec::new();
    for filled in FILLED {
        let noise = problem.filled(filled);
        let mut value = |point: &[f64]| watch.evaluate(|| problem.value(point, &noise));
        descent::minimise(&mut point, STEPS, TOLERANCE, &mut value);
        rounds.push(problem.coefficients(&point));
    }
    if watch.is_cancelled() {
        return None;
    }
    rounds.into_iter().rev().find_map(|values| {
        let pieces = Pieces::rounded(&edges, &values);
        let response = pieces.response_watched(workload, None, watch)?;
        Some(BandedSolution { pieces, response })
    })
}

/// First bands of pieces, and the number of bands: two and a half windows, or four half-lives.
fn edges(workload: Workload) -> Option<Vec<u64>> {
    let (stretch, bands) = match workload {
        Workload::Window(width) if width > 1 => (width, (5 * width).div_ceil(2)),
        Workload::Decay(half_life) => (u64::MAX, (4 * half_life).max(4)),
        _ => return None,
    };
    let mut edges = vec![0];
    let mut first = 0u64;
    while *edges.last().expect("not empty") < bands {
        let end = first.saturating_add(stretch).min(bands);
        let mut at = first;
        while at < end {
            let long = libm::round((at - first) as f64 * GROWTH) as u64;
            let length = if at - first < SINGLE_BANDS { 1 } else { long.max(1) };
            at = at.saturating_add(length).min(end);
            edges.push(at);
        }
        first = end;
    }
    Some(edges)
}

struct BandedProblem {
    edges: Vec<usize>,
    /// Roots of the lengths of the pieces: variables are coefficients times these.
    roots: Vec<f64>,
    runs: Participation,
    /// `|W|²` and `E` at every frequency, with its weight.
    noise: Vec<(f64, f64)>,
    /// The contribution of a variable to `R` at every frequency: real and imaginary parts.
    real: Vec<Vec<f64>>,
    imaginary: Vec<Vec<f64>>,
}

impl BandedProblem {
    fn new(workload: Workload, runs: Participation, edges: &[u64]) -> Self {
        let width = match workload {
            Workload::Window(width) => width,
            Workload::Decay(half_life) => 4 * half_life,
            _ => 1,
        };
        let frequencies = frequencies(width.max(16));
        let roots: Vec<f64> = edges.windows(2).map(|ends| libm::sqrt((ends[1] - ends[0]) as f64)).collect();
        let noise = frequencies.iter().map(|at| {
            let (own, filled) = (squared_symbol(workload, at.angle), squared_envelope(workload, at.angle));
            (at.weight * own, at.weight * filled)
        });
        // Σ_{from ≤ j < to} e^(-ijθ) = e^(-i(from+to-1)θ/2) sin((to-from)θ/2)/sin(θ/2)
        let piece = |angle: f64, ends: &[u64], root: f64| {
            let (middle, length) = ((ends[0] + ends[1] - 1) as f64 / 2.0, (ends[1] - ends[0]) as f64);
            let size = libm::sin(length * angle / 2.0) / libm::sin(angle / 2.0) / root;
            (size * libm::cos(middle * angle), -size * libm::sin(middle * angle))
        };
        let (mut real, mut imaginary) = (Vec::new(), Vec::new());
        for at in &frequencies {
            let row = edges.windows(2).zip(&roots).map(|(ends, root)| piece(at.angle, ends, *root));
            let (re, im): (Vec<f64>, Vec<f64>) = row.unzip();
            real.push(re);
            imaginary.push(im);
        }
        let edges = edges.iter().map(|edge| *edge as usize).collect();
        Self { edges, roots, runs, noise: noise.collect(), real, imaginary }
    }

    /// The square root of the prefix sums, fading over the bands.
    fn start(&self, workload: Workload) -> Vec<f64> {
        let bands = *self.edges.last().expect("not empty");
        let fade = if let Workload::Decay(half_life) = workload { Workload::decay(half_life) } else { 1.0 };
        let (mut own, mut kept) = (1.0, 1.0);
        let mut sums = vec![0.0];
        for j in 0..bands {
            let left = 1.0 - j as f64 / bands as f64;
            sums.push(sums[j] + own * kept * left * left);
            own *= (2 * j + 1) as f64 / (2 * j + 2) as f64;
            kept *= fade;
        }
        let pieces = self.edges.windows(2).zip(&self.roots);
        pieces.map(|(ends, root)| (sums[ends[1]] - sums[ends[0]]) / root).collect()
    }

    fn coefficients(&self, point: &[f64]) -> Vec<f64> {
        point.iter().zip(&self.roots).map(|(variable, root)| variable / root).collect()
    }

    /// The release at every frequency, with `δ² E`.
    fn filled(&self, filled: f64) -> Vec<f64> {
        self.noise.iter().map(|(own, envelope)| own + filled * filled * envelope).collect()
    }

    /// The logarithm of the product, and its gradient.
    fn value(&self, point: &[f64], noise: &[f64]) -> (f64, Vec<f64>) {
        let (moved, mut gradient) = self.moved(point);
        gradient.iter_mut().for_each(|g| *g /= moved);
        let mut published = 0.0;
        let mut slope = vec![0.0; point.len()];
        for ((real, imaginary), noise) in self.real.iter().zip(&self.imaginary).zip(noise) {
            let (re, im) = (dot(real, point), dot(imaginary, point));
            let inverse = 1.0 / (re * re + im * im);
            published += noise * inverse;
            let (re, im) = (noise * inverse * inverse * re, noise * inverse * inverse * im);
            slope.iter_mut().zip(real.iter().zip(imaginary)).for_each(|(g, (x, y))| *g += re * x + im * y);
        }
        gradient.iter_mut().zip(slope).for_each(|(g, s)| *g -= 2.0 * s / published);
        (libm::log(moved) + libm::log(published), gradient)
    }

    /// `F` and its gradient.
    fn moved(&self, point: &[f64]) -> (f64, Vec<f64>) {
        if self.runs == Participation::ONCE {
            return (dot(point, point), point.iter().map(|x| 2.0 * x).collect());
        }
        let values = self.coefficients(point);
        let distances = self.counted(&self.autocorrelation(&values));
        // Running sums of the coefficients, and their part within a stretch of bands.
        let bands = *self.edges.last().expect("not empty");
        let mut sums = vec![0.0];
        for (ends, value) in self.edges.windows(2).zip(&values) {
            for _ in ends[0]..ends[1] {
                sums.push(sums[sums.len() - 1] + value);
            }
        }
        let between = |from: usize, to: usize| sums[to.min(bands)] - sums[from.min(bands)];
        let gradient = self.edges.windows(2).zip(&self.roots).map(|(ends, root)| {
            let near = |(d, weight, _): &(usize, f64, f64)| {
                let before = between(ends[0].saturating_sub(*d), ends[1].saturating_sub(*d));
                weight * (between(ends[0] + d, ends[1] + d) + before)
            };
            distances.iter().map(near).sum::<f64>() / root
        });
        (distances.iter().map(|(_, weight, g)| weight * g).sum(), gradient.collect())
    }

    /// `g_d` for every distance, as [`Pieces::autocorrelation`].
    fn autocorrelation(&self, values: &[f64]) -> Vec<f64> {
        let bands = *self.edges.last().expect("not empty");
        let before = [0.0].iter().chain(values);
        let jumps: Vec<(usize, f64)> = self
            .edges
            .iter()
            .zip(values.iter().chain(&[0.0]).zip(before).map(|(new, old)| new - old))
            .map(|(e, j)| (*e, j))
            .collect();
        let mut products = vec![0.0; bands + 1];
        for (later, (end, a)) in jumps.iter().enumerate() {
            for (start, b) in &jumps[..=later] {
                products[end - start] += a * b;
            }
        }
        let mut found = vec![0.0; bands + 2];
        for d in (1..=bands).rev() {
            found[d - 1] = 2.0 * found[d] - found[d + 1] - products[d];
        }
        found.truncate(bands);
        found
    }

    /// The distances that `F` reads, how often, and the value used there: for every distance of steps with events, the
    /// largest value from that distance on.
    fn counted(&self, autocorrelation: &[f64]) -> Vec<(usize, f64, f64)> {
        let mut largest: Vec<usize> = (0..autocorrelation.len()).collect();
        for d in (1..largest.len()).rev() {
            if autocorrelation[largest[d]] > autocorrelation[d - 1] {
                largest[d - 1] = largest[d];
            }
        }
        let (most, separation) = (self.runs.most(), self.runs.separation());
        let mut counted = vec![(0, most as f64, autocorrelation[0])];
        for apart in 1..most {
            let at = usize::try_from(apart.saturating_mul(separation)).ok().and_then(|d| largest.get(d));
            let Some(at) = at else { break };
            if autocorrelation[*at] > 0.0 {
                counted.push((*at, 2.0 * (most - apart) as f64, autocorrelation[*at]));
            }
        }
        counted
    }
}
