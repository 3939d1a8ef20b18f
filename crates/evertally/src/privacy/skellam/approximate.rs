//! The (ε, δ) curve of Skellam noise: that of continuous Gaussian noise with a variance smaller by about `ln(N/δ)`.
//!
//! Let independent Skellam noise `Z_n` of variances `μ_n ≥ μ ≥ 64` be shifted by integers `d_n`, at most `N` of them
//! not 0, and let `x² = Σ d_n² (μ/μ_n)`. Notation and facts (a), (b) are those of the [theorem](super) about zCDP.
//!
//! **Theorem.** Let `ℓ = (1+1/μ) x/μ`. For all `w > sinh ℓ`, `τ² > 0` and `ε > γ`,
//!
//! ```text
//! δ(ε) ≤ 2N e^{μh} + (1+θ)^N e^γ δ_Gauss(ε - γ; m),   h = √(1+w²) - cosh ℓ - (asinh w - ℓ) w < 0,
//! m² = (1+1/μ)² (x²/μ) (1 + ξ + τ²/μ),   γ = ½ (1+1/μ)² (x²/μ) (ξ + τ²/μ),   ξ = w/asinh w - 1 ≤ w²/6 + …,
//! θ = 2 Σ_{j≥1} e^{-2π²s²j²},   s² = τ² μ/(μ + τ²),
//! ```
//!
//! where `δ_Gauss(·; m)` is the curve of continuous Gaussian noise of standard deviation `1/m` shifted by 1. For small
//! `w` and `ℓ`, `h` is `-(w-ℓ)²/2`: as light as the tail of Gaussian noise. So `μ (1 + ξ) + τ²` is about
//! `μ + ln(2N/tail)/3 + 1.5`, and any choice of `w` and `τ²` is right.
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
//! **2. Tails.** The part of that mean where some `|Z_n| ≥ w μ_n` is at most `Σ E(M_n; |Z_n| ≥ w μ_n)`, because the
//! other factors have mean 1. With `u = asinh w` and Markov's inequality for `e^{(u-ℓ_n)Z_n}`,
//! `E(M_n; Z_n ≥ w μ_n) ≤ exp(μ_n (cosh u - cosh ℓ_n - (u - ℓ_n) w))`, and the other side has less. The exponent grows
//! with `ℓ_n` up to `u`, and `ℓ_n ≤ (1+1/μ) x/√(μ μ_n) ≤ ℓ`; so it is at most `μ_n h ≤ μ h`. (`h < 0`: it is 0 at
//! `w = sinh ℓ`, and its derivative by `w` is `ℓ - u`.)
//!
//! **3. The lattice.** Elsewhere replace each `Z_n` by `Z'_n`, which is `Z_n` under the condition `|Z_n| < w μ_n`. Let
//! `G_n` be discrete Gaussian of parameter `v_n = μ_n (1+ξ)`. Then `Z'_n ≤ G_n` in the same order: from `k ≥ 0` to
//! `k + 1 < w μ_n` the logarithm of the quotient of their probabilities changes by
//! `(k+½)/v_n - θ_k ≤ b/(1+ξ) - asinh b ≤ 0`, `b = (k+½)/μ_n < w`, by (a) and since `asinh(b)/b` falls in `b`. So the
//! quotient falls in `|k|`, to 0 at last, and the law of `Z'_n` is above that of `G_n` on an interval `[-k, k]` and
//! below it outside. A convex function minus the affine one that meets it at `±k` is negative inside and positive
//! outside; both means are 0.
//!
//! **4. The continuum.** By Jensen's inequality adding independent normal noise of variance `τ²` to `G_n` only raises
//! the mean of a convex function. The density of the sum is at most `1 + θ` times the normal one of variance `v_n +
//! τ²`, by Poisson summation and `τ² v_n/(v_n + τ²) ≥ s²`. Thus, with a normal variable `m' B` of variance
//! `m'² = Σ ℓ_n² (v_n + τ²) ≤ m²` and `γ' = m'²/2 - C = ½ Σ ℓ_n² (ξ μ_n + τ²) ≤ γ`, the rest is at most `(1+θ)^N
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
/// The shares of δ that are tried for the tails: large ones for small variances.
const TAILS: [f64; 6] = [0.2, 0.06, 0.02, 2e-3, 1e-5, 1e-9];
/// The choices of `τ²`. The first is used for which `N θ` is negligible; the last one is enough for any `N`.
const SMOOTHINGS: [f64; 6] = [1.5, 2.0, 2.5, 3.0, 5.0, 8.0];
/// Maximum `N θ`, and `θ` is at most this for the last choice.
const NEGLIGIBLE: f64 = 1e-6;

