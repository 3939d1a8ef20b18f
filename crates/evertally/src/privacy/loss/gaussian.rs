//! The privacy loss of discrete Gaussian noise, and its comparison with continuous Gaussian noise in any dimension.
//!
//! ## Comparison
//! Let `N(d)` be continuous Gaussian noise of variance `τ² = σ² - s²` around an integer vector `d`, and round every
//! coordinate `y` at random to the integer `x` with probability `e^{-(x-y)²/(2s²)}/ρ(y)`. By Poisson summation
//! `ρ(y) = Σ_x e^{-(x-y)²/(2s²)}` is `√(2π) s` up to a factor within `1 ± θ`,
//!
//! ```text
//! θ = 2 Σ_{k≥1} e^{-2π²s²k²} ≤ 2r/(1 - r³),   r = e^{-2π²s²},
//! ```
//!
//! and `∫ N(y) e^{-(x-y)²/(2s²)} dy` is proportional to `e^{-(x-d)²/(2σ²)}`. So the rounded law is the discrete
//! Gaussian around `d` up to a factor within `(1 ± θ)^{±1}` for each coordinate, and up to a constant that does not
//! depend on `d`. Let `P` be the discrete Gaussian around 0, `Q` around `d`, and `P'`, `Q'` the rounded laws; only the
//! `n` coordinates with `d_j ≠ 0` matter. For every event
//!
//! ```text
//! P - e^ε Q ≤ c ((1+θ)^n P' - e^ε (1-θ)^n Q') ≤ (1+θ)^n (P' - e^{ε'} Q'),   ε' = ε - n ln((1+θ)/(1-θ)),
//! ```
//!
//! with `c ≤ 1`, because the normalising sum of the discrete Gaussian is at least `√(2π) σ`. Rounding is
//! post-processing, hence
//!
//! ```text
//! δ(ε) ≤ (1+θ)^n δ_continuous(ε', μ),   μ = ‖d‖₂ / √(σ² - s²).
//! ```
//!
//! `s = 2` makes θ less than 10⁻³⁴: the discrete law costs no more than 4 of the variance σ², in any dimension and for
//! any integer shifts. A nonzero integer coordinate has `d_j² ≥ 1`, so `n ≤ ‖d‖₂²`.
//!
//! Streams that depend on earlier releases are covered too: rounding acts on each coordinate as it is released, and the
//! continuous noise has the same curve there (its loss depends on `‖d‖₂` alone).
//!
//! ## Small σ
//! For small σ the loss of one variable, `d(d - 2x)/(2σ²)` with the probability of `x`, is composed numerically.
//!
//! **More noise may reveal more.** At large ε, only few integers have a loss above ε, and δ(σ) is not monotone: while
//! the same integers count, their probabilities grow with σ. For the shift 2 and ε = 8, δ is 0.107 at σ = 0.5 and
//! 0.163 at σ = 0.62. For ε = 16 it falls from 0.61 at σ² = 0.118 to 0.018 at 0.126, and rises to 0.076 at 0.22. A σ
//! that was accounted for is right; a larger one must be accounted for again.

use super::compose::{Bins, MAX_HALF_DISTANCE};
use super::{PrivacyLoss, Resolution, ShiftProfile};
use crate::number::Ratio;
use crate::privacy::{Delta, Epsilon, Rho, conversions, gaussian};
use crate::{Error, Result};

/// The privacy-loss distribution is computed up to this σ²; above it, the comparison loses less than 10⁻⁴ of σ².
const MAX_COMPOSED_VARIANCE: f64 = 16384.0;
/// Up to shifts of this size.
const MAX_COMPOSED_SHIFT: u64 = 1 << 20;
/// The variances `s²` that the comparison may assign to the rounding; the best one is used.
pub(super) const ROUNDING_VARIANCES: [f64; 8] = [0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 16.0];
/// Covers the rounding of the formulas themselves.
const ROUNDING: f64 = 1e-11;
/// Covers their loss in subnormal numbers.
const UNDERFLOW: f64 = 1e-320;

