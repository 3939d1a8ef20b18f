//! Ratios of two released values, with intervals that hold however small the denominator is.
//!
//! The releases are `A = a + z` and `B = b + w` with noise of a public law; the ratio to estimate is `θ = a/b`. For the
//! true `θ` the combination `A - θB` is noise alone, `z - θw`, whose law is known for every `θ`. So
//!
//! ```text
//! { θ : |A - θB| ≤ q(θ) },    q(θ) = the two-sided quantile of z - θw,
//! ```
//!
//! contains the true ratio exactly as often as the quantile states (Fieller 1954, doi
//! 10.1111/j.2517-6161.1954.tb00159.x), without linearisation or large counts. If `|B|` is beyond its own quantile, the
//! set is an interval. Otherwise the denominator may be 0, and the set is the *outside* of an interval, or everything:
//! nothing narrower has the coverage.
//!
//! **The quantile** of a combination of noises is taken from its variance and its fourth cumulant. The normal law has
//! none (0); a sum of `n` equal Laplace variables has an excess kurtosis of `3/n`, and any weighted sum of them lies
//! between one (3) and the normal law (0): the quantile of `3/excess` equal ones is exact at both ends and for equal
//! terms, and in between it misses the confidence by less than 0.0013 from 0.8 on and by less than 0.0065 at 0.5
//! (compared with the exact law of two unequal variables).

use super::interval::MomentQuantiles;
use super::moments::NoiseMoments;
use crate::Result;

/// Two released values and the joint law of their noise.
///
/// ```
/// use evertally::plan::{NoiseMoments, NoisyPair, RatioIntervals, RatioSet};
/// // A sum of 5200 ± 40 (standard errors) over a count of 1000 ± 10.
/// let pair = NoisyPair::independent(5200.0, NoiseMoments::gaussian(1600.0), 1000.0, NoiseMoments::gaussian(100.0));
/// let RatioSet::Between(low, high) = RatioIntervals::new(0.95)?.of(&pair) else { panic!("the count is far from 0") };
/// assert!(low < 5.2 && 5.2 < high && high - low < 0.3);
/// // A count that may be 0 bounds nothing.
/// let pair = NoisyPair::independent(5.0, NoiseMoments::gaussian(1.0), 1.0, NoiseMoments::gaussian(1.0));
/// assert!(matches!(RatioIntervals::new(0.95)?.of(&pair), RatioSet::Outside(..)));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoisyPair {
    /// Numerator and denominator, as released.
    pub values: [f64; 2],
    /// The variance of the noise of each.
    pub variances: [f64; 2],
    /// Its covariance.
    pub covariance: f64,
    /// Its fourth joint cumulants: of `4 - k` times the numerator's noise and `k` times the denominator's.
    pub fourth: [f64; 5],
}

impl NoisyPair {
    /// Values with independent noise.
    pub fn independent(numerator: f64, its: NoiseMoments, denominator: f64, theirs: NoiseMoments) -> Self {
        Self {
            values: [numerator, denominator],
            variances: [its.variance, theirs.variance],
            covariance: 0.0,
            fourth: [its.fourth, 0.0, 0.0, 0.0, theirs.fourth],
        }
    }

    /// Values with jointly Gaussian noise.
    pub fn gaussian(values: [f64; 2], variances: [f64; 2], covariance: f64) -> Self {
        Self { values, variances, covariance, fourth: [0.0; 5] }
    }

    /// The law of `z - θw`.
    pub fn residual(&self, theta: f64) -> NoiseMoments {
        let [a, b] = self.variances;
        let variance = (a - 2.0 * theta * self.covariance + theta * theta * b).max(0.0);
        let [aaaa, aaab, aabb, abbb, bbbb] = self.fourth;
        let fourth = aaaa + theta * (-4.0 * aaab + theta * (6.0 * aabb + theta * (-4.0 * abbb + theta * bbbb)));
        NoiseMoments { variance, fourth }
    }

    /// The released ratio, which is arbitrarily far off if the denominator is small.
    pub fn ratio(&self) -> f64 {
        self.values[0] / self.values[1]
    }

    /// The standard error of the ratio if the denominator is large compared with its own standard error (the delta
    /// method).
    pub fn std_error(&self) -> f64 {
        self.residual(self.ratio()).variance.sqrt() / self.values[1].abs()
    }
}

