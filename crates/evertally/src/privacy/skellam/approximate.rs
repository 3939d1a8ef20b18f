//! The (ε, δ) curve of Skellam noise: that of continuous Gaussian noise with a variance smaller by about `ln(N/δ)`.
//!
//! Let independent Skellam noise `Z_n` of variances `μ_n ≥ μ ≥ 64` be shifted by integers `d_n`, at most `N` of them
//! not 0, and let `x² = Σ d_n² (μ/μ_n)`. Notation and facts (a), (b) are those of the [theorem](super) about zCDP.
//!
//! **Theorem.** For every `a` with `14 x²/μ ≤ a ≤ μ/5` and every `ε > γ`,
//!
//! ```text
//! δ(ε) ≤ 2N e^{-1.65 a} + (1+θ)^N e^γ δ_Gauss(ε - γ; m),      θ < 10⁻⁶⁰,
//! m² = (1+1/μ)² (x²/μ) (1 + (a+8)/μ),      γ = ½ (1+1/μ)² (x²/μ) (a+8)/μ,
//! ```
//!
//! where `δ_Gauss(·; m)` is the curve of continuous Gaussian noise of standard deviation `1/m` shifted by 1.
//!
//! The order `U ≤ V` below is that of convex functions: `E φ(U) ≤ E φ(V)` for all convex φ. Reflection of the
//! coordinates makes all `d_n ≥ 1` and exchanges the two laws, so one direction is enough. Coordinates with `d_n = 0`
//! change nothing. With `R_n = p(Z_n - d_n)/p(Z_n)`, `δ(ε) = E (Π R_n - e^ε)₊`.
//!
//! **1. The likelihood ratio.** Let `ℓ_n = d_n (1+1/μ_n)/μ_n` and `M_n = exp(ℓ_n Z_n - μ_n(cosh ℓ_n - 1))`; then
//! `R_n ≤ M_n` in that order. Leave out the index. `R = f(Z)`, and by (b) `f` grows from each integer to the next by a
//! factor in `[1, e^ℓ]`. So does `f_τ(x) = E f(x + Z_τ)`, a mean of such functions, and `f_μ(0) = 1`. For smooth convex
//! φ let `u_τ(y) = E φ(y exp(ℓ Z_τ - τ(cosh ℓ - 1)))`, convex in `y`, and
//! `D(b) = u(y e^b) - u(y) - u'(y) y (e^b - 1) ≥ 0`, which grows as `b` leaves 0 in either direction. By the generators
//! of the walk and of the exponential martingale,
//!
//! ```text
//! d/dτ E u_{μ-τ}(f_{μ-τ}(Z_τ)) = E (½D(b) + ½D(-b') - ½D(ℓ) - ½D(-ℓ)) ≤ 0,   b, b' ∈ [0, ℓ],
//! ```
//!
//! so that `E φ(f(Z)) ≤ u_μ(1) = E φ(M)`. The order passes to products of independent positive variables, one factor
//! after another. With `S = Σ ℓ_n Z_n` and `C = ½ Σ ℓ_n² μ_n ≤ Σ μ_n (cosh ℓ_n - 1)`, `δ(ε) ≤ E (Π M_n - e^ε)₊` and
//! `Π M_n ≤ e^{S-C}`.
//!
//! **2. Tails.** Let `ξ = a/μ ≤ 1/5` and `w² = 5ξ ≤ 1`. The part of that mean where some `|Z_n| ≥ w μ_n` is at most
//! `Σ E(M_n; |Z_n| ≥ w μ_n)`, because the other factors have mean 1. `ℓ_n² ≤ (1+1/μ)² x²/μ² ≤ (w/8)²`, by the lower
//! bound of `a`, hence by Markov's inequality with `e^{wZ_n}` each term is at most `2 exp(μ_n (cosh w - cosh ℓ_n - (w -
//! ℓ_n) w)) ≤ 2 exp(μ_n w² (0.5431 - 0.875)) ≤ 2 e^{-1.65 a}`.
//!
//! **3. The lattice.** Elsewhere replace each `Z_n` by `Z'_n`, which is `Z_n` under the condition `|Z_n| < w μ_n`. Let
//! `G_n` be discrete Gaussian of parameter `v_n = μ_n (1+ξ)`. Then `Z'_n ≤ G_n` in the same order: from `k ≥ 0` to
//! `k + 1 < w μ_n` the logarithm of the quotient of their probabilities changes by
//! `(k+½)/v_n - θ_k ≤ b/(1+ξ) - asinh b ≤ b (b²/6 - ξ/(1+ξ)) ≤ 0`, `b = (k+½)/μ_n`, by (a) and since
//! `b² ≤ 5ξ ≤ 6ξ/(1+ξ)`. So the quotient falls in `|k|`, to 0 at last, and the law of `Z'_n` is above that of `G_n` on
//! an interval `[-k, k]` and below it outside. A convex function minus the affine one that meets it at `±k` is negative
//! inside and positive outside; both means are 0.
//!
//! **4. The continuum.** By Jensen's inequality adding independent normal noise of variance 8 to `G_n` only raises the
//! mean of a convex function. The density of the sum is at most `1 + θ` times the normal one of variance `v_n + 8`: by
//! Poisson summation `θ = 2 Σ_{j≥1} e^{-2π²s²j²}`, `s² = 8v_n/(v_n + 8) ≥ 7.1`. Thus, with a normal variable `m' B` of
//! variance `m'² = Σ ℓ_n² (v_n + 8) ≤ m²` and `γ' = m'²/2 - C = ½ Σ ℓ_n² (ξ μ_n + 8) ≤ γ`, the rest is at most `(1+θ)^N
//! E (e^{m'B - C} - e^ε)₊ = (1+θ)^N e^{γ'} E (e^{m'B - m'²/2} - e^{ε-γ'})₊`, which grows with `m'` and `γ'`. ∎
//!
//! As for zCDP, data that depend on the releases change nothing: the compared laws are those of the whole noise, before
//! any data.

