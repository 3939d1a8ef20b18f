//! A round among several: the law of its loss; see the header of `disjoint.rs`.

use super::geometric::{self, OF_POINTS, UNDERFLOW};
use super::grid::{COARSER, SumGrid};
use super::kinds::{Coarseness, UNIT};
use super::ratios::Ratios;
use super::sum::BinSums;
use crate::poisson_subsampling::{Cut, Direction, LossCells, LossLaw, Workspace, boundaries, rough_tilt};
use std::ops::Range;

/// The largest tilt of losses that the grid is made for.
const MAX_TILT: f64 = 64.0;
/// The largest step of the logarithms of points by which a tilt is estimated, and the most points of one `Y`.
const MAX_COARSE_STEP: f64 = 0.2;
const MAX_COARSE_POINTS: f64 = 1024.0;
/// From this number of points on, or where a grid is coarser than it should be, transforms take long or are imprecise.
const MIN_LARGE_GRID: f64 = 131_072.0;
/// Above this ε rounding errors of transforms may matter, whatever the grid.
const MAX_TRANSFORMED_EPSILON: f64 = 4.0;
/// About the time of all transforms for one point, in multiplications of sums on a geometric grid.
const TIME_OF_POINT: f64 = 3000.0;
/// The share of δ that outer points may cost on either side.
const OUTER: f64 = 1e-5;
/// Relative widths of the cells of a coarse law: of the standard deviation, and of the loss.
const COARSE: (f64, f64) = (1.0 / 16.0, 1.0 / 32.0);

/// A value of `M`, and bounds of its masses under `Q`, for an added example, and under `P`, for a removed one.
struct RatioMass {
    log: f64,
    ratio: f64,
    added: f64,
    removed: f64,
}

/// A pair of measures that dominates a round, in both directions.
pub(super) struct RoundLaw {
    rounds: u64,
    /// With increasing `M`.
    points: Vec<RatioMass>,
    /// The standard deviation of `M`.
    deviation: f64,
    /// By which losses are raised for errors of the points.
    imprecision: f64,
    /// The points that are kept if the example is removed, and if it is added, and the mass that is not.
    removed: (Range<usize>, f64),
    added: (Range<usize>, f64),
}

/// All points but outer ones with at most this mass on either side, and the mass of those.
fn kept(masses: impl DoubleEndedIterator<Item = f64> + ExactSizeIterator + Clone, cut: f64) -> (Range<usize>, f64) {
    let few = |sum: &mut f64, mass: f64| {
        *sum += mass;
        (*sum <= cut).then_some(*sum)
    };
    let below: Vec<f64> = masses.clone().scan(0.0, few).collect();
    let above: Vec<f64> = masses.clone().rev().scan(0.0, few).collect();
    let range = below.len()..masses.len().saturating_sub(above.len()).max(below.len());
    let outside = below.last().unwrap_or(&0.0) + above.last().unwrap_or(&0.0);
    (range, outside * (1.0 + UNIT * masses.len() as f64))
}

impl RoundLaw {
    /// For these numbers of rounds, ε and about this δ.
    pub(super) fn new(
        ratios: &Ratios,
        rounds: u64,
        (epsilon, wanted): (f64, f64),
        coarseness: Coarseness,
        space: &mut Workspace,
    ) -> Self {
        let (grid, tilts) = Self::fourier_grid(ratios, rounds, (epsilon, wanted), coarseness);
        let points = grid.points as f64;
        let is_large = epsilon > MAX_TRANSFORMED_EPSILON;
        if is_large || points >= coarseness.max_points.min(MIN_LARGE_GRID) {
            let time = points * TIME_OF_POINT;
            let wanted_step = Self::geometric_step(ratios, rounds, (epsilon, wanted), coarseness);
            // Where transforms are imprecise, a coarser step than wanted is the better bound.
            let is_imprecise = is_large && points >= coarseness.max_points;
            let lowest = Self::lowest(ratios, rounds, wanted);
            let fastest = if is_imprecise { geometric::step_for_cost(&ratios.kinds, lowest, time) } else { 0.0 };
            let step = wanted_step.map(|step| step.max(fastest));
            if let Some(step) = step.filter(|step| geometric::cost(&ratios.kinds, lowest, *step).1 <= time) {
                return Self::on_geometric_grid(ratios, rounds, wanted, step);
            }
        }
        Self::on_fourier_grid(ratios, rounds, wanted, (grid, &tilts), space)
    }

