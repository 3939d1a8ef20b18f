//! Many sampled releases: the hockey-stick divergence of a composition at one ε, never below the truth.

use super::cells::LossCells;
use super::event::Direction;
use super::loss_law::LossLaw;
use super::saddle::SaddleGrid;
use evertally::number::fourier::{FourierTransform, mirrored};

/// The unit of rounding.
const UNIT: f64 = f64::EPSILON / 2.0;
/// Frequencies whose logarithmic size is below this are omitted.
const MIN_LOG_SIZE: f64 = -60.0;

/// The buffers that successive computations share.
#[derive(Default)]
pub(crate) struct Workspace {
    transform: Option<FourierTransform>,
}

impl Workspace {
    pub(crate) fn transform(&mut self, points: usize) -> &FourierTransform {
        if self.transform.as_ref().is_none_or(|own| own.points() != points) {
            self.transform = Some(FourierTransform::new(points));
        }
        self.transform.as_ref().expect("was set")
    }
}

/// Bounds of the errors of a composition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransformErrors {
    /// Of their Euclidean norm.
    pub(crate) norm: f64,
    /// Of every one.
    pub(crate) each: f64,
}

/// The transform of a composition, frequency by frequency.
pub(crate) struct LossSpectrum {
    /// A bound of the logarithm of the size.
    logs: Vec<f64>,
    angles: Vec<f64>,
    /// A bound of the relative error.
    errors: Vec<f64>,
    /// The relative rounding error of one factor.
    rounding: f64,
}

impl LossSpectrum {
    pub(crate) fn new(points: usize, events: usize) -> Self {
        let errors = vec![1e-13 * (1.0 + events as f64); points];
        Self {
            logs: vec![0.0; points],
            angles: vec![0.0; points],
            errors,
            rounding: UNIT * (32.0 + 8.0 * events as f64),
        }
    }

    /// Multiplies by a power of a transform of non-negative numbers with this sum. If `z̃` is within `e` of `z`, then
    /// `|z^k - z̃^k| ≤ k e (|z̃|+e)^(k-1)`; `z̃^k` is then given the size `(|z̃|+e)^k`, which adds the same error
    /// again.
    pub(crate) fn multiply(&mut self, transformed: &[[f64; 2]], sum: f64, times: f64) {
        let error = sum * FourierTransform::STAGE * f64::from(transformed.len().ilog2()) * (1.0 + 1e-9);
        for (place, [re, im]) in transformed.iter().enumerate() {
            if mirrored(place) < place {
                continue;
            }
            let size = (re * re + im * im).sqrt() + error;
            self.logs[place] += times * libm::log(size);
            if self.logs[place] > MIN_LOG_SIZE {
                self.angles[place] += times * libm::atan2(*im, *re);
                self.errors[place] += times * (2.0 * error / size + self.rounding);
            } else {
                // Its angle is now unknown.
                self.errors[place] = 2.0;
            }
        }
    }

    /// The inverse transform, not divided by the number of points, and bounds of its errors once divided.
    pub(crate) fn back(&self, transform: &FourierTransform, data: &mut [[f64; 2]]) -> TransformErrors {
        let (mut norm, mut wrong) = (0.0, 0.0);
        let (mut sizes, mut errors) = (0.0, 0.0);
        for place in 0..data.len() {
            let other = mirrored(place);
            if other < place {
                continue;
            }
            let silent = self.logs[place] <= MIN_LOG_SIZE;
            let size = libm::exp(self.logs[place].max(MIN_LOG_SIZE));
            let error = size * if silent { 1.0 } else { self.errors[place].min(2.0) };
            let [re, im] = if silent {
                [0.0; 2]
            } else {
                [size * libm::cos(self.angles[place]), size * libm::sin(self.angles[place])]
            };
            data[place] = [re, im];
            if other != place {
                data[other] = [re, -im];
            }
            norm += 2.0 * size * size;
            wrong += 2.0 * error * error;
            sizes += 2.0 * size;
            errors += 2.0 * error;
        }
        transform.backward(data);
        let stages = FourierTransform::STAGE * f64::from(data.len().ilog2());
        let points = data.len() as f64;
        TransformErrors {
            norm: (wrong.sqrt() + stages * norm.sqrt()) / points.sqrt() * (1.0 + 1e-6),
            each: (errors + stages * sizes) / points * (1.0 + 1e-6),
        }
    }
}

/// `ln max_x (1 - e^-x) e^(-λx)`.
fn chernoff_factor(lambda: f64) -> f64 {
    lambda * libm::log(lambda / (1.0 + lambda)) - libm::log1p(lambda)
}

/// The relative excess of a bound from which a better way to compute it exists.
const RETRY_EXCESS: f64 = 2e-3;
/// How far δ may be below the expected value, as a logarithm, before the computation is repeated.
const RETRY_SHORTFALL: f64 = 5.0;

/// The divergence in one direction at this ε, rounded up; or any bound of it that is at most `enough`. Values near or
/// above `wanted` are right to many digits.
pub(crate) fn divergence<L: LossLaw>(
    events: &[L],
    direction: Direction,
    epsilon: f64,
    (enough, wanted): (f64, f64),
    space: &mut Workspace,
) -> f64 {
    let mut plan = SaddleGrid::new(events, direction, epsilon, enough, libm::log(wanted));
    let mut best = 1.0f64;
    for _ in 0..4 {
        let (bound, waste) = bounded(events, direction, epsilon, enough, &plan, space);
        let gained = bound < 0.999 * best;
        best = best.min(bound);
        // The estimate is too high if a few large losses dominate; then tails were cut too early.
        let log = libm::log(best);
        if best <= enough || !gained || waste <= RETRY_EXCESS * bound && log >= plan.log_delta - RETRY_SHORTFALL {
            break;
        }
        plan = SaddleGrid::new(events, direction, epsilon, enough, log - 2.0);
    }
    // Smaller values are not distinguished from 0.
    best.max(f64::MIN_POSITIVE)
}

