//! The guarantee of Skellam noise: that of discrete Gaussian noise of the same variance, except for a logarithm.
//!
//! Skellam noise of variance μ is the difference of two independent Poisson variables of mean μ/2, or a walk on the
//! integers that jumps by ±1 at rate ½ each, at time μ. Its probabilities are `p_k = e^{-μ} I_{|k|}(μ)` with the
//! modified Bessel functions. Sums of it are of the same kind, so its bridges are exact and more noise is never less
//! private. Let `Z` be such noise, `θ_k = ln(p_k/p_{k+1})` for every integer `k` (so `θ_{-1-k} = -θ_k`),
//! `g_k = θ_k - θ_{k-1}` and `A(k) = asinh((k+½)/μ)`.
//!
//! **Theorem.** For every `μ ≥ 64`, every integer `d` and every real `α > 1` the Rényi divergences are
//!
//! ```text
//! D_α(Z + d ‖ Z) ≤ α d²/(2(μ - ln μ)).
//! ```
//!
//! So a vector of integer shifts `d_n` of independent noise of variances `μ_n ≥ μ` is ρ-zCDP with
//! `ρ = Σ d_n² (μ/μ_n) / (2(μ - ln μ))`, since `ln(x)/x` falls from `e` on. (Agarwal, Kairouz and Liu 2021, arXiv
//! 2110.04995, were the first to bound these divergences; this proof does not use theirs.) [`approximate`] covers (ε,
//! δ).
//!
//! Both are statements about the noise alone, with shifts that are fixed in advance. They apply to streams whose data
//! depend on the releases by the bijection between equal releases of two streams, as for [Gaussian
//! noise](crate::mechanism::GaussianShift).
//!
//! ## Bessel functions
//! Let `y_ν(x) = x I_ν'(x)/I_ν(x)`. The recurrences and the differential equation of `I_ν` give
//!
//! ```text
//! I_{ν-1}/I_ν = (y + ν)/x,   I_{ν+1}/I_ν = (y - ν)/x,   x y' + y² = x² + ν²,   y = ν + x²/(2ν+2) + … near 0.
//! ```
//!
//! If a function `z` begins below `y` and has `x z' + z² < x² + ν²`, it stays below: where it first met `y`, it would
//! have the smaller derivative. Above likewise.
//!
//! *(a)* `A(k) ≤ θ_k ≤ (1 + 2/μ) A(k)` for `k ≥ 0`. Let `ν = k+1`, so `θ_k = ln((y_ν(μ) + ν)/μ)`. Of `z = S - ½`,
//! `S² = s² + x²`, one has `x z' + z² = S² + ¼ - s²/S`. With `s = ν - ½` that is below `x² + ν²`, and `z(0) = ν - 1`.
//! With `s = ν + ½` it is above, as `S > s`, and `z = ν + x²/(2ν+1) + …`. Hence `θ_k ≥ ln((a + √(a²+μ²))/μ) = A(k)` for
//! `a = k + ½`, and, with `R = √(a²+μ²)` and `R₊ = √((a+1)²+μ²)`, `θ_k ≤ ln((a + R₊)/μ)` (Amos 1974). There
//! `R₊ - R ≤ (2a+1)/(2R) ≤ 2a/R`, so `θ_k - A(k) ≤ (R₊-R)/(a+R) ≤ (2/μ)(a/R)`, and `a/R = tanh A(k) ≤ A(k)`.
//!
//! *(b)* `0 < g_k ≤ (1 + 1/μ)/μ` for every `k` and `μ ≥ 64`. Let `T = 1 - I_{k-1}I_{k+1}/I_k² = 1 - (y²-k²)/μ² = y'/μ`,
//! so that `g_k = -ln(1 - T)`. For `k ≥ 1` let `v = y'`; then `x v' = 2x - v(1 + 2y)`, and `v` begins as `x/(k+1)`. It
//! cannot return to 0, where `x v' = 2x`. Nor can it reach 1: as `x² + k² > x² + ¼`, `y` is above
//! `y_{1/2} = x coth x - ½`, so that there `x v' < 2x - 2x coth x < 0`. Hence `0 < T < 1/μ`. For `k = 0`,
//! `z = x - ½ - 1/(4x)` has `x z' + z² = x² - ¼ + 1/(2x) + 1/(16x²) < x²` from `x = 4` on, and
//! `z(4) = 3.4375 < y_0(4) = 3.454…`; so `T = 1 - (y_0/μ)² ≤ 1/μ + 1/(4μ²)`, and `T > 0` as `θ_0 > 0`. In both cases
//! `-ln(1-T) ≤ T + T²/(2-2T) ≤ 1/μ + 1/μ²`.
//!
//! ## Proof of the theorem
//! By reflection `d ≥ 1`. Let `β = α - 1` and `F(k) = ln(p_k/p_{k+d}) = θ_k + … + θ_{k+d-1}`; then
//! `β D_α = ln Σ p_{k-d} (p_{k-d}/p_k)^β = ln E e^{βF(Z)}`. Let `κ = 1 + 2/μ` and `t > 0` with `κβd = μ t cosh t`.
//!
//! **The mean.** `E θ_{Z+i} = ½ E(θ_{Z+i} + θ_{-Z+i}) = ½ E(θ_{Z+i} - θ_{Z-i-1})`, which is half the sum of `2i+1`
//! means of values of `g`. With `ĝ = (1+1/μ)/μ`, the sum over `i < d` is `E F(Z) ≤ d² ĝ/2`.
//!
//! **Small t.** `F` is nondecreasing, in steps of at most `ℓ = dĝ`. So is `f_τ(x) = E F(x + Z_τ)`, `Z_τ` the walk at
//! time τ. In `N(τ) = E exp(β f_{μ-τ}(Z_τ))` a jump up changes the exponent by `b ∈ [0, βℓ]`, one down by
//! `-b' ∈ [-βℓ, 0]`, and `f` obeys the heat equation, so that `N'` is the mean of `e^{βf}` times a sum
//! `½(e^b - 1 - b) + ½(e^{-b'} - 1 + b') ≤ cosh(βℓ) - 1`. Hence `ln E e^{βF(Z)} ≤ β E F(Z) + μ(cosh βℓ - 1)`. As
//! `cosh w - 1 = 2 sinh²(w/2) ≤ ½w² e^{w²/12}`,
//!
//! ```text
//! D_α ≤ d²ĝ/2 + β μ ℓ² e^{(βℓ)²/12}/2 ≤ α d²/(2μ) · (1 + 1/μ)² e^{(βℓ)²/12},      βℓ ≤ t cosh t.
//! ```
//!
//! Let `t² ≤ 2 ln(μ)/μ`. Then `t² < 0.13`, `cosh² t < 1.14` and the factor is at most
//! `exp((2 + 0.19 ln μ)/μ) ≤ e^{ln(μ)/μ}`.
//!
//! **Large t.** `F(k) ≤ 0` if `c = k + d/2 < 0`, because pairs `θ_{k+i} + θ_{k+d-1-i}` are not positive. If `c ≥ 0`,
//! `F(k) ≤ κ d asinh(c/μ)`: for `k ≥ 0` by (a), as `A` is concave there; for `k < 0` opposite terms cancel, `2c ≤ d`
//! terms around `d/2` remain, and `2c asinh(d/(2μ)) ≤ d asinh(c/μ)`. The tangent at `sinh t` is above `asinh`, so with
//! `E e^{tZ} = e^{μ(cosh t - 1)}`
//!
//! ```text
//! E e^{βF(Z)} ≤ 1 + E exp(μ t cosh t · (t + (Z + d/2 - μ sinh t)/(μ cosh t))) = 1 + e^X,   X = μψ(t) + td/2,
//! ψ(t) = t² cosh t - t sinh t + cosh t - 1 ≥ t²/2   (ψ' = t cosh t + t² sinh t ≥ t),
//! ½t² cosh² t - ψ(t) = ½t² (cosh t - 1)² + (t sinh t - cosh t + 1 - ½t²) ≥ t⁴/8   (by its series).
//! ```
//!
//! `ln(1 + e^X) ≤ X + e^{-X}`, and `e^{-X} ≤ e^{-μt²/2} ≤ μt⁴/8` for `t² ≥ 2 ln(μ)/μ`, as `4 ln² μ ≥ 8`. So
//! `ln E e^{βF(Z)} ≤ ½μ t² cosh² t + td/2 ≤ κ²β²d²/(2μ) + κβd²/(2μ) ≤ κ² βα d²/(2μ)`: the factor is
//! `κ² ≤ e^{4/μ} ≤ e^{ln(μ)/μ}`.
//!
//! In both cases `D_α ≤ e^{ln(μ)/μ} α d²/(2μ)`, and `e^w ≤ 1/(1-w)`. ∎