    /// The grid for transforms, and the tilts on it.
    pub(super) fn fourier_grid(
        ratios: &Ratios,
        rounds: u64,
        (epsilon, wanted): (f64, f64),
        coarseness: Coarseness,
    ) -> (SumGrid, Vec<f64>) {
        let bins = ratios.bins;
        let variance = ratios.sketch.cumulants(0.0).variance / (bins * bins);
        // The tilt of the sum of losses if it were normal.
        let aim = (epsilon / (rounds as f64 * variance) + 0.5).min(MAX_TILT) / bins;
        SumGrid::whole(&ratios.sketch, (epsilon, aim, wanted), rounds, coarseness)
    }

    /// The step of a geometric grid for the tilt of the sum of losses by a coarse law of that kind. `None` if `M`
    /// varies so little that no coarse grid resolves it.
    fn geometric_step(
        ratios: &Ratios,
        rounds: u64,
        (epsilon, wanted): (f64, f64),
        coarseness: Coarseness,
    ) -> Option<f64> {
        let deviation = ratios.sketch.cumulants(0.0).variance.sqrt() / ratios.bins;
        let step = (deviation / 2.0).min(MAX_COARSE_STEP);
        if geometric::cost(&ratios.kinds, Self::lowest(ratios, rounds, wanted), step).0 > MAX_COARSE_POINTS {
            return None;
        }
        let law = [Self::on_geometric_grid(ratios, rounds, wanted, step)];
        let (removed, _) = rough_tilt(&law, Direction::Remove, epsilon);
        let (added, log_delta) = rough_tilt(&law, Direction::Add, epsilon);
        // If added examples reveal much less, their precision does not matter.
        let tilt = if log_delta > libm::log(wanted) - 3.0 { removed.max(added) } else { removed };
        let share = COARSER * coarseness.of_delta / rounds as f64;
        Some(geometric::step_for_power(&ratios.kinds, tilt + 0.5, share))
    }

    /// The smallest logarithm of a geometric grid: mass at 0 shows that an example was not added.
    fn lowest(ratios: &Ratios, rounds: u64, wanted: f64) -> f64 {
        geometric::lowest_for(&ratios.kinds, OUTER * wanted / rounds as f64)
    }

    /// From the law of the sum on a geometric grid: masses under `P` are those under `Q` times `M`.
    pub(super) fn on_geometric_grid(ratios: &Ratios, rounds: u64, wanted: f64, step: f64) -> Self {
        let bins = ratios.bins;
        let law = geometric::law(&ratios.kinds, Self::lowest(ratios, rounds, wanted), step);
        let point = |(place, mass): &(f64, f64)| {
            let ratio = place / bins;
            let removed = mass * ratio * (1.0 + 2.0 * OF_POINTS);
            RatioMass { log: libm::log(ratio), ratio, added: *mass, removed }
        };
        let points: Vec<RatioMass> = law.points.iter().map(point).collect();
        let (of_removed, of_added) = (law.beyond + UNDERFLOW, law.zero + UNDERFLOW);
        Self::of_points(ratios, rounds, wanted, points, (of_removed, of_added, 2.0 * OF_POINTS))
    }

    /// By Fourier transforms of laws on a grid, with these tilts.
    pub(super) fn on_fourier_grid(
        ratios: &Ratios,
        rounds: u64,
        wanted: f64,
        (grid, tilts): (SumGrid, &[f64]),
        space: &mut Workspace,
    ) -> Self {
        let bins = ratios.bins;
        let sums = BinSums::new(&ratios.kinds, grid);
        let mut added: Vec<f64> = vec![f64::INFINITY; grid.points];
        let mut removed = added.clone();
        for lambda in tilts.iter().copied().filter(|lambda| *lambda < 0.0).chain([0.0]) {
            let sum = sums.without(lambda, space);
            added.iter_mut().enumerate().for_each(|(place, mass)| *mass = mass.min(sum.mass(place)));
        }
        for lambda in tilts.iter().copied().filter(|lambda| *lambda > 0.0).chain([0.0]) {
            let laws = sums.with(lambda, space);
            let mass = |place: usize| laws.iter().map(|(share, sum)| share * sum.mass(place)).sum::<f64>();
            removed.iter_mut().enumerate().for_each(|(place, own)| *own = own.min(mass(place) * (1.0 + 8.0 * UNIT)));
        }
        let point = |place: usize| {
            let ratio = place as f64 * grid.step / bins;
            RatioMass { log: libm::log(ratio), ratio, added: added[place], removed: removed[place] }
        };
        let points: Vec<RatioMass> = (1..grid.points).map(point).collect();
        let tail = sums.tail();
        // Beyond the window `Q` has less mass than `P`; tilted mass that wraps around may count as too little.
        Self::of_points(ratios, rounds, wanted, points, (sums.beyond() + tail, added[0] + tail, 0.0))
    }

