//! Two-sided intervals for a release: quantiles of the sum of its noise variables.
//!
//! A release is off by `Σ w_i z_i` with independent noise `z_i`. Its interval is `± q` multiples of the grid with `q`
//! rounded up, where the unrounded quantile is
//!
//! * Gaussian: the normal quantile times the standard deviation;
//! * Laplace, equal weights: by the exact law. A sum of `n` Laplace variables is a difference of two gamma variables,
//!   and its upper tail a mixture of gamma tails, `P(S > x) = Σ_i C(2n-i-1, n-i) 2^{-(2n-i)} Q_i(x)` with
//!   `Q_i(x) = e^{-x} Σ_{j<i} x^j/j!`, in units of the scale;
//! * a mechanism with very many unequal weights supplies equal ones with the same variance and no lighter tails; the
//!   wider quantile of that law and the normal one is used (the heavier tail is the narrower one at low confidence);
//! * Laplace, unequal weights (Honaker): by inverting the characteristic function (Gil-Pelaez 1951,
//!   doi 10.1093/biomet/38.3-4.481).
//!
//! The discrete laws have thinner tails than the continuous ones after this rounding up; tests compare the coverage
//! with exact convolutions.

use super::{NoiseKind, NoiseMoments};
use crate::mechanism::RowLaw;
use crate::number::power;
use crate::number::special::normal_cdf;
use crate::{Error, Result};
use std::collections::HashMap;

/// Computes half-widths; caches the quantiles of equal-weight sums.
#[derive(Debug)]
pub(super) struct IntervalTable {
    kind: NoiseKind,
    /// Continuous scale: σ, or the Laplace scale, in multiples of the grid.
    scale: f64,
    /// The probability that an interval may fail: 1 minus the confidence.
    miss: f64,
    /// The standard normal quantile.
    normal: f64,
    equal: EqualQuantiles,
}

/// Quantiles of sums of variables of unit scale, each computed once: every step's release needs one of a few.
#[derive(Debug, Default)]
struct EqualQuantiles {
    /// By number of variables; NaN if not yet computed.
    few: Vec<f64>,
    many: HashMap<u64, f64>,
}

impl EqualQuantiles {
    /// Sums of fewer variables are in a list.
    const CACHED_VARIABLES: u64 = 256;

    fn of(&mut self, variables: u64, quantile: impl FnOnce() -> f64) -> f64 {
        if variables >= Self::CACHED_VARIABLES {
            return *self.many.entry(variables).or_insert_with(quantile);
        }
        let place = variables as usize; // fits: below FEW
        if self.few.len() <= place {
            self.few.resize(place + 1, f64::NAN);
        }
        if self.few[place].is_nan() {
            self.few[place] = quantile();
        }
        self.few[place]
    }
}

impl NoiseKind {
    /// Variance of a variable of scale 1.
    pub(super) fn unit_variance(self) -> f64 {
        match self {
            Self::Laplace => 2.0,
            Self::Gaussian => 1.0,
        }
    }
}

/// Above this many Laplace terms the normal law is within 10⁻⁴ of the quantile; a fourth-cumulant correction is added.
const MANY: u64 = 2000;

impl IntervalTable {
    pub(super) fn new(kind: NoiseKind, scale: f64, confidence: f64) -> Result<Self> {
        if !(confidence > 0.0 && confidence < 1.0) {
            return Err(Error::invalid(format!("the confidence must be strictly between 0 and 1, got {confidence}")));
        }
        Ok(Self { normal: normal_quantile(confidence), ..Self::from_miss(kind, scale, 1.0 - confidence) })
    }

    /// Intervals that fail with this probability, strictly between 0 and 1, also if the confidence would round to 1.
    pub(super) fn from_miss(kind: NoiseKind, scale: f64, miss: f64) -> Self {
        Self { kind, scale, miss, normal: normal_quantile_of_miss(miss), equal: Default::default() }
    }

    /// Smallest `q` with `P(|Σ w z| ≤ q) ≥ confidence`, in multiples of the grid.
    pub(super) fn half_width(&mut self, law: &RowLaw) -> u128 {
        let (kind, miss, normal) = (self.kind, self.miss, self.normal);
        let mut equal = |n| self.equal.of(n, || equal_quantile(kind, n, miss, normal));
        let unrounded = match law {
            RowLaw::Sum(terms) => match terms[..] {
                [(weight, n)] => weight * equal(n),
                _ => weighted_quantile(kind, terms, miss, normal),
            },
            RowLaw::Like { norm_squared, terms } => {
                let deviation = (kind.unit_variance() * norm_squared).sqrt();
                (equal(*terms) * (norm_squared / *terms as f64).sqrt()).max(normal * deviation)
            }
        };
        round_up(self.scale * unrounded)
    }

