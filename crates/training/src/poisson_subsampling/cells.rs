//! One sampled release: its privacy loss, cut into cells and moved to grid points.

use super::event::{Direction, SampledGaussian};
use evertally::number::special::normal_cdf;

/// The unit of rounding.
const UNIT: f64 = f64::EPSILON / 2.0;
/// Below this noise multiplier a sampled example counts as revealed.
pub(super) const MIN_NOISE: f64 = 0.0625;
/// Cells are at most this fraction of the loss they represent, if that exceeds the grid step.
const FRACTION: i64 = 64;

/// Masses at multiples of a grid step, each pair of which has exactly the loss it names.
#[derive(Clone, Debug)]
pub(crate) struct LossCells {
    /// A grid place may occur twice.
    pub(crate) points: Vec<(i64, f64)>,
    /// The probability of an infinite loss, rounded up.
    pub(crate) infinity: f64,
}

/// The cutting of an event into cells: `step` has at most 24 significant bits, so that its multiples are exact; beyond
/// `reach` standard deviations tails are cut; no cell is wider than `widest` steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) step: f64,
    pub(crate) reach: f64,
    pub(crate) widest: i64,
}

/// `ln(1 - q + q e^t)` with `t = (2x - 1)/(2σ²)`: the loss of the mixture over the noise alone.
pub(super) fn loss_at(event: &SampledGaussian, x: f64) -> f64 {
    let t = (2.0 * x - 1.0) / (2.0 * event.noise * event.noise);
    if event.rate == 1.0 {
        t
    } else if t < -1.0 {
        libm::log((1.0 - event.rate) + event.rate * libm::exp(t))
    } else if t < 1.0 {
        libm::log1p(event.rate * libm::expm1(t))
    } else {
        t + libm::log(event.rate + (1.0 - event.rate) * libm::exp(-t))
    }
}

/// The `x` at which the mixture has this loss over the noise alone, and a bound of its error.
///
/// `x = 1/2 + σ² ln r` with `r = (e^loss - (1-q))/q`. A relative error of `e^loss` is one of `1/(1 - (1-q) e^-loss)`
/// times as much in `r`.
fn place_of(event: &SampledGaussian, loss: f64) -> (f64, f64) {
    let (rate, rest) = (event.rate, 1.0 - event.rate);
    let (log, slack) = if rest == 0.0 {
        (loss, 0.0)
    } else if loss > 30.0 {
        (loss - libm::log(rate) + libm::log1p(-rest * libm::exp(-loss)), loss - libm::log(rate))
    } else if loss < -0.5 && rest < 0.9 {
        let power = libm::exp(loss);
        (libm::log((power - rest) / rate), (power + rest) / (power - rest).max(0.0))
    } else {
        let above = libm::expm1(loss) / rate;
        (libm::log1p(above), above.abs() / (1.0 + above).max(0.0))
    };
    let x = 0.5 + event.noise * event.noise * log;
    (x, 8.0 * UNIT * (event.noise * event.noise * (slack + log.abs()) + x.abs() + 1.0))
}

/// A bound of the relative error of [`mass`] and [`tails`](normal_cdf) this far out.
pub(crate) fn precision(z: f64) -> f64 {
    128.0 * UNIT * (4.0 + z * z)
}

/// The probability that a standard normal variable falls between two numbers.
///
/// Narrow intervals by the series of the density around the middle `m`, in half widths `d`, whose first omitted term is
/// below `(d (m+3))⁸/9!`; wide ones as a difference of tails, which are at most 60 times as large.
pub(crate) fn mass(low: f64, high: f64) -> f64 {
    let (half, middle) = ((high - low) / 2.0, low + (high - low) / 2.0);
    if half * (middle.abs() + 3.0) <= 0.06 {
        let (s, m) = (half * half, middle * middle);
        let second = (m - 1.0) / 6.0;
        let fourth = ((m - 6.0) * m + 3.0) / 120.0;
        let sixth = (((m - 15.0) * m + 45.0) * m - 15.0) / 5040.0;
        let density = libm::exp(-m / 2.0) / (2.0 * std::f64::consts::PI).sqrt();
        return 2.0 * half * density * (1.0 + s * (second + s * (fourth + s * sixth)));
    }
    if low >= 0.0 {
        normal_cdf(-low) - normal_cdf(-high)
    } else if high <= 0.0 {
        normal_cdf(high) - normal_cdf(low)
    } else {
        1.0 - normal_cdf(low) - normal_cdf(-high)
    }
}

/// Grid places from 0 on that bound cells, up to one at or after the end, but none beyond the limit: dense at first,
/// then sparser in proportion.
pub(crate) fn boundaries(end: f64, limit: f64, widest: i64) -> Vec<i64> {
    let mut places = vec![0i64];
    let mut place = 0i64;
    while (place as f64) < end {
        place += 1 << (place / FRACTION).clamp(1, widest.max(1)).ilog2();
        if place as f64 > limit {
            break;
        }
        places.push(place);
    }
    places
}

