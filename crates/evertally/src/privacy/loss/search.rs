//! The smallest noise whose certified curve passes through a stated (ε, δ).

use super::gaussian::{ROUNDING_VARIANCES, compared_delta, comparison};
use super::{PrivacyLoss, Resolution, ShiftProfile};
use crate::number::Ratio;
use crate::privacy::{Delta, Epsilon, conversions};
use crate::{Error, Result};

/// Significant bits of a noise parameter, which is rounded up: at most 6·10⁻⁸ more noise.
const BITS: i32 = 25;
/// A search stops when its bracket is this narrow, relatively.
const PRECISION: f64 = 1e-7;

/// The smallest scale of discrete Laplace noise that is certified to be (ε, δ)-DP when one unit shifts the noise
/// variables by at most this profile; rounded up to 25 significant bits. Never more than `l1/ε`, the scale needed
/// without δ.
///
/// More noise than this is at least as private: discrete Laplace noise of a larger scale λ' is noise of scale λ plus an
/// independent variable. With `q = e^{-1/λ}` the ratio of their characteristic functions is, up to a constant,
/// `(1 - 2q cos t + q²)/(1 - 2q' cos t + q'²) = q/q' + (1 - q/q')(1 - q q')/(1 - 2q' cos t + q'²)`, a mixture of 0 and
/// noise of scale λ'.
///
/// # Errors
/// If the scale is too large to be drawn (above 2¹⁰⁰).
///
/// ```
/// use evertally::privacy::{Delta, Epsilon, loss::{ShiftProfile, laplace_scale_for}};
/// let (epsilon, delta) = (Epsilon::new(1.0)?, Delta::new(1e-6)?);
/// let scale = laplace_scale_for(epsilon, delta, &ShiftProfile::ones(40)?)?.to_f64();
/// assert!(scale > 25.0 && scale < 26.0); // pure ε needs 40
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn laplace_scale_for(epsilon: Epsilon, delta: Delta, profile: &ShiftProfile) -> Result<Ratio> {
    let (l1, l2) = (profile.l1() as f64, (profile.l2_squared() as f64).sqrt());
    let enough = conversions::laplace_scale(l1, l2, epsilon, delta);
    let spent = |scale: f64, resolution| {
        let ratio = rounded_up(scale).ok()?;
        Some((ratio, PrivacyLoss::laplace(ratio, profile, resolution).delta(epsilon)))
    };
    least(enough, delta, spent)
}

/// The smallest parameter σ² of discrete Gaussian noise that is certified to be (ε, δ)-DP when one unit shifts the
/// noise variables by at most this profile; rounded up to 25 significant bits.
///
/// The best of zCDP, the comparison with continuous noise and, for small σ², the privacy-loss distribution.
///
/// # Errors
/// If σ² is too large to be written as a ratio.
///
/// ```
/// use evertally::privacy::{Delta, Epsilon, conversions::mu_for, loss::{ShiftProfile, gaussian_variance_for}};
/// let (epsilon, delta) = (Epsilon::new(1.0)?, Delta::new(1e-6)?);
/// let variance = gaussian_variance_for(epsilon, delta, &ShiftProfile::ones(10)?)?.to_f64();
/// let continuous = 10.0 / mu_for(epsilon, delta).powi(2);
/// assert!((variance / continuous - 1.0).abs() < 0.01);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn gaussian_variance_for(epsilon: Epsilon, delta: Delta, profile: &ShiftProfile) -> Result<Ratio> {
    let (squared, variables) = (profile.l2_squared() as f64, profile.variables() as f64);
    let by_zcdp = squared / (2.0 * conversions::rho_for(epsilon, delta).get());
    let compared = continuous_comparisons(epsilon, delta, variables);
    let compared = compared.into_iter().map(|(mu, s2)| (squared / (mu * mu) + s2) * (1.0 + 1e-11));
    let enough = compared.fold(by_zcdp * (1.0 + 1e-11), f64::min);
    let spent = |variance: f64, resolution| {
        let ratio = rounded_up(variance).ok()?;
        let compared = compared_delta(ratio.to_f64(), squared, variables, epsilon.get());
        let loss = PrivacyLoss::discrete_gaussian(ratio, profile, resolution);
        Some((ratio, loss.map_or(compared, |loss| loss.delta(epsilon).min(compared))))
    };
    least(enough, delta, spent)
}