    /// The same for a band, which has the same number of standard errors at every step.
    pub(super) fn half_width_of_band(&self, standard_errors: f64, law: &RowLaw) -> u128 {
        round_up(self.scale * width_of_band(standard_errors, self.kind, law))
    }
}

/// Half-widths by variance and fourth cumulant, for combinations of noise of several plans; see [`super::ratio`].
#[derive(Debug)]
pub(super) struct MomentQuantiles {
    miss: f64,
    normal: f64,
    equal: EqualQuantiles,
}

impl MomentQuantiles {
    pub(super) fn new(confidence: f64) -> Result<Self> {
        let IntervalTable { miss, normal, equal, .. } = IntervalTable::new(NoiseKind::Gaussian, 1.0, confidence)?;
        Ok(Self { miss, normal, equal })
    }

    pub(super) fn half_width(&mut self, noise: NoiseMoments) -> f64 {
        if noise.variance > 0.0 { self.factor(noise) * noise.variance.sqrt() } else { 0.0 }
    }

    /// The quantile in standard deviations: that of as many equal Laplace variables as give the same excess kurtosis.
    pub(super) fn factor(&mut self, noise: NoiseMoments) -> f64 {
        // The excess of a weighted sum is at most that of one variable; more would be rounding.
        let excess = (noise.fourth / power(noise.variance, 2)).min(3.0);
        if excess <= 3.0 / MANY as f64 {
            return corrected_normal(1.0, excess.max(0.0), self.normal);
        }
        let few = (3.0 / excess) as u64; // fits: from 1 to MANY
        let (more, less) = (self.of_equal(few), self.of_equal(few + 1));
        let (from, to) = (3.0 / few as f64, 3.0 / (few + 1) as f64);
        less + (more - less) * (excess - to) / (from - to)
    }

    fn of_equal(&mut self, variables: u64) -> f64 {
        let (miss, normal) = (self.miss, self.normal);
        let quantile = || equal_quantile(NoiseKind::Laplace, variables, miss, normal);
        self.equal.of(variables, quantile) / (2.0 * variables as f64).sqrt()
    }
}

fn round_up(x: f64) -> u128 {
    // A quantile is finite and not negative; float-to-int casts saturate.
    (x * (1.0 + 1e-12)).ceil() as u128
}

fn equal_quantile(kind: NoiseKind, n: u64, miss: f64, normal: f64) -> f64 {
    match kind {
        NoiseKind::Gaussian => normal * (n as f64).sqrt(),
        NoiseKind::Laplace if n > MANY => corrected_normal(2.0 * n as f64, 12.0 * n as f64, normal),
        NoiseKind::Laplace => {
            let log_weights = laplace_mixture(n);
            root(|x| laplace_tail(&log_weights, x) <= miss / 2.0, (2.0 * n as f64).sqrt())
        }
    }
}

/// A sum of unequal terms; `normal` is the standard normal quantile of the confidence.
fn weighted_quantile(kind: NoiseKind, magnitudes: &[(f64, u64)], miss: f64, normal: f64) -> f64 {
    let moment = |order| magnitudes.iter().map(|(w, n)| power(*w, order) * *n as f64).sum::<f64>();
    let variance = moment(2);
    match kind {
        _ if magnitudes.is_empty() => 0.0,
        NoiseKind::Gaussian => normal * variance.sqrt(),
        NoiseKind::Laplace if moment(0) > MANY as f64 && magnitudes.iter().all(|(w, _)| w * w < variance / 50.0) => {
            corrected_normal(2.0 * variance, 12.0 * moment(4), normal)
        }
        // This far out an inversion has no digits left. A single variable of that variance has the heaviest tails.
        NoiseKind::Laplace if miss < 1e-9 => variance.sqrt() * -libm::log(miss),
        // One or two terms would decay too slowly to invert; unequal sums have at least three.
        NoiseKind::Laplace => {
            let inversion = Inversion::new(magnitudes, variance);
            root(|x| inversion.central_probability(x) >= 1.0 - miss, (2.0 * variance).sqrt())
        }
    }
}

