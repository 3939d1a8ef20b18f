//! The exact (ε, δ) curve of Gaussian noise.

use crate::number::special::{mills, mills_fall, normal_cdf};

/// Nodes and weights of the Gauss–Legendre rule of 8 points on (-1, 1), one half of them.
const RULE: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_27),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
];

/// `√(2π)`.
const ROOT_TWO_PI: f64 = 2.506_628_274_631_000_5;

/// `δ(ε)` of the Gaussian mechanism whose sensitivity is `mu` standard deviations, right to 10⁻¹² for δ above 10⁻³⁰⁰:
/// `Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)` (Balle, Wang 2018, arXiv 1805.06530, theorem 8).
///
/// With `x = ε/μ - μ/2` and `y = x + μ` this is `φ(x)·(M(x) - M(y))`, `M` Mills' ratio, which keeps its relative
/// accuracy down to the smallest δ. If `μ` is small, even that cancels, and `M(x) - M(y)` is the integral of `-M'`,
/// which is smooth and positive.
pub fn delta(mu: f64, epsilon: f64) -> f64 {
    let (log, factor) = parts(mu, epsilon);
    libm::exp(log) * factor
}

/// `ln δ(ε)`, to 10⁻¹² absolutely, however small δ is.
pub fn log_delta(mu: f64, epsilon: f64) -> f64 {
    let (log, factor) = parts(mu, epsilon);
    log + libm::log(factor)
}

/// `δ = e^log · factor`, with the density `φ(x)` in the exponential unless δ is of the order of 1.
fn parts(mu: f64, epsilon: f64) -> (f64, f64) {
    let x = epsilon / mu - mu / 2.0;
    let y = epsilon / mu + mu / 2.0;
    if mu <= 0.5 {
        let (middle, reach) = (epsilon / mu, mu / 2.0);
        let sum: f64 = RULE
            .iter()
            .map(|(node, weight)| weight * (mills_fall(middle - node * reach) + mills_fall(middle + node * reach)))
            .sum();
        return (-x * x / 2.0, sum * reach / ROOT_TWO_PI);
    }
    if x < 0.0 {
        // Here δ is not small and the direct form does not cancel; e^ε Φ(-y) = φ(x) M(y).
        return (0.0, normal_cdf(-x) - libm::exp(-x * x / 2.0) / ROOT_TWO_PI * mills(y));
    }
    (-x * x / 2.0, (mills(x) - mills(y)) / ROOT_TWO_PI)
}