/// The laws of one coordinate between two points, in standard deviations of the noise.
struct Laws {
    rate: f64,
    distance: f64,
    direction: Direction,
}

impl Laws {
    /// Probabilities under the first and the second law of a pair, and a bound of their relative errors. An infinite
    /// end is a tail.
    fn between(&self, low: f64, high: f64) -> (f64, f64, f64) {
        let of = |low: f64, high: f64| match (low == f64::NEG_INFINITY, high == f64::INFINITY) {
            (true, _) => normal_cdf(high),
            (_, true) => normal_cdf(-low),
            _ => mass(low, high),
        };
        let noise = of(low, high);
        let moved = of(low - self.distance, high - self.distance);
        let mixture = (1.0 - self.rate) * noise + self.rate * moved;
        // Farther out, doubles cannot distinguish the mass from 0.
        let far = [low, high].into_iter().filter(|z| z.is_finite()).fold(0.0f64, |far, z| far.max(z.abs().min(40.0)));
        let error = precision(far + self.distance);
        match self.direction {
            Direction::Remove => (mixture, noise, error),
            Direction::Add => (noise, mixture, error),
        }
    }
}

/// The cutting of one direction of an event.
struct Cutting {
    laws: Laws,
    places: Vec<i64>,
    /// For each place an end of the losses that are at most its own, slightly inside, whatever the rounding; and how
    /// much lower the loss may be there.
    ends: Vec<(f64, f64)>,
}

impl Cutting {
    fn new(event: &SampledGaussian, direction: Direction, cut: Cut) -> Self {
        let (noise, step) = (event.noise, cut.step);
        let laws = Laws { rate: event.rate, distance: 1.0 / noise, direction };
        let (sign, low, high) = match direction {
            Direction::Remove => (1.0, loss_at(event, -cut.reach * noise), loss_at(event, 1.0 + cut.reach * noise)),
            Direction::Add => (-1.0, -loss_at(event, cut.reach * noise), -loss_at(event, -cut.reach * noise)),
        };
        // Places next to the bound ln(1-q) would be lost in rounding; the outermost cell covers them.
        let bound = -libm::log1p(-event.rate) * (1.0 - 1e-4) / step;
        let (least, most) = match direction {
            Direction::Remove => (bound, f64::INFINITY),
            Direction::Add => (f64::INFINITY, bound),
        };
        let below = boundaries(-low / step, least, cut.widest);
        let above = boundaries(high / step, most, cut.widest);
        let places: Vec<i64> = below[1..].iter().rev().map(|place| -place).chain(above).collect();
        let end = |place: &i64| {
            let (x, error) = place_of(event, sign * (*place as f64 * step));
            ((x - sign * error) / noise, 2.0 * error / (noise * noise))
        };
        let ends = places.iter().map(end).collect();
        Self { laws, places, ends }
    }

    /// Adds the cells whose losses are all at least 0, or all at most 0, or both.
    fn split_into(&self, cells: &mut LossCells, (above, below): (bool, bool), step: f64) {
        for (place, end) in self.places.windows(2).zip(self.ends.windows(2)) {
            let (low, high) = match self.laws.direction {
                Direction::Remove => (end[0].0, end[1].0),
                Direction::Add => (end[1].0, end[0].0),
            };
            if low < high && if place[0] >= 0 { above } else { below } {
                cells.split(self.laws.between(low, high), end[0].1, [place[0], place[1]], step);
            }
        }
    }
}

impl LossCells {
    /// The cells of an event.
    pub(super) fn new(event: &SampledGaussian, direction: Direction, cut: Cut) -> Self {
        if event.is_symmetric() {
            return Self::of_replaced(event, cut);
        }
        if event.noise < MIN_NOISE {
            return Self::revealed(event, direction, cut.step);
        }
        let cutting = Cutting::new(event, direction, cut);
        let mut cells = Self { points: Vec::with_capacity(2 * cutting.places.len() + 4), infinity: 0.0 };
        cutting.split_into(&mut cells, (true, true), cut.step);
        cells.finish(event, &cutting, cut.step);
        cells
    }

    /// The cells of a batch of fixed size, in either direction: positive losses are those of a removed example,
    /// negative ones those of an added example, and the rest is 0.
    fn of_replaced(event: &SampledGaussian, cut: Cut) -> Self {
        if event.noise < MIN_NOISE {
            return Self::revealed(event, Direction::Remove, cut.step);
        }
        let mut cells = Self { points: Vec::new(), infinity: 0.0 };
        let positive = Cutting::new(event, Direction::Remove, cut);
        positive.split_into(&mut cells, (true, false), cut.step);
        let (top, _) = positive.ends[positive.ends.len() - 1];
        let (first, _, error) = positive.laws.between(top, f64::INFINITY);
        cells.infinity = first * (1.0 + error);
        let negative = Cutting::new(event, Direction::Add, cut);
        negative.split_into(&mut cells, (false, true), cut.step);
        let (bottom, _) = negative.ends[0];
        let (first, _, error) = negative.laws.between(bottom, f64::INFINITY);
        cells.points.push((negative.places[0], first * (1.0 + error)));
        let half = 0.5 / event.noise;
        let equal = (1.0 - event.rate) * mass(-half, half);
        cells.points.push((0, equal * (1.0 + precision(half) + 8.0 * UNIT)));
        cells
    }

