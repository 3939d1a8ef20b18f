//! Parameters with little error for a horizon.

use super::aim::{GridObjective, coordinates, interlaced, rates};
use super::runs::Closed;
use super::{figures::RowFigures, participation};
use crate::Result;
use crate::mechanism::MAX_BUFFERS;
use crate::mechanism::name::buffers::{Buffers, FRACTION_BITS};
use crate::mechanism::state_space::response::PartialFractions;
use crate::mechanism::state_space::segments;
use crate::mechanism::{ColumnScaling, Objective, Participation};
use crate::number::descent::{minimise_lazily, minimum};

/// Exponents by which the maximum is softened, one descent after the other.
const POWERS: [f64; 2] = [30.0, 300.0];
/// A pull to the starting point, so that directions without influence stay at their starting values.
const RIDGE: f64 = 1e-7;
/// The decay of a buffer over the whole horizon that is a floor of the coefficients.
const FLOOR_RATE: f64 = 0.03;
/// After the first of these descents, the next begins only at points whose logarithm of the variance is less than the
/// second number above the least; of points that differ by less than the first number, at one.
const SAME_MINIMUM: f64 = 1e-6;
const PROMISING: f64 = 0.05;
/// Half the distance of the points between which a slope is measured: values are accurate to 10⁻¹², the slopes to 10⁻⁸.
const DIFFERENCE: f64 = 1e-4;
/// The same if weights are rounded.
const LONG_DIFFERENCE: f64 = 5e-3;
/// And the limits of the descent there.
const MAX_STEPS: usize = 40;
const MIN_GAIN: f64 = 1e-4;

/// The best buffers found, for the maximum or the mean over the steps.
pub(super) fn buffers(horizon: u64, columns: ColumnScaling, count: usize, objective: Objective) -> Result<Buffers> {
    let aims = match (objective, columns) {
        (Objective::Mean, _) => vec![GridObjective::mean(horizon, columns)],
        (Objective::Max, ColumnScaling::Plain) => vec![GridObjective::max(horizon, ColumnScaling::Plain, 1.0)],
        (Objective::Max, ColumnScaling::Normalized) => {
            POWERS.map(|power| GridObjective::max(horizon, ColumnScaling::Normalized, power)).into()
        }
    };
    let start = start(horizon, count.clamp(1, MAX_BUFFERS));
    let descend = |point, aim: &GridObjective| near(&start, point, |y, _| Some(aim.evaluate(y)));
    frozen(&aims.iter().fold(start.clone(), descend))
}

/// Good buffers for a plain BLT and units that take part in several steps, for the maximum or the mean over the steps,
/// from several starting points. `O(d³ min(k, 2^16))` for each of about a hundred steps of the search.
pub(super) fn buffers_for(
    horizon: u64,
    count: usize,
    objective: Objective,
    participation: Participation,
) -> Vec<Buffers> {
    let figure = |y: &[f64]| {
        let (poles, inverse) = interlaced(&rates(y));
        let response = PartialFractions::from_poles(poles, inverse);
        let squared = participation::plain(&response, horizon, participation);
        let rows = RowFigures::new(response, &segments::plain(horizon), 0);
        libm::log(squared * objective.of(rows.max(), rows.mean()))
    };
    // Memory that lasts longer than the time until the unit returns costs more: rates begin around there, or one of
    // them is far below all others.
    let stretches = [1, 4].map(|times| horizon.min(participation.separation().saturating_mul(times)));
    let count = count.clamp(1, MAX_BUFFERS);
    let starts = stretches.into_iter().flat_map(|stretch| {
        [Some(start(stretch, count)), start_with_floor(horizon, stretch, count)].into_iter().flatten()
    });
    let descend = |start: Vec<f64>| frozen(&near(&start, start.clone(), by_differences(&figure))).ok();
    starts.filter_map(descend).collect()
}

/// Good buffers for patterns of equal length ([`runs`](super::runs)), for the maximum or the mean over the steps, from
/// up to seven starting points. Milliseconds to a tenth of a second.
pub(super) fn buffers_of_runs(horizon: u64, count: usize, objective: Objective, runs: Participation) -> Vec<Buffers> {
    let aims = match objective {
        Objective::Mean => vec![GridObjective::mean(horizon, ColumnScaling::Normalized)],
        Objective::Max => POWERS.map(|power| GridObjective::max(horizon, ColumnScaling::Normalized, power)).into(),
    };
    // Before this step there is no whole pattern.
    let first = ((runs.most() - 1) * runs.separation() + 1) as f64; // fits: a pattern within the horizon
    let figure = |y: &[f64], aim: &GridObjective| {
        let (poles, inverse) = interlaced(&rates(y));
        let response = PartialFractions::from_poles(poles, inverse);
        let norms = Closed::new(&response.direct, runs);
        // The scale is the length of the pattern that ends there; so the longest pattern has length 1.
        aim.with_scales(&response, |step| libm::sqrt(norms.at(horizon as f64 - step.max(first))))
    };
    // Memory shorter than the duration of a pattern is of little use, if the steps of a pattern are close; if they are
    // far apart, so is memory that lasts longer than the time until the unit returns.
    let (most, separation) = (runs.most(), runs.separation());
    let close = [(horizon, 3.0), (horizon, 3.0 / (most as f64 * separation as f64))];
    let apart = [1, 4].map(|times| (horizon.min(separation.saturating_mul(times)), 3.0));
    let apart = apart.into_iter().filter(|(stretch, _)| separation > 1 && *stretch < horizon);
    let count = count.clamp(1, MAX_BUFFERS);
    let spaced = close.into_iter().chain(apart).map(|(stretch, fastest)| start_with(stretch, count, fastest));
    let with_floor = [1, 4, horizon]
        .into_iter()
        .filter_map(|times| start_with_floor(horizon, horizon.min(separation.saturating_mul(times)), count));
    let mut points: Vec<(Vec<f64>, Vec<f64>)> = spaced.chain(with_floor).map(|start| (start.clone(), start)).collect();
    for (done, aim) in aims.iter().enumerate() {
        let value = |y: &[f64]| figure(y, aim);
        points.iter_mut().for_each(|(start, point)| *point = near(start, point.clone(), by_differences(&value)));
        if done + 1 < aims.len() {
            points = promising(points, |(_, point)| value(point));
        }
    }
    points.into_iter().filter_map(|(_, point)| frozen(&point).ok()).collect()
}

