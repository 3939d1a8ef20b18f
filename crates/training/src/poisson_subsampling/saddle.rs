//! The parameters of a computation: a coarse law of the losses gives the tilt, the size of δ and the window of a
//! composition. Bounds hold even if these are wrong.

use super::cells::Cut;
use super::event::{Direction, SampledGaussian};
use super::loss_law::LossLaw;

/// Farthest tails considered: e^-684 is still a normal number.
const MAX_TAIL_DEVIATIONS: f64 = 37.0;
/// The cost of the grid: about this fraction of σ.
const COARSENESS: f64 = 5e-5;
/// Logarithm of the relative cost of the cut tails.
const NEGLIGIBLE: f64 = -15.0;
/// The smallest tilt that shows that a divergence is small enough.
const MIN_TILT: f64 = 1e-9;
/// Sizes of transforms.
const POINTS: std::ops::RangeInclusive<f64> = 4096.0..=1_048_576.0;
/// The approximate maximum number of an event's cells of maximal width.
const MAX_CELLS: f64 = 32_768.0;

/// Losses of one event with their log probabilities.
struct Coarse {
    times: f64,
    points: Vec<(f64, f64)>,
}

/// The cumulants of all events together: `ln E e^(λ loss)` and its first two derivatives.
#[derive(Clone, Copy, Debug, Default)]
struct Cumulants {
    value: f64,
    mean: f64,
    variance: f64,
}

impl Coarse {
    fn cumulants(&self, lambda: f64) -> Cumulants {
        let exponent = |&(loss, log): &(f64, f64)| lambda * loss + log;
        let most = self.points.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for point in &self.points {
            let above = exponent(point) - most;
            if above > -50.0 {
                let weight = libm::exp(above);
                sum += weight;
                first += weight * point.0;
                second += weight * point.0 * point.0;
            }
        }
        let mean = first / sum;
        let variance = (second / sum - mean * mean).max(0.0);
        let times = self.times;
        Cumulants { value: times * (most + libm::log(sum)), mean: times * mean, variance: times * variance }
    }
}

fn total(laws: &[Coarse], lambda: f64) -> Cumulants {
    laws.iter().map(|law| law.cumulants(lambda)).fold(Cumulants::default(), |sum, own| Cumulants {
        value: sum.value + own.value,
        mean: sum.mean + own.mean,
        variance: sum.variance + own.variance,
    })
}

/// The tilt that minimizes `e^(K(λ) - λε)/(λ(1+λ))`; as an integral over the imaginary direction through it, δ is
/// approximately that minimum over `√(2π F″)` (a saddle point: Alghamdi, Asoodeh, Calmon, Gomez, Kosut and Sankar
/// 2022, arXiv 2208.09595). Returns the tilt and ln δ.
fn saddle(laws: &[Coarse], epsilon: f64) -> (f64, f64) {
    let slope = |lambda: f64| total(laws, lambda).mean - epsilon - 1.0 / lambda - 1.0 / (1.0 + lambda);
    let (mut low, mut high) = (-14.0, 21.0);
    for _ in 0..30 {
        let middle = (low + high) / 2.0;
        if slope(libm::exp(middle)) < 0.0 { low = middle } else { high = middle }
    }
    let lambda = libm::exp(high);
    let at = total(laws, lambda);
    let curvature = at.variance + 1.0 / (lambda * lambda) + 1.0 / ((1.0 + lambda) * (1.0 + lambda));
    let log_delta = at.value
        - lambda * epsilon
        - libm::log(lambda)
        - libm::log1p(lambda)
        - 0.5 * libm::log(2.0 * std::f64::consts::PI * curvature);
    (lambda, log_delta)
}

/// The parameters of a δ computation: grid, tilt and window.
#[derive(Clone, Copy, Debug)]
pub(super) struct SaddleGrid {
    pub(super) cut: Cut,
    pub(super) lambda: f64,
    /// An estimate of ln δ.
    pub(super) log_delta: f64,
    /// A larger tilt, whose Chernoff bound applies beyond the window.
    pub(super) beyond: f64,
    /// The lowest place of the window, in steps.
    pub(super) first: i64,
    /// A power of two.
    pub(super) points: usize,
}

fn laws_of<L: LossLaw>(events: &[L], direction: Direction, reach: f64) -> Vec<Coarse> {
    let coarse = |event: &L| Coarse { times: event.times() as f64, points: event.coarse(direction, reach) };
    events.iter().map(coarse).collect()
}

/// The reach of the relevant tails.
fn reach_for<L: LossLaw>(events: &[L], log_delta: f64) -> f64 {
    let count: f64 = events.iter().map(|event| event.times() as f64).sum();
    (2.0 * (libm::log(count) - log_delta.min(0.0) - NEGLIGIBLE)).sqrt().min(MAX_TAIL_DEVIATIONS)
}

/// An estimate of ln δ, right to a few per cent of δ; for the first step of a search.
pub(super) fn rough_log_delta(events: &[SampledGaussian], epsilon: f64) -> f64 {
    let laws = laws_of(events, Direction::Remove, reach_for(events, libm::log(1e-30)));
    saddle(&laws, epsilon).1
}

/// About the tilt of the saddle point, and an estimate of ln δ.
pub(crate) fn rough_tilt<L: LossLaw>(events: &[L], direction: Direction, epsilon: f64) -> (f64, f64) {
    saddle(&laws_of(events, direction, MAX_TAIL_DEVIATIONS), epsilon)
}

