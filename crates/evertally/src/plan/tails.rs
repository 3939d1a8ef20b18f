//! Upper tails of the noise of a release, never underestimated.
//!
//! The selection of keys guarantees `P[noise ≥ x] ≤ …` far out in the tail, where a quantile of a continuous law is not
//! enough. The noise of a release is `Σ w_i z_i / divisor` with independent discrete `z_i`, plus the rounding error.
//! Let `n = Σ |w_i|`.
//!
//! * **Exact.** Few equal weights and a small scale: the law of the sum, by convolution. Masses are positive, so that
//!   the relative error of a floating-point sum is that of its terms; mass outside the window is counted above it.
//! * **By the continuous law.** Both discrete laws are stochastically at most their continuous namesake plus 1:
//!   `P[Z ≥ k] ≤ P[X ≥ k - 1]` for every integer `k`. For `k ≥ 1` that is Canonne, Kamath and Steinke (doi
//!   10.29012/jpc.784, proposition 25) for Gaussian, and `q^k / (1 + q) ≤ q^(k-1) / 2` for Laplace noise; for `k ≤ 0`
//!   it is, by symmetry, `P[Z ≥ 1 - k] ≥ P[X ≥ 1 - k]`: a sum of falling terms exceeds the corresponding integral.
//!   Independent terms may be coupled one by one, so that `Σ w z` is at most `Σ w x + n`. On the fine grids of Gaussian
//!   noise `n` steps are negligible.
//! * **By moments**, if weights differ much: the smallest bound `P ≤ e^{-θx} E e^{θ Σ w z}`; for Gaussian noise
//!   `exp(-x²/(2σ²‖w‖²))`.
//!
//! If mechanisms round the sums they protect, the released value is off by up to two noise steps more for every unit of
//! weight; one unit of the released grid covers the rounding of the release.

use super::{NoiseKind, Plan};
use crate::mechanism::RowLaw;
use crate::noise::DiscreteLaw;
use crate::number::power;
use crate::number::special::normal_cdf;

/// Maximum number of cells of an exact law.
const CELLS: usize = 4096;
/// Maximum number of terms of a sum that is convolved, or whose gamma mixture is summed.
const TERMS: u64 = 256;
/// Headroom for the rounding of floating-point functions.
const ROUNDING: f64 = 1e-9;

/// The upper tail of the law of one step's noise.
#[derive(Debug)]
pub(crate) struct Tail {
    law: TailLaw,
    /// The largest rounding error, in steps of the data's grid.
    slack: f64,
    /// Noise steps per step of the data's grid.
    divisor: f64,
    /// Whether the noise is a whole number of steps of the data's grid.
    is_integral: bool,
}

/// The class of steps whose noise has one law.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StepClass {
    /// This many equal terms.
    Equal(u64),
    /// Gaussian noise of nearly the same deviation.
    Near(i64),
    /// A single step.
    Own(u64),
}

#[derive(Debug)]
enum TailLaw {
    /// `above[k] = P[sum ≥ k - reach]`, in noise steps.
    Exact { above: Vec<f64>, reach: i64 },
    /// Gaussian: deviation, `n` plus the rounding error, and the rounding error alone, in noise steps.
    Normal { deviation: f64, shift: f64, rounding: f64 },
    /// This many Laplace variables of this scale, with `n` noise steps.
    Gammas { scale: f64, log_weights: Vec<f64>, shift: f64 },
    /// Laplace variables of this scale, with these weights and their multiplicities.
    Moments { scale: f64, weights: Vec<(f64, f64)>, shift: f64 },
}

impl Tail {
    /// The tail of the noise of a step.
    pub(crate) fn new(plan: &Plan, step: u64) -> Self {
        let (mechanism, law) = (plan.mechanism(), plan.law());
        let norm_squared = mechanism.row_norm_squared(step) * mechanism.row_growth() * (1.0 + ROUNDING);
        let row = mechanism.row_law(step);
        // A cursor has a memory of data exactly if it rounds the sums that it protects.
        let rounds = mechanism.cursor().memory().is_some();
        let divisor = plan.noise_divisor() as f64;
        let fraction_bits = plan.fraction_bits();
        let slack = if fraction_bits == 0 { 0.0 } else { libm::exp2(-f64::from(fraction_bits)) };
        Self {
            law: TailLaw::new(plan, law, &row, step, norm_squared, if rounds { 3.0 } else { 1.0 }),
            slack,
            divisor,
            is_integral: fraction_bits == 0 && divisor == 1.0,
        }
    }

