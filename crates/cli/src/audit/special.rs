//! The special functions behind p-values and confidence bounds: normal, χ² and binomial tails.
//!
//! Tails are computed directly, never as one minus something near one, so that small p-values keep their relative accuracy.

use std::f64::consts::SQRT_2;

/// P(Z ≤ x) of the standard normal law.
pub(super) fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / SQRT_2)
}

/// P(|Z| ≥ |z|) of the standard normal law.
pub(super) fn normal_tail(z: f64) -> f64 {
    libm::erfc(z.abs() / SQRT_2)
}

/// The `x` with P(Z ≤ x) = `p`; ±∞ at 1 and 0.
pub(super) fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return if p <= 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    bisect(-40.0, 40.0, |x| normal_cdf(x) < p)
}

/// The place in `low ..= high` where a condition that holds below it stops holding.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..70 {
        let middle = low + (high - low) / 2.0;
        if below(middle) { low = middle } else { high = middle }
    }
    low + (high - low) / 2.0
}

/// Terms after which a series or fraction is given up; they need about the root of their largest argument.
const MOST_TERMS: u32 = 1_000_000;
/// Relative accuracy of series and fractions.
const ACCURACY: f64 = 1e-14;

/// P(χ² ≥ `x`) with `freedom` degrees of freedom, which need not be whole.
pub(super) fn chi_square_tail(x: f64, freedom: f64) -> f64 {
    let (x, a) = (x / 2.0, freedom / 2.0);
    if x <= 0.0 {
        return 1.0;
    }
    let front = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    if x < a + 1.0 {
        // The lower tail: x^a e^-x / Γ(a) · Σ x^n / (a (a+1) … (a+n)).
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..MOST_TERMS {
            term *= x / (a + f64::from(n));
            sum += term;
            if term < sum * ACCURACY {
                break;
            }
        }
        (1.0 - front * sum).clamp(0.0, 1.0)
    } else {
        // The upper tail as a continued fraction: 1/(x+1-a- 1(1-a)/(x+3-a- 2(2-a)/(x+5-a- …))).
        let step = |n: u32| (-f64::from(n) * (f64::from(n) - a), x + 1.0 - a + 2.0 * f64::from(n));
        (front / fraction(x + 1.0 - a, step)).clamp(0.0, 1.0)
    }
}

/// `b0 + a1/(b1 + a2/(b2 + …))` by Lentz's method; `step(n)` is `(a_n, b_n)`.
fn fraction(b0: f64, step: impl Fn(u32) -> (f64, f64)) -> f64 {
    const TINY: f64 = 1e-300;
    let nonzero = |x: f64| if x.abs() < TINY { TINY } else { x };
    let mut value = nonzero(b0);
    let (mut c, mut d) = (value, 0.0);
    for n in 1..MOST_TERMS {
        let (a, b) = step(n);
        d = 1.0 / nonzero(b + a * d);
        c = nonzero(b + a / c);
        value *= c * d;
        if (c * d - 1.0).abs() < ACCURACY {
            break;
        }
    }
    value
}

/// The regularised incomplete beta function `I_x(a, b)`, `a, b > 0`.
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let log_front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log1p(-x);
    let tail = |x: f64, a: f64, b: f64| {
        let term = |n: u32| {
            let m = f64::from(n / 2);
            let top = if n.is_multiple_of(2) {
                m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
            } else {
                -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
            };
            (top, 1.0)
        };
        libm::exp(log_front) / (a * fraction(1.0, term))
    };
    if x < (a + 1.0) / (a + b + 2.0) { tail(x, a, b) } else { 1.0 - tail(1.0 - x, b, a) }
}

/// P(K ≥ `count`) of a binomial law.
pub(super) fn binomial_at_least(count: u64, trials: u64, p: f64) -> f64 {
    if count == 0 { 1.0 } else { beta(p, count as f64, (trials - count) as f64 + 1.0) }
}

/// P(K ≤ `count`) of a binomial law.
pub(super) fn binomial_at_most(count: u64, trials: u64, p: f64) -> f64 {
    if count >= trials { 1.0 } else { beta(1.0 - p, (trials - count) as f64, count as f64 + 1.0) }
}

/// The Clopper–Pearson lower bound: the true probability is below it with chance at most `level`.
pub(super) fn at_least(count: u64, trials: u64, level: f64) -> f64 {
    if count == 0 {
        0.0
    } else {
        bisect(0.0, count as f64 / trials as f64, |p| binomial_at_least(count, trials, p) < level)
    }
}

/// The Clopper–Pearson upper bound: the true probability is above it with chance at most `level`.
pub(super) fn at_most(count: u64, trials: u64, level: f64) -> f64 {
    1.0 - at_least(trials - count, trials, level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} instead of {b}");
    }

    /// Against scipy 1.17 (`norm`, `chi2.sf`, `binom.sf`, `beta.ppf`), whose code is another.
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

    /// The tails of neighbouring counts add up, and the bounds have the coverage they are defined by.
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
}
