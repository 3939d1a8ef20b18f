//! Parameters for units with events in several steps.
//!
//! These have several local minima. Descents begin at rates in equal ratios over several stretches of steps, and at the
//! best point with one buffer less, to which a buffer is added. After a few steps only the most promising continue.

use super::{POWERS, WHOLE, frozen, near, rates_of, start, start_with};
use crate::mechanism::name::buffers::Buffers;
use crate::mechanism::toeplitz::blt::aim::{GridObjective, PatternObjective, coordinates, rates};
use crate::mechanism::{ColumnScaling, MAX_BUFFERS, Objective, Participation, SearchWatch};
use std::ops::RangeInclusive;

/// The decay of a buffer over the whole horizon that is a floor of the coefficients.
const FLOOR_RATE: f64 = 0.03;
/// Memory that decays at this rate is less than 2^-28 after one step. Higher rates are lowered to this one and slightly
/// more, each by one more of the second number, because poles have to differ from 0 and from each other on their grid.
const FASTEST: f64 = 20.0;
const FASTER: f64 = 0.1;
/// Steps of the first descents.
const FIRST_STEPS: usize = 12;
/// A descent continues only from points whose logarithm of the variance is less than the second number above the least;
/// of points that differ by less than the first number, from one; and from at most three points.
const SAME_MINIMUM: f64 = 1e-6;
const PROMISING: f64 = 0.05;
const MAX_PROMISING: usize = 3;
/// Half the logarithm of the ratio of the rates of an added buffer: at most this, and at most this part of the gap.
const ADDED: f64 = 0.3;
const PART_OF_GAP: f64 = 0.25;

