//! The smallest noise and the smallest ε of disjoint bins.

use super::{Coarseness, DisjointBins, MAX_ROUNDS_EPSILON};
use crate::noise_search::SecantSearch;

/// The relative distance of results from the minimum that the bound allows, and of rough ones.
const TOLERANCE: f64 = 1e-5;
const ROUGH_TOLERANCE: f64 = 1e-3;
/// The smallest ε.
const MIN_EPSILON: f64 = 1e-9;

/// The smallest number whose bound of δ is small enough, below one that suffices anyway, by a function with a
/// coarseness.
fn least(enough: f64, lowest: f64, coarseness: Coarseness, excess: impl Fn(f64, Coarseness) -> f64) -> f64 {
    let rough = |at: f64| excess(at, Coarseness::ROUGH);
    let mut low = libm::log(enough);
    let mut step = 0.1;
    while low > lowest && rough(low) <= 0.0 {
        low -= step;
        step *= 1.5;
    }
    let (mut low, mut high) = (low.max(lowest), (low + step / 1.5).min(libm::log(enough)));
    while high - low > 0.02 {
        let middle = (low + high) / 2.0;
        if rough(middle) <= 0.0 { high = middle } else { low = middle }
    }
    let slope = (rough(high) - rough(low)) / (high - low).max(1e-9);
    let tolerance = if coarseness == Coarseness::FINE { TOLERANCE } else { ROUGH_TOLERANCE };
    let mut search = SecantSearch::new(|at| excess(at, coarseness), tolerance);
    search.least(low + (high - low) / 2.0, slope, (lowest, libm::log(enough))).map_or(enough, libm::exp).min(enough)
}

/// The smallest noise for (ε, δ), rounded up; `enough` suffices.
pub(in super::super) fn noise(
    bins: &DisjointBins,
    (epsilon, delta): (f64, f64),
    enough: f64,
    coarseness: Coarseness,
) -> f64 {
    let log = libm::log(delta);
    let excess = |at: f64, coarseness| libm::log(bins.delta(libm::exp(at), epsilon, delta, coarseness)) - log;
    least(enough, libm::log(enough) - 14.0, coarseness, excess)
}

/// The smallest ε with this δ, rounded up; `enough` suffices. `None` if bounds there are not precise.
pub(in super::super) fn epsilon(bins: &DisjointBins, noise: f64, delta: f64, enough: f64) -> Option<f64> {
    let log = libm::log(delta);
    let excess = |at: f64, coarseness| libm::log(bins.delta(noise, libm::exp(at), delta, coarseness)) - log;
    // The largest precise ε need not suffice, so only a smaller result counts.
    let enough = if bins.is_exact_at(enough) { enough } else { MAX_ROUNDS_EPSILON };
    let found = least(enough, libm::log(MIN_EPSILON), Coarseness::FINE, excess);
    (found < enough || bins.is_exact_at(2.0 * enough)).then_some(found)
}