    /// Steps of one class have one law, or laws that [`widen`](Self::widen) merges.
    pub(crate) fn class(plan: &Plan, step: u64) -> StepClass {
        let row = plan.mechanism().row_law(step);
        if let RowLaw::Sum(terms) = &row
            && let [(1.0, count)] = terms[..]
        {
            return StepClass::Equal(count);
        }
        match plan.noise_kind() {
            NoiseKind::Laplace => StepClass::Own(step),
            // Deviations within 0.07 %.
            NoiseKind::Gaussian => {
                StepClass::Near((libm::log2(plan.mechanism().row_norm_squared(step)) * 512.0).floor() as i64)
            }
        }
    }

    /// A law that is at least as wide as this and another of its class.
    pub(crate) fn widen(&mut self, other: Self) {
        match (&mut self.law, other.law) {
            (
                TailLaw::Normal { deviation, shift, rounding },
                TailLaw::Normal { deviation: d, shift: s, rounding: r },
            ) => {
                (*deviation, *shift, *rounding) = (deviation.max(d), shift.max(s), rounding.max(r));
            }
            _ => debug_assert!(false, "other laws are in separate classes"),
        }
    }

    /// A bound of `P[noise ≥ x]`, `x` in steps of the data's grid; it falls as `x` grows.
    pub(crate) fn above(&self, x: f64) -> f64 {
        let steps = (x - self.slack) * self.divisor;
        let steps = steps - steps.abs() * 1e-14;
        (self.law.above(steps) * (1.0 + ROUNDING)).min(1.0)
    }

    /// A bound of `P[noise < x]`, from the symmetry of the law.
    pub(crate) fn below(&self, x: f64) -> f64 {
        let bound = self.above(if self.is_integral { 1.0 - x.ceil() } else { -x });
        // If rounding cannot matter, at most half is on either side of 0.
        let rounding = match &self.law {
            TailLaw::Normal { rounding, .. } | TailLaw::Moments { shift: rounding, .. } => *rounding,
            TailLaw::Exact { .. } | TailLaw::Gammas { .. } => 0.0,
        };
        if x <= -self.slack - rounding / self.divisor { bound.min(0.5) } else { bound }
    }
}

impl TailLaw {
    fn new(plan: &Plan, law: &DiscreteLaw, row: &RowLaw, step: u64, norm_squared: f64, per_weight: f64) -> Self {
        let deviation = (law.variance() * norm_squared).sqrt();
        if let RowLaw::Sum(terms) = row
            && let [(1.0, count)] = terms[..]
            && count <= TERMS
        {
            let reach = deviation * if plan.noise_kind() == NoiseKind::Gaussian { 14.0 } else { 40.0 } + 8.0;
            if 2.0 * reach + 1.0 <= CELLS as f64 && per_weight == 1.0 {
                return Self::exact(law, count, reach as i64);
            }
        }
        // Cauchy and Schwarz: n terms of a given norm have the largest sum if they are equal.
        let terms = match row {
            RowLaw::Sum(terms) => terms.iter().map(|(_, count)| *count as f64).sum(),
            RowLaw::Like { .. } => visited(plan, step).len() as f64,
        };
        let shift = per_weight * (terms * norm_squared).sqrt();
        match (law, row) {
            (DiscreteLaw::Gaussian(_), _) => {
                let deviation = law.scale() * norm_squared.sqrt() * (1.0 + ROUNDING);
                Self::Normal { deviation, shift, rounding: shift - shift / per_weight }
            }
            (DiscreteLaw::Laplace(_), RowLaw::Sum(sum)) => match sum[..] {
                [(1.0, count)] if count <= TERMS => {
                    let log_weights = super::interval::laplace_mixture(count);
                    Self::Gammas { scale: law.scale(), log_weights, shift }
                }
                _ => {
                    let weights = sum.iter().map(|(weight, count)| (*weight, *count as f64)).collect();
                    Self::Moments { scale: law.scale(), weights, shift: shift - shift / per_weight }
                }
            },
            (DiscreteLaw::Laplace(_), RowLaw::Like { .. }) => {
                let weights = visited(plan, step).into_iter().map(|weight| (weight, 1.0)).collect();
                Self::Moments { scale: law.scale(), weights, shift: shift - shift / per_weight }
            }
        }
    }

    /// The law of a sum of this many terms, from `-reach` to `reach`. Mass beyond counts as `reach` and stays there:
    /// the tail is then too large, not too small.
    fn exact(law: &DiscreteLaw, count: u64, reach: i64) -> Self {
        let one = masses(law, reach);
        let mut sum = one.clone();
        for bit in (0..count.ilog2()).rev() {
            sum = convolved(&sum, &sum, reach);
            if count >> bit & 1 == 1 {
                sum = convolved(&sum, &one, reach);
            }
        }
        let mut above = sum;
        for place in (0..above.len() - 1).rev() {
            above[place] += above[place + 1];
        }
        Self::Exact { above, reach }
    }

