//! The bound by sines and cosines: all steps count equally, and a pattern is centred on every step.
//!
//! The prefix sums have the singular values `σ_j = 1/(2 sin(ω_j/2))`, `ω_j = (2j-1)π/(2T+1)`, with the right singular
//! vectors `ψ_j(t) ∝ cos(ω_j (t - ½))`. A pattern around step `i` has `c` events in the steps `i - h b, …, i + h b`, as
//! far as they are within the horizon, and `e c` in the next step on either side (`0 ≤ e < 1`: half of the remainder of
//! an odd number of steps; patterns may be mixed, because a norm is convex). Their matrix `Q` is symmetric, and for any
//! orthonormal vectors a nuclear norm is at least the sum of the inner products,
//!
//! ```text
//! ‖A Q‖_* ≥ Σ_j σ_j |⟨ψ_j, Q ψ_j⟩|,   ⟨ψ_j, Q ψ_j⟩ = c Σ_i e_i r_j(|i| b),
//! r_j(δ) = Σ_t ψ_j(t) ψ_j(t+δ) = 2/(2T+1) · ((T-δ) cos(ω δ) + sin((T-δ) ω) cos(T ω) / sin ω).
//! ```
//!
//! **Panels.** Over long horizons neighbouring terms are alike, and `N` of them (an odd number) are bounded by the one
//! in the middle, `ω_m`. At every `ω_j` the fraction is `cos((δ+½) ω) / (2 cos(ω/2))`, a cosine polynomial of degree
//! `δ` that is nowhere above `δ + ½`. So `r(δ)` is a cosine polynomial of degree `δ`, nowhere above 1, and
//! `p = Σ_i e_i r(|i| b)` has a degree of at most `n`, the distance of the outermost events, and nowhere exceeds
//! `P = Σ_i e_i`. By Bernstein's inequality `|p'| ≤ n P` and `|p''| ≤ n² P`. With `σ = 1/(2 sin(ω/2))`, `|σ'| ≤ σ/ω`
//! and `0 < σ'' ≤ σ (2/ω² + ¼)`. Let `g = ± σ p` with the sign of `p(ω_m)`; its second derivative is at most
//! `σ P (n² + 2n/ω + 2/ω² + ¼) ≤ 2 σ P (max(n, 1) + 1/ω)²`. By Taylor's theorem around `ω_m`, where the linear terms
//! cancel, and because the mean of `(ω_j - ω_m)²` over the panel is below `h²/12` for its width `h`,
//!
//! ```text
//! Σ σ_j |p(ω_j)| ≥ Σ g(ω_j) ≥ N (σ_m |p(ω_m)| - (h²/12) σ_1 P (max(n, 1) + 1/ω_1)²)
//! ```
//!
//! with `σ_1` and `ω_1` of the first term. No term is negative, so those beyond the last panel are left out.

use crate::privacy::Spread;

/// Longest horizon whose terms are all computed.
pub(super) const MAX_TERMS: u64 = 1 << 17;
/// The widths of panels are this part of `1/(n + 1/ω)`: they lose a ten-thousandth.
const FINENESS: f64 = 0.04;
/// Maximum number of panels.
const MAX_PANELS: usize = 1 << 18;

/// `(1/T) Σ_j σ_j |⟨ψ_j, Q ψ_j⟩|`, or a little less. `O(log h)` for each of up to 2^18 terms.
pub(super) fn bound(horizon: u64, spread: Spread) -> f64 {
    if horizon <= MAX_TERMS { by_terms(horizon, spread) } else { by_panels(horizon, spread) }
}

pub(super) fn by_terms(horizon: u64, spread: Spread) -> f64 {
    let wave = Waves::new(horizon, spread);
    let sum: f64 = (1..=horizon).map(|j| wave.term(j)).sum();
    spread.per_step as f64 * sum / horizon as f64
}

