//! A lower bound on the noise of windows and decays.

use super::unit_lower_bound;
use crate::mechanism::Workload;
use crate::mechanism::banded::spectrum::{delay, squared_symbol};
use crate::privacy::Spread;

/// Frequencies to half a lobe of a window, by Gaussian quadrature with this many nodes.
const NODES: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_27),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
];

/// A proven lower bound of `√(2ρ · max variance)` for Gaussian noise, any factorization of a workload over `horizon`
/// steps and a unit with events of size 1 (those of its groups each in one running sum, all with the same
/// factorization).
///
/// Let the unit's events fall on `k` of `K` places, `b` steps apart, all choices equally likely and starting at any
/// step. Such patterns have the mean square `q(θ) = α(|D_K(bθ)|² - K) + k`, `α = k(k-1)/(K(K-1))`, of their
/// symbols, and extend over `(K-1)b` steps. Let `U` be the sections over `T` steps of the Toeplitz matrices of
/// `(W P)/(|W|√q)`: side by side, each with the root of its probability, they are a contraction. The nuclear norm
/// of the `W P` side by side is at least their inner product with `U`, which counts the coefficient `j` as often as
/// it is in the matrix, `T - j` times. With the delay `τ` of `W P`, the weighted mean of `j`,
///
/// ```text
/// √(2ρ) · std ≥ (1/2π) ∫ |W| √q (1 - (τ_W + (K-1)b/2)/T) dθ.
/// ```
///
/// (As in [`unit_lower_bound`], a nuclear norm is at most the product of the Frobenius norms of two factors, and
/// patterns cut off by the horizon are also possible for the unit.) The best of several `K` and `b`, and of the
/// bound for the running sums of the first steps. For single events and `T → ∞` it is reached (Szegő).
/// `O(min(w, 2^14))` for each.
///
/// ```
/// use evertally::mechanism::Workload;
/// use evertally::plan::workload_lower_bound;
/// use evertally::privacy::Spread;
/// let bound = workload_lower_bound(Workload::Window(7), 1 << 40, Spread::ONE);
/// assert!((bound * bound - 3.1624).abs() < 1e-3);
/// ```
pub fn workload_lower_bound(workload: Workload, horizon: u64, spread: Spread) -> f64 {
    let workload = workload.over(horizon);
    if workload.is_sum() {
        return unit_lower_bound(horizon, spread);
    }
    // The first steps of a window are running sums. (Those of a decay are smaller.)
    let first = match workload {
        Workload::Window(width) => unit_lower_bound(width, within(spread, width)),
        _ => spread.per_step.min(spread.per_group) as f64,
    };
    let groups = (spread.total / spread.per_group).max(1);
    let each = spread.per_step.min(spread.per_group);
    let in_one = libm::sqrt(groups.min(spread.per_step / each).max(1) as f64);
    let single = each as f64 * in_one * mean(workload, horizon, Patterns::ONE);
    let most = (spread.per_group / spread.per_step.max(1)).min(horizon.div_ceil(spread.separation));
    let mut best = first.max(single);
    if most <= 1 {
        return best;
    }
    for times in [1, 2, 3, 4, 8, 16] {
        for apart in [1, 2, 8] {
            for steps in [most, most.div_ceil(4)] {
                let patterns =
                    Patterns { steps, places: steps.saturating_mul(times), apart: spread.separation * apart };
                best = best.max(spread.per_step as f64 * mean(workload, horizon, patterns));
            }
        }
    }
    best
}

/// The part of a unit's events that can be in this many steps.
fn within(spread: Spread, steps: u64) -> Spread {
    let total = spread.within(steps.into()) as u64; // fits: at most the total
    Spread { total, per_group: spread.per_group.min(total), per_step: spread.per_step.min(total), ..spread }
}

/// `k` steps on `K` places, `b` apart.
#[derive(Clone, Copy)]
struct Patterns {
    steps: u64,
    places: u64,
    apart: u64,
}

impl Patterns {
    const ONE: Self = Self { steps: 1, places: 1, apart: 1 };

    /// `q`.
    fn mean_square(self, angle: f64) -> f64 {
        let (k, places) = (self.steps as f64, self.places as f64);
        if self.places == 1 {
            return k;
        }
        let alpha = k * (k - 1.0) / (places * (places - 1.0));
        let half = angle * self.apart as f64 / 2.0;
        let sine = libm::sin(half);
        let comb = if sine.abs() < 1e-9 { places } else { libm::sin(places * half) / sine };
        (alpha * (comb * comb - places) + k).max(0.0)
    }

    fn middle(self) -> f64 {
        (self.places - 1) as f64 * self.apart as f64 / 2.0
    }
}

/// The integral; 0 if patterns do not fit. Between zeros of `W` and of `q` the integrand is smooth; if there are
/// too many zeros, a few parts each represent the others, minus a margin for their difference.
fn mean(workload: Workload, horizon: u64, patterns: Patterns) -> f64 {
    let width = match workload {
        Workload::Window(width) => width,
        Workload::Decay(half_life) => 8 * half_life,
        _ => 1,
    };
    let length = patterns.places.saturating_mul(patterns.apart);
    if length > horizon || patterns.steps == 0 {
        return 0.0;
    }
    const MAX_STEPS: u64 = 1 << 15;
    let (parts, slack) = match width.saturating_mul(2).max(length) {
        parts if parts <= MAX_STEPS => (parts.max(64), 1e-7),
        _ => (MAX_STEPS, 1e-3),
    };
    let step = std::f64::consts::PI / parts as f64;
    let value = |angle: f64| {
        let late = (delay(workload, angle) + patterns.middle()) / horizon as f64;
        libm::sqrt(squared_symbol(workload, angle) * patterns.mean_square(angle)) * (1.0 - late)
    };
    let of_part = |part: u64| {
        let middle = (part as f64 + 0.5) * step;
        let pair =
            |(at, weight): &(f64, f64)| weight * (value(middle - at * step / 2.0) + value(middle + at * step / 2.0));
        NODES.iter().map(pair).sum::<f64>() / 2.0
    };
    let mean = (0..parts).map(of_part).sum::<f64>() / parts as f64;
    mean.max(0.0) * (1.0 - slack)
}

#[cfg(test)]
mod tests;
