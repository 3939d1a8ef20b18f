//! Conversions between privacy budgets. Every result is a valid statement: searches stop on the safe side.

use super::{Budget, Delta, Epsilon, Rho, gaussian};

/// Searches end when the bracket is this narrow, relatively, and return its safe end.
const TOLERANCE: f64 = 1e-13;
/// Headroom for rounding in the formulas themselves.
const ROUNDING: f64 = 1e-12;

impl Budget {
    /// The ρ that zCDP (Gaussian) noise may spend under this budget, or `None` under pure ε, which Gaussian noise
    /// cannot give.
    pub fn rho(&self) -> Option<Rho> {
        match *self {
            Self::Pure(_) => None,
            Self::Zcdp(rho) => Some(rho),
            Self::Approximate(epsilon, delta) => Some(rho_for(epsilon, delta)),
        }
    }

    /// The ε that pure (Laplace) noise may spend under this budget: ε itself, or `√(2ρ)`, since ε-DP implies
    /// `ε²/2`-zCDP.
    pub fn pure_epsilon(&self) -> Epsilon {
        match *self {
            Self::Pure(epsilon) | Self::Approximate(epsilon, _) => epsilon,
            Self::Zcdp(rho) => pure_epsilon_for(rho),
        }
    }
}

/// ε-DP implies ρ-zCDP with `ρ = ε²/2` (Bun, Steinke 2016, proposition 3.3).
///
/// ```
/// use evertally::privacy::{Epsilon, conversions::zcdp_of_pure};
/// assert_eq!(zcdp_of_pure(Epsilon::new(1.0)?), 0.5);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn zcdp_of_pure(epsilon: Epsilon) -> f64 {
    epsilon.get() * epsilon.get() / 2.0
}

/// The largest ε whose ε-DP is within ρ-zCDP: `√(2ρ)`.
pub(super) fn pure_epsilon_for(rho: Rho) -> Epsilon {
    // The headroom covers the rounding of the root and of reading the result as a decimal number.
    Epsilon::derived((2.0 * rho.get()).sqrt() * (1.0 - 1e-15))
}

/// The smallest ε for which every ρ-zCDP mechanism is (ε, δ)-DP, to 12 digits, rounded up:
/// `min_α αρ + (ln(1/δ) - ln α)/(α-1) + ln(1 - 1/α)` over Rényi orders `α > 1` (Canonne, Kamath, Steinke 2020, arXiv
/// 2004.00010, proposition 12 and corollary 13). `O(1)`.
///
/// ```
/// use evertally::privacy::{Delta, Rho, conversions::epsilon_of_zcdp};
/// let (rho, delta) = (Rho::new(0.5)?, Delta::new(1e-6)?);
/// let epsilon = epsilon_of_zcdp(rho, delta);
/// let crude = 0.5 + 2.0 * (0.5f64 * 1e6f64.ln()).sqrt();
/// assert!(epsilon < crude && epsilon > 0.8 * crude);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn epsilon_of_zcdp(rho: Rho, delta: Delta) -> f64 {
    epsilon_of_zcdp_raw(rho.get(), delta.get())
}

fn epsilon_of_zcdp_raw(rho: f64, delta: f64) -> f64 {
    let log_inverse_delta = -libm::log(delta);
    // a = α - 1, searched on a logarithmic scale around the minimiser √(ln(1/δ)/ρ) of the classic bound.
    let bound = |log_a: f64| {
        let a = libm::exp(log_a);
        rho * (1.0 + a) + (log_inverse_delta - libm::log1p(a)) / a - libm::log1p(1.0 / a)
    };
    let centre = 0.5 * libm::log(log_inverse_delta / rho);
    let epsilon = minimum(bound, centre - 12.0, centre + 12.0);
    (epsilon + ROUNDING * epsilon.abs()).max(0.0)
}