/// The two-sided normal quantile: `P(|Z| ≤ z) = confidence`.
pub(super) fn normal_quantile(confidence: f64) -> f64 {
    root(|z| 2.0 * normal_cdf(-z) <= 1.0 - confidence, 1.0)
}

/// The same for `P(|Z| > z) = miss`, also if the confidence would round to 1.
pub(super) fn normal_quantile_of_miss(miss: f64) -> f64 {
    root(|z| 2.0 * normal_cdf(-z) <= miss, 1.0)
}

/// First Cornish–Fisher correction of the normal quantile `z` for a symmetric law with the given second and fourth
/// cumulants.
fn corrected_normal(variance: f64, fourth: f64, z: f64) -> f64 {
    variance.sqrt() * (z + (z * z * z - 3.0 * z) * fourth / (variance * variance) / 24.0)
}

/// The smallest `x ≥ 0` at which a monotone condition becomes true.
fn root(holds: impl Fn(f64) -> bool, start: f64) -> f64 {
    let (mut low, mut high) = (0.0, start.max(f64::MIN_POSITIVE));
    while !holds(high) {
        low = high;
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

/// `ln(C(2n-i-1, n-i) 2^{-(2n-i)})` for `i = 1 ..= n`.
pub(super) fn laplace_mixture(n: u64) -> Vec<f64> {
    let log_factorial = |m: f64| libm::lgamma(m + 1.0);
    (1..=n)
        .map(|i| {
            let (n, i) = (n as f64, i as f64);
            log_factorial(2.0 * n - i - 1.0)
                - log_factorial(n - i)
                - log_factorial(n - 1.0)
                - (2.0 * n - i) * std::f64::consts::LN_2
        })
        .collect()
}

pub(super) fn laplace_tail(log_weights: &[f64], x: f64) -> f64 {
    // Terms x^j e^{-x} / j! one after another; partial sums are the gamma tails Q_i.
    let (mut gamma_tail, mut sum) = (0.0, 0.0);
    for (j, log_weight) in log_weights.iter().enumerate() {
        let j = j as f64;
        let log_term = if j == 0.0 { -x } else { j * libm::log(x) - x - libm::lgamma(j + 1.0) };
        gamma_tail += libm::exp(log_term);
        sum += libm::exp(*log_weight) * gamma_tail;
    }
    sum
}

/// Inverts the characteristic function `Π (1 + w²θ²)^-n` of a weighted Laplace sum of unit scale.
struct Inversion {
    /// Samples of `φ(θ)/θ` at multiples of `spacing`.
    samples: Vec<f64>,
    spacing: f64,
}

impl Inversion {
    fn new(magnitudes: &[(f64, u64)], variance: f64) -> Self {
        // The trapezoidal rule folds the law modulo 2π/spacing: 120 standard deviations keep that below 10⁻¹⁵.
        let spacing = 2.0 * std::f64::consts::PI / (120.0 * (2.0 * variance).sqrt());
        let phi = |theta: f64| {
            let log = |&(w, n): &(f64, u64)| -(n as f64) * libm::log1p(w * w * theta * theta);
            libm::exp(magnitudes.iter().map(log).sum())
        };
        let mut samples = Vec::new();
        for k in 1..2_000_000 {
            let theta = f64::from(k) * spacing;
            let value = phi(theta);
            samples.push(value / theta);
            if value < 1e-14 {
                break;
            }
        }
        Self { samples, spacing }
    }

    /// `P(|S| ≤ x) = (2/π) ∫ sin(xθ)/θ φ(θ) dθ`.
    fn central_probability(&self, x: f64) -> f64 {
        let sum: f64 = self.samples.iter().zip(1..).map(|(s, k)| s * libm::sin(x * f64::from(k) * self.spacing)).sum();
        (x / 2.0 + sum) * self.spacing * 2.0 / std::f64::consts::PI
    }
}

/// Half-width of a band of this many standard errors at a step whose noise has this law, for variables of scale 1.
fn width_of_band(standard_errors: f64, kind: NoiseKind, law: &RowLaw) -> f64 {
    let squared = match law {
        RowLaw::Sum(terms) => terms.iter().map(|(weight, count)| weight * weight * *count as f64).sum(),
        RowLaw::Like { norm_squared, .. } => *norm_squared,
    };
    standard_errors * f64::sqrt(kind.unit_variance() * squared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(n: u64, confidence: f64) -> f64 {
        equal_quantile(NoiseKind::Laplace, n, 1.0 - confidence, normal_quantile(confidence))
    }

    #[test]
    fn known_quantiles() {
        assert!((normal_quantile(0.95) - 1.959_963_984_540_054).abs() < 1e-12);
        // One Laplace variable: P(|X| > x) = e^{-x}.
        assert!((equal(1, 0.95) - 20f64.ln()).abs() < 1e-12);
        // Two: P(S > x) = e^{-x}(2 + x)/4.
        let x = equal(2, 0.9);
        assert!(((-x).exp() * (2.0 + x) / 4.0 - 0.05).abs() < 1e-12);
    }

    /// The three evaluations of a Laplace sum agree where their ranges meet.
    #[test]
    fn inversion_mixture_and_normal_limit_agree() {
        for n in [3, 5, 40] {
            let weights = [(1.0, n - 1), (1.0, 1)]; // same law, but two entries use the inversion
            for confidence in [0.5, 0.9, 0.95, 0.999] {
                let inverted =
                    weighted_quantile(NoiseKind::Laplace, &weights, 1.0 - confidence, normal_quantile(confidence));
                let mixed = equal(n, confidence);
                assert!((inverted / mixed - 1.0).abs() < 1e-9, "{n} {confidence}: {inverted} {mixed}");
            }
        }
        let (exact, limit) = (equal(MANY, 0.99), corrected_normal(4000.0, 24000.0, normal_quantile(0.99)));
        assert!((exact / limit - 1.0).abs() < 1e-5, "{exact} {limit}");
    }

    /// Exact coverage of the rounded interval for small scales, by convolving the discrete law.
    #[test]
    fn discrete_sums_are_covered() {
        for scale in [0.3f64, 1.0, 2.5, 7.0] {
            for kind in [NoiseKind::Laplace, NoiseKind::Gaussian] {
                let reach = 300i64;
                let weight = |k: i64| match kind {
                    NoiseKind::Laplace => (-(k.abs() as f64) / scale).exp(),
                    NoiseKind::Gaussian => (-((k * k) as f64) / (2.0 * scale * scale)).exp(),
                };
                let mass: f64 = (-reach..=reach).map(weight).sum();
                let law: Vec<f64> = (-reach..=reach).map(|k| weight(k) / mass).collect();
                let mut sum = law.clone();
                for n in 1..=6u64 {
                    for confidence in [0.5, 0.8, 0.95, 0.99, 0.999] {
                        let q = IntervalTable::new(kind, scale, confidence)
                            .unwrap()
                            .half_width(&RowLaw::Sum(vec![(1.0, n)])) as i64;
                        let middle = (sum.len() / 2) as i64;
                        let inside = |q: i64| sum[(middle - q) as usize..=(middle + q) as usize].iter().sum::<f64>();
                        assert!(inside(q) >= confidence - 1e-9, "{kind:?} {scale} n {n} {confidence}: {}", inside(q));
                        // Not wasteful: two grid steps less would miss (at scales where the continuous law is
                        // accurate).
                        assert!(
                            q < 2 || scale < 1.0 || inside(q - 2) < confidence,
                            "{kind:?} {scale} n {n} {confidence}: {q} is wide"
                        );
                    }
                    sum = convolve(&sum, &law);
                }
            }
        }
    }

    fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; a.len() + b.len() - 1];
        for (i, x) in a.iter().enumerate() {
            b.iter().enumerate().for_each(|(j, y)| out[i + j] += x * y);
        }
        out
    }

    /// A law known only by bounds is covered at any confidence: by the wider of equal terms and the normal limit.
    #[test]
    fn bounded_laws_take_the_wider_quantile() {
        for (confidence, terms) in [(0.5, 1), (0.8, 3), (0.99, 3)] {
            let half_width =
                |law| IntervalTable::new(NoiseKind::Laplace, 1e6, confidence).unwrap().half_width(&law) as f64;
            let like = half_width(RowLaw::Like { norm_squared: 1.0, terms });
            let equal = half_width(RowLaw::Sum(vec![((1.0 / terms as f64).sqrt(), terms)]));
            let normal = 1e6 * 2f64.sqrt() * normal_quantile(confidence);
            assert!((like - equal.max(normal)).abs() <= 1.0, "{confidence} {terms}: {like} {equal} {normal}");
        }
    }

    #[test]
    fn senseless_confidence_is_refused() {
        for bad in [0.0, 1.0, -1.0, f64::NAN] {
            assert!(IntervalTable::new(NoiseKind::Laplace, 1.0, bad).is_err());
        }
    }
}
