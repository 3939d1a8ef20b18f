//! The quantile of `max_t |N_t| / σ_t` by importance sampling.
//!
//! One path in twenty leaves a band that holds for 95 % of paths, and estimating its quantile directly would need very
//! many paths. So the simulation draws paths that leave the band more often, and gives them smaller weights (Adler,
//! Blanchet, Liu 2012, doi 10.1214/11-AAP792; Owen, Maximov, Chertkov 2019, doi 10.1214/18-EJS1519). Each path has an
//! **anchor**, a step `a`, and the law of its nodes is tilted by `e^{θ_a w z}` with their weights `w` in row `a` of
//! `L`, so that the mean of `N_a` is at the band's edge. Anchors are all steps with equal probability (for Laplace
//! noise and long rows a thousand of them), and a path `N` has the weight
//!
//! ```text
//! 1 / mean over all anchors a of ½ e^{θ_a |N_a| - K_a},      K_a = log E e^{θ_a N_a},
//! ```
//!
//! which is (except for a second term of the cosh and for negligible terms, on the safe side) the likelihood of the
//! public law over that of the mixture of all anchors and both signs; drawing one sign is enough, because the law is
//! symmetric. The weights of the paths that leave a band, divided by the number of paths, have the probability to leave
//! it as their mean, whatever the anchors and tilts: these affect only the error, which is estimated from the weights.
//! A tilted Gaussian variable is shifted, a tilted Laplace variable is the difference of two exponential ones of rates
//! `1 ∓ θ w`.

use super::Band;
use crate::mechanism::Mechanism;
use crate::noise::{Node, RandomBits, standard_exponential, standard_normal};
use crate::plan::interval::normal_quantile_of_miss;
use crate::plan::{NoiseKind, Plan};

/// Steps of all paths together: a second or two. Under Laplace noise likelihoods differ more.
const WORK: [u64; 2] = [1 << 23, 1 << 24];
/// Minimum and maximum number of paths.
const PATHS: (u64, u64) = (512, 4096);
/// Maximum number of nodes, in all rows together, that are read for the tilts of Laplace noise.
const NODES: u64 = 1 << 24;
/// Maximum number of anchors: if there are more steps, nearby steps are strongly correlated.
const MAX_ANCHORS: u64 = 1024;
/// Terms that add less than `e^-6` to a mean of likelihoods of at least 1 are omitted.
const NEGLIGIBLE: f64 = -6.0;
/// Runs with few paths that search for the edge.
const PILOTS: u32 = 2;
/// Quantile of the normal law at 95 %, one-sided.
const ONE_SIDED_95: f64 = 1.645;
/// The closest that a variable is tilted to the point where its law has no moments.
const MAX_TILT: f64 = 0.9;

/// The band of a plan of at most 2^16 steps.
pub(super) fn band(plan: &Plan, confidence: f64) -> Band {
    let mut simulation = Simulation::new(&**plan.mechanism(), plan.noise_kind(), plan.digest());
    let work = WORK[usize::from(plan.noise_kind() == NoiseKind::Laplace)];
    let paths = (work / plan.horizon()).clamp(PATHS.0, PATHS.1);
    let miss = 1.0 - confidence;
    // Tilted to the edge of independent normal steps at first, and then to that of the band.
    let mut edge = normal_quantile_of_miss(super::per_step_miss(confidence, plan.horizon()));
    for _ in 0..PILOTS {
        edge = simulation.run(edge, paths / 8).edge(miss, 0.0).0.max(1.0);
    }
    let simulated = simulation.run(edge, paths);
    let (standard_errors, simulation_error) = simulated.edge(miss, ONE_SIDED_95);
    let paths = simulated.paths.len() as u32;
    Band { standard_errors: Some(standard_errors), confidence, simulation_error, paths }
}

struct Simulation<'a> {
    mechanism: &'a dyn Mechanism,
    kind: NoiseKind,
    bits: PublicBits,
    /// `σ_t` for variables of scale 1.
    deviations: Vec<f64>,
}

/// A step towards whose edge paths are tilted.
struct Anchor {
    /// The step, from 0.
    place: usize,
    theta: f64,
    /// `K_a`.
    log_moment: f64,
}

/// `max_t |N_t| / σ_t` of every path, and its weight; largest first.
struct SimulatedPaths {
    paths: Vec<(f64, f64)>,
}

impl<'a> Simulation<'a> {
    fn new(mechanism: &'a dyn Mechanism, kind: NoiseKind, digest: [u8; 32]) -> Self {
        let deviation = |step| (kind.unit_variance() * mechanism.row_norm_squared(step)).sqrt();
        let deviations = (1..=mechanism.horizon()).map(deviation).collect();
        Self { mechanism, kind, bits: PublicBits::new(digest), deviations }
    }

    /// Paths tilted to an edge of this many standard errors.
    fn run(&mut self, edge: f64, paths: u64) -> SimulatedPaths {
        let anchors = self.anchors(edge);
        let stride = anchors.len() as f64 / paths as f64;
        let offset = stride * (f64::from(self.bits.next_u32()) / 4_294_967_296.0);
        let mut tilts = Tilts::default();
        let mut counted = Vec::with_capacity(paths as usize);
        for number in 0..paths {
            let anchor = &anchors[((offset + number as f64 * stride) as usize).min(anchors.len() - 1)];
            self.set(&mut tilts, anchor, anchor.theta);
            let path = self.tilted(&tilts);
            self.set(&mut tilts, anchor, 0.0);
            let highest = path.iter().zip(&self.deviations).map(|(noise, d)| noise.abs() / d).fold(0.0, f64::max);
            // Paths that stay far inside do not affect the edge.
            let weight = if highest < 0.7 * edge { 0.0 } else { likelihood(&anchors, &path) };
            counted.push((highest, weight));
        }
        counted.sort_by(|a, b| b.0.total_cmp(&a.0));
        SimulatedPaths { paths: counted }
    }

