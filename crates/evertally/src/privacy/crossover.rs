//! Where Laplace and Gaussian noise are equally good.

use super::Delta;

/// The δ, between `low` and `high`, at which Laplace and Gaussian noise have the same variance; Laplace noise is better
/// below it, Gaussian noise above. Found by bisection on `ln δ` to six digits: about 30 calls of both functions.
///
/// The functions give the variance that a given δ needs at a fixed ε (or infinity); their ratio Laplace/Gaussian should
/// grow with δ. `None` if the same law is better at both ends.
///
/// ```
/// use evertally::privacy::{Delta, Epsilon, crossover_delta};
/// use evertally::privacy::{conversions::mu_for, loss::{ShiftProfile, laplace_scale_for}};
/// let (epsilon, profile) = (Epsilon::new(1.0)?, ShiftProfile::ones(10)?);
/// let scale = |delta| laplace_scale_for(epsilon, delta, &profile);
/// let laplace = |delta| scale(delta).map_or(f64::INFINITY, |s| 2.0 * s.to_f64().powi(2));
/// let gaussian = |delta| 10.0 / mu_for(epsilon, delta).powi(2);
/// let delta = crossover_delta(Delta::new(1e-30)?, Delta::new(0.1)?, laplace, gaussian).unwrap();
/// assert!(delta.get() > 1e-7 && delta.get() < 1e-6);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn crossover_delta(
    low: Delta,
    high: Delta,
    laplace_variance: impl Fn(Delta) -> f64,
    gaussian_variance: impl Fn(Delta) -> f64,
) -> Option<Delta> {
    let laplace_wins = |delta: Delta| laplace_variance(delta) <= gaussian_variance(delta);
    if !laplace_wins(low) || laplace_wins(high) {
        return None;
    }
    let (mut below, mut above) = (libm::log(low.get()), libm::log(high.get()));
    let at = |log: f64| Delta::new(libm::exp(log)).ok();
    while above - below > 1e-6 {
        let middle = (below + above) / 2.0;
        if laplace_wins(at(middle)?) { below = middle } else { above = middle }
    }
    at(below)
}