impl SaddleGrid {
    /// For this ε, and a δ that is not much below `enough`, nor above `e^most`.
    pub(super) fn new<L: LossLaw>(events: &[L], direction: Direction, epsilon: f64, enough: f64, most: f64) -> Self {
        let least = libm::log(enough.max(1e-300)) - 5.0;
        let guess = saddle(&laws_of(events, direction, MAX_TAIL_DEVIATIONS), epsilon).1.min(most);
        let reach = reach_for(events, guess.max(least));
        let laws = laws_of(events, direction, reach);
        let (mut lambda, log_delta) = saddle(&laws, epsilon);
        let mut log_delta = log_delta.min(most);
        let excessive = log_delta < least;
        if excessive {
            // A smaller tilt shows that too; where little mass is finite, every one.
            while lambda > MIN_TILT && total(&laws, lambda / 2.0).value - lambda / 2.0 * epsilon < least {
                lambda /= 2.0;
            }
            log_delta = least;
        }
        let at = total(&laws, lambda);
        // A cell of width h adds at most about h² λ(1+λ)/12 to ln E e^(λ loss), and δ falls at least as fast in σ as
        // for Gaussian noise, where d ln δ / d ln σ = -2 ln E e^(λ loss).
        let count: f64 = laws.iter().map(|law| law.times).sum();
        let gaussian = (at.value / (count * lambda * (1.0 + lambda))).max(1e-300);
        let widest = 1.0 / (32.0 * (1.0 + lambda));
        let wanted = (24.0 * COARSENESS * gaussian).sqrt().min(widest);
        // If Chernoff's bound suffices, there is no window.
        let (lambda, (low, high, beyond)) = if excessive {
            (lambda, (epsilon, epsilon + wanted, lambda))
        } else {
            shortest(&laws, epsilon, lambda, log_delta)
        };
        let spread = laws.iter().map(|law| law.points.iter().fold(0.0f64, |m, p| m.max(p.0.abs()))).fold(0.0, f64::max);
        let points = ((high - low) / wanted).max(*POINTS.start()).min(*POINTS.end());
        let points = (points as usize).next_power_of_two();
        // Some room for the ends, which are whole steps.
        let least = if excessive { wanted } else { (high - low) / (points - 8) as f64 };
        let step = rounded_step(least.max(1e-12 * spread.max(epsilon)).max(1e-30));
        let cut = Cut { step, reach, widest: (widest.max(spread / MAX_CELLS) / step).min(1e15) as i64 };
        Self { cut, lambda, log_delta, beyond, first: (low / step).floor() as i64 - 2, points }
    }
}

/// A step at least this long with 24 significant bits, on a geometric grid: so that it seldom changes with the events.
fn rounded_step(least: f64) -> f64 {
    let exponent = (libm::log2(least) * 16.0).ceil() / 16.0;
    let whole = exponent.floor();
    let fraction = (libm::exp2(exponent - whole) * f64::from(1 << 23)).ceil() / f64::from(1 << 23);
    fraction * libm::exp2(whole)
}

/// A tilt up to this one that has a short window. If a few large losses dominate, the saddle point is beyond the bulk
/// of the law, and much less tilting suffices against rounding errors.
fn shortest(laws: &[Coarse], epsilon: f64, mut lambda: f64, log_delta: f64) -> (f64, (f64, f64, f64)) {
    let mut best = window(laws, epsilon, lambda, log_delta);
    let count: f64 = laws.iter().map(|law| law.times).sum();
    for _ in 0..40 {
        let less = lambda / 1.5;
        let rounding = libm::log(count * 3e-15) + total(laws, less).value - less * epsilon;
        let next = window(laws, epsilon, less, log_delta);
        let shorter = next.1 - next.0 < 0.9 * (best.1 - best.0);
        if !shorter || rounding > log_delta - 8.0 {
            break;
        }
        (lambda, best) = (less, next);
    }
    (lambda, best)
}

/// The window, outside which the tilted law has almost no mass, so that almost none wraps around; and the tilt that
/// proves it.
fn window(laws: &[Coarse], epsilon: f64, lambda: f64, log_delta: f64) -> (f64, f64, f64) {
    let at = total(laws, lambda);
    let extreme = |pick: fn(f64, f64) -> f64, from: f64| -> f64 {
        laws.iter().map(|law| law.times * law.points.iter().fold(from, |m, p| pick(m, p.0))).sum()
    };
    let (least, most) = (extreme(f64::min, f64::INFINITY), extreme(f64::max, f64::NEG_INFINITY));
    let tilted = log_delta - at.value + lambda * epsilon;
    let deviation = at.variance.sqrt().max(1e-12 * most.abs()).max(1e-300);
    let (mut low, mut high, mut beyond) = (least.min(epsilon), most, lambda);
    for quarter in -16..20 {
        let t = libm::exp2(f64::from(quarter) / 4.0) / deviation * 2.0;
        let top = (total(laws, lambda + t).value - at.value - tilted - NEGLIGIBLE) / t;
        if top < high {
            (high, beyond) = (top, lambda + t);
        }
        let bottom = (tilted + NEGLIGIBLE + at.value - total(laws, lambda - t).value) / t;
        low = low.max(bottom.min(epsilon));
    }
    let margin = 1e-9 * (low.abs() + high.abs()) + 1e-300;
    (low, high.max(epsilon + deviation.min(most - least)) + margin, beyond)
}