/// The theorem for one `w`.
struct Comparison {
    /// `m` and `γ`, rounded up.
    m: f64,
    gamma: f64,
    /// `2N e^{μh}`, rounded up.
    tail: f64,
    /// `(1+θ)^N`, rounded up.
    factor: f64,
}

/// `θ ≤ 2r/(1-r³)`, `r = e^{-2π²s²}`.
fn theta(variance: f64, smoothing: f64) -> f64 {
    let s2 = smoothing * variance / (variance + smoothing) * (1.0 - 1e-14);
    let r = libm::exp(-2.0 * std::f64::consts::PI * std::f64::consts::PI * s2) * (1.0 + 1e-13);
    2.0 * r / (1.0 - r * r * r) * (1.0 + 1e-13)
}

/// `h`, rounded up: no terms of the order of 1 cancel.
fn exponent(w: f64, slope: f64) -> f64 {
    let (half, square) = (libm::sinh(slope / 2.0), w * w);
    let h = square / (1.0 + (1.0 + square).sqrt()) - 2.0 * half * half - (libm::asinh(w) - slope) * w;
    h + 1e-14 * (square + slope * w)
}

/// `ξ = w/asinh w - 1`, rounded up. `asinh w ≥ w - w³/6`.
fn excess(w: f64) -> f64 {
    let sixth = w * w / 6.0;
    if w < 1e-3 { sixth / (1.0 - sixth) * (1.0 + 1e-14) } else { w / libm::asinh(w) - 1.0 + 1e-15 * (1.0 + w) }
}

/// The least `w > sinh ℓ` with `μh ≤ -t`, up to a thousandth of its distance from `sinh ℓ`.
fn cut(variance: f64, slope: f64, t: f64) -> f64 {
    let is_enough = |w: f64| variance * exponent(w, slope) <= -t;
    let start = libm::sinh(slope) * (1.0 + 1e-14);
    let (mut low, mut far) = (start, (2.0 * t / variance).sqrt().max(1e-12 * start));
    while !is_enough(start + far) {
        (low, far) = (start + far, 2.0 * far);
    }
    let mut high = start + far;
    while high - low > 1e-3 * (high - start) + 1e-14 * high {
        let middle = 0.5 * (low + high);
        if is_enough(middle) { high = middle } else { low = middle }
    }
    high
}

impl Comparison {
    /// With the least `w` that leaves about this `tail`; `None` if μ is too small, or `w` above 1.
    fn new(variance: f64, shift: IntegerShift, tail: f64) -> Option<Self> {
        if variance < f64::from(super::LEAST_VARIANCE) {
            return None;
        }
        let variance = variance * (1.0 - 1e-15);
        let step = 1.0 + 1.0 / variance;
        let spread = shift.squared / variance * (1.0 + ROUNDING);
        let slope = step * (spread / variance).sqrt() * (1.0 + ROUNDING);
        let of_both_tails = libm::log(2.0 * shift.variables);
        let wanted = of_both_tails - libm::log(tail);
        // Any w is allowed; above 1 the comparison is useless.
        if slope >= 0.8 || variance * exponent(1.0, slope) > -wanted {
            return None;
        }
        let w = cut(variance, slope, wanted);
        let of_smoothing = |smoothing: &f64| (*smoothing, shift.variables * theta(variance, *smoothing));
        let (smoothing, factor) =
            SMOOTHINGS.iter().map(of_smoothing).find(|(_, factor)| *factor <= NEGLIGIBLE).unwrap_or((8.0, NEGLIGIBLE));
        let relative = (excess(w) + smoothing / variance) * (1.0 + ROUNDING);
        let outside = variance * exponent(w, slope);
        Some(Self {
            m: step * (spread * (1.0 + relative)).sqrt() * (1.0 + ROUNDING),
            gamma: 0.5 * step * step * spread * relative * (1.0 + ROUNDING),
            // In one exponent: neither factor underflows without the other.
            tail: libm::exp(of_both_tails + outside + ROUNDING * (of_both_tails.abs() + outside.abs()))
                * (1.0 + ROUNDING)
                + UNDERFLOW,
            factor: libm::exp(factor) * (1.0 + ROUNDING),
        })
    }

    fn delta(&self, epsilon: f64) -> Option<f64> {
        let rest = (epsilon - self.gamma) * (1.0 - 1e-15);
        (rest > 0.0).then(|| {
            let factor = libm::exp(self.gamma) * self.factor * (1.0 + CURVE_ROUNDING);
            self.tail + (gaussian::delta(self.m, rest) * factor + UNDERFLOW) * (1.0 + ROUNDING)
        })
    }

    fn epsilon(&self, delta: Delta) -> Option<f64> {
        let rest = (delta.get() - self.tail) * libm::exp(-self.gamma) / self.factor * (1.0 - CURVE_ROUNDING);
        let rest = Delta::new(rest).ok()?;
        Some((conversions::epsilon_of_gaussian(self.m, rest) + self.gamma) * (1.0 + ROUNDING))
    }
}