/// The comparison of discrete with continuous Gaussian noise, solved for the noise: pairs `(μ, s²)` such that the
/// parameter `‖d‖²/μ² + s²` is (ε, δ)-DP for integer shifts `d` of at most this many variables (at most `‖d‖²`). Small
/// `s²` suit small parameters; those excluded by the number of variables are omitted.
pub(crate) fn continuous_comparisons(epsilon: Epsilon, delta: Delta, variables: f64) -> Vec<(f64, f64)> {
    let pair = |&s2: &f64| {
        let (_, factor, less) = comparison(f64::MAX, s2, variables)?;
        let epsilon = Epsilon::new_even_if_weak(epsilon.get() - less).ok()?;
        let mu = conversions::mu_for(epsilon, Delta::new(delta.get() / factor * (1.0 - 1e-11)).ok()?);
        Some((mu * (1.0 - 1e-12), s2))
    };
    ROUNDING_VARIANCES.iter().filter_map(pair).collect()
}

/// The smallest parameter at or below `enough` at which `spent` certifies at most δ. `spent` returns the rounded
/// parameter and its δ; `enough` is known to suffice whatever `spent` returns for it.
fn least(enough: f64, delta: Delta, spent: impl Fn(f64, Resolution) -> Option<(Ratio, f64)>) -> Result<Ratio> {
    let known = rounded_up(enough)?;
    // The distance of δ from the target, as a logarithm, and the certified parameter if it fits.
    let excess = |parameter: f64, resolution: Resolution| match spent(parameter, resolution) {
        Some((ratio, spent)) if spent <= delta.get() => {
            (libm::log(spent.max(f64::MIN_POSITIVE) / delta.get()).max(-50.0), Some(ratio))
        }
        Some((_, spent)) => (libm::log(spent / delta.get()).min(50.0), None),
        None => (50.0, None),
    };
    let mut best = (enough, known);
    for (resolution, first_step, precision) in
        [(Resolution::coarse(delta), 0.75, 1e-3), (Resolution::for_delta(delta), 0.998, PRECISION)]
    {
        best = descend(best, first_step, precision, &|parameter| excess(parameter, resolution));
    }
    Ok(best.1)
}

/// Narrows from a sufficient parameter to the smallest one: steps down until one fails, then regula falsi on the
/// logarithms (Illinois), in which the curve is smooth.
fn descend(
    start: (f64, Ratio),
    first_step: f64,
    precision: f64,
    excess: &dyn Fn(f64) -> (f64, Option<Ratio>),
) -> (f64, Ratio) {
    let (mut high, mut kept) = start;
    let mut above = excess(high).0.min(0.0);
    let (mut low, mut step) = (high * first_step, first_step);
    let mut below = loop {
        match excess(low) {
            (gap, Some(ratio)) if low > 1e-9 * start.0 => {
                (high, kept, above) = (low, ratio, gap);
                step *= step;
                low *= step;
            }
            (gap, _) => break gap,
        }
    };
    for _ in 0..60 {
        if high - low <= precision * high {
            break;
        }
        // The middle if the secant would hardly move from an end.
        let secant = high - (high - low) * (above / (above - below));
        let margin = 0.1 * precision * high;
        let next = if secant.is_finite() { secant.clamp(low + margin, high - margin) } else { (low + high) / 2.0 };
        match excess(next) {
            (gap, Some(ratio)) => {
                (high, kept, above) = (next, ratio, gap);
                below *= 0.5;
            }
            (gap, None) => {
                (low, below) = (next, gap);
                above *= 0.5;
            }
        }
    }
    (high, kept)
}

/// The smallest ratio of 25 significant bits that is at least `value`.
pub(crate) fn rounded_up(value: f64) -> Result<Ratio> {
    let out_of_range =
        || Error::invalid(format!("noise of parameter {value:e} cannot be drawn; change the budget or the grid"));
    if !(1e-30..1e38).contains(&value) {
        return Err(out_of_range());
    }
    // value = m 2^e with 2^24 ≤ m < 2^25.
    let exponent = libm::ilogb(value) - (BITS - 1);
    let mantissa = libm::ceil(libm::scalbn(value, -exponent)) as u128;
    if exponent >= 0 { Ratio::new(mantissa << exponent, 1) } else { Ratio::new(mantissa, 1 << -exponent) }
        .map_err(|_| out_of_range())
}