use super::{IntegerShift, ROUNDING};
use crate::number::Ratio;
use crate::privacy::loss::rounded_up;
use crate::privacy::{Delta, Epsilon, conversions, gaussian};

/// Headroom for the curve of continuous noise, and for its loss in subnormal numbers.
const CURVE_ROUNDING: f64 = 1e-11;
const UNDERFLOW: f64 = 1e-320;
/// The share of δ for the tails.
const TAIL: f64 = 1e-9;

/// The theorem for one `a`.
struct Comparison {
    /// `m` and `γ`, rounded up.
    m: f64,
    gamma: f64,
    /// `2N e^{-1.65 a}`, rounded up.
    tail: f64,
}

impl Comparison {
    /// With the smallest allowed `a` that leaves about this `tail`; `None` if even μ/5 is too small, or μ itself.
    fn new(variance: f64, shift: IntegerShift, tail: f64) -> Option<Self> {
        if variance < f64::from(super::LEAST_VARIANCE) {
            return None;
        }
        let variance = variance * (1.0 - 1e-15);
        let step = 1.0 + 1.0 / variance;
        let spread = shift.squared / variance * (1.0 + ROUNDING);
        let of_both_tails = libm::log(2.0 * shift.variables);
        let a = ((of_both_tails - libm::log(tail)) / 1.65).max(14.0 * spread);
        let relative = (a + 8.0) / variance * (1.0 + ROUNDING);
        (a <= variance / 5.0).then(|| Self {
            m: step * (spread * (1.0 + relative)).sqrt() * (1.0 + ROUNDING),
            gamma: 0.5 * step * step * spread * relative * (1.0 + ROUNDING),
            // In one exponent: neither factor underflows without the other.
            tail: libm::exp(of_both_tails - 1.65 * a + ROUNDING * (of_both_tails.abs() + 1.65 * a)) * (1.0 + ROUNDING)
                + UNDERFLOW,
        })
    }

    fn delta(&self, epsilon: f64) -> Option<f64> {
        let rest = (epsilon - self.gamma) * (1.0 - 1e-15);
        // (1+θ)^N - 1 is below 10⁻²¹.
        (rest > 0.0).then(|| {
            self.tail
                + (gaussian::delta(self.m, rest) * libm::exp(self.gamma) * (1.0 + CURVE_ROUNDING) + UNDERFLOW)
                    * (1.0 + ROUNDING)
        })
    }
}