/// The points from which another descent may find the best: those near the least value, and of points with the same
/// value, which are usually the same minimum, one.
fn promising<P>(points: Vec<P>, value: impl Fn(&P) -> f64) -> Vec<P> {
    let mut valued: Vec<(f64, P)> = points.into_iter().map(|point| (value(&point), point)).collect();
    valued.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let least = valued.first().map_or(f64::NAN, |(value, _)| *value);
    valued.dedup_by(|(next, _), (kept, _)| *next - *kept < SAME_MINIMUM);
    valued.into_iter().filter(|(value, _)| *value - least < PROMISING).map(|(_, point)| point).collect()
}

/// Good buffers for any criterion, starting from good ones for a similar criterion. The criterion evaluates whole
/// mechanisms, in which column weights are rounded: slopes are measured over longer distances.
pub(super) fn buffers_near(others: Buffers, figure: impl Fn(Buffers) -> Option<f64>) -> Option<Buffers> {
    let PartialFractions { direct, inverse, .. } = PartialFractions::from_buffers(&others);
    let mut rates: Vec<f64> = direct.poles.iter().chain(&inverse.poles).map(|pole| pole.a).collect();
    rates.sort_unstable_by(f64::total_cmp);
    let mut point = coordinates(&rates);
    let value = |y: &[f64]| frozen(y).ok().and_then(&figure).map_or(f64::INFINITY, libm::log);
    let slope = |y: &[f64]| slopes_over(y, LONG_DIFFERENCE, value);
    let mut limited = |y: &[f64], limit: f64| {
        let value = value(y);
        (value <= limit).then(|| (value, slope(y)))
    };
    minimise_lazily(&mut point, MAX_STEPS, MIN_GAIN, &mut limited);
    frozen(&point).ok()
}

/// A local minimum near a point, pulled a little to `start`. The aim returns its value and gradient, or nothing if its
/// second argument, a test of the value, fails.
fn near(
    start: &[f64],
    point: Vec<f64>,
    aim: impl Fn(&[f64], &dyn Fn(f64) -> bool) -> Option<(f64, Vec<f64>)>,
) -> Vec<f64> {
    let pulled = |value: f64, y: &[f64]| {
        y.iter().zip(start).fold(value, |value, (y, start)| value + RIDGE * (y - start) * (y - start))
    };
    minimum(point, &mut |y, limit| {
        let (value, mut gradient) = aim(y, &|value| pulled(value, y) <= limit)?;
        for ((gradient, y), start) in gradient.iter_mut().zip(y).zip(start) {
            *gradient += 2.0 * RIDGE * (y - start);
        }
        Some((pulled(value, y), gradient)).filter(|(value, _)| *value <= limit)
    })
}

/// The aim of a function whose gradient is measured by differences, where its value passes the test.
fn by_differences(
    function: &impl Fn(&[f64]) -> f64,
) -> impl Fn(&[f64], &dyn Fn(f64) -> bool) -> Option<(f64, Vec<f64>)> {
    move |y: &[f64], passes: &dyn Fn(f64) -> bool| {
        let value = function(y);
        passes(value).then(|| (value, slopes(y, function)))
    }
}

/// The gradient of a function by central differences.
fn slopes(y: &[f64], function: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    slopes_over(y, DIFFERENCE, function)
}

fn slopes_over(y: &[f64], difference: f64, function: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let moved = |i: usize, by: f64| {
        let mut at = y.to_vec();
        at[i] += by;
        function(&at)
    };
    (0..y.len()).map(|i| (moved(i, difference) - moved(i, -difference)) / (2.0 * difference)).collect()
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

/// Rates in equal ratios for a shorter stretch, after one that hardly decays before the horizon: its echo is a floor of
/// the coefficients. A descent from [`start`] does not get there: on the way the slow buffer costs more than it saves.
/// `None` for a single buffer.
fn start_with_floor(horizon: u64, stretch: u64, count: usize) -> Option<Vec<f64>> {
    let others = (count > 1).then(|| (10.0 / stretch as f64).min(0.3))?;
    let (low, high) = (libm::log(others), libm::log(3.0));
    let points = 2 * count - 1;
    let rate = |m: usize| libm::exp(low + (high - low) * m as f64 / (points - 1) as f64);
    let floor = (FLOOR_RATE / horizon as f64).min(0.1 * others);
    Some(coordinates(&[floor].into_iter().chain((0..points).map(rate)).collect::<Vec<_>>()))
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