/// Good buffers for a plain BLT, for the maximum or the mean over the steps: for each number of buffers, one or two of
/// the best minima. `O(d³)` for each of a few hundred steps of the search.
pub(in crate::mechanism::toeplitz::blt) fn buffers_for(
    horizon: u64,
    counts: RangeInclusive<usize>,
    (objective, watch): (Objective, SearchWatch<'_>),
    participation: Participation,
) -> Vec<Buffers> {
    let search = UnitSearch::new(horizon, ColumnScaling::Plain, (objective, watch), participation.over(horizon));
    // Memory that lasts longer than the time until the unit returns costs more: rates begin around there, or one of
    // them is far below all others.
    let stretches = [1, 4].map(|times| horizon.min(participation.separation().saturating_mul(times)));
    let (mut found, mut fewer) = (vec![], None::<Vec<f64>>);
    for count in 1..=(*counts.end()).min(MAX_BUFFERS) {
        let spread = stretches.into_iter().flat_map(|stretch| {
            [Some(start(stretch, count)), start_with_floor(horizon, stretch, count)].into_iter().flatten()
        });
        let best = search.best(spread.chain(fewer.iter().flat_map(|point| with_one_more(&rates(point)))).collect());
        if counts.contains(&count) {
            found.extend(best.iter().take(2).filter_map(|point| frozen_within(point)));
        }
        fewer = best.into_iter().next();
    }
    found
}

/// Good buffers for patterns of equal length ([`runs`](super::super::runs)), for the maximum or the mean over the
/// steps. `fewer` are the best with one buffer less, if known. Milliseconds to a tenth of a second.
pub(in crate::mechanism::toeplitz::blt) fn buffers_of_runs(
    horizon: u64,
    count: usize,
    (objective, watch): (Objective, SearchWatch<'_>),
    runs: Participation,
    fewer: Option<Buffers>,
) -> Vec<Buffers> {
    let search = UnitSearch::new(horizon, ColumnScaling::Normalized, (objective, watch), runs);
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
    let added = fewer.filter(|fewer| fewer.echoes().len() + 1 == count);
    let added = added.into_iter().flat_map(|fewer| with_one_more(&rates_of(fewer)));
    let best = search.best(spaced.chain(with_floor).chain(added).collect());
    best.iter().filter_map(|point| frozen_within(point)).collect()
}

/// One objective after the other.
struct UnitSearch<'a> {
    watch: SearchWatch<'a>,
    aims: Vec<PatternObjective>,
    /// Whether only promising points are followed to the end. The objective of plain columns costs little.
    narrows: bool,
}

/// A start, and the point reached from there.
type Descent = (Vec<f64>, Vec<f64>);

impl<'a> UnitSearch<'a> {
    fn new(
        horizon: u64,
        columns: ColumnScaling,
        (objective, watch): (Objective, SearchWatch<'a>),
        runs: Participation,
    ) -> Self {
        let grids = GridObjective::of(horizon, columns, objective, &POWERS);
        let aims = grids.into_iter().map(|grid| PatternObjective::new(grid, runs)).collect();
        Self { watch, aims, narrows: columns.are_normalized() }
    }

    /// The minima found from these points, the best first.
    fn best(&self, starts: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        let points: Vec<Descent> = starts.into_iter().map(|start| (start.clone(), start)).collect();
        let mut points = match self.narrows {
            true => promising(self.descended(points, FIRST_STEPS, &self.aims[0]), &self.aims[0]),
            false => points,
        };
        for aim in &self.aims {
            points = promising(self.descended(points, WHOLE, aim), aim);
        }
        points.into_iter().map(|(_, point)| point).collect()
    }

    fn descended(&self, points: Vec<Descent>, steps: usize, aim: &PatternObjective) -> Vec<Descent> {
        let evaluate = |y: &[f64], passes: &dyn Fn(f64) -> bool| {
            if self.watch.is_cancelled() { None } else { aim.evaluate(y, passes) }
        };
        let further = |(start, point): Descent| {
            let point = near(&start, point, steps, evaluate);
            (start, point)
        };
        points.into_iter().map(further).collect()
    }
}

/// The points from which another descent may find the best, the best first: those near the least value, and of points
/// with the same value, which are usually the same minimum, one.
fn promising(points: Vec<Descent>, aim: &PatternObjective) -> Vec<Descent> {
    let value = |point: &[f64]| aim.evaluate(point, &|_| true).map_or(f64::INFINITY, |(value, _)| value);
    let mut valued: Vec<(f64, Descent)> = points.into_iter().map(|descent| (value(&descent.1), descent)).collect();
    valued.retain(|(value, _)| value.is_finite());
    valued.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let least = valued.first().map_or(f64::NAN, |(value, _)| *value);
    valued.dedup_by(|(next, _), (kept, _)| *next - *kept < SAME_MINIMUM);
    let near = valued.into_iter().filter(|(value, _)| *value - least < PROMISING);
    near.take(MAX_PROMISING).map(|(_, descent)| descent).collect()
}

/// The integers nearest to a point, or to one whose rates are below a limit: the best memory may be that of fewer
/// buffers, and the others then decay at once.
fn frozen_within(point: &[f64]) -> Option<Buffers> {
    let limited = rates(point).into_iter().zip(0u8..).map(|(rate, m)| rate.min(FASTEST + FASTER * f64::from(m)));
    frozen(&coordinates(&limited.collect::<Vec<_>>())).ok()
}

/// These rates with one more buffer, in every gap: a pole and an inverse pole close to each other, which nearly cancel.
fn with_one_more(rates: &[f64]) -> Vec<Vec<f64>> {
    let logs: Vec<f64> = rates.iter().map(|rate| libm::log(*rate)).collect();
    let (first, last) = (logs[0], logs[logs.len() - 1]);
    let gaps = logs.windows(2).map(|pair| (0.5 * (pair[0] + pair[1]), pair[1] - pair[0]));
    let outside = [(first - 3.0 * ADDED, f64::INFINITY), (last + 3.0 * ADDED, f64::INFINITY)];
    let with = |(middle, gap): (f64, f64)| {
        let half = ADDED.min(PART_OF_GAP * gap);
        let mut rates: Vec<f64> = rates.to_vec();
        rates.extend([middle - half, middle + half].map(libm::exp));
        rates.sort_unstable_by(f64::total_cmp);
        coordinates(&rates)
    };
    gaps.chain(outside).map(with).collect()
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
