//! Certified privacy-loss distributions: the tight (ε, δ) curve of Laplace and discrete Gaussian noise.
//!
//! Let `P` and `Q` be the laws of a release on two neighbouring data sets. The **privacy loss** is `ln P(x)/Q(x)` of a
//! draw `x ~ P`, and the smallest δ at ε is the hockey-stick divergence `δ(ε) = E (1 - e^{ε - loss})₊`. Losses of
//! independent coordinates add, so composition is convolution.
//!
//! ## Why every result is an upper bound
//!
//! **Splitting.** A loss ℓ between the grid points `a < b` is replaced by a marked outcome: the mark is `a` or `b`, and
//! has different probabilities under `P` and under `Q`, so that both marks have exactly the loss they name. Mass `p`
//! and `p e^{-ℓ}` must be kept, hence with `sinh` of half distances
//!
//! ```text
//! p_b = p e^{(b-ℓ)/2} sinh((ℓ-a)/2) / sinh((b-a)/2),    p_a = p e^{-(ℓ-a)/2} sinh((b-ℓ)/2) / sinh((b-a)/2).
//! ```
//!
//! Dropping the mark restores the original, so the original is a post-processing of the split pair, alone and inside
//! any composition. This is the interpolation of Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022, arXiv
//! 2207.04380, "connect the dots"): its error is of second order in the grid, whereas rounding every loss up has a
//! first-order error.
//!
//! **Tails** that are cut count as an infinite loss, that is, into δ.
//!
//! **Rounding.** All masses are sums of products of positive numbers, so each carries a bounded relative error. The
//! bound is accumulated with them and multiplies δ. Underflowing mass counts as an infinite loss.
//!
//! **Both directions.** For a symmetric noise law the reflection `x → d - x` swaps `P` (noise) and `Q` (noise shifted
//! by `d`), coordinate by coordinate. So the curves of (P, Q) and (Q, P) are one, and a shift by `-d` has the curve of
//! `d`.
//!
//! **Adaptive streams.** A pair of laws whose curve is at least that of a mechanism *dominates* it, and a product of
//! dominating pairs dominates the adaptive composition (Zhu, Dong and Wang 2022, arXiv 2106.08567). That applies to
//! variables read one after another, each after its data are complete: it does not hold for trees that subtract blocks
//! still open.

mod compose;
mod gaussian;
mod laplace;
mod profile;
mod search;

pub(crate) use gaussian::epsilon_of_shifts;
pub use gaussian::{
    delta_of_discrete_gaussian, delta_of_discrete_gaussian_by_norm, epsilon_of_discrete_gaussian,
    epsilon_of_discrete_gaussian_by_norm,
};
pub use laplace::{delta_of_laplace, epsilon_of_laplace};
pub use profile::ShiftProfile;
pub(crate) use search::{continuous_comparisons, rounded_up};
pub use search::{gaussian_variance_for, laplace_scale_for};

use super::{Delta, Epsilon, conversions};
use crate::{Error, Result};

/// The resolution of a [`PrivacyLoss`].
///
/// ```
/// use evertally::privacy::{Delta, loss::Resolution};
/// let fine = Resolution::new(1 << 13, Delta::new(1e-12)?)?;
/// assert!(Resolution::new(1, Delta::new(1e-12)?).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resolution {
    /// Maximum number of distinct losses.
    points: usize,
    /// All cut tails together are at most about 10⁻⁶ of this.
    least_delta: f64,
}

impl Resolution {
    /// Uses at most `points` distinct losses (64 to 2¹⁶). The cut tails add about `10⁻⁶ least_delta` to every δ, so
    /// `least_delta` should be the smallest δ that will be requested. One composition costs up to `points²`
    /// multiplications.
    ///
    /// # Errors
    /// If `points` is out of range.
    pub fn new(points: usize, least_delta: Delta) -> Result<Self> {
        if !(64..=1 << 16).contains(&points) {
            return Err(Error::invalid(format!("a privacy loss needs 64 to 65536 points, got {points}")));
        }
        Ok(Self { points, least_delta: least_delta.get() })
    }

    /// 2048 points: ε to about five digits.
    pub fn for_delta(least_delta: Delta) -> Self {
        Self { points: 2048, least_delta: least_delta.get() }
    }

    /// For the first steps of a search: δ within a few per cent.
    fn coarse(least_delta: Delta) -> Self {
        Self { points: 256, least_delta: least_delta.get() }
    }

    /// The mass that one end of a distribution used `count` times may lose. Below 10⁻²⁹⁰ products would underflow one
    /// by one.
    fn tail(&self, count: u64) -> f64 {
        (self.least_delta * 1e-8 / count as f64).max(1e-290)
    }
}

