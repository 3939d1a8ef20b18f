//! Parameters with little error for a horizon.

use super::MAX_BUFFERS;
use super::buffers::{Buffers, FRACTION_BITS};
use super::descent::minimum;
use super::objective::{Objective, coordinates, interlaced, rates};
use super::response::Response;
use crate::Result;

/// Exponents by which the maximum is softened, one descent after the other.
const POWERS: [f64; 2] = [30.0, 300.0];
/// A pull to the starting point, so that directions without influence stay where they are.
const RIDGE: f64 = 1e-7;

/// The best buffers found, for the maximum or the mean over the steps.
pub(super) fn buffers(horizon: u64, count: usize, normalized: bool, mean: bool) -> Result<Buffers> {
    let objectives = match (mean, normalized) {
        (true, _) => vec![Objective::mean(horizon, normalized)],
        (false, false) => vec![Objective::max(horizon, false, 1.0)],
        (false, true) => POWERS.map(|power| Objective::max(horizon, true, power)).into(),
    };
    let start = start(horizon, count.clamp(1, MAX_BUFFERS));
    let point = objectives.iter().fold(start.clone(), |point, objective| {
        minimum(point, |y| {
            let (mut value, mut gradient) = objective.evaluate(y);
            for ((gradient, y), start) in gradient.iter_mut().zip(y).zip(&start) {
                value += RIDGE * (y - start) * (y - start);
                *gradient += 2.0 * RIDGE * (y - start);
            }
            (value, gradient)
        })
    });
    frozen(&point)
}

/// Rates in equal ratios. They begin above `1 / T`: a pole and its inverse far below it would cancel, and stay there.
fn start(horizon: u64, count: usize) -> Vec<f64> {
    let (low, high) = (libm::log((10.0 / horizon as f64).min(0.3)), libm::log(3.0));
    let points = 2 * count;
    let rate = |m: usize| libm::exp(low + (high - low) * m as f64 / (points - 1) as f64);
    coordinates(&(0..points).map(rate).collect::<Vec<_>>())
}

/// The integers nearest to a point.
fn frozen(point: &[f64]) -> Result<Buffers> {
    let (poles, inverse) = interlaced(&rates(point));
    let response = Response::of_poles(poles, inverse);
    let one = (1u64 << FRACTION_BITS) as f64;
    let decays: Vec<u64> =
        response.direct.poles.iter().map(|pole| (1 << FRACTION_BITS) - (pole.q * one).round() as u64).collect();
    let echoes: Vec<u64> =
        response.direct.weights[..decays.len()].iter().map(|echo| (echo * one).round() as u64).collect();
    Buffers::new(&decays, &echoes)
}
