//! Measures from the releases of their parts, with intervals. All of it is post-processing.
//!
//! Let `N`, `S` and `Q` be the released count, sum (from the middle `c` of the bounds) and squares, with independent
//! noise of known laws, and `h` half the distance between the bounds.
//!
//! * **Sum**: `S + cN`.
//! * **Mean**: `c + S/N`, with Fieller's interval ([`RatioIntervals`]) intersected with the bounds: no mean is outside
//!   them.
//! * **Variance** of the values (with divisor `n`): with `s = S/h` and `q = Σ(1 − (x−c)²/h²)` from the squares, `v/h² =
//!   1 − q/n − (s/n)²`. For the true `a = 1 − v/h²` the combination `T(a) = a(N² − σ_N²) − qN − s² + σ_s²` has mean 0.
//!   Its variance is `4s²σ_s² + n²σ_q² + (2an − q)²σ_N²` and, from the squares of the noises, `2σ_s⁴ + σ_q²σ_N² +
//!   2a²σ_N⁴`; with released values instead of true ones it is estimated without bias by `4S²σ_s² − 2σ_s⁴ + N²σ_q² −
//!   σ_q²σ_N² + (2aN − Q)²σ_N² − 2a²σ_N⁴`. The interval consists of all `a` at which `T(a)` is within its quantile:
//!   Fieller's idea for a quadratic form. If this set is not an interval, only `0 ≤ v ≤ h²` is known.
//! * **Standard deviation**: the roots.
//! * **Quantile**: see the blocks of [`Part::Ranks`].
//!
//! If there may be no events at all, a mean, a variance or a quantile has **no value**: the cells of value and standard
//! error are empty, and the interval is the whole range that the bounds allow. A wrong number is never reported.

use super::bundle::Bundle;
use super::measure::Measure;
use super::parts::{Centre, Part};
use evertally::number::power;
use evertally::plan::{Intervals, NoiseMoments, NoisyPair, RatioIntervals, RatioSet};
use evertally::stream::Release;
use std::sync::Arc;

/// One row of a measure.
#[doc(alias = "Estimate")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasureEstimate {
    /// The value; not a number if there is none.
    pub value: f64,
    /// Its standard error; not a number if there is no value.
    pub std_error: f64,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
    /// The exact form of the value, if it is a released one.
    pub exact: Option<Release>,
}

impl MeasureEstimate {
    /// No value; the interval is the range that the bounds allow.
    fn none(lower: f64, upper: f64) -> Self {
        Self { value: f64::NAN, std_error: f64::NAN, lower, upper, exact: None }
    }
}

/// Computes measures, one step after another.
pub struct Estimator {
    bundle: Arc<Bundle>,
    ratios: RatioIntervals,
    /// The intervals of the counts of every part.
    intervals: Vec<Intervals>,
    /// The noise of every part at the step.
    noise: Vec<NoiseMoments>,
    half_widths: Vec<i128>,
}

impl Estimator {
    /// The estimator of the measures of a bundle, at a confidence level.
    ///
    /// # Errors
    /// If the confidence is not between 0 and 1.
    pub fn new(bundle: Arc<Bundle>, confidence: f64) -> evertally::Result<Self> {
        let intervals = bundle
            .parts()
            .iter()
            .map(|planned| planned.plan.intervals(confidence))
            .collect::<evertally::Result<_>>()?;
        Ok(Self {
            bundle,
            ratios: RatioIntervals::new(confidence)?,
            intervals,
            noise: Vec::new(),
            half_widths: Vec::new(),
        })
    }

    /// Moves to a step.
    pub fn go_to(&mut self, step: u64) {
        self.noise = self.bundle.parts().iter().map(|planned| planned.plan.noise_moments(step)).collect();
        let half_width = |of: &mut Intervals| i128::try_from(of.half_width(step)).unwrap_or(i128::MAX / 2);
        self.half_widths = self.intervals.iter_mut().map(half_width).collect();
    }

