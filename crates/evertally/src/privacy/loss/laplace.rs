//! The privacy loss of discrete Laplace noise.
//!
//! One variable of scale λ under a shift `d`: with `q = e^{-1/λ}` the loss `(|x-d| - |x|)/λ` is `d/λ` for `x ≤ 0`, of
//! probability `1/(1+q)`; `-d/λ` for `x ≥ d`, of probability `q^d/(1+q)`; and `(d-2x)/λ` in between, of probability
//! `(1-q)/(1+q) q^x`. For `d = 1` this is randomized response with `ε = 1/λ`.
//!
//! All losses are multiples of `1/λ`. If the sum of all shifts is at most the number of grid points, the grid is that
//! lattice, and no split is needed. Otherwise the terms in one cell of the grid are split together: in the symmetric
//! form `p e^{-loss/2}` they all weigh the same, so the shares are sums of `sinh` in arithmetic progression,
//! `Σ_{j<n} sinh(α + jβ) = sinh(α + (n-1)β/2) sinh(nβ/2) / sinh(β/2)`, without any cancellation.

use super::compose::{Bins, MAX_HALF_DISTANCE};
use super::{PrivacyLoss, Resolution, ShiftProfile};
use crate::number::Ratio;
use crate::privacy::{Delta, Epsilon, Rho, conversions};

/// Above this pure ε nothing is computed: everything is assumed to be revealed.
const MAX_PURE_EPSILON: f64 = 1e4;

/// δ of discrete Laplace noise of this scale on every shifted variable, rounded up: the best of the privacy-loss
/// distribution at 2048 points, pure ε and zCDP.
///
/// ```
/// use evertally::privacy::{Epsilon, loss::{ShiftProfile, delta_of_laplace}};
/// use evertally::number::Ratio;
/// let profile = ShiftProfile::ones(20)?;
/// let delta = delta_of_laplace(Ratio::new(20, 1)?, &profile, Epsilon::new(0.5)?);
/// assert!(delta > 0.0009 && delta < 0.001); // though pure ε is 1
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn delta_of_laplace(scale: Ratio, profile: &ShiftProfile, epsilon: Epsilon) -> f64 {
    let by_zcdp = rho(scale, profile).map_or(1.0, |rho| conversions::delta_of_zcdp(rho, epsilon));
    PrivacyLoss::delta_by(|fine| PrivacyLoss::of_laplace(scale, profile, fine), by_zcdp * 1e-4, epsilon).min(by_zcdp)
}

/// The ε at this δ of discrete Laplace noise of this scale on every shifted variable, rounded up: the best of the
/// privacy-loss distribution at 2048 points, pure ε and zCDP.
pub fn epsilon_of_laplace(scale: Ratio, profile: &ShiftProfile, delta: Delta) -> f64 {
    let by_zcdp = rho(scale, profile).map_or(f64::INFINITY, |rho| conversions::epsilon_of_zcdp(rho, delta));
    PrivacyLoss::of_laplace(scale, profile, Resolution::for_delta(delta)).epsilon(delta).min(by_zcdp)
}

/// A shift `d` is `d/λ`-DP, hence `d²/(2λ²)`-zCDP; `None` if that is too large or small for a budget.
fn rho(scale: Ratio, profile: &ShiftProfile) -> Option<Rho> {
    let scale = scale.to_f64();
    Rho::new_even_if_weak(profile.l2_squared() as f64 / (2.0 * scale * scale) * (1.0 + 1e-14)).ok()
}

impl PrivacyLoss {
    /// The loss of discrete Laplace noise of one scale on every variable that the profile shifts.
    ///
    /// Exact up to rounding if [`ShiftProfile::l1`] is at most the number of points; otherwise ε is too large by about
    /// one part in 10⁵ at 2048 points. `O(points² log(variables))` at most, for every different shift. The bound of
    /// the rounding grows with the number of variables: below 10⁻³ of δ up to 2³⁰ of them, useless from 2⁴⁰ on.
    pub fn of_laplace(scale: Ratio, profile: &ShiftProfile, resolution: Resolution) -> Self {
        let grid = LossGrid::of(profile, resolution);
        let scale = scale.to_f64();
        let pure = profile.l1() as f64 / scale * (1.0 + 1e-15);
        if pure > MAX_PURE_EPSILON || grid.half(scale) > MAX_HALF_DISTANCE {
            return Self::everything(pure);
        }
        let of = |&(shift, count): &(u64, u64)| {
            let mut one = grid.one_variable(scale, shift);
            one.cut_tails(resolution.tail(count));
            one.repeated(count, resolution)
        };
        let parts = profile.shifts().iter().map(of);
        parts.reduce(|all, next| all.and(&next, resolution)).expect("a profile is not empty")
    }
}