/// The divergence as planned, rounded up, and the part of it that is due to cut tails and rounding.
fn bounded<L: LossLaw>(
    events: &[L],
    direction: Direction,
    epsilon: f64,
    enough: f64,
    plan: &SaddleGrid,
    space: &mut Workspace,
) -> (f64, f64) {
    let (step, lambda) = (plan.cut.step, plan.lambda);
    let cells: Vec<LossCells> = events.iter().map(|event| event.cells(direction, plan.cut)).collect();
    let times = || events.iter().map(|event| event.times() as f64);
    let finite: f64 = cells.iter().zip(times()).map(|(own, times)| times * libm::log1p(-own.infinity.min(1.0))).sum();
    let infinity = -libm::expm1(finite * (1.0 + 8.0 * UNIT)) * (1.0 + 8.0 * UNIT);

    let sum_of = |logs: &[f64]| -> f64 { logs.iter().zip(times()).map(|(log, times)| log * times).sum() };
    let logs: Vec<f64> = cells.iter().map(|own| own.cumulant(lambda, step)).collect();
    let value = sum_of(&logs);
    let steps: f64 = times().sum();
    // Room for the rounding of the cumulants.
    let slack = |tilt: f64| 1e-12 * (steps + value.abs() + tilt.abs() * epsilon);
    let chernoff = libm::exp(value - lambda * epsilon + chernoff_factor(lambda) + slack(lambda)) + infinity;
    if chernoff <= enough {
        return (chernoff, 0.0);
    }

    let end = plan.first + plan.points as i64;
    let highest = |own: &LossCells| own.points.iter().map(|point| point.0).max().unwrap_or(0) as f64;
    let most: f64 = cells.iter().zip(times()).map(|(own, times)| highest(own) * times).sum();
    let beyond = if most + 1e-9 * most.abs() + 1.0 < end as f64 {
        0.0
    } else {
        let upper = sum_of(&cells.iter().map(|own| own.cumulant(plan.beyond, step)).collect::<Vec<_>>());
        let exponent = upper - plan.beyond * (end as f64 * step);
        libm::exp(exponent + 1e-12 * (steps + upper.abs() + (upper - exponent).abs()))
    };

    let window = tilted(&cells, &logs, events, plan, space);
    let (inside, rounding) = window.divergence(epsilon, value, plan);
    let bound = (inside + rounding + beyond.min(1.0) + infinity).min(chernoff).clamp(f64::MIN_POSITIVE, 1.0);
    (bound, rounding + beyond.min(1.0) + infinity)
}

/// The law of the sum of tilted losses, on the window.
struct Window {
    /// Not divided by the number of points, from the place 0 of the grid on, around the circle.
    masses: Vec<[f64; 2]>,
    /// A bound of the Euclidean norm of the errors.
    error: f64,
}

/// Composes the tilted laws by Fourier transforms. Mass outside the window wraps around to its other end, and so only
/// adds.
fn tilted<L: LossLaw>(
    cells: &[LossCells],
    logs: &[f64],
    events: &[L],
    plan: &SaddleGrid,
    space: &mut Workspace,
) -> Window {
    let (step, lambda, points) = (plan.cut.step, plan.lambda, plan.points);
    let transform = space.transform(points);
    let mut data = vec![[0.0; 2]; points];
    let mut spectrum = LossSpectrum::new(points, events.len());
    for ((own, log), event) in cells.iter().zip(logs).zip(events) {
        data.fill([0.0; 2]);
        let mut sum = 0.0;
        for (place, mass) in &own.points {
            let exponent = lambda * (*place as f64 * step);
            let rounding = 1.0 + UNIT * (256.0 + 4.0 * (exponent.abs() + log.abs()));
            let weight = mass * libm::exp(exponent - log) * rounding;
            data[place.rem_euclid(points as i64) as usize][0] += weight;
            sum += weight;
        }
        transform.forward(&mut data);
        spectrum.multiply(&data, sum, event.times() as f64);
    }
    let error = spectrum.back(transform, &mut data).norm;
    Window { masses: data, error }
}

impl Window {
    /// `Σ p_l (1 - e^(ε-l))₊` over the window, with `p_l` the tilted mass times `e^(K - λl)`, and a bound of its error.
    fn divergence(&self, epsilon: f64, value: f64, plan: &SaddleGrid) -> (f64, f64) {
        let (step, lambda, points) = (plan.cut.step, plan.lambda, plan.points as i64);
        let end = plan.first + points;
        let start = ((epsilon / step).floor() as i64).max(plan.first);
        let (mut sum, mut square) = (0.0, 0.0);
        for place in start..end {
            let above = place as f64 * step - epsilon;
            if above <= 0.0 {
                continue;
            }
            let weight = -libm::expm1(-above) * libm::exp(-lambda * above);
            sum += weight * self.masses[place.rem_euclid(points) as usize][0].max(0.0);
            square += weight * weight;
        }
        let room = 1.0 + UNIT * (64.0 + 2.0 * points as f64);
        let size = value.abs() + lambda * (epsilon.abs() + end.unsigned_abs() as f64 * step);
        let scale = libm::exp(value - lambda * epsilon + 16.0 * UNIT * (size + 1.0)) * room;
        (scale * sum / points as f64, scale * self.error * square.sqrt())
    }
}