    /// Tilts the nodes of an anchor's row.
    fn set(&self, tilts: &mut Tilts, anchor: &Anchor, theta: f64) {
        self.mechanism.visit_row(anchor.place as u64 + 1, &mut |node, weight| tilts.set(node, theta * weight));
    }

    fn anchors(&self, edge: f64) -> Vec<Anchor> {
        let steps = self.deviations.len() as u64;
        let mut longest = 0;
        self.mechanism.visit_row(steps, &mut |_, _| longest += 1);
        self.mechanism.visit_row(steps.div_ceil(2), &mut |_, _| longest += 1);
        let mut places: Vec<usize> = if self.kind == NoiseKind::Gaussian || longest * steps <= NODES {
            (0..steps as usize).collect()
        } else {
            // Early steps differ more from each other than late ones. fits: below 2^16 times 2^10
            let late = (1..=MAX_ANCHORS / 2).map(|i| (i * steps).div_ceil(MAX_ANCHORS / 2) as usize - 1);
            let root = libm::pow(steps as f64, 2.0 / MAX_ANCHORS as f64);
            late.chain((0..MAX_ANCHORS / 2).map(|i| libm::pow(root, i as f64) as usize - 1)).collect()
        };
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| self.anchor(place, edge)).collect()
    }

    fn anchor(&self, place: usize, edge: f64) -> Anchor {
        let deviation = self.deviations[place];
        if self.kind == NoiseKind::Gaussian {
            return Anchor { place, theta: edge / deviation, log_moment: edge * edge / 2.0 };
        }
        let mut weights = Vec::new();
        self.mechanism.visit_row(place as u64 + 1, &mut |_, weight| weights.push(weight));
        let largest = weights.iter().fold(0.0, |most: f64, weight| most.max(weight.abs()));
        let mean =
            |theta: f64| -> f64 { weights.iter().map(|w| 2.0 * theta * w * w / (1.0 - theta * theta * w * w)).sum() };
        let (mut low, mut high) = (0.0, MAX_TILT / largest);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if mean(middle) < edge * deviation { low = middle } else { high = middle }
        }
        let log_moment = weights.iter().map(|w| -libm::log1p(-(high * w) * (high * w))).sum();
        Anchor { place, theta: high, log_moment }
    }

    /// A path whose nodes are tilted.
    fn tilted(&mut self, tilts: &Tilts) -> Vec<f64> {
        let Self { mechanism, kind, bits, .. } = self;
        match kind {
            NoiseKind::Gaussian => mechanism.noise_path(&mut |node| standard_normal(bits) + tilts.of(node)),
            NoiseKind::Laplace => mechanism.noise_path(&mut |node| {
                let tilt = tilts.of(node);
                standard_exponential(bits) / (1.0 - tilt) - standard_exponential(bits) / (1.0 + tilt)
            }),
        }
    }
}

/// Exponents of nodes, by level and index; 0 for most.
#[derive(Default)]
struct Tilts {
    levels: Vec<Vec<f64>>,
}

impl Tilts {
    #[inline]
    fn of(&self, node: Node) -> f64 {
        self.levels.get(node.level as usize).and_then(|level| level.get(node.index as usize)).copied().unwrap_or(0.0)
    }

    /// There are at most as many indices as steps.
    fn set(&mut self, node: Node, tilt: f64) {
        let (level, index) = (node.level as usize, node.index as usize);
        if self.levels.len() <= level {
            self.levels.resize(level + 1, Vec::new());
        }
        let level = &mut self.levels[level];
        if level.len() <= index {
            level.resize(index + 1, 0.0);
        }
        level[index] = tilt;
    }
}

/// The likelihood ratio of the public law to the mixture of all anchors and both signs.
fn likelihood(anchors: &[Anchor], path: &[f64]) -> f64 {
    let exponents = anchors.iter().map(|anchor| anchor.theta * path[anchor.place].abs() - anchor.log_moment);
    let sum: f64 = exponents.filter(|exponent| *exponent > NEGLIGIBLE).map(libm::exp).sum();
    2.0 * anchors.len() as f64 / sum
}

impl SimulatedPaths {
    /// The smallest edge that paths leave with at most this probability, `sure` standard errors of the simulation to
    /// the safe side; and that standard error.
    fn edge(&self, miss: f64, sure: f64) -> (f64, f64) {
        let count = self.paths.len() as f64;
        let (mut sum, mut squares, mut error) = (0.0, 0.0, 0.0);
        for (highest, weight) in &self.paths {
            let (more, more_squares) = (sum + weight, squares + weight * weight);
            let mean = more / count;
            let next = ((more_squares / count - mean * mean).max(0.0) / count).sqrt();
            if mean + sure * next > miss {
                return (*highest, error);
            }
            (sum, squares, error) = (more, more_squares, next);
        }
        (0.0, error)
    }
}

/// Random bits that follow from the plan: an extensible output of BLAKE3.
struct PublicBits {
    source: blake3::OutputReader,
    bytes: [u8; 4096],
    used: usize,
}

impl PublicBits {
    fn new(digest: [u8; 32]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("evertally 1 simultaneous band");
        hasher.update(&digest);
        Self { source: hasher.finalize_xof(), bytes: [0; 4096], used: 4096 }
    }
}

impl RandomBits for PublicBits {
    #[inline]
    fn take<const N: usize>(&mut self) -> [u8; N] {
        if self.used + N > self.bytes.len() {
            self.source.fill(&mut self.bytes);
            self.used = 0;
        }
        let taken = self.bytes[self.used..self.used + N].try_into().expect("N bytes");
        self.used += N;
        taken
    }
}
