//! The grid, the tilt and the window of a sum. Bounds hold whatever is chosen here.

use super::dilated::CoarseRatios;
use super::kinds::Coarseness;

/// The smallest size of a transform.
const MIN_POINTS: f64 = 2048.0;
/// Logarithm of the relative cost of the cut window.
const NEGLIGIBLE: f64 = -12.0;
/// About the rounding errors of a transform, per bin.
const ROUNDING: f64 = 2e-12;
/// The losses, as shares of ε, that a round is tilted to.
const TILTED: [f64; 4] = [0.3, 1.0, -0.3, -1.0];
/// How much longer its window may be for these tilts.
const MAX_LONGER: f64 = 1.25;
/// How much coarser its grid is: it takes several transforms, and has more points.
pub(super) const COARSER: f64 = 8.0;

/// Multiples of a step, as many as a power of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct SumGrid {
    pub(super) step: f64,
    pub(super) points: usize,
    pub(super) lambda: f64,
    /// A larger tilt, whose Chernoff bound applies beyond the window.
    pub(super) beyond: f64,
}

impl SumGrid {
    /// For the mean excess over a threshold.
    pub(super) fn above(sketch: &CoarseRatios, threshold: f64, wanted: f64, coarseness: Coarseness) -> Self {
        let aim = sketch.tilt_to(threshold, 1.0);
        let lambda = mildest(sketch, aim, threshold, wanted);
        let aim = aim.max(sketch.decay_of_one(threshold));
        let log = libm::log(wanted) + NEGLIGIBLE;
        let (end, beyond) = window(sketch, lambda, lambda * threshold + log);
        let end = end.max(threshold + 4.0 / aim.max(1.0 / threshold));
        Self::new(sketch, end, (lambda, aim, beyond), (1.0, threshold), coarseness)
    }

    /// For the mean shortfall below a threshold, with the tilt of its saddle point.
    pub(super) fn below(sketch: &CoarseRatios, aim: f64, threshold: f64, wanted: f64, coarseness: Coarseness) -> Self {
        let lambda = mildest(sketch, aim, threshold, wanted);
        let (end, beyond) = window(sketch, 0.0, libm::log(wanted) + NEGLIGIBLE);
        Self::new(sketch, end.max(2.0 * threshold), (lambda, aim, beyond), (1.0, threshold), coarseness)
    }

    /// For the whole law of a round, one of several, whose losses add up to ε; `aim` is the tilt of their sum. Returns
    /// also tilts for both ends of the law.
    pub(super) fn whole(
        sketch: &CoarseRatios,
        (epsilon, aim, wanted): (f64, f64, f64),
        rounds: u64,
        coarseness: Coarseness,
    ) -> (Self, Vec<f64>) {
        let (middle, most) = (sketch.cumulants(0.0).mean, 0.5 * sketch.limit() * sketch.bins());
        let at = |loss: f64| sketch.tilt_to((middle * libm::exp(loss)).min(most), loss.signum());
        let (end, beyond) = window(sketch, 0.0, libm::log(wanted / rounds as f64) + NEGLIGIBLE);
        // Tilted mass that wraps around is as small as rounding errors.
        let wraps = |lambda: f64| lambda > 0.0 && wrapped_end(sketch, lambda) > MAX_LONGER * end;
        let short = |share: &f64| {
            let tilts = (0..40).scan(at(share * epsilon), |lambda, _| Some(std::mem::replace(lambda, 0.7 * *lambda)));
            tilts.into_iter().find(|lambda| !wraps(*lambda)).unwrap_or(0.0)
        };
        let tilts: Vec<f64> = TILTED.iter().map(short).collect();
        let upper = tilts.iter().filter(|lambda| **lambda > 0.0).map(|lambda| wrapped_end(sketch, *lambda));
        let coarseness = Coarseness { of_delta: COARSER * coarseness.of_delta, ..coarseness };
        (Self::new(sketch, upper.fold(end, f64::max), (0.0, aim, beyond), (rounds as f64, middle), coarseness), tilts)
    }

    fn new(
        sketch: &CoarseRatios,
        end: f64,
        (lambda, aim, beyond): (f64, f64, f64),
        (rounds, threshold): (f64, f64),
        Coarseness { of_delta, max_points }: Coarseness,
    ) -> Self {
        // A variance v more in the sum adds about v λ²/2 to ln δ. A dilation by a step h adds about h²/6 to the
        // variance of a summand, and at most h; a summand that decides alone is large, and gets h²/6.
        let at_rest = sketch.cumulants(0.0);
        let aim = aim.abs().max(0.5 / at_rest.variance.sqrt().max((threshold - at_rest.mean).abs()));
        let of_one = 2.0 * of_delta / (rounds * aim * aim);
        let of_each = of_one / sketch.bins();
        let step = (6.0 * of_each)
            .sqrt()
            .max(of_each.min((6.0 * of_one).sqrt()))
            .min(end / MIN_POINTS)
            .max(end / (max_points - 8.0));
        // So few bits that all multiples are exact; at least as long.
        let step = f64::from((step * (1.0 + 1e-7)) as f32);
        let points = (end / step + 2.0).max(MIN_POINTS) as usize;
        Self { step, points: points.next_power_of_two(), lambda, beyond }
    }

    /// The end of the window.
    pub(super) fn end(&self) -> f64 {
        self.points as f64 * self.step
    }
}

/// The smallest part of a tilt that keeps rounding errors small at a threshold.
fn mildest(sketch: &CoarseRatios, aim: f64, threshold: f64, wanted: f64) -> f64 {
    let enough = libm::log(1e-3 * wanted / (ROUNDING * sketch.bins()));
    let parts = [0.0, 1.0 / 16.0, 0.125, 0.25, 0.5].map(|part| part * aim);
    let fits = |lambda: &f64| sketch.cumulants(*lambda).moved(sketch.bins()) - lambda * threshold < enough;
    parts.into_iter().find(fits).unwrap_or(aim)
}

/// The end of a window beyond which nearly nothing is left with this tilt.
fn wrapped_end(sketch: &CoarseRatios, lambda: f64) -> f64 {
    window(sketch, lambda, sketch.cumulants(lambda).moved(sketch.bins()) - 35.0).0
}

/// The end of the window beyond which the sum with this tilt has a mass under `P` of at most `e^log`, and the larger
/// tilt that shows it.
fn window(sketch: &CoarseRatios, lambda: f64, log: f64) -> (f64, f64) {
    let deviation = sketch.cumulants(lambda).variance.sqrt();
    let at = |quarter: i32| {
        let more = libm::exp2(f64::from(quarter) / 4.0) / deviation;
        ((sketch.cumulants(lambda + more).moved(sketch.bins()) - log) / more, lambda + more)
    };
    (-32..28).map(at).min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are some")
}