pub mod approximate;

use super::loss::rounded_up;
use super::{Budget, Rho, conversions};
use crate::number::Ratio;
use crate::{Error, Result};

/// The theorem holds from this variance on, in squared steps of the noise.
pub const LEAST_VARIANCE: u32 = 64;

/// Covers the rounding of a formula of a few operations.
const ROUNDING: f64 = 1e-13;

/// How far one unit's change moves Skellam noise: independent integers of variances `λ_n² μ`, `λ_n ≥ 1`, that are
/// shifted by integers `d_n`.
///
/// ```
/// use evertally::privacy::skellam::IntegerShift;
/// assert_eq!(IntegerShift::from_integers(25.0)?.variables(), 25.0);
/// assert!(IntegerShift::new(25.0, 0.0).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntegerShift {
    squared: f64,
    variables: f64,
}

impl IntegerShift {
    /// * `squared`: at least `Σ d_n²/λ_n²`, in squared steps of the noise;
    /// * `variables`: at least the number of non-zero `d_n`, up to 10³⁸. Only its logarithm matters, and only under (ε,
    ///   δ).
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(squared: f64, variables: f64) -> Result<Self> {
        if !(squared.is_finite() && squared > 0.0) {
            return Err(Error::invalid(format!(
                "the squared norm of a shift must be positive and finite, got {squared}"
            )));
        }
        if !(1.0..=1e38).contains(&variables) {
            return Err(Error::invalid(format!("a shift moves 1 to 1e38 variables, got {variables}")));
        }
        Ok(Self { squared, variables })
    }

