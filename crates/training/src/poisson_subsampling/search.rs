//! The smallest ε and the smallest noise of a composition.

use super::cells::MIN_NOISE;
use super::compose::Workspace;
use super::composition::Composition;
use super::event::{NOISES, SampledGaussian, scaled};
use super::saddle;
use crate::noise_search::SecantSearch;
use evertally::privacy::{Delta, Epsilon, conversions};
use evertally::{Error, Result};

/// The relative distance of results from the minimum.
const TOLERANCE: f64 = 1e-9;
/// The largest ε.
const MAX_EPSILON: f64 = 1e6;

/// From a decreasing function: its approximate zero, and its slope there.
fn rough(excess: impl Fn(f64) -> f64, (mut low, mut high): (f64, f64)) -> (f64, f64) {
    while high - low > 1e-3 {
        let middle = (low + high) / 2.0;
        if excess(middle) > 0.0 { low = middle } else { high = middle }
    }
    let root = (low + high) / 2.0;
    (root, (excess(root + 0.01) - excess(root - 0.01)) / 0.02)
}

pub(super) fn epsilon(composition: &Composition, delta: f64) -> f64 {
    if composition.is_gaussian() {
        let delta = Delta::new(delta * (1.0 - 2e-11)).expect("below a valid one");
        return conversions::epsilon_of_gaussian(composition.mu, delta);
    }
    let mut space = Workspace::default();
    if composition.delta(0.0, delta, &mut space) <= delta {
        return 0.0;
    }
    if composition.delta(MAX_EPSILON, delta, &mut space) > delta {
        return f64::INFINITY;
    }
    let range = (libm::log(1e-12), libm::log(MAX_EPSILON));
    let log = libm::log(delta);
    let (guess, slope) = rough(|at| saddle::rough_log_delta(&composition.events, libm::exp(at)) - log, range);
    let excess =
        |at: f64, wanted: f64, space: &mut Workspace| libm::log(composition.delta(libm::exp(at), wanted, space)) - log;
    let found = least(excess, guess, slope, range, delta, &mut space);
    found.map_or(f64::INFINITY, libm::exp)
}

/// Approximately the smallest point at which the excess is at most 0, both with and without an expected δ.
fn least(
    excess: impl Fn(f64, f64, &mut Workspace) -> f64,
    guess: f64,
    slope: f64,
    range: (f64, f64),
    delta: f64,
    space: &mut Workspace,
) -> Option<f64> {
    let told = |at: f64| excess(at, delta, space);
    let found = SecantSearch::new(told, TOLERANCE).least(guess, slope, range)?;
    // Bounds differ in some digits by the expected value: one more small step.
    let mut at = found;
    for round in 0..60 {
        let short = excess(at, 1.0, space);
        if short <= 0.0 {
            return Some(at);
        }
        at += (short / -slope.min(-1e-3) + TOLERANCE) * libm::exp2(f64::from(round));
    }
    None
}

/// Logarithms of factors with which all multipliers are in range.
fn factors(events: &[SampledGaussian], least: f64) -> Option<(f64, f64)> {
    let extreme =
        |pick: fn(f64, f64) -> f64| events.iter().map(|own| own.noise).reduce(pick).expect("there are events");
    let range = (libm::log(least / extreme(f64::min)), libm::log(NOISES.end() / extreme(f64::max)));
    let range = (range.0 + 1e-9, range.1 - 1e-9);
    (range.0 < range.1).then_some(range)
}

/// An estimate of the noise factor, from the saddle point of an example that is removed.
pub(super) fn rough_noise_factor(events: &[SampledGaussian], epsilon: Epsilon, delta: Delta) -> Option<f64> {
    let at = |log: f64| {
        let factor = libm::exp(log);
        Composition::new(&events.iter().map(|own| scaled(own, factor)).collect::<Vec<_>>())
    };
    let own = at(0.0);
    if own.is_gaussian() {
        return Some(own.mu / conversions::mu_for(epsilon, delta));
    }
    let target = libm::log(delta.get());
    let excess = |log: f64| saddle::rough_log_delta(&at(log).events, epsilon.get()) - target;
    Some(libm::exp(rough(excess, factors(events, MIN_NOISE)?).0))
}

pub(super) fn noise_factor(events: &[SampledGaussian], epsilon: Epsilon, delta: Delta) -> Result<f64> {
    let unmet = || Error::invalid("no noise multiplier in range meets this epsilon and delta");
    let range = factors(events, *NOISES.start()).ok_or_else(unmet)?;
    let at = |log: f64| {
        let factor = libm::exp(log);
        Composition::new(&events.iter().map(|own| scaled(own, factor)).collect::<Vec<_>>())
    };
    let own = at(0.0);
    if own.is_gaussian() {
        let tight = Delta::new(delta.get() * (1.0 - 4e-11)).expect("below a valid one");
        let factor = own.mu / conversions::mu_for(epsilon, tight) * (1.0 + 1e-13);
        return if (range.0..=range.1).contains(&libm::log(factor)) { Ok(factor) } else { Err(unmet()) };
    }
    let target = libm::log(delta.get());
    let start = |log: f64| saddle::rough_log_delta(&at(log).events, epsilon.get()) - target;
    let smallest = events.iter().map(|own| own.noise).fold(f64::INFINITY, f64::min);
    let (guess, slope) = rough(start, (range.0.max(libm::log(MIN_NOISE / smallest) + 1e-3), range.1));
    let mut space = Workspace::default();
    // Adding an example usually reveals less, and then need not be computed.
    let excess = |log: f64, wanted: f64, space: &mut Workspace| {
        let own = at(log);
        let removed = own.delta_removed(epsilon.get(), wanted, space);
        let worst = if removed > delta.get() {
            removed
        } else {
            let added = own.delta_added(epsilon.get(), delta.get(), space);
            if added > delta.get() { added } else { removed }
        };
        libm::log(worst) - target
    };
    least(excess, guess, slope, range, delta.get(), &mut space).map(libm::exp).ok_or_else(unmet)
}
