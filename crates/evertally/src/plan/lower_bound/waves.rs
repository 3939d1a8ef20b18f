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

use crate::privacy::Spread;

/// `(1/T) Σ_j σ_j |⟨ψ_j, Q ψ_j⟩|`. `O(T log h)`.
pub(super) fn bound(horizon: u64, spread: Spread) -> f64 {
    let steps = spread.per_group as f64 / spread.per_step as f64;
    // The steps on one side that fit, and the remainder for the next one on either side.
    let side = ((steps - 1.0) / 2.0) as u64;
    let most = (horizon - 1) / spread.separation;
    let (side, outside) = if side >= most { (most, 0.0) } else { (side, (steps - 1.0) / 2.0 - side as f64) };
    let wave = Waves { steps: horizon as f64, separation: spread.separation as f64, side, outside };
    let sum: f64 = (1..=horizon).map(|j| wave.term(j)).sum();
    spread.per_step as f64 * sum / horizon as f64
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
    fn term(&self, j: u64) -> f64 {
        let unit = 2.0 * self.steps + 1.0;
        let angle = (2 * j - 1) as f64 * std::f64::consts::PI / unit;
        let last = libm::cos(self.steps * angle) / libm::sin(angle);
        let (powers, weighted) = self.sums(angle);
        let all = self.steps * powers.0 - self.separation * weighted;
        // Im(e^(iTω) conj Σ z^i)
        let sines = libm::sin(self.steps * angle) * powers.0 - libm::cos(self.steps * angle) * powers.1;
        let inside = 2.0 * (all + last * sines);
        let own = self.steps + libm::sin(self.steps * angle) * last;
        let distance = (self.side + 1) as f64 * self.separation;
        let beyond = if self.outside > 0.0 && distance < self.steps {
            let left = self.steps - distance;
            2.0 * self.outside * (left * libm::cos(angle * distance) + libm::sin(left * angle) * last)
        } else {
            0.0
        };
        let product = 2.0 / unit * (own + inside + beyond);
        product.abs() * 0.5 / libm::sin(angle / 2.0)
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
