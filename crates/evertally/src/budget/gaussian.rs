//! The exact (ε, δ) curve of Gaussian noise.

use super::erfcx::{mills, normal_cdf};

/// `δ(ε)` of the Gaussian mechanism whose sensitivity is `mu` standard deviations:
/// `Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)` (Balle, Wang 2018, arXiv 1805.06530, theorem 8).
///
/// With `x = ε/μ - μ/2` and `y = x + μ` this is `φ(x)·(M(x) - M(y))`, `M` Mills' ratio, which keeps its relative
/// accuracy down to the smallest δ.
pub(super) fn delta(mu: f64, epsilon: f64) -> f64 {
    let x = epsilon / mu - mu / 2.0;
    let y = epsilon / mu + mu / 2.0;
    if x < 0.0 {
        // Here δ is not small and the direct form does not cancel; e^ε Φ(-y) = φ(x) M(y).
        return normal_cdf(-x) - density(x) * mills(y);
    }
    density(x) * (mills(x) - mills(y))
}

fn density(x: f64) -> f64 {
    libm::exp(-x * x / 2.0) / (2.0 * std::f64::consts::PI).sqrt()
}
