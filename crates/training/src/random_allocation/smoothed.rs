//! The hockey stick, smoothed by the move that all bins have in common; see the header of `random_allocation.rs`.

use evertally::number::special::normal_cdf;
use evertally::privacy::gaussian;

/// Points of a search for a peak are this far apart in the exponent.
const FINENESS: f64 = 0.02;
/// From this move on, the difference of two normal probabilities is right to 10⁻⁹.
const DIRECT: f64 = 0.01;
/// Headroom for roundings.
const ROUNDING: f64 = 1e-9;
/// Smaller values are bounded instead.
const UNDERFLOW: f64 = 1e-290;

/// Gaussian noise of this move, in standard deviations, and ε.
#[derive(Clone, Copy, Debug)]
pub(super) struct Smoothed {
    /// `τ`.
    pub(super) moved: f64,
    pub(super) epsilon: f64,
}

impl Smoothed {
    /// `h(a) = E (1 - e^{a + τξ - τ²/2})₊` for a standard normal variable `ξ`: the δ of the common move at `a`.
    pub(super) fn at(&self, a: f64) -> f64 {
        if self.moved == 0.0 {
            return -libm::expm1(a.min(0.0));
        }
        let (x, y) = (a / self.moved - self.moved / 2.0, a / self.moved + self.moved / 2.0);
        if x >= 0.0 && self.moved < DIRECT {
            return gaussian::delta(self.moved, a);
        }
        let rounding = if x < 0.0 { f64::EPSILON } else { 0.0 };
        (normal_cdf(-x) - libm::exp(a) * normal_cdf(-y)).max(0.0) + rounding
    }

    /// A bound of `ln h(a)`: also where `h` underflows.
    fn log_at(&self, a: f64) -> f64 {
        let own = self.at(a);
        let x = a / self.moved - self.moved / 2.0;
        if own < UNDERFLOW && self.moved > 0.0 { -x * x / 2.0 - std::f64::consts::LN_2 } else { libm::log(own) }
    }

    /// A bound of `h(a) e^{p(a - ε)}` over all `a`, for `p > 0`.
    pub(super) fn peak(&self, power: f64) -> f64 {
        // `h` falls, and is at most 1. Above the last point it is below `½ e^{-x²/2}`, and `x`, with `a`, beyond the
        // largest value of `p a - x²/2`.
        let step = FINENESS / power;
        let first = -2.0 * libm::log1p(power) / power - 2.0 * self.moved;
        let last = (power + 0.5) * self.moved * self.moved + 8.0 * self.moved;
        let points = ((last - first) / step).ceil().clamp(64.0, 4096.0);
        let step = (last - first) / points;
        let place = |at: f64| first + at * step;
        let between = |at: u32| self.log_at(place(f64::from(at))) + power * place(f64::from(at) + 1.0);
        let largest = (0..points as u32).map(between).fold(power * first, f64::max);
        let x = last / self.moved - self.moved / 2.0;
        let beyond = if self.moved > 0.0 { power * last - x * x / 2.0 } else { f64::NEG_INFINITY };
        libm::exp(largest.max(beyond) - power * self.epsilon) * (1.0 + ROUNDING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against an integral over `ξ`.
    #[test]
    fn the_hockey_stick_is_a_mean() {
        for (moved, epsilon) in [(0.0, 1.0), (1e-3, 0.5), (0.12, 0.5), (0.8, 2.0), (3.0, 0.1)] {
            let own = Smoothed { moved, epsilon };
            for a in [-3.0, -0.2, -1e-3, 0.0, 1e-3, 0.05, 0.4, 2.0] {
                let (step, reach) = (1e-4, 10.0);
                let term = |k: i32| {
                    let xi = f64::from(k) * step;
                    let density = libm::exp(-xi * xi / 2.0) / (2.0 * std::f64::consts::PI).sqrt();
                    density * step * -libm::expm1((a + moved * xi - moved * moved / 2.0).min(0.0))
                };
                let most = (reach / step) as i32;
                let truth: f64 = (-most..=most).map(term).sum();
                assert!((own.at(a) - truth).abs() < 1e-6 * truth + 1e-12, "{moved} {a}: {} {truth}", own.at(a));
                for power in [0.5, 1.0, 4.0, 15.0] {
                    let here = own.at(a) * libm::exp(power * (a - epsilon));
                    assert!(here <= own.peak(power), "{moved} {a} {power}");
                }
            }
            for power in [1.0, 3.0, 12.0] {
                let fine = (-4000..150_000).map(|k| f64::from(k) * 1e-3);
                let truth = fine.map(|a| own.log_at(a) + power * (a - epsilon)).fold(f64::NEG_INFINITY, f64::max);
                let found = libm::log(own.peak(power)) - truth;
                // The points are coarser than wanted if the move is large.
                assert!((-1e-9..0.5).contains(&found), "{moved} {power}: {found}");
            }
        }
    }
}
