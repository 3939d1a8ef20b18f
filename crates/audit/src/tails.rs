//! The tails behind p-values and confidence bounds, by `statrs`: normal, χ² and binomial.
//!
//! Tails are computed directly, never as one minus something near one, so that small p-values keep their relative
//! accuracy.
//!
//! Checked against 40 digits (mpmath) and against our previous implementation, `statrs` 0.19 is right to 10⁻¹⁰ for
//! normal tails down to 10⁻³⁰⁰, to 2·10⁻¹¹ for χ² of up to 30,000 degrees of freedom, and to 10⁻⁸ for binomial tails
//! from one to eight deviations off the mean of up to 10⁸ trials. There are two exceptions:
//!
//! - **Binomial laws near their mean.** Its continued fraction ends after 140 terms: within half a deviation of the
//!   mean it is wrong by 0.2 % at 10⁶ trials, by a third at 10⁷, and not a probability at all at 10⁸. No tail there is
//!   small, so [`binomial_at_least`] does not resolve that range.
//! - **Quantiles of beta laws.** `inv_beta_reg` does not terminate (1 of 10⁷ trials at level 0.3), or is off by a
//!   thousandth of a deviation (999,999 of 10⁶). [`at_least`] bisects.

use evertally::number::power;
use statrs::distribution::{Binomial, ChiSquared, ContinuousCDF, DiscreteCDF, Normal};

/// P(Z ≤ x) of the standard normal law.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    Normal::standard().cdf(x)
}

/// P(|Z| ≥ |z|) of the standard normal law.
pub(crate) fn normal_tail(z: f64) -> f64 {
    2.0 * Normal::standard().sf(z.abs())
}

/// The `x` with P(Z ≤ x) = `p`; ±∞ at 1 and 0.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p.clamp(0.0, 1.0))
}

/// P(χ² ≥ `x`) with `freedom` degrees of freedom, which need not be whole.
pub(crate) fn chi_square_tail(x: f64, freedom: f64) -> f64 {
    ChiSquared::new(freedom).expect("a positive number of degrees of freedom").sf(x)
}

/// Laws with at least this variance are not evaluated within a deviation of their mean.
const WIDE: f64 = 1e4;

/// P(K ≥ `count`) of a binomial law; 1/2 within a deviation of the mean of a wide law, where it is from 0.15 to 0.85.
pub(crate) fn binomial_at_least(count: u64, trials: u64, p: f64) -> f64 {
    if count == 0 {
        return 1.0;
    }
    let (mean, variance) = (trials as f64 * p, trials as f64 * p * (1.0 - p));
    if variance >= WIDE && power(count as f64 - mean, 2) <= variance {
        return 0.5;
    }
    Binomial::new(p, trials).expect("a probability").sf(count - 1)
}

/// P(K ≤ `count`) of a binomial law; the same near the mean of a wide law.
pub(crate) fn binomial_at_most(count: u64, trials: u64, p: f64) -> f64 {
    if count >= trials { 1.0 } else { binomial_at_least(trials - count, trials, 1.0 - p) }
}

/// The Clopper–Pearson lower bound: the true probability is below it with probability at most `level`, which is below
/// 0.15.
pub(crate) fn at_least(count: u64, trials: u64, level: f64) -> f64 {
    let (mut low, mut high) = (0.0, count as f64 / trials as f64);
    for _ in 0..if count == 0 { 0 } else { 70 } {
        let middle = low + (high - low) / 2.0;
        if binomial_at_least(count, trials, middle) < level { low = middle } else { high = middle }
    }
    low + (high - low) / 2.0
}