/// δ of discrete Gaussian noise of parameter σ² on every shifted variable, rounded up: the best of the comparison with
/// continuous noise, zCDP and, up to σ² = 2¹⁴, the privacy-loss distribution.
///
/// ```
/// use evertally::privacy::{Epsilon, conversions::delta_of_gaussian, loss::{ShiftProfile, delta_of_discrete_gaussian}};
/// use evertally::number::Ratio;
/// let (profile, epsilon) = (ShiftProfile::ones(9)?, Epsilon::new(1.0)?);
/// let discrete = delta_of_discrete_gaussian(Ratio::new(144, 1)?, &profile, epsilon);
/// let continuous = delta_of_gaussian(3.0 / 12.0, epsilon);
/// assert!((discrete / continuous - 1.0).abs() < 0.01);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn delta_of_discrete_gaussian(variance: Ratio, profile: &ShiftProfile, epsilon: Epsilon) -> f64 {
    let (squared, variables) = (profile.l2_squared() as f64, profile.variables() as f64);
    let simple = reported_delta(variance, (squared, variables), epsilon);
    if !composable(variance, profile) {
        return simple;
    }
    PrivacyLoss::delta_by(|fine| composed(variance, profile, fine), simple * 1e-2, epsilon).min(simple)
}

/// δ of discrete Gaussian noise of parameter σ² if only the sum of squares of the integer shifts is known, rounded up:
/// the better of the comparison with continuous noise and zCDP. `O(1)`.
///
/// ```
/// use evertally::privacy::{Epsilon, conversions::delta_of_gaussian, loss::delta_of_discrete_gaussian_by_norm};
/// use evertally::number::Ratio;
/// // Noise on a fine grid: discreteness costs nothing.
/// let delta = delta_of_discrete_gaussian_by_norm(Ratio::new(1 << 64, 1)?, 1 << 60, Epsilon::new(1.0)?);
/// assert!((delta / delta_of_gaussian(0.25, Epsilon::new(1.0)?) - 1.0).abs() < 1e-9);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn delta_of_discrete_gaussian_by_norm(variance: Ratio, squared_norm: u128, epsilon: Epsilon) -> f64 {
    reported_delta(variance, (squared_norm as f64, squared_norm as f64), epsilon)
}

/// [`compared_delta`], combined with zCDP, to the last bits.
fn reported_delta(variance: Ratio, (squared_norm, variables): (f64, f64), epsilon: Epsilon) -> f64 {
    let by_zcdp = rho(variance.to_f64(), squared_norm).map_or(1.0, |rho| conversions::delta_of_zcdp(rho, epsilon));
    compared_delta(variance.to_f64(), squared_norm, variables, epsilon.get()).min(by_zcdp)
}

/// The ε at this δ of discrete Gaussian noise of parameter σ² on every shifted variable, rounded up; see
/// [`delta_of_discrete_gaussian`].
pub fn epsilon_of_discrete_gaussian(variance: Ratio, profile: &ShiftProfile, delta: Delta) -> f64 {
    let (parameter, squared, variables) = (variance.to_f64(), profile.l2_squared() as f64, profile.variables() as f64);
    let simple = compared_epsilon(parameter, squared, variables, delta);
    PrivacyLoss::discrete_gaussian(variance, profile, Resolution::for_delta(delta))
        .map_or(simple, |loss| loss.epsilon(delta).min(simple))
}

/// The ε at this δ of discrete Gaussian noise of parameter σ² if only the sum of squares of the integer shifts is known
/// (both in squared steps of the noise grid), rounded up: the better of the comparison with continuous noise and zCDP.
/// `O(1)`.
///
/// ```
/// use evertally::privacy::{Delta, conversions::epsilon_of_gaussian, loss::epsilon_of_discrete_gaussian_by_norm};
/// let delta = Delta::new(1e-6)?;
/// let epsilon = epsilon_of_discrete_gaussian_by_norm(1e12, 1e10, delta);
/// assert!((epsilon / epsilon_of_gaussian(0.1, delta) - 1.0).abs() < 1e-9);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn epsilon_of_discrete_gaussian_by_norm(variance: f64, squared_norm: f64, delta: Delta) -> f64 {
    compared_epsilon(variance, squared_norm, squared_norm, delta)
}