    /// The rows of one group, from the releases of each part's cells in the group.
    pub fn rows(&mut self, releases: &[&[Release]]) -> Vec<MeasureEstimate> {
        let bundle = Arc::clone(&self.bundle);
        let mut rows = Vec::new();
        for wanted in bundle.wanted() {
            match &wanted.measure {
                Measure::Count => rows.push(self.counted(releases, |part| *part == Part::Count, 0)),
                Measure::Distinct => rows.push(self.counted(releases, |part| *part == Part::People, 0)),
                Measure::Active(window) => {
                    let is = |part: &Part| [Part::Active(*window), Part::Present(*window)].contains(part);
                    rows.push(self.counted(releases, is, 0));
                }
                Measure::Within(_) => unreachable!("a declaration has widths in steps once it is resolved"),
                Measure::Histogram(cuts) => {
                    let counted = |cell| self.counted(releases, |part| matches!(part, Part::Bins(_)), cell);
                    rows.extend((0..=cuts.len()).map(counted));
                }
                Measure::Workload(_, workload) => {
                    rows.push(self.counted(releases, |part| *part == Part::Reading(*workload), 0));
                }
                Measure::Sum => rows.push(self.sum(releases)),
                Measure::Mean => rows.push(self.mean(releases)),
                Measure::Variance => rows.push(self.variance(releases)),
                Measure::Deviation => rows.push(root(self.variance(releases))),
                Measure::Quantile(share) => rows.push(self.quantile(releases, *share)),
            }
        }
        rows
    }

    fn counted(&self, releases: &[&[Release]], is: impl Fn(&Part) -> bool, cell: usize) -> MeasureEstimate {
        let place = self.bundle.find(is).expect("every measure has its parts");
        let (release, half_width) = (releases[place][cell], self.half_widths[place]);
        MeasureEstimate {
            value: release.value(),
            std_error: self.noise[place].variance.sqrt(),
            lower: release.shifted(-half_width).value(),
            upper: release.shifted(half_width).value(),
            exact: Some(release),
        }
    }

    /// A part's release in the first cell, and its noise; zero if there is no such part.
    fn part(&self, releases: &[&[Release]], part: &Part) -> (f64, NoiseMoments) {
        let place = self.bundle.find(|own| own == part);
        place.map_or((0.0, NoiseMoments::NONE), |place| (releases[place][0].value(), self.noise[place]))
    }

    fn centre(&self) -> Centre {
        *self.bundle.centre().expect("values have bounds")
    }

    fn sum(&mut self, releases: &[&[Release]]) -> MeasureEstimate {
        let middle = self.centre().middle_value();
        let ((count, of_count), (sum, of_sum)) = (self.part(releases, &Part::Count), self.part(releases, &Part::Sum));
        let noise = of_sum.plus(of_count.times(middle));
        let (value, half_width) = (sum + middle * count, self.ratios.half_width(noise));
        let (lower, upper) = (value - half_width, value + half_width);
        MeasureEstimate { value, std_error: noise.variance.sqrt(), lower, upper, exact: None }
    }

    fn mean(&mut self, releases: &[&[Release]]) -> MeasureEstimate {
        let (middle, half) = (self.centre().middle_value(), self.centre().half_value());
        let ((count, of_count), (sum, of_sum)) = (self.part(releases, &Part::Count), self.part(releases, &Part::Sum));
        let pair = NoisyPair::independent(sum, of_sum, count, of_count);
        match self.ratios.of(&pair) {
            // A count below 0 is noise, however far below.
            set @ RatioSet::Between(..) if count > 0.0 => {
                let ((lower, upper), value) = (set.within(-half, half), pair.ratio().clamp(-half, half));
                let (lower, upper) = (middle + lower.min(value), middle + upper.max(value));
                MeasureEstimate { value: middle + value, std_error: pair.std_error(), lower, upper, exact: None }
            }
            _ => MeasureEstimate::none(middle - half, middle + half),
        }
    }

    fn variance(&mut self, releases: &[&[Release]]) -> MeasureEstimate {
        let centre = self.centre();
        let half = centre.half_value();
        let ((count, of_count), (sum, of_sum)) = (self.part(releases, &Part::Count), self.part(releases, &Part::Sum));
        let place = self.bundle.find(|part| *part == Part::Squares).expect("every measure has its parts");
        let kind = self.bundle.parts()[place].plan.noise_kind();
        let per_unit = centre.squares_below(1.0, kind);
        let (squares, of_squares) = (releases[place][0].value() * per_unit, self.noise[place].times(per_unit));
        let moments =
            ReleasedMoments { count, of_count, sum: sum / half, of_sum: of_sum.times(1.0 / half), squares, of_squares };
        moments.variance(&mut self.ratios).map_or(MeasureEstimate::none(0.0, half * half), |estimate| MeasureEstimate {
            value: estimate.value * half * half,
            std_error: estimate.std_error * half * half,
            lower: estimate.lower * half * half,
            upper: estimate.upper * half * half,
            exact: None,
        })
    }