/// The smallest δ for which every ρ-zCDP mechanism is (ε, δ)-DP (same source), rounded up; at most 1. It is the inverse
/// of [`epsilon_of_zcdp`] to the last bits.
///
/// ```
/// use evertally::privacy::{Delta, Epsilon, Rho, conversions::{delta_of_zcdp, epsilon_of_zcdp, rho_for}};
/// let (epsilon, delta) = (Epsilon::new(1.0)?, Delta::new(1e-6)?);
/// let found = delta_of_zcdp(rho_for(epsilon, delta), epsilon);
/// assert!(found <= 1e-6 && found > 0.999_999 * 1e-6);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn delta_of_zcdp(rho: Rho, epsilon: Epsilon) -> f64 {
    let near = searched_delta_of_zcdp(rho, epsilon);
    let fails = |delta: f64| epsilon_of_zcdp_raw(rho.get(), delta) > epsilon.get();
    // Both are valid.
    if fails(near) { near } else { least_beyond(fails, near) }
}

/// Approximately the same by one search over Rényi orders, rounded up, as used by searches for noise: their results are
/// part of plans, so this must not change.
pub(super) fn searched_delta_of_zcdp(rho: Rho, epsilon: Epsilon) -> f64 {
    let (rho, epsilon) = (rho.get(), epsilon.get());
    let log_delta = |log_a: f64| {
        let a = libm::exp(log_a);
        a * (rho * (1.0 + a) - epsilon) - log_a - (1.0 + a) * libm::log1p(1.0 / a)
    };
    let centre = libm::log(((epsilon - rho) / (2.0 * rho)).max(1e-3));
    let least = minimum(log_delta, centre - 12.0, centre + 12.0);
    // A δ of 0 would claim pure ε.
    libm::exp(least + ROUNDING * (1.0 + least.abs())).clamp(f64::MIN_POSITIVE, 1.0)
}

/// The largest ρ whose ρ-zCDP gives (ε, δ)-DP by the optimal conversion, to 12 digits, rounded down.
///
/// ```
/// use evertally::privacy::{Delta, Epsilon, conversions::{epsilon_of_zcdp, rho_for}};
/// let (epsilon, delta) = (Epsilon::new(1.0)?, Delta::new(1e-6)?);
/// let rho = rho_for(epsilon, delta);
/// assert!(epsilon_of_zcdp(rho, delta) <= 1.0);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn rho_for(epsilon: Epsilon, delta: Delta) -> Rho {
    let fits = |rho: f64| epsilon_of_zcdp_raw(rho, delta.get()) <= epsilon.get();
    let mut high = epsilon.get().max(1e-9);
    while fits(high) {
        high *= 2.0;
    }
    let rho = largest(fits, high);
    Rho::derived(rho)
}

/// `δ(ε)` of Gaussian noise whose standard deviation is the L2 sensitivity over `mu` (μ-GDP), by the exact curve of
/// Balle and Wang 2018 (arXiv 1805.06530). For continuous Gaussian noise; the discrete law is accounted in zCDP.
///
/// ```
/// use evertally::privacy::{Epsilon, conversions::delta_of_gaussian};
/// let delta = delta_of_gaussian(1.0, Epsilon::new(1.0)?);
/// assert!((delta - 0.126_936_737_506_647).abs() < 1e-12);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn delta_of_gaussian(mu: f64, epsilon: Epsilon) -> f64 {
    gaussian::delta(mu, epsilon.get())
}

/// The largest μ for which μ-GDP Gaussian noise is (ε, δ)-DP (analytic Gaussian mechanism), rounded down.
pub fn mu_for(epsilon: Epsilon, delta: Delta) -> f64 {
    let most = libm::log(delta.get()) - 2.0 * ROUNDING;
    let fits = |mu: f64| gaussian::log_delta(mu, epsilon.get()) <= most;
    let mut high = epsilon.get().max(1e-9);
    while fits(high) {
        high *= 2.0;
    }
    largest(fits, high)
}

/// The smallest ε for which μ-GDP Gaussian noise is (ε, δ)-DP, rounded up; 0 if even ε = 0 holds.
pub fn epsilon_of_gaussian(mu: f64, delta: Delta) -> f64 {
    let most = libm::log(delta.get()) - 2.0 * ROUNDING;
    let fails = |epsilon: f64| gaussian::log_delta(mu, epsilon) > most;
    if !fails(0.0) {
        return 0.0;
    }
    let mut high = mu.max(1e-9);
    while fails(high) {
        high *= 2.0;
    }
    least_beyond(fails, high)
}