/// The same if at most this many variables are shifted.
pub(crate) fn epsilon_of_shifts(variance: f64, squared_norm: f64, variables: f64, delta: Delta) -> f64 {
    compared_epsilon(variance, squared_norm, variables, delta)
}

/// As [`compared_delta`], for ε.
fn compared_epsilon(variance: f64, squared_norm: f64, variables: f64, delta: Delta) -> f64 {
    let by_zcdp = rho(variance, squared_norm).map_or(f64::INFINITY, |rho| conversions::epsilon_of_zcdp(rho, delta));
    let compared = ROUNDING_VARIANCES.iter().filter_map(|&s2| {
        let (rest, factor, less) = comparison(variance, s2, variables)?;
        let delta = Delta::new(delta.get() / factor * (1.0 - ROUNDING)).ok()?;
        Some(
            conversions::epsilon_of_gaussian((squared_norm / rest).sqrt() * (1.0 + 1e-14), delta) * (1.0 + 1e-14)
                + less,
        )
    });
    compared.fold(by_zcdp, f64::min)
}

/// The better of comparison and zCDP, for shifts of this squared norm on this many variables.
pub(super) fn compared_delta(variance: f64, squared_norm: f64, variables: f64, epsilon: f64) -> f64 {
    let of_rho = |rho| conversions::searched_delta_of_zcdp(rho, Epsilon::derived(epsilon));
    let by_zcdp = rho(variance, squared_norm).map_or(1.0, of_rho);
    let compared = ROUNDING_VARIANCES.iter().filter_map(|&s2| {
        let (rest, factor, less) = comparison(variance, s2, variables)?;
        let mu = (squared_norm / rest).sqrt() * (1.0 + 1e-14);
        (epsilon > less)
            .then(|| gaussian::delta(mu, (epsilon - less) * (1.0 - 1e-14)) * factor * (1.0 + ROUNDING) + UNDERFLOW)
    });
    compared.fold(by_zcdp, f64::min)
}

/// The quantities of the comparison with a rounding of variance `s2`: `τ²` from below, `(1+θ)^n` and
/// `n ln((1+θ)/(1-θ))` from above. `None` if no variance is left.
pub(super) fn comparison(variance: f64, s2: f64, variables: f64) -> Option<(f64, f64, f64)> {
    let rest = variance * (1.0 - 1e-15) - s2;
    let r = libm::exp(-2.0 * std::f64::consts::PI * std::f64::consts::PI * s2 * (1.0 - 1e-14)) * (1.0 + 1e-14);
    let theta = 2.0 * r / (1.0 - r * r * r) * (1.0 + 1e-14);
    let product = variables * theta;
    // ln((1+θ)/(1-θ)) = 2 artanh θ ≤ 2θ/(1-θ²), and (1+θ)^n ≤ e^{nθ}.
    (rest > 0.0 && product < 1.0)
        .then(|| (rest, libm::exp(product) * (1.0 + 1e-14), 2.0 * product / (1.0 - theta * theta) * (1.0 + 1e-14)))
}

/// A shift of squared norm `s²` is `s²/(2σ²)`-zCDP (Canonne, Kamath, Steinke 2020, arXiv 2004.00010, theorem 4).
pub(super) fn rho(variance: f64, squared_norm: f64) -> Option<Rho> {
    Rho::new_even_if_weak(squared_norm / (2.0 * variance) * (1.0 + 1e-14)).ok()
}