/// The Clopper–Pearson upper bound: the true probability is above it with probability at most `level`, which is below
/// 0.15.
pub(crate) fn at_most(count: u64, trials: u64, level: f64) -> f64 {
    1.0 - at_least(trials - count, trials, level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} instead of {b}");
    }

    /// Compared with scipy 1.17 (`norm`, `chi2.sf`, `binom.sf`, `beta.ppf`), an independent implementation.
    #[test]
    fn values_are_those_of_another_library() {
        close(normal_cdf(0.3), 0.6179114221889526);
        close(normal_cdf(-1.7), 0.04456546275854304);
        close(normal_cdf(-6.0), 9.865876450376946e-10);
        close(normal_tail(5.5), 3.797912493177536e-08);
        close(normal_quantile(0.2), -0.8416212335729142);
        close(normal_quantile(1e-09), -5.9978070150076865);
        close(chi_square_tail(3.2, 4.0), 0.5249309467861041);
        close(chi_square_tail(90.0, 31.0), 1.1647783312436689e-07);
        close(chi_square_tail(2500.0, 2080.0), 4.420640001942757e-10);
        close(chi_square_tail(0.5, 7.5), 0.9997263409091075);
        close(chi_square_tail(130.0, 20.0), 3.8980275720926554e-18);
        close(binomial_at_least(3, 10, 0.2), 0.32220047360000015);
        close(binomial_at_most(3, 10, 0.2), 0.8791261183999999);
        close(binomial_at_least(10350, 20000, 0.5), 3.843334299037965e-07);
        close(binomial_at_most(10350, 20000, 0.5), 0.9999996426124066);
        close(binomial_at_least(700, 80000, 0.007), 5.960563636048848e-09);
        close(binomial_at_most(700, 80000, 0.007), 0.9999999952720543);
        close(at_least(3, 10, 0.001), 0.02103797132098684);
        close(at_most(3, 10, 0.001), 0.7953632779007102);
        close(at_least(9700, 20000, 1e-08), 0.46516660514248465);
        close(at_most(9700, 20000, 1e-08), 0.5048654329469331);
    }

    /// The tails of neighbouring counts add up, and the bounds have the coverage that defines them.
    #[test]
    fn binomial_tails_are_complementary_and_bounds_invert_them() {
        for (count, trials) in [(1, 10), (37, 200), (9_500, 20_000), (19_990, 20_000)] {
            for p in [0.01, 0.3, 0.48, 0.999] {
                let whole = binomial_at_least(count, trials, p) + binomial_at_most(count - 1, trials, p);
                assert!((whole - 1.0).abs() < 1e-10, "{count} of {trials} at {p}: {whole}");
            }
            for level in [1e-3, 1e-9] {
                close(binomial_at_least(count, trials, at_least(count, trials, level)), level);
                close(binomial_at_most(count, trials, at_most(count, trials, level)), level);
            }
        }
        assert_eq!(at_least(0, 100, 1e-6), 0.0);
        assert_eq!(at_most(100, 100, 1e-6), 1.0);
    }

    /// Where `statrs` alone would not return a probability: near the mean of very many trials, and next to that range.
    #[test]
    fn wide_laws_have_tails_too() {
        for (trials, p) in [(1_000_000u64, 0.5), (10_000_000, 0.3), (1_000_000_000, 0.5)] {
            let (mean, deviation) = (trials as f64 * p, (trials as f64 * p * (1.0 - p)).sqrt());
            let mut before = 1.0;
            for z in (-80..=80).map(|z| f64::from(z) / 10.0) {
                let tail = binomial_at_least((mean + z * deviation) as u64, trials, p);
                assert!((0.0..=before).contains(&tail), "{trials} trials at {z} deviations: {tail} after {before}");
                before = tail;
                let normal = normal_tail(z) / 2.0;
                let normal = if z < 0.0 { 1.0 - normal } else { normal };
                assert!(
                    z.abs() <= 1.0 || (tail / normal - 1.0).abs() < 0.1,
                    "{trials} trials at {z} deviations: {tail}"
                );
            }
            for level in [0.03, 1e-6, 1e-9, 1e-12] {
                let back = binomial_at_least(mean as u64, trials, at_least(mean as u64, trials, level));
                assert!((back / level - 1.0).abs() < 1e-4, "{trials} trials: {back} instead of {level}");
            }
        }
    }
}