pub(super) fn by_panels(horizon: u64, spread: Spread) -> f64 {
    let wave = Waves::new(horizon, spread);
    let apart = 2.0 * std::f64::consts::PI / (2.0 * wave.steps + 1.0);
    let degree = wave.degree().max(1.0);
    let (mut sum, mut first) = (0.0, 1);
    for _ in 0..MAX_PANELS {
        let angle = wave.angle(first);
        let slope = degree + 1.0 / angle;
        // Half of the other terms; a panel is complete.
        let side = (0.5 * FINENESS / (slope * apart)) as u64;
        let number = 2 * side + 1;
        if first + number - 1 > horizon {
            break;
        }
        let width = number as f64 * apart;
        let lost = if side == 0 {
            0.0
        } else {
            width * width / 12.0 * wave.events() * slope * slope * 0.5 / libm::sin(angle / 2.0)
        };
        sum += number as f64 * (wave.term(first + side) - lost).max(0.0);
        first += number;
    }
    // Headroom for the rounding of the terms, in which powers of `z` up to the number of steps are found by doubling.
    spread.per_step as f64 * sum / horizon as f64 * (1.0 - 1e-9 - 4e-16 * degree)
}

struct Waves {
    /// `T`.
    steps: f64,
    separation: f64,
    /// `h`.
    side: u64,
    /// `e`.
    outside: f64,
}

impl Waves {
    fn new(horizon: u64, spread: Spread) -> Self {
        let steps = spread.per_group as f64 / spread.per_step as f64;
        // The steps on one side that fit, and the remainder for the next one on either side.
        let side = ((steps - 1.0) / 2.0) as u64;
        let most = (horizon - 1) / spread.separation;
        let (side, outside) = if side >= most { (most, 0.0) } else { (side, (steps - 1.0) / 2.0 - side as f64) };
        Self { steps: horizon as f64, separation: spread.separation as f64, side, outside }
    }

    /// `ω_j`.
    fn angle(&self, j: u64) -> f64 {
        (2 * j - 1) as f64 * std::f64::consts::PI / (2.0 * self.steps + 1.0)
    }

    /// `P`.
    fn events(&self) -> f64 {
        1.0 + 2.0 * (self.side as f64 + self.outside)
    }

    /// `n`.
    fn degree(&self) -> f64 {
        (self.side as f64 + if self.outside > 0.0 { 1.0 } else { 0.0 }) * self.separation
    }

    /// `sin(Tω) = ± cos(ω/2)` and `cos(Tω) = ± sin(ω/2)` at every `ω_j`, with the same sign.
    fn term(&self, j: u64) -> f64 {
        let angle = self.angle(j);
        let (sine, cosine) = (libm::sin(angle / 2.0), libm::cos(angle / 2.0));
        let (powers, weighted) = self.sums(angle);
        let inside = 2.0 * (self.steps * powers.0 - self.separation * weighted) + (powers.0 - sine / cosine * powers.1);
        let distance = (self.side + 1) as f64 * self.separation;
        let beyond = if self.outside > 0.0 && distance < self.steps {
            let of_ends = libm::cos((distance + 0.5) * angle) / (2.0 * cosine);
            2.0 * self.outside * ((self.steps - distance) * libm::cos(angle * distance) + of_ends)
        } else {
            0.0
        };
        let product = 2.0 / (2.0 * self.steps + 1.0) * (self.steps + 0.5 + inside + beyond);
        product.abs() * 0.5 / sine
    }

    /// `Σ z^i` and the real part of `Σ i z^i` over `i = 1 … h`, `z = e^(iωb)`, by doubling `h`.
    fn sums(&self, angle: f64) -> ((f64, f64), f64) {
        let times = |a: (f64, f64), b: (f64, f64)| (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0);
        let plus = |a: (f64, f64), b: (f64, f64), scale: f64| (a.0 + scale * b.0, a.1 + scale * b.1);
        let z = (libm::cos(angle * self.separation), libm::sin(angle * self.separation));
        let (mut power, mut sum, mut weighted, mut count) = ((1.0, 0.0), (0.0, 0.0), (0.0, 0.0), 0.0);
        for bit in (0..u64::BITS - self.side.leading_zeros()).rev() {
            let doubled = times(power, plus(weighted, sum, count));
            (weighted, sum) = (plus(weighted, doubled, 1.0), plus(sum, times(power, sum), 1.0));
            (power, count) = (times(power, power), 2.0 * count);
            if self.side >> bit & 1 == 1 {
                (power, count) = (times(power, z), count + 1.0);
                (weighted, sum) = (plus(weighted, power, count), plus(sum, power, 1.0));
            }
        }
        (sum, weighted.0)
    }
}
