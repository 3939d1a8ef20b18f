//! Parameters with little error for a horizon.

mod units;

use super::aim::{GridObjective, coordinates, interlaced, rates};
use crate::Result;
use crate::mechanism::MAX_BUFFERS;
use crate::mechanism::name::buffers::{Buffers, FRACTION_BITS};
use crate::mechanism::state_space::response::PartialFractions;
use crate::mechanism::{ColumnScaling, Objective, SearchWatch};
use crate::number::descent::{minimise_lazily, minimum_within};
pub(super) use units::{buffers_for, buffers_of_runs};

/// Exponents by which the maximum is softened, one descent after the other.
const POWERS: [f64; 2] = [30.0, 300.0];
/// A pull to the starting point, so that directions without influence stay at their starting values.
const RIDGE: f64 = 1e-7;
/// Steps of a whole descent, which usually ends earlier.
const WHOLE: usize = 300;
/// Half the distance of the points between which a slope is measured if weights are rounded.
const DIFFERENCE: f64 = 5e-3;
/// And the limits of the descent there.
const MAX_STEPS: usize = 40;
const MIN_GAIN: f64 = 1e-4;

/// The best buffers found, for the maximum or the mean over the steps.
pub(super) fn buffers(
    horizon: u64,
    columns: ColumnScaling,
    count: usize,
    (objective, watch): (Objective, SearchWatch<'_>),
) -> Result<Buffers> {
    let aims = GridObjective::of(horizon, columns, objective, &POWERS);
    let start = start(horizon, count.clamp(1, MAX_BUFFERS));
    let descend = |point, aim: &GridObjective| {
        near(&start, point, WHOLE, |y, _| (!watch.is_cancelled()).then(|| aim.evaluate(y)))
    };
    let found = aims.iter().fold(start.clone(), descend);
    watch.check()?;
    frozen(&found)
}

/// Good buffers for any criterion, starting from good ones for a similar criterion. The criterion evaluates whole
/// mechanisms, in which column weights are rounded: slopes are measured over longer distances.
pub(super) fn buffers_near(others: Buffers, figure: impl Fn(Buffers) -> Option<f64>) -> Option<Buffers> {
    let mut point = coordinates(&rates_of(others));
    let value = |y: &[f64]| frozen(y).ok().and_then(&figure).map_or(f64::INFINITY, libm::log);
    let slope = |y: &[f64]| slopes(y, value);
    let mut limited = |y: &[f64], limit: f64| {
        let value = value(y);
        (value <= limit).then(|| (value, slope(y)))
    };
    minimise_lazily(&mut point, MAX_STEPS, MIN_GAIN, &mut limited);
    frozen(&point).ok()
}

/// The rates of frozen buffers, ascending.
fn rates_of(buffers: Buffers) -> Vec<f64> {
    let PartialFractions { direct, inverse, .. } = PartialFractions::from_buffers(&buffers);
    let mut rates: Vec<f64> = direct.poles.iter().chain(&inverse.poles).map(|pole| pole.a).collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates
}

/// A local minimum near a point, found in at most `steps` steps, pulled a little to `start`. The aim returns its value
/// and gradient, or nothing if its second argument, a test of the value, fails.
fn near(
    start: &[f64],
    point: Vec<f64>,
    steps: usize,
    aim: impl Fn(&[f64], &dyn Fn(f64) -> bool) -> Option<(f64, Vec<f64>)>,
) -> Vec<f64> {
    let pulled = |value: f64, y: &[f64]| {
        y.iter().zip(start).fold(value, |value, (y, start)| value + RIDGE * (y - start) * (y - start))
    };
    minimum_within(point, steps, &mut |y, limit| {
        let (value, mut gradient) = aim(y, &|value| pulled(value, y) <= limit)?;
        for ((gradient, y), start) in gradient.iter_mut().zip(y).zip(start) {
            *gradient += 2.0 * RIDGE * (y - start);
        }
        Some((pulled(value, y), gradient)).filter(|(value, _)| *value <= limit)
    })
}

/// The gradient of a function by central differences.
fn slopes(y: &[f64], function: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let moved = |i: usize, by: f64| {
        let mut at = y.to_vec();
        at[i] += by;
        function(&at)
    };
    (0..y.len()).map(|i| (moved(i, DIFFERENCE) - moved(i, -DIFFERENCE)) / (2.0 * DIFFERENCE)).collect()
}

/// Rates in equal ratios. They begin above `1 / T`: a pole and its inverse far below it would cancel, and stay there.
fn start(horizon: u64, count: usize) -> Vec<f64> {
    start_with(horizon, count, 3.0)
}

/// The same up to a greatest rate.
fn start_with(horizon: u64, count: usize, fastest: f64) -> Vec<f64> {
    let slowest = (10.0 / horizon as f64).min(0.3);
    let (low, high) = (libm::log(slowest), libm::log(fastest.max(2.0 * slowest)));
    let points = 2 * count;
    let rate = |m: usize| libm::exp(low + (high - low) * m as f64 / (points - 1) as f64);
    coordinates(&(0..points).map(rate).collect::<Vec<_>>())
}

/// The integers nearest to a point.
fn frozen(point: &[f64]) -> Result<Buffers> {
    let (poles, inverse) = interlaced(&rates(point));
    let response = PartialFractions::from_poles(poles, inverse);
    let one = (1u64 << FRACTION_BITS) as f64;
    let decays: Vec<u64> =
        response.direct.poles.iter().map(|pole| (1 << FRACTION_BITS) - (pole.q * one).round() as u64).collect();
    let echoes: Vec<u64> =
        response.direct.weights[..decays.len()].iter().map(|echo| (echo * one).round() as u64).collect();
    Buffers::new(&decays, &echoes)
}