/// The ratios that are consistent with two released values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RatioSet {
    /// All ratios from the first to the second.
    Between(f64, f64),
    /// All ratios up to the first, and from the second on: the denominator may be 0.
    Outside(f64, f64),
    /// All ratios.
    Everything,
}

impl RatioSet {
    /// The smallest interval that contains the part of the set within known bounds of the ratio; the bounds themselves
    /// if that part is empty.
    pub fn within(self, lower: f64, upper: f64) -> (f64, f64) {
        let (low, high) = match self {
            Self::Between(low, high) => (low.max(lower), high.min(upper)),
            Self::Outside(low, high) if low < lower => (high.max(lower), upper),
            Self::Outside(low, high) if high > upper => (lower, low.min(upper)),
            _ => (lower, upper),
        };
        if low <= high { (low, high) } else { (lower, upper) }
    }
}

/// Intervals of ratios at one confidence; caches computed quantiles.
#[derive(Debug)]
pub struct RatioIntervals {
    quantiles: MomentQuantiles,
}

/// Rounds in which an end and the quantile of its residual are made to agree.
const ROUNDS: u32 = 60;

impl RatioIntervals {
    /// Intervals at a confidence strictly between 0 and 1.
    ///
    /// # Errors
    /// If the confidence is out of range.
    pub fn new(confidence: f64) -> Result<Self> {
        Ok(Self { quantiles: MomentQuantiles::new(confidence)? })
    }

    /// Half the width of the two-sided interval of noise of this law, in units of the data.
    pub fn half_width(&mut self, noise: NoiseMoments) -> f64 {
        self.quantiles.half_width(noise)
    }

    /// All ratios that are consistent with the released values. `O(1)`.
    pub fn of(&mut self, pair: &NoisyPair) -> RatioSet {
        let by_normal = self.quantiles.factor(NoiseMoments::gaussian(1.0));
        let is_gaussian = pair.fourth == [0.0; 5];
        let first = Roots::new(pair, by_normal);
        if is_gaussian {
            return first.map_or(RatioSet::Everything, Roots::set);
        }
        let low = self.end(pair, |roots| roots.low);
        let high = self.end(pair, |roots| roots.high);
        match (low, high) {
            (Some((low, is_inside)), Some((high, of_high))) if is_inside == of_high && low <= high => {
                Roots { low, high, is_inside }.set()
            }
            _ => RatioSet::Everything,
        }
    }

    /// An end of the set, where the residual equals its own quantile.
    fn end(&mut self, pair: &NoisyPair, which: impl Fn(&Roots) -> f64) -> Option<(f64, bool)> {
        let mut factor = self.quantiles.factor(pair.residual(pair.ratio()));
        let mut end = f64::NAN;
        for _ in 0..ROUNDS {
            let roots = Roots::new(pair, factor)?;
            let next = which(&roots);
            if (next - end).abs() <= 1e-13 * next.abs() {
                return Some((next, roots.is_inside));
            }
            end = next;
            factor = self.quantiles.factor(pair.residual(end));
        }
        Roots::new(pair, factor).map(|roots| (which(&roots), roots.is_inside))
    }
}

/// The ratios at which a residual is exactly this many standard deviations.
#[derive(Clone, Copy)]
struct Roots {
    low: f64,
    high: f64,
    /// Whether it is smaller between the roots, or outside them.
    is_inside: bool,
}

impl Roots {
    /// Roots of `(B² - k²v_B) θ² - 2 (AB - k²c) θ + (A² - k²v_A) = 0`; `None` if the residual is smaller everywhere.
    fn new(pair: &NoisyPair, factor: f64) -> Option<Self> {
        let [a, b] = pair.values;
        let k = factor * factor;
        let square = b * b - k * pair.variances[1];
        let half = a * b - k * pair.covariance;
        let constant = a * a - k * pair.variances[0];
        let discriminant = half * half - square * constant;
        if square == 0.0 || !(discriminant > 0.0 || square > 0.0) {
            return None;
        }
        // The root of larger size without cancellation, the other by the product of both.
        let larger = half + discriminant.max(0.0).sqrt().copysign(half);
        let one = larger / square;
        let other = if larger == 0.0 { one } else { constant / larger };
        Some(Self { low: one.min(other), high: one.max(other), is_inside: square > 0.0 })
    }

    fn set(self) -> RatioSet {
        if self.is_inside { RatioSet::Between(self.low, self.high) } else { RatioSet::Outside(self.low, self.high) }
    }
}

#[cfg(test)]
mod tests;