    /// If every `d_n/λ_n` is an integer: at most `Σ d_n²/λ_n²` of them differ from 0.
    ///
    /// # Errors
    /// Unless `squared` is between 1 and 10³⁸.
    pub fn from_integers(squared: f64) -> Result<Self> {
        Self::new(squared, squared)
    }

    /// The bound of `Σ d_n²/λ_n²`.
    pub fn squared(&self) -> f64 {
        self.squared
    }

    /// The bound of the number of shifted variables.
    pub fn variables(&self) -> f64 {
        self.variables
    }
}

/// The ρ of zCDP that Skellam noise of variances `λ_n² μ` spends, `variance` = μ; rounded up.
///
/// # Errors
/// If μ is below [`LEAST_VARIANCE`].
///
/// ```
/// use evertally::privacy::skellam::{IntegerShift, rho};
/// use evertally::number::Ratio;
/// let spent = rho(Ratio::new(1 << 40, 1)?, IntegerShift::from_integers((1u64 << 40) as f64)?)?;
/// assert!(spent > 0.5 && spent < 0.5 * (1.0 + 1e-10));
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn rho(variance: Ratio, shift: IntegerShift) -> Result<f64> {
    certified(variance)?;
    let variance = variance.to_f64() * (1.0 - 1e-15);
    Ok(shift.squared / (2.0 * (variance - libm::log(variance))) * (1.0 + ROUNDING))
}

fn certified(variance: Ratio) -> Result<()> {
    if variance < Ratio::new(LEAST_VARIANCE.into(), 1)? {
        return Err(Error::invalid(format!(
            "nothing is certified about Skellam noise of variance {:.3e} (in squared steps of the noise): at least \
             {LEAST_VARIANCE} is needed; refine the grid of the noise",
            variance.to_f64()
        )));
    }
    Ok(())
}