/// By the theorem, rounded up; `None` if it does not apply.
pub(super) fn delta(variance: Ratio, shift: IntegerShift, epsilon: Epsilon) -> Option<f64> {
    // Any guess of the result is allowed.
    let guess = gaussian::delta((shift.squared / variance.to_f64()).sqrt(), epsilon.get());
    let comparison = Comparison::new(variance.to_f64(), shift, TAIL * guess.max(1e-290))?;
    Some(comparison.delta(epsilon.get())?.min(1.0))
}

/// By the theorem, rounded up; `None` if it does not apply.
pub(super) fn epsilon(variance: Ratio, shift: IntegerShift, delta: Delta) -> Option<f64> {
    let comparison = Comparison::new(variance.to_f64(), shift, TAIL * delta.get())?;
    let rest = (delta.get() - comparison.tail) * libm::exp(-comparison.gamma) * (1.0 - CURVE_ROUNDING);
    let rest = Delta::new(rest).ok()?;
    Some((conversions::epsilon_of_gaussian(comparison.m, rest) + comparison.gamma) * (1.0 + ROUNDING))
}

/// The smallest variance found that is certified to be (ε, δ)-DP, `enough` or less.
pub(super) fn variance_for(epsilon: Epsilon, delta: Delta, shift: IntegerShift, enough: Ratio) -> Ratio {
    let m = conversions::mu_for(epsilon, delta);
    let continuous = shift.squared / (m * m);
    let certified = |variance: f64| {
        let ratio = rounded_up(variance).ok()?;
        let spent = Comparison::new(ratio.to_f64(), shift, TAIL * delta.get())?.delta(epsilon.get())?;
        (spent <= delta.get()).then_some(ratio)
    };
    let mut found = enough;
    // The smallest addition is a hundredth of a logarithm, or a few units of the last place.
    let mut added = (continuous * 1e-12).max(0.5);
    while continuous + added < found.to_f64() {
        if let Some(ratio) = certified(continuous + added) {
            found = found.min(ratio);
            break;
        }
        added *= 1.25;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the curve of continuous noise vanishes, δ is that of the tails: `2N e^{-1.65 a}`, never less, even if one of
    /// the factors alone would underflow.
    #[test]
    fn the_tails_are_in_delta() {
        for (variables, wanted) in [(1e6, 1e-12), (1e38, 1e-279)] {
            let shift = IntegerShift::new(1e39, variables).unwrap();
            let comparison = Comparison::new(1e42, shift, wanted).unwrap();
            let a = ((2.0 * variables).ln() - wanted.ln()) / 1.65;
            let exact = ((2.0 * variables).ln() - 1.65 * a).exp();
            assert!(comparison.tail >= exact && comparison.tail < exact * (1.0 + 1e-9), "{} {exact}", comparison.tail);
            let delta = comparison.delta(100.0).unwrap();
            assert!(delta >= comparison.tail && delta < comparison.tail * (1.0 + 1e-9) + 1e-300, "{delta}");
        }
    }

    /// `a` is at least 14 x²/μ, and γ and the tail follow from it as in the theorem.
    #[test]
    fn the_conditions_of_the_theorem_hold() {
        for (variance, squared) in [(1e9, 1e11), (1e12, 1e9), (1e9, 1e3)] {
            let comparison = Comparison::new(variance, IntegerShift::new(squared, 1.0).unwrap(), 1e-10).unwrap();
            let spread = squared / variance;
            let a = (libm::log(2e10) / 1.65).max(14.0 * spread);
            let gamma = spread / 2.0 * (a + 8.0) / variance;
            assert!(comparison.gamma >= gamma && comparison.gamma <= gamma * (1.0 + 1e-6), "{variance} {squared}");
            let tail = 2.0 * libm::exp(-1.65 * a);
            assert!(comparison.tail >= tail && comparison.tail <= tail * (1.0 + 1e-6) + 1e-300, "{variance} {squared}");
            assert!(
                comparison.m >= spread.sqrt() && comparison.m <= (spread * (1.0 + a / variance * 2.0)).sqrt() + 1e-6
            );
        }
    }
}