impl PrivacyLoss {
    /// The loss of discrete Gaussian noise of one parameter σ² on every variable that the profile shifts.
    ///
    /// # Errors
    /// If σ² is above 2¹⁴: use [`delta_of_discrete_gaussian`], which compares with continuous noise there. If a shift
    /// is above 2²⁰.
    ///
    /// ```
    /// # use evertally::privacy::{Delta, Epsilon, loss::{PrivacyLoss, Resolution, ShiftProfile}};
    /// # use evertally::number::Ratio;
    /// let fine = Resolution::for_delta(Delta::new(1e-9)?);
    /// let loss = PrivacyLoss::discrete_gaussian(Ratio::new(4, 1)?, &ShiftProfile::ones(1)?, fine)?;
    /// assert!(loss.delta(Epsilon::new(1.0)?) < 0.01);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn discrete_gaussian(variance: Ratio, profile: &ShiftProfile, resolution: Resolution) -> Result<Self> {
        if !composable(variance, profile) {
            return Err(Error::invalid(
                "a loss distribution needs σ² up to 2^14 and shifts up to 2^20; compare with continuous noise instead",
            ));
        }
        Ok(composed(variance, profile, resolution))
    }
}

fn composable(variance: Ratio, profile: &ShiftProfile) -> bool {
    variance.to_f64() <= MAX_COMPOSED_VARIANCE && profile.shifts()[0].0 <= MAX_COMPOSED_SHIFT
}

fn composed(variance: Ratio, profile: &ShiftProfile, resolution: Resolution) -> PrivacyLoss {
    let (parameter, divisor) = (variance.to_f64(), profile.common_divisor());
    let largest = profile.shifts()[0].0;
    // Losses are multiples of divisor/(2σ²). The range of the largest shift is about 2·8σ of its steps.
    let lattice = divisor as f64 / (2.0 * parameter);
    let wanted = 16.0 * parameter.sqrt() * (largest / divisor) as f64 / resolution.points as f64;
    let coarseness = (wanted.max(1.0) as u64).next_power_of_two();
    let half = lattice * coarseness as f64;
    if half > MAX_HALF_DISTANCE {
        return PrivacyLoss::everything(f64::INFINITY);
    }
    let of = |&(shift, count): &(u64, u64)| {
        let one = one_variable(parameter, shift, divisor, coarseness, half, resolution.tail(count));
        one.repeated(count, resolution)
    };
    profile.shifts().iter().map(of).reduce(|all, next| all.and(&next, resolution)).expect("a profile is not empty")
}

/// The loss of one variable, whose positions are losses in units of `divisor/(2σ²)`: value `x` at `d(d-2x)/divisor`.
fn one_variable(variance: f64, shift: u64, divisor: u64, coarseness: u64, half: f64, tail: f64) -> PrivacyLoss {
    let weight = |x: i64| libm::exp(-((x * x) as f64) / (2.0 * variance));
    // Σ_{x>reach} ≤ weight(reach+1)/(1 - ratio), because neighbouring weights fall at least by this ratio from there.
    let mut reach = 1i64;
    let beyond = |reach: i64| {
        let ratio = libm::exp(-((2 * reach + 3) as f64) / (2.0 * variance));
        weight(reach + 1) / (1.0 - ratio) * (1.0 + 1e-12)
    };
    while beyond(reach) > tail {
        reach += 1;
    }
    let total: f64 = (-reach..=reach).map(weight).sum();
    // fits: shifts up to 2^20, |x| up to about 40 σ < 2^13.
    let (d, step) = (shift as i64, (shift / divisor) as i64);
    let position = |x: i64| step * (d - 2 * x);
    let wide = coarseness as i64;
    // Grid points are multiples of `wide`, all of the parity of the lattice if the grid is the lattice.
    let parity = if wide == 1 { (step * d).rem_euclid(2) } else { 0 };
    let index = |position: i64| (position - parity * wide).div_euclid(2 * wide);
    let (lowest, highest) = (index(position(reach)), index(position(-reach)));
    let mut bins = Bins::new(half, 2 * lowest + parity, (highest - lowest) as usize + 2);
    for x in -reach..=reach {
        let cell = index(position(x));
        let above = position(x) - (2 * cell + parity) * wide;
        bins.split((cell - lowest) as usize, above as f64 * (half / wide as f64) / 2.0, weight(x) / total);
    }
    // Exponents reach about 700 and are right to three units relatively; `total` is rounded over `reach` terms.
    let error = 1e-12 * (1.0 + half);
    bins.finish(error, 2.0 * tail * (1.0 + 1e-12), f64::INFINITY)
}