/// The variance μ of Skellam noise that is at least as private under zCDP as discrete Gaussian noise of this parameter
/// σ², for the same integer shifts: `σ²` and a whole number of at most `3 + 0.7 log₂(σ² + 128)`.
///
/// Exact: `μ - ln μ ≥ σ²`. Under (ε, δ), noise for a discrete Gaussian is often calibrated by other routes than zCDP:
/// use [`variance_for`].
///
/// # Errors
/// If that is below [`LEAST_VARIANCE`], or too large for a ratio.
///
/// ```
/// use evertally::privacy::skellam::variance_in_place_of;
/// use evertally::number::Ratio;
/// assert_eq!(variance_in_place_of(Ratio::new(1 << 30, 3)?)?, Ratio::new((1 << 30) + 3 * 21, 3)?);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn variance_in_place_of(gaussian: Ratio) -> Result<Ratio> {
    let (numerator, denominator) = (gaussian.numerator(), gaussian.denominator());
    // At most 90, just above 128 ln 2, is added below, so that the sum is less than `bound < 2^bits`.
    let bound = (numerator / denominator).saturating_add(90);
    let bits = u128::from(128 - bound.leading_zeros());
    // ln 2 < 7/10.
    let added = (7 * bits).div_ceil(10);
    let sum = added.checked_mul(denominator).and_then(|more| numerator.checked_add(more));
    let variance = sum.map(|sum| Ratio::new(sum, denominator)).ok_or_else(|| {
        Error::invalid(format!("Skellam noise of variance {:e} cannot be drawn; coarsen the grid", gaussian.to_f64()))
    })??;
    certified(variance)?;
    Ok(variance)
}

/// A variance μ such that Skellam noise of variances `λ_n² μ` satisfies this budget for such a shift; rounded up to 25
/// significant bits. More noise is never less private, because it is this noise plus an independent variable.
///
/// Under (ε, δ) the better of zCDP and the [comparison with continuous noise](approximate).
///
/// # Errors
/// Under pure ε; if μ were below [`LEAST_VARIANCE`] or too large to be drawn.
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon, conversions::mu_for, skellam::{IntegerShift, variance_for}};
/// let (epsilon, delta) = (Epsilon::new(1.0)?, Delta::new(1e-6)?);
/// let shift = IntegerShift::from_integers((1u64 << 50) as f64)?;
/// let variance = variance_for(&Budget::Approximate(epsilon, delta), shift)?.to_f64();
/// let continuous = shift.squared() / mu_for(epsilon, delta).powi(2);
/// assert!((variance / continuous - 1.0).abs() < 1e-6);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn variance_for(budget: &Budget, shift: IntegerShift) -> Result<Ratio> {
    let Some(rho) = budget.rho() else {
        return Err(Error::invalid(
            "Skellam noise cannot give pure ε-differential privacy; use Laplace noise, or add a delta or use rho",
        ));
    };
    let by_zcdp = concentrated_variance(rho, shift)?;
    match *budget {
        Budget::Approximate(epsilon, delta) => Ok(approximate::variance_for(epsilon, delta, shift, by_zcdp)),
        _ => Ok(by_zcdp),
    }
}

fn concentrated_variance(rho: Rho, shift: IntegerShift) -> Result<Ratio> {
    let gaussian = Ratio::from_f64(shift.squared / (2.0 * rho.get()) * (1.0 + ROUNDING))?;
    rounded_up(variance_in_place_of(gaussian)?.to_f64() * (1.0 + ROUNDING))
}

/// The ε at this δ of Skellam noise of variances `λ_n² μ`, `variance` = μ, rounded up: the better of zCDP and the
/// [comparison with continuous noise](approximate). `O(1)`.
///
/// # Errors
/// If μ is below [`LEAST_VARIANCE`], or the noise so small that its ρ is out of range.
pub fn epsilon(variance: Ratio, shift: IntegerShift, delta: super::Delta) -> Result<f64> {
    let by_zcdp = conversions::epsilon_of_zcdp(Rho::new_even_if_weak(rho(variance, shift)?)?, delta);
    Ok(approximate::epsilon(variance, shift, delta).map_or(by_zcdp, |compared| compared.min(by_zcdp)))
}

/// As [`epsilon`], the δ at this ε.
///
/// # Errors
/// As [`epsilon`].
pub fn delta(variance: Ratio, shift: IntegerShift, epsilon: super::Epsilon) -> Result<f64> {
    let by_zcdp = conversions::delta_of_zcdp(Rho::new_even_if_weak(rho(variance, shift)?)?, epsilon);
    Ok(approximate::delta(variance, shift, epsilon).map_or(by_zcdp, |compared| compared.min(by_zcdp)))
}

#[cfg(test)]
mod tests;