    /// From points, the masses of infinite loss if the example is removed and if it is added, and a bound of the
    /// relative errors of the points.
    fn of_points(
        ratios: &Ratios,
        rounds: u64,
        wanted: f64,
        points: Vec<RatioMass>,
        (of_removed, of_added, imprecision): (f64, f64, f64),
    ) -> Self {
        let cut = OUTER * wanted / rounds as f64;
        let mut removed = kept(points.iter().map(|point| point.removed), cut);
        removed.1 += of_removed;
        let mut added = kept(points.iter().map(|point| point.added), cut);
        added.1 += of_added;
        let deviation = ratios.sketch.cumulants(0.0).variance.sqrt() / ratios.bins;
        Self { rounds, points, deviation, imprecision, removed, added }
    }

    /// Losses in increasing order, with the masses under the first and the second law of a pair.
    fn losses(&self, direction: Direction) -> Box<dyn Iterator<Item = (f64, f64, f64)> + '_> {
        let (more, less) = (self.imprecision, 1.0 - self.imprecision);
        match direction {
            Direction::Remove => {
                let kept = self.points[self.removed.0.clone()].iter();
                Box::new(kept.map(move |point| (point.log + more, point.removed, point.removed / point.ratio * less)))
            }
            Direction::Add => {
                let kept = self.points[self.added.0.clone()].iter().rev();
                Box::new(kept.map(move |point| (more - point.log, point.added, point.added * point.ratio * less)))
            }
        }
    }
}

impl LossLaw for RoundLaw {
    fn times(&self) -> u64 {
        self.rounds
    }

    fn coarse(&self, direction: Direction, _: f64) -> Vec<(f64, f64)> {
        let mut cells: Vec<(f64, f64, f64)> = vec![];
        for (loss, first, _) in self.losses(direction) {
            match cells.last_mut() {
                Some((start, moment, mass)) if loss - *start < COARSE.0 * self.deviation + COARSE.1 * start.abs() => {
                    *moment += first * loss;
                    *mass += first;
                }
                _ => cells.push((loss, first * loss, first)),
            }
        }
        let kept = cells.into_iter().filter(|(_, _, mass)| *mass > f64::MIN_POSITIVE);
        kept.map(|(_, moment, mass)| (moment / mass, libm::log(mass))).collect()
    }

    fn cells(&self, direction: Direction, cut: Cut) -> LossCells {
        let infinity = match direction {
            Direction::Remove => self.removed.1,
            Direction::Add => self.added.1,
        };
        let mut cells = LossCells { points: vec![], infinity };
        let end = |sign: f64| {
            let most = self.losses(direction).map(|(loss, ..)| sign * loss).fold(0.0, f64::max);
            boundaries(most / cut.step + 1.0, f64::INFINITY, cut.widest)
        };
        let below = end(-1.0);
        let places: Vec<i64> = below[1..].iter().rev().map(|place| -place).chain(end(1.0)).collect();
        let mut losses = self.losses(direction).peekable();
        for pair in places.windows(2) {
            let (mut first, mut second, mut terms) = (0.0, 0.0, 0.0);
            let high = pair[1] as f64 * cut.step;
            while let Some((_, p, q)) = losses.next_if(|(loss, ..)| *loss <= high) {
                first += p;
                second += q;
                terms += 1.0;
            }
            if first > 0.0 {
                let size = (pair[0].unsigned_abs().max(pair[1].unsigned_abs())) as f64 * cut.step;
                // Logarithms, products and sums.
                let error = UNIT * (16.0 + 4.0 * size + terms);
                cells.split((first, second, error), error, [pair[0], pair[1]], cut.step);
            }
        }
        cells
    }
}