/// The theorem for every share of a δ for the tails.
fn comparisons(variance: f64, shift: IntegerShift, delta: f64) -> impl Iterator<Item = Comparison> {
    TAILS.iter().filter_map(move |tail| Comparison::new(variance, shift, tail * delta))
}

/// By the theorem, rounded up; `None` if it does not apply.
pub(super) fn delta(variance: Ratio, shift: IntegerShift, epsilon: Epsilon) -> Option<f64> {
    // Any guess of the result is allowed.
    let guess = gaussian::delta((shift.squared / variance.to_f64()).sqrt(), epsilon.get()).max(1e-290);
    let of = |comparison: Comparison| comparison.delta(epsilon.get());
    comparisons(variance.to_f64(), shift, guess).filter_map(of).min_by(f64::total_cmp).map(|delta| delta.min(1.0))
}

/// By the theorem, rounded up; `None` if it does not apply.
pub(super) fn epsilon(variance: Ratio, shift: IntegerShift, delta: Delta) -> Option<f64> {
    let of = |comparison: Comparison| comparison.epsilon(delta);
    comparisons(variance.to_f64(), shift, delta.get()).filter_map(of).min_by(f64::total_cmp)
}

/// The smallest variance found that is certified to be (ε, δ)-DP, `enough` or less.
pub(super) fn variance_for(epsilon: Epsilon, delta: Delta, shift: IntegerShift, enough: Ratio) -> Ratio {
    let m = conversions::mu_for(epsilon, delta);
    let continuous = shift.squared / (m * m);
    let certified = |variance: f64| {
        let ratio = rounded_up(variance).ok()?;
        let is_enough = |found: Comparison| found.delta(epsilon.get()).is_some_and(|spent| spent <= delta.get());
        comparisons(ratio.to_f64(), shift, delta.get()).any(is_enough).then_some(ratio)
    };
    let mut found = enough;
    // The smallest addition is a part of a logarithm, or a few units of the last place.
    let mut added = (continuous * 1e-12).max(0.5);
    while continuous + added < found.to_f64() {
        if let Some(ratio) = certified(continuous + added) {
            found = found.min(ratio);
            break;
        }
        added *= 1.1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the curve of continuous noise vanishes, δ is that of the tails, `2N e^{μh}`, even if one of the factors alone
    /// would underflow.
    #[test]
    fn the_tails_are_in_delta() {
        for (variables, wanted) in [(1e6, 1e-12), (1e38, 1e-279)] {
            let shift = IntegerShift::new(1e39, variables).unwrap();
            let comparison = Comparison::new(1e42, shift, wanted).unwrap();
            assert!(comparison.tail <= wanted * (1.0 + 1e-9) && comparison.tail > wanted * 0.1, "{}", comparison.tail);
            let delta = comparison.delta(100.0).unwrap();
            assert!(delta >= comparison.tail && delta < comparison.tail * (1.0 + 1e-9) + 1e-300, "{delta}");
        }
    }

    /// `w`, `h` and `ξ` are those of the theorem, and for wide noise the additions are the logarithm and `τ²`.
    #[test]
    fn the_formulas_of_the_theorem() {
        for (w, slope) in [(0.9, 0.3), (0.2, 0.01), (0.05, 0.04)] {
            let exact = (1.0f64 + w * w).sqrt() - libm::cosh(slope) - (libm::asinh(w) - slope) * w;
            let ours = exponent(w, slope);
            assert!(exact < 0.0 && ours >= exact && ours < exact + 1e-13, "{w} {slope}: {ours} {exact}");
            assert!(excess(w) >= w / libm::asinh(w) - 1.0 && excess(w) <= w * w / 6.0, "{w}");
        }
        assert!(excess(1e-9) >= 1e-18 / 6.0 && excess(1e-9) < 1.0001e-18 / 6.0);
        for (variance, squared) in [(1e9, 1e11), (1e12, 1e9), (1e9, 1e3)] {
            let comparison = Comparison::new(variance, IntegerShift::new(squared, 1.0).unwrap(), 1e-10).unwrap();
            let spread = squared / variance;
            let logarithm = libm::log(2e10);
            let w = (spread / variance).sqrt() + (2.0 * logarithm / variance).sqrt();
            let gamma = spread / 2.0 * (w * w / 6.0 + 1.5 / variance);
            assert!(
                (comparison.gamma / gamma - 1.0).abs() < 4e-3,
                "{variance} {squared}: {} {gamma}",
                comparison.gamma
            );
            assert!(
                comparison.m >= spread.sqrt() && comparison.m < spread.sqrt() * (1.0 + w * w),
                "{variance} {squared}"
            );
        }
    }
}
