//! The quantile of `max_t |N_t| / σ_t` by importance sampling.
//!
//! A band that holds in 95 % of all paths is missed by one path in twenty, and its quantile would need very many of
//! them. So paths are drawn that leave the band more often, and counted for less (Adler, Blanchet, Liu 2012, doi
//! 10.1214/11-AAP792; Owen, Maximov, Chertkov 2019, doi 10.1214/18-EJS1519). Each path has an **anchor**, a step `a`,
//! and the law of its nodes is tilted by `e^{θ_a w z}` with their weights `w` in row `a` of `L`, such that the mean of
//! `N_a` is at the band's edge. Anchors are all steps alike (for Laplace noise and long rows a thousand of them), and a
//! path `N` counts
//!
//! ```text
//! 1 / mean over all anchors a of ½ e^{θ_a |N_a| - K_a},      K_a = log E e^{θ_a N_a},
//! ```
//!
//! which is (but for a second term of the cosh, and for what is negligible, to the safe side) the likelihood of the
//! public law over that of the mixture of all anchors and both signs; one sign is enough to be drawn, as the law is
//! symmetric. The counts of the paths that leave a band, divided by the number of paths, have the probability to leave
//! it as their mean, whatever anchors and tilts are: these decide about the error only, which is estimated from the
//! counts. A tilted Gaussian variable is shifted, a tilted Laplace variable is the difference of two exponential ones
//! of rates `1 ∓ θ w`.

use super::Band;
use crate::mechanism::Mechanism;
use crate::noise::{Node, RandomBits, standard_exponential, standard_normal};
use crate::plan::interval::normal_quantile_of_miss;
use crate::plan::{NoiseKind, Plan};

/// Steps of all paths together: a second or two. Under Laplace noise likelihoods differ more.
const WORK: [u64; 2] = [1 << 23, 1 << 24];
/// Least and largest number of paths.
const PATHS: (u64, u64) = (512, 4096);
/// Nodes of all rows together that are looked at for the tilts of Laplace noise.
const NODES: u64 = 1 << 24;
/// Anchors where there are more: so many steps have much in common there.
const FEW_ANCHORS: u64 = 1024;
/// What adds less than `e^-6` to a mean of likelihoods that is 1 and more is left out.
const NEGLIGIBLE: f64 = -6.0;
/// Runs with few paths that look for the edge.
const PILOTS: u32 = 2;
/// Quantile of the normal law at 95 %, one-sided.
const SURE: f64 = 1.645;
/// No variable is tilted closer to where its law has no moments.
const FARTHEST_TILT: f64 = 0.9;

/// The band of a plan of at most 2^16 steps.
pub(super) fn band(plan: &Plan, confidence: f64) -> Band {
    let mut simulation = Simulation::new(&**plan.mechanism(), plan.noise_kind(), plan.digest());
    let work = WORK[usize::from(plan.noise_kind() == NoiseKind::Laplace)];
    let paths = (work / plan.horizon()).clamp(PATHS.0, PATHS.1);
    let miss = 1.0 - confidence;
    // Tilted to the edge of independent normal steps at first, and then to that of the band.
    let mut edge = normal_quantile_of_miss(super::of_each(confidence, plan.horizon()));
    for _ in 0..PILOTS {
        edge = simulation.run(edge, paths / 8).edge(miss, 0.0).0.max(1.0);
    }
    let simulated = simulation.run(edge, paths);
    let (standard_errors, simulation_error) = simulated.edge(miss, SURE);
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

/// A step to whose edge paths are tilted.
struct Anchor {
    /// From 0.
    place: usize,
    theta: f64,
    /// `K_a`.
    log_moment: f64,
}

/// `max_t |N_t| / σ_t` of every path, and what it counts; largest first.
struct Paths {
    paths: Vec<(f64, f64)>,
}

impl<'a> Simulation<'a> {
    fn new(mechanism: &'a dyn Mechanism, kind: NoiseKind, digest: [u8; 32]) -> Self {
        let deviation = |step| (kind.unit_variance() * mechanism.row_norm_squared(step)).sqrt();
        let deviations = (1..=mechanism.horizon()).map(deviation).collect();
        Self { mechanism, kind, bits: PublicBits::new(digest), deviations }
    }

    /// Paths tilted to an edge of so many standard errors.
    fn run(&mut self, edge: f64, paths: u64) -> Paths {
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
            // Paths that stay far inside are beyond the edge that is looked for.
            let weight = if highest < 0.7 * edge { 0.0 } else { likelihood(&anchors, &path) };
            counted.push((highest, weight));
        }
        counted.sort_by(|a, b| b.0.total_cmp(&a.0));
        Paths { paths: counted }
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
            let late = (1..=FEW_ANCHORS / 2).map(|i| (i * steps).div_ceil(FEW_ANCHORS / 2) as usize - 1);
            let root = libm::pow(steps as f64, 2.0 / FEW_ANCHORS as f64);
            late.chain((0..FEW_ANCHORS / 2).map(|i| libm::pow(root, i as f64) as usize - 1)).collect()
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
        let (mut low, mut high) = (0.0, FARTHEST_TILT / largest);
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

    /// Indices are those of steps, or fewer.
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

/// Of the public law over the mixture of all anchors and both signs.
fn likelihood(anchors: &[Anchor], path: &[f64]) -> f64 {
    let exponents = anchors.iter().map(|anchor| anchor.theta * path[anchor.place].abs() - anchor.log_moment);
    let sum: f64 = exponents.filter(|exponent| *exponent > NEGLIGIBLE).map(libm::exp).sum();
    2.0 * anchors.len() as f64 / sum
}

impl Paths {
    /// The least edge that paths leave with at most this probability, so many standard errors of the simulation to the
    /// safe side; and that standard error.
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

/// Random bits that everybody has who has the plan: an extensible output of BLAKE3.
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