/// An upper bound of the (ε, δ) curve of a mechanism: losses on a uniform grid with their probabilities.
///
/// ```
/// use evertally::privacy::{Delta, Epsilon, loss::{PrivacyLoss, Resolution, ShiftProfile}};
/// use evertally::number::Ratio;
/// // A count that enters four nodes, each with Laplace noise of scale 10: pure ε = 0.4.
/// let delta = Delta::new(1e-6)?;
/// let loss = PrivacyLoss::laplace(Ratio::new(10, 1)?, &ShiftProfile::ones(4)?, Resolution::for_delta(delta));
/// assert_eq!(loss.delta(Epsilon::new(0.41)?), 0.0);
/// // All four losses are +0.1 with probability (1 + e^-0.1)^-4.
/// let top = (1.0f64 + (-0.1f64).exp()).powi(-4);
/// assert!((loss.delta(Epsilon::new(0.3)?) / (top * (1.0 - (-0.1f64).exp())) - 1.0).abs() < 1e-6);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PrivacyLoss {
    /// Half the distance of neighbouring losses, to 10 units in the last place.
    half: f64,
    /// The smallest loss, in units of `half`; loss `i` is `(first + 2i) half`.
    first: i64,
    /// The probability of every loss, each at least the true one divided by `1 + error`.
    masses: Vec<f64>,
    /// See `masses`.
    error: f64,
    /// The probability of an infinite loss, rounded up.
    infinity: f64,
    /// No loss is larger: the pure ε, rounded up; infinite if there is none.
    pure: f64,
}

/// Relative headroom for the rounding of a loss: its half distance is right to 10 units, and two operations follow.
const LOSS_ROUNDING: f64 = 4e-15;

impl PrivacyLoss {
    /// The loss of a release that does not depend on the data.
    fn nothing() -> Self {
        Self { half: 1.0, first: 0, masses: vec![1.0], error: 0.0, infinity: 0.0, pure: 0.0 }
    }

    /// The loss of a release that may reveal everything, up to a pure ε.
    fn everything(pure: f64) -> Self {
        Self { infinity: 1.0, masses: vec![0.0], pure, ..Self::nothing() }
    }

    /// δ at this ε: never below the true value, and 0 from the pure ε on. `O(points)`.
    pub fn delta(&self, epsilon: Epsilon) -> f64 {
        self.delta_at(epsilon.get())
    }

    fn delta_at(&self, epsilon: f64) -> f64 {
        if epsilon >= self.pure {
            return 0.0;
        }
        let mut sum = 0.0;
        // From the small masses of the upper end downwards.
        for (i, mass) in self.masses.iter().enumerate().rev() {
            let loss = (self.first + 2 * i as i64) as f64 * self.half;
            let above = loss - epsilon + LOSS_ROUNDING * loss.abs();
            if above <= 0.0 {
                break;
            }
            sum -= mass * libm::expm1(-above);
        }
        let rounding = 2.0 + self.masses.len() as f64;
        (sum * (1.0 + self.error + rounding * f64::EPSILON) * (1.0 + 4.0 * f64::EPSILON) + self.infinity).min(1.0)
    }

    /// δ at this ε if its order of magnitude is not known in advance: `guess` is tried first, then everything down to
    /// 10⁻²⁹⁰ is kept.
    fn delta_by(of: impl Fn(Resolution) -> Self, guess: f64, epsilon: Epsilon) -> f64 {
        let kept =
            |least: f64| of(Resolution::for_delta(Delta::new(least.clamp(1e-290, 0.5)).expect("between 0 and 1")));
        let first = kept(guess);
        let delta = first.delta(epsilon);
        if first.infinity <= 1e-4 * delta { delta } else { delta.min(kept(1e-290).delta(epsilon)) }
    }

    /// The smallest ε with δ(ε) at most this δ, rounded up; the pure ε, or infinity, if the cut tails alone exceed δ.
    ///
    /// ```
    /// # use evertally::privacy::{Delta, Epsilon, loss::{PrivacyLoss, Resolution, ShiftProfile}};
    /// # use evertally::number::Ratio;
    /// let delta = Delta::new(1e-6)?;
    /// let loss = PrivacyLoss::laplace(Ratio::new(40, 1)?, &ShiftProfile::ones(40)?, Resolution::for_delta(delta));
    /// let epsilon = loss.epsilon(delta);
    /// assert!(epsilon < 0.74); // pure ε is 1
    /// assert!(loss.delta(Epsilon::new(epsilon)?) <= 1e-6);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn epsilon(&self, delta: Delta) -> f64 {
        let fits = |epsilon: f64| self.delta_at(epsilon) <= delta.get();
        if fits(0.0) {
            return 0.0;
        }
        let top = (self.first + 2 * self.masses.len() as i64) as f64 * self.half;
        let high = top.max(self.half).min(self.pure);
        if !fits(high) {
            return self.pure;
        }
        conversions::least_beyond(|epsilon| !fits(epsilon), high)
    }
}

#[cfg(test)]
mod tests;