    /// The two outermost cells. The loss of the mixture is at least `ln(1-q)`, so one of the two may be bounded.
    fn finish(&mut self, event: &SampledGaussian, Cutting { laws, places, ends }: &Cutting, step: f64) {
        let (first, last) = (places[0], places[places.len() - 1]);
        let (bottom, top) = (ends[0], ends[ends.len() - 1]);
        // Steps that are certainly beyond the bound.
        let bound = (-libm::log1p(-event.rate) / step * (1.0 + 8.0 * UNIT)).ceil();
        let near = |place: i64| bound < 1e15 && (bound as i64) - place.abs() <= (place.abs() / 32).max(2);
        match laws.direction {
            Direction::Remove => {
                let masses = laws.between(f64::NEG_INFINITY, bottom.0);
                if near(first) && -(bound as i64) < first {
                    self.split(masses, bottom.1, [-(bound as i64), first], step);
                } else {
                    self.points.push((first, masses.0 * (1.0 + masses.2)));
                }
                let masses = laws.between(top.0, f64::INFINITY);
                self.infinity = masses.0 * (1.0 + masses.2);
            }
            Direction::Add => {
                let masses = laws.between(bottom.0, f64::INFINITY);
                self.points.push((first, masses.0 * (1.0 + masses.2)));
                let masses = laws.between(f64::NEG_INFINITY, top.0);
                if near(last) && bound as i64 > last {
                    self.split(masses, top.1, [last, bound as i64], step);
                } else {
                    self.infinity = masses.0 * (1.0 + masses.2);
                }
            }
        }
    }

    /// Moves the masses of a cell to its ends so that each end has the loss it names; the possible effect of rounding,
    /// and of a loss below the lower end by `below`, is moved from the lower to the upper end.
    pub(crate) fn split(
        &mut self,
        (first, second, error): (f64, f64, f64),
        below: f64,
        [low, high]: [i64; 2],
        step: f64,
    ) {
        let share = -libm::expm1((low - high) as f64 * step);
        let scaled = second * libm::exp(low as f64 * step);
        let all = first * (1.0 + error) + f64::MIN_POSITIVE;
        let guard = (first + scaled) * (error + 8.0 * UNIT) + first * below;
        let upper = ((first - scaled + guard) / share * (1.0 + 8.0 * UNIT)).clamp(0.0, all);
        self.points.push((high, upper));
        self.points.push((low, (all - upper) * (1.0 + 2.0 * UNIT)));
    }

    /// A sampled example (probability `q`) is revealed; this bounds every noise from above.
    fn revealed(event: &SampledGaussian, direction: Direction, step: f64) -> Self {
        let mut cells = Self { points: Vec::new(), infinity: 0.0 };
        match direction {
            Direction::Remove => (cells.points, cells.infinity) = (vec![(0, 1.0)], event.rate),
            Direction::Add if event.rate < 1.0 => {
                let bound = (-libm::log1p(-event.rate) / step * (1.0 + 8.0 * UNIT)).ceil() as i64;
                cells.split((1.0, 1.0 - event.rate, 4.0 * UNIT), 0.0, [0, bound], step);
            }
            Direction::Add => (cells.points, cells.infinity) = (vec![(0, 0.0)], 1.0),
        }
        cells
    }

    /// `ln E e^(λ loss)` of the finite losses, to `10^-13 (1 + |λ loss|)`.
    pub(super) fn cumulant(&self, lambda: f64, step: f64) -> f64 {
        let exponent = |(place, _): &(i64, f64)| lambda * (*place as f64 * step);
        let most = self.points.iter().filter(|point| point.1 > 0.0).map(|point| {
            // Masses of the far tails are small, and would overflow without their own logarithm.
            exponent(point) + libm::log(point.1)
        });
        let most = most.fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = self.points.iter().map(|point| libm::exp(exponent(point) - most) * point.1).sum();
        most + libm::log(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The series and the difference of tails, where both apply.
    #[test]
    fn masses_by_series_are_those_by_tails() {
        for middle in [0.0, 0.3, 1.0, 2.5, 5.0, 9.0] {
            let half = 0.0599 / (middle + 3.0);
            let (low, high) = (middle - half, middle + half);
            let by_tails = normal_cdf(-low) - normal_cdf(-high);
            for found in [mass(low, high), mass(-high, -low)] {
                assert!((found / by_tails - 1.0).abs() < 1e-11, "{middle}: {found} {by_tails}");
            }
        }
    }
}
