//! The likelihood ratio of one bin, moved to points; see the header of `disjoint.rs`.

use super::kinds::{EqualBins, UNIT};
use crate::poisson_subsampling::{mass, precision};
use evertally::number::special::normal_cdf;

/// The lowest place of a sketch, in standard deviations of `ln Y`, and the distance of its places.
const LOWEST: f64 = -9.0;
const DISTANCE: f64 = 0.125;

/// The law of `Y`, dilated to points from 0 on.
pub(super) struct Dilated {
    pub(super) masses: Vec<f64>,
    /// `E (Y - C)₊` above the last point `C`, rounded up.
    pub(super) beyond: f64,
}

/// A normal probability between two places, the lower of which may be infinite.
fn between(low: f64, high: f64) -> f64 {
    if low == f64::NEG_INFINITY { normal_cdf(high) } else { mass(low, high) }
}

/// Dilates `Y`, `ln Y` of variance `square`, to these points, the first of which is 0.
///
/// A place has an error of some units times its size and `√square`, which moves mass from a cell to the next one as if
/// its end were there; the bound of the errors of the masses covers that too.
pub(super) fn dilated(square: f64, points: &[f64]) -> Dilated {
    let root = square.sqrt();
    let mut masses = vec![0.0; points.len()];
    let mut low = f64::NEG_INFINITY;
    for (k, pair) in points.windows(2).enumerate() {
        let (a, b) = (pair[0], pair[1]);
        let high = (libm::log(b) + square / 2.0) / root;
        let (p, m) = (between(low, high), between(low - root, high - root));
        let far = high.abs().max(if low.is_finite() { low.abs() } else { 0.0 }).min(40.0);
        let guard = (m + b * p) * precision(far + root);
        masses[k] += (b * p - m + guard).max(0.0) / (b - a) * (1.0 + 8.0 * UNIT);
        masses[k + 1] += (m - a * p + guard).max(0.0) / (b - a) * (1.0 + 8.0 * UNIT);
        low = high;
    }
    let (last, error) = (points.len() - 1, precision(low.abs().min(40.0) + root));
    let (p, m) = (normal_cdf(-low), normal_cdf(root - low));
    masses[last] += p * (1.0 + error);
    let beyond = (m - points[last] * p).max(0.0) + (m + points[last] * p) * error;
    Dilated { masses, beyond }
}

/// Some points of every law, for choices and for Chernoff's bound: itself a dilation, so that `E e^{λ Y}` is never
/// understated for `λ < 0`, nor for a limited `Y`.
pub(super) struct CoarseRatios {
    /// The largest variance of `ln Y`.
    square: f64,
    kinds: Vec<(f64, Vec<(f64, f64)>)>,
}

/// `ln E e^{λ Σ Y}` and its first two derivatives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TiltedMoments {
    pub(super) value: f64,
    pub(super) mean: f64,
    pub(super) variance: f64,
}

impl TiltedMoments {
    /// `ln E e^{λ Σ Y}` if the example takes part in a random bin: under `P`.
    pub(super) fn moved(self, bins: f64) -> f64 {
        self.value + libm::log(self.mean / bins)
    }
}

impl CoarseRatios {
    pub(super) fn new(kinds: &[(EqualBins, f64)]) -> Self {
        let sketched = |(kind, limit): &(EqualBins, f64)| {
            let root = kind.square.sqrt();
            let step = DISTANCE.min(DISTANCE / root);
            let places = (0..).map(|k| libm::exp(root * (LOWEST + f64::from(k) * step) - kind.square / 2.0));
            let mut points: Vec<f64> = std::iter::once(0.0).chain(places.take_while(|y| *y < *limit)).collect();
            points.push(*limit);
            let masses = dilated(kind.square, &points).masses;
            let logs = points.into_iter().zip(masses).filter(|(_, mass)| *mass > 0.0);
            (kind.count as f64, logs.map(|(y, mass)| (y, libm::log(mass))).collect())
        };
        let square = kinds.iter().map(|(kind, _)| kind.square).fold(0.0, f64::max);
        Self { square, kinds: kinds.iter().map(sketched).collect() }
    }

    /// The sum of all bins, tilted.
    pub(super) fn cumulants(&self, lambda: f64) -> TiltedMoments {
        let of = |points: &[(f64, f64)]| {
            let most = points.iter().map(|(y, log)| lambda * y + log).fold(f64::NEG_INFINITY, f64::max);
            let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
            for (y, log) in points {
                let weight = libm::exp(lambda * y + log - most);
                sum += weight;
                first += weight * y;
                second += weight * y * y;
            }
            let mean = first / sum;
            TiltedMoments { value: most + libm::log(sum), mean, variance: (second / sum - mean * mean).max(0.0) }
        };
        self.kinds.iter().map(|(count, points)| (count, of(points))).fold(
            TiltedMoments::default(),
            |all, (count, own)| TiltedMoments {
                value: all.value + count * own.value,
                mean: all.mean + count * own.mean,
                variance: all.variance + count * own.variance,
            },
        )
    }

    /// How fast the logarithm of the tail of a sum falls at a threshold if one bin decides. The tilt to the threshold
    /// may be smaller, because the tail is cut far away.
    pub(super) fn decay_of_one(&self, threshold: f64) -> f64 {
        let one = threshold - self.bins() + 1.0;
        if one > 1.0 { (libm::log(one) / self.square + 0.5) / one } else { 0.0 }
    }

    /// The largest value of a bin.
    pub(super) fn limit(&self) -> f64 {
        let last = |points: &[(f64, f64)]| points.last().map_or(0.0, |(y, _)| *y);
        self.kinds.iter().map(|(_, points)| last(points)).fold(0.0, f64::max)
    }

    /// The number of bins.
    pub(super) fn bins(&self) -> f64 {
        self.kinds.iter().map(|(count, _)| count).sum()
    }

    /// The tilt at which a sum has this mean, from 0 on; `sign` −1 for tilts below 0.
    pub(super) fn tilt_to(&self, mean: f64, sign: f64) -> f64 {
        let short = |lambda: f64| sign * (self.cumulants(sign * lambda).mean - mean) < 0.0;
        if !short(0.0) {
            return 0.0;
        }
        let mut high = 1.0 / mean;
        while short(high) && high < 1e9 / mean {
            high *= 4.0;
        }
        let mut low = 0.0;
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if short(middle) { low = middle } else { high = middle }
        }
        sign * high
    }

    /// The best tilt, and Chernoff's bound of the probability that a sum is below a threshold.
    pub(super) fn saddle_below(&self, threshold: f64) -> (f64, f64) {
        let lambda = self.tilt_to(threshold, -1.0);
        let value = self.cumulants(lambda).value;
        let slack = 1e-12 * (self.bins() + value.abs() + (lambda * threshold).abs());
        (lambda, libm::exp((value - lambda * threshold + slack).min(0.0)))
    }
}