/// The ε at this δ of Laplace noise of this scale on a vector whose L1 sensitivity is `delta1` and whose L2 sensitivity
/// is `delta2`, rounded up: `min(Δ1/λ, Δ2²/(2λ²) + (Δ2/λ) √(2 ln 1/δ))` (Andersson, Pagh, Steiner and Torkamani, k-ary
/// trees with subtraction, theorem 1.3).
///
/// The theorem requires `λ > Δ1`; that is not needed, because `x (eˣ-1)/(eˣ+1) ≤ x²/2` for all `x ≥ 0`. It is about
/// shifts that are fixed in advance: plans use it for no mechanism that reads noise before the data of its node are
/// complete ([`Mechanism::is_causal`](crate::mechanism::Mechanism::is_causal)). A closed form:
/// [`epsilon_of_laplace`](super::loss::epsilon_of_laplace) is tighter. Also for discrete Laplace noise.
///
/// ```
/// use evertally::privacy::{Delta, conversions::laplace_epsilon};
/// let delta = Delta::new(1e-6)?;
/// assert!((laplace_epsilon(4.0, 2.0, 10.0, delta) - 0.4).abs() < 1e-12);
/// assert!(laplace_epsilon(100.0, 10.0, 100.0, delta) < 0.54);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn laplace_epsilon(delta1: f64, delta2: f64, scale: f64, delta: Delta) -> f64 {
    let a = delta2 / scale;
    let concentrated = a * (a / 2.0 + (-2.0 * libm::log(delta.get())).sqrt());
    (delta1 / scale).min(concentrated) * (1.0 + ROUNDING)
}

/// The smallest scale of Laplace noise that is (ε, δ)-DP by [`laplace_epsilon`], rounded up: `min(Δ1/ε, Δ2/a)` with
/// `a = √(2 ln 1/δ) (√(1 + ε/ln(1/δ)) - 1)`.
///
/// ```
/// use evertally::privacy::{Delta, Epsilon, conversions::{laplace_epsilon, laplace_scale}};
/// let (epsilon, delta) = (Epsilon::new(1.0)?, Delta::new(1e-6)?);
/// let scale = laplace_scale(100.0, 10.0, epsilon, delta);
/// assert!(scale < 56.0 && laplace_epsilon(100.0, 10.0, scale, delta) <= 1.0);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn laplace_scale(delta1: f64, delta2: f64, epsilon: Epsilon, delta: Delta) -> f64 {
    let (epsilon, log) = (epsilon.get(), -libm::log(delta.get()));
    // √(1+w) - 1 = w/(√(1+w) + 1) does not cancel.
    let w = epsilon / log;
    let a = (2.0 * log).sqrt() * (w / ((1.0 + w).sqrt() + 1.0));
    (delta1 / epsilon).min(delta2 / a) * (1.0 + 4.0 * ROUNDING)
}

/// The largest argument in `(0, high]` at which a condition that holds near 0 still holds, from below.
fn largest(holds: impl Fn(f64) -> bool, mut high: f64) -> f64 {
    let mut low = high;
    while !holds(low) {
        high = low;
        low /= 2.0;
        if low < f64::MIN_POSITIVE {
            return 0.0;
        }
    }
    while high - low > TOLERANCE * high {
        let middle = low + (high - low) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// The smallest argument in `(0, high]` at which a condition fails, if it fails from some point on, to the last bit: no
/// argument found elsewhere to violate the condition is exceeded.
pub(super) fn least_beyond(holds: impl Fn(f64) -> bool, mut high: f64) -> f64 {
    let mut low = 0.0;
    loop {
        // First by exponents, for small values.
        let middle = if low > 0.0 { low + (high - low) / 2.0 } else { high / 4.0 };
        if middle <= low || middle >= high || high < f64::MIN_POSITIVE {
            return high;
        }
        if holds(middle) { low = middle } else { high = middle }
    }
}

/// Minimum of a unimodal function by golden-section search; any point visited bounds the minimum from above.
fn minimum(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let (mut a, mut b) = (high - RATIO * (high - low), low + RATIO * (high - low));
    let (mut fa, mut fb) = (f(a), f(b));
    for _ in 0..90 {
        if fa <= fb {
            (high, b, fb) = (b, a, fa);
            a = high - RATIO * (high - low);
            fa = f(a);
        } else {
            (low, a, fa) = (a, b, fb);
            b = low + RATIO * (high - low);
            fb = f(b);
        }
    }
    fa.min(fb)
}