/// A grid whose neighbouring losses are `2 numerator / (denominator λ)` apart.
struct LossGrid {
    numerator: i128,
    denominator: i128,
}

impl LossGrid {
    /// The lattice of the losses if it is small; otherwise so fine that the largest shift has an eighth of the points,
    /// with the ends of all shifts on the grid if possible.
    fn of(profile: &ShiftProfile, resolution: Resolution) -> Self {
        let points = resolution.points as u128;
        let lattice = Self { numerator: 1, denominator: 1 };
        let divisor = u128::from(profile.common_divisor());
        let largest = u128::from(profile.shifts()[0].0) / divisor;
        if profile.l1() / divisor * divisor <= points {
            return lattice;
        }
        let per_divisor = points / 8 / largest;
        if per_divisor >= divisor {
            lattice
        } else if per_divisor >= 1 {
            Self { numerator: divisor as i128, denominator: per_divisor as i128 }
        } else {
            // fits: largest < 2^61
            let width = (largest * 8).div_ceil(points).next_power_of_two();
            Self { numerator: (divisor * width) as i128, denominator: 1 }
        }
    }

    fn half(&self, scale: f64) -> f64 {
        self.numerator as f64 / (self.denominator as f64 * scale)
    }

    /// The loss of one variable under this shift. Positions are losses times `denominator λ`, exact integers: the
    /// variable's value `x` is at `denominator (d - 2x)`, grid point `y` (even or odd like `first`) at `numerator y`.
    /// fits: a shift is at most 2^60 and a denominator at most 2^13, so every position is below 2^80.
    fn one_variable(&self, scale: f64, shift: u64) -> PrivacyLoss {
        let (wide, fine, d) = (self.numerator, self.denominator, i128::from(shift));
        let half = self.half(scale);
        let steps = (fine * d + wide - 1) / wide;
        let mut bins = Bins::new(half, -steps as i64, steps as usize + 1);
        // Half of a loss given as a difference of positions.
        let halved = |position: i128| position as f64 / (2.0 * fine as f64 * scale);
        let (rate, length) = (1.0 / scale, d as f64 / scale);
        let outside = 1.0 / (1.0 + libm::exp(-rate));
        // The end points, where x ≤ 0 and x ≥ d. They are on the grid, or in its last cells.
        let overhang = wide * steps - fine * d;
        if overhang == 0 {
            bins.split(steps as usize, 0.0, outside);
            bins.split(0, 0.0, outside * libm::exp(-length));
        } else {
            bins.split(steps as usize - 1, halved(2 * wide - overhang), outside);
            bins.split(0, halved(overhang), outside * libm::exp(-length));
        }
        let (whole, middle) = (libm::sinh(half), 1.0 / libm::cosh(rate / 2.0));
        for cell in 0..steps {
            let low = wide * (2 * cell - steps);
            let high = low + 2 * wide;
            // The values x in 1 .. d-1 with low < position ≤ high.
            let first = ceil_div(fine * d - high, 2 * fine).max(1);
            let last = (ceil_div(fine * d - low, 2 * fine) - 1).min(d - 1);
            if first > last {
                continue;
            }
            let number = (last - first + 1) as f64;
            let spread = libm::sinh(number * rate / 2.0) / whole * middle;
            let centre = (number - 1.0) * rate / 2.0;
            let below = libm::sinh(halved(high - fine * (d - 2 * first)) + centre);
            let above = libm::sinh(halved(fine * (d - 2 * last) - low) + centre);
            // q^x at the grid points, x = (d - loss λ)/2.
            bins.masses[cell as usize] += libm::exp(-halved(fine * d - low)) * below * spread;
            bins.masses[cell as usize + 1] += libm::exp(-halved(fine * d - high)) * above * spread;
        }
        // Every factor is right to a few units, and exponents to a few units relatively.
        let error = 1e-14 * (1.0 + length + half);
        bins.finish(error, 0.0, length)
    }
}

fn ceil_div(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}
