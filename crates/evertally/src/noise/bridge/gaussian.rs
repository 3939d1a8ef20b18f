//! The Gaussian bridge, in floating point.

use super::Bridge;
use crate::noise::{RandomBits, standard_normal, whole_units};

/// Brownian motion: increments over a length `n` are normal with mean 0 and variance `n`.
///
/// **Split.** Let `X` be the value at `near` and `Y` that at `near + far`, both counted from a point where the motion
/// is 0. `X - (near/whole) Y` with `whole = near + far` has covariance `near - (near/whole) whole = 0` with `Y`, so it
/// is independent of `Y`, and its variance is `near - near²/whole = near · far/whole`. Hence, given `Y`, `X` is normal
/// with mean `Y near/whole` and that variance. Increments before and after are independent of both.
///
/// **Not exact.** Values are floating-point numbers: each draw is off by a few parts in 10^16. The noise of a release
/// is rounded to a whole number of units before it is added to a sum, so that the possible releases do not depend on
/// the data; see `docs/threat-model.md`.
///
/// ```
/// use evertally::noise::bridge::{Bridge, GaussianBridge};
/// use evertally::noise::ScriptedBits;
///
/// let bridge = GaussianBridge::new(256.0);
/// // The median word: half-way between both ends.
/// let middle = bridge.split(1.0, 3.0, 5, 5, &mut ScriptedBits::new(vec![0; 8]));
/// assert!((middle - 2.0).abs() < 1e-15);
/// assert_eq!(bridge.noise(middle), 512);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GaussianBridge {
    units: f64,
}

impl GaussianBridge {
    /// The standard deviation over a length of 1 is `units` whole units of a release.
    pub fn new(units: f64) -> Self {
        Self { units }
    }
}

impl Bridge for GaussianBridge {
    const EXACT: bool = false;

    /// The sum, in standard deviations of length 1.
    type Value = f64;

    const ORIGIN: f64 = 0.0;

    #[inline]
    fn extend(&self, from: f64, length: u64, bits: &mut impl RandomBits) -> f64 {
        from + libm::sqrt(length as f64) * standard_normal(bits)
    }

    #[inline]
    fn split(&self, from: f64, to: f64, near: u64, far: u64, bits: &mut impl RandomBits) -> f64 {
        let (near, far) = (near as f64, far as f64);
        let share = near / (near + far);
        from + share * (to - from) + libm::sqrt(share * far) * standard_normal(bits)
    }

    /// Rounded to the nearest unit.
    #[inline]
    fn noise(&self, value: f64) -> i128 {
        whole_units(value * self.units)
    }
}