    fn quantile(&mut self, releases: &[&[Release]], share: f64) -> MeasureEstimate {
        let place = self.bundle.find(|part| matches!(part, Part::Ranks(_))).expect("every measure has its parts");
        let planned = &self.bundle.parts()[place];
        let Part::Ranks(tree) = &planned.part else { unreachable!("found as one") };
        let counts: Vec<f64> = releases[place].iter().map(Release::value).collect();
        let found = tree.quantile(&counts, share, self.noise[place], &mut self.ratios);
        let grid = self.bundle.grid();
        let (lower, upper) = (found.lower * grid, found.upper * grid);
        match found.value {
            Some(value) => {
                // The longer arm of the interval, divided by that of a normal law. With coarse cells, the value may be
                // near one end of the range that the counts cannot resolve.
                let normal = self.ratios.half_width(NoiseMoments::gaussian(1.0));
                let value = value * grid;
                let std_error = (upper - value).max(value - lower) / normal;
                MeasureEstimate { value, std_error, lower, upper, exact: None }
            }
            None => MeasureEstimate::none(lower, upper),
        }
    }
}

/// The standard deviation from the variance.
fn root(of: MeasureEstimate) -> MeasureEstimate {
    let value = of.value.max(0.0).sqrt();
    let value = if of.value.is_nan() { f64::NAN } else { value };
    let std_error = if value > 0.0 { of.std_error / (2.0 * value) } else { of.std_error.sqrt() };
    MeasureEstimate { value, std_error, lower: of.lower.sqrt(), upper: of.upper.sqrt(), exact: None }
}

/// Released moments of values between −1 and 1: their number, their sum, and the total by which squares are below 1.
struct ReleasedMoments {
    count: f64,
    of_count: NoiseMoments,
    sum: f64,
    of_sum: NoiseMoments,
    squares: f64,
    of_squares: NoiseMoments,
}

impl ReleasedMoments {
    /// Their variance, between 0 and 1; `None` if there may be no values. See the [module](self).
    fn variance(&self, ratios: &mut RatioIntervals) -> Option<MeasureEstimate> {
        let Self { count: n, sum: s, squares: q, .. } = *self;
        let (vn, vs, vq) = (self.of_count.variance, self.of_sum.variance, self.of_squares.variance);
        let (square, rest) = (n * n - vn, q * n + s * s - vs);
        if n <= 0.0 || square <= 0.0 {
            return None;
        }
        let best = rest / square;
        // The quantile, from the law of the terms that are linear in the noise.
        let linear = |a: f64| {
            let of_count = self.of_count.times(2.0 * a * n - q);
            of_count.plus(self.of_squares.times(n)).plus(self.of_sum.times(2.0 * s))
        };
        let law = linear(best);
        let excess = NoiseMoments { variance: 1.0, fourth: law.fourth / power(law.variance, 2) };
        let k = power(ratios.half_width(excess), 2);
        let fixed = 4.0 * s * s * vs - 2.0 * vs * vs + n * n * vq - vq * vn;
        // T(a)² ≤ k (fixed + (2an − q)² vn − 2a² vn²), a quadratic in a.
        let leading = square * square - k * (4.0 * n * n * vn - 2.0 * vn * vn);
        let middle = square * rest - k * 2.0 * n * q * vn;
        let constant = rest * rest - k * (fixed + q * q * vn);
        let discriminant = middle * middle - leading * constant;
        if leading <= 0.0 || discriminant < 0.0 {
            return None;
        }
        let (low, high) = ((middle - discriminant.sqrt()) / leading, (middle + discriminant.sqrt()) / leading);
        let value = (1.0 - best).clamp(0.0, 1.0);
        let (lower, upper) = RatioSet::Between(1.0 - high, 1.0 - low).within(0.0, 1.0);
        let std_error = law.variance.sqrt() / square;
        Some(MeasureEstimate { value, std_error, lower: lower.min(value), upper: upper.max(value), exact: None })
    }
}

/// The number of decimals to write of a value: to a thousandth of its standard error.
pub fn decimals(std_error: f64) -> usize {
    if !(std_error > 0.0 && std_error.is_finite()) {
        return 6;
    }
    (3.0 - libm::log10(std_error).floor()).clamp(0.0, 15.0) as usize
}

#[cfg(test)]
mod tests;