    /// A bound of `P[Σ w z ≥ steps]`, in noise steps.
    fn above(&self, steps: f64) -> f64 {
        match self {
            Self::Exact { above, reach } => {
                let place = steps.ceil() + *reach as f64;
                // Float-to-int casts saturate; beyond the reach there is only the mass counted there.
                above[(place.max(0.0) as usize).min(above.len() - 1)]
            }
            Self::Normal { deviation, shift, rounding } => {
                let by_law = normal_cdf(-(steps - shift) / deviation);
                let away = ((steps - rounding) / deviation).max(0.0);
                by_law.min(libm::exp(-away * away / 2.0))
            }
            Self::Gammas { scale, log_weights, shift } => {
                let x = (steps - shift) / scale;
                if x > 0.0 {
                    super::interval::laplace_tail(log_weights, x)
                } else {
                    1.0 - super::interval::laplace_tail(log_weights, -x) * (1.0 - ROUNDING)
                }
            }
            Self::Moments { scale, weights, shift } => moments(*scale, weights, steps - shift),
        }
    }
}

/// The weights of a step's row.
fn visited(plan: &Plan, step: u64) -> Vec<f64> {
    let mut weights = Vec::new();
    plan.mechanism().visit_row(step, &mut |_, weight| weights.push(weight.abs()));
    weights
}

/// Masses of one variable from `-reach` to `reach`; mass beyond is put on the ends.
fn masses(law: &DiscreteLaw, reach: i64) -> Vec<f64> {
    let log_weight = |k: f64| match law {
        DiscreteLaw::Laplace(_) => -k / law.scale(),
        DiscreteLaw::Gaussian(_) => -k * k / (2.0 * law.parameter().to_f64()),
    };
    let weights: Vec<f64> = (0..=reach).map(|k| libm::exp(log_weight(k as f64))).collect();
    // The mass beyond the reach: less than a geometric series with the ratio of the last two weights.
    let ratio = libm::exp(log_weight(reach as f64 + 1.0) - log_weight(reach as f64));
    let beyond = weights[reach as usize] * ratio / (1.0 - ratio);
    // A total that is too small makes masses too large.
    let whole = weights[0] + 2.0 * weights[1..].iter().sum::<f64>();
    let mut masses: Vec<f64> =
        (-reach..=reach).map(|k| weights[k.unsigned_abs() as usize] / whole * (1.0 + 1e-13)).collect();
    let last = masses.len() - 1;
    // And masses that are too small for a floating-point number.
    masses[last] += beyond / whole * (1.0 + 1e-13) + 1e-290;
    masses[0] += beyond / whole * (1.0 + 1e-13);
    masses
}

/// The law of the sum of two independent variables within `± reach`; mass beyond stays on the ends, of which only the
/// upper one may be too heavy: the other variable never brings back a term at the upper end.
fn convolved(a: &[f64], b: &[f64], reach: i64) -> Vec<f64> {
    let last = a.len() - 1;
    let mut sum = vec![0.0; a.len()];
    for (i, p) in a[..last].iter().enumerate() {
        // Term `j` of `b` goes to `j + i - reach`.
        let (low, high) = ((reach as usize).saturating_sub(i), (last + reach as usize - i).min(last));
        sum[0] += p * b[..low].iter().sum::<f64>();
        let into = &mut sum[low + i - reach as usize..];
        into.iter_mut().zip(&b[low..high]).for_each(|(sum, q)| *sum += p * q);
        sum[last] += p * b[high..last].iter().sum::<f64>();
    }
    sum[last] += a[last] + b[last]; // at least the probability that one of them is at its end
    sum
}

/// The smallest `e^{-θx} Π E e^{θ w z}` of Laplace variables.
fn moments(scale: f64, weights: &[(f64, f64)], x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let largest = weights.iter().fold(0.0, |most: f64, (weight, _)| most.max(*weight));
    let q = libm::exp(-1.0 / scale);
    // E e^{θz} = (1 - q)² / ((1 - q e^θ)(1 - q e^-θ)) = 1 / (1 - 4 q sinh²(θ/2) / (1 - q)²).
    let spread = 4.0 * q / power(libm::expm1(-1.0 / scale), 2);
    let log = |theta: f64| {
        let of =
            |(weight, count): &(f64, f64)| -count * libm::log1p(-spread * power(libm::sinh(theta * weight / 2.0), 2));
        weights.iter().map(of).sum::<f64>() - theta * x
    };
    // The logarithm is convex between 0 and the pole: any θ gives a bound.
    let (mut low, mut high) = (0.0, (1.0 - 1e-9) / (scale * largest));
    for _ in 0..100 {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if log(left) < log(right) { high = right } else { low = left }
    }
    libm::exp(log((low + high) / 2.0).min(0.0))
}

#[cfg(test)]
mod tests;
