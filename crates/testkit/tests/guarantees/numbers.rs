//! Numbers computed independently of the library: exact fractions, normal tails, conversions, and laws by
//! summation.

use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};

/// The decimal number that a text or a double is written as: `0.1` is a tenth.
pub(crate) fn decimal(text: &str) -> BigRational {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = BigRational::from_integer(format!("{whole}{fraction}").parse().expect("digits"));
    let places = exponent.parse::<i32>().expect("an exponent") - fraction.len() as i32;
    digits * BigRational::from_integer(10.into()).pow(places)
}

/// The decimal number that a double prints as.
pub(crate) fn shown(number: f64) -> BigRational {
    decimal(&format!("{number:e}"))
}

/// A double, to its last bit.
pub(crate) fn exact(number: f64) -> BigRational {
    BigRational::from_float(number).expect("finite")
}

pub(crate) fn whole(number: u64) -> BigRational {
    BigRational::from_integer(number.into())
}

pub(crate) fn near(number: &BigRational) -> f64 {
    number.to_f64().expect("a double")
}

pub(crate) fn sum(of: impl Iterator<Item = BigRational>) -> BigRational {
    of.fold(BigRational::zero(), |sum, term| sum + term)
}

pub(crate) fn half_square(of: &BigRational) -> BigRational {
    of * of / (BigRational::one() + BigRational::one())
}

/// `P[N ≥ x]` of a standard normal variable.
pub(crate) fn above(x: f64) -> f64 {
    0.5 * libm::erfc(x / std::f64::consts::SQRT_2)
}

/// `ln P[N ≥ x]`, also if the probability underflows.
fn ln_above(x: f64) -> f64 {
    if x < 30.0 {
        return above(x).ln();
    }
    let y = x * x;
    // The asymptotic series, right to 10⁻¹¹ from 30 on.
    let series = (((105.0 / y - 15.0) / y + 3.0) / y - 1.0) / y;
    -0.5 * y - (x * (2.0 * std::f64::consts::PI).sqrt()).ln() + series.ln_1p()
}

/// `δ(ε)` of two normal laws at distance `μ`: `Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)`.
pub(crate) fn delta_of_gaussian(mu: f64, epsilon: f64) -> f64 {
    let (a, b) = (epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0);
    (ln_above(a).exp() - (epsilon + ln_above(b)).exp()).max(0.0)
}

/// The smallest ε at which that is at most δ.
pub(crate) fn epsilon_of_gaussian(mu: f64, delta: f64) -> f64 {
    bisected(|epsilon| delta_of_gaussian(mu, epsilon) <= delta)
}

/// The smallest ε that ρ-zCDP implies at δ: the infimum over Rényi orders α of
/// `ρα + (ln(1/δ) + (α − 1) ln(1 − 1/α) − ln α) / (α − 1)`, and not below 0.
pub(crate) fn epsilon_of_rho(rho: f64, delta: f64) -> f64 {
    let at = |t: f64| {
        let (less, alpha) = (t.exp(), 1.0 + t.exp()); // α − 1 and α
        rho * alpha + (-delta.ln() + less * (-1.0 / alpha).ln_1p() - alpha.ln()) / less
    };
    let (mut low, mut high) = (-30.0f64, 30.0f64);
    for _ in 0..200 {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if at(left) < at(right) { high = right } else { low = left }
    }
    at(low).min(at(high)).max(0.0)
}

/// The smallest number of `0 ..` at which a condition holds, which then holds for all larger ones.
pub(crate) fn bisected(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    if holds(0.0) {
        return 0.0;
    }
    while !holds(high) {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

/// The law of an integer, from `-of.len() / 2` on.
#[derive(Clone)]
pub(crate) struct Law(Vec<f64>);

impl Law {
    /// Discrete Laplace noise: `P[z] ∝ e^{−|z|/scale}`.
    pub(crate) fn laplace(scale: f64) -> Self {
        Self::from_weights((40.0 * scale).ceil() as i64, |z| (-(z.abs() as f64) / scale).exp())
    }

    /// Discrete Gaussian noise: `P[z] ∝ e^{−z²/(2σ²)}`.
    pub(crate) fn gaussian(variance: f64) -> Self {
        Self::from_weights((10.0 * variance.sqrt()).ceil() as i64 + 1, |z| (-((z * z) as f64) / (2.0 * variance)).exp())
    }

    fn from_weights(most: i64, weight: impl Fn(i64) -> f64) -> Self {
        let weights: Vec<f64> = (-most..=most).map(weight).collect();
        let total: f64 = weights.iter().sum();
        Self(weights.into_iter().map(|weight| weight / total).collect())
    }

    fn most(&self) -> i64 {
        self.0.len() as i64 / 2
    }

    pub(crate) fn variance(&self) -> f64 {
        (-self.most()..).zip(&self.0).map(|(z, p)| (z * z) as f64 * p).sum()
    }

    /// The law of the sum of two independent ones.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut sum = vec![0.0; self.0.len() + other.0.len() - 1];
        for (place, p) in self.0.iter().enumerate() {
            for (more, q) in other.0.iter().enumerate() {
                sum[place + more] += p * q;
            }
        }
        Self(sum)
    }

    /// `P[|Z| ≤ q]`.
    pub(crate) fn within(&self, q: i64) -> f64 {
        (-self.most()..).zip(&self.0).filter(|(z, _)| z.abs() <= q).map(|(_, p)| p).sum()
    }
}

/// `δ(ε)` of discrete Laplace noise of this scale under integer shifts: the loss of a shift by `s` is
/// `(|z − s| − |z|)/λ`, an integer multiple of `1/λ`, so that losses add up exactly.
pub(crate) fn delta_of_laplace(scale: f64, shifts: &[i64], epsilon: f64) -> f64 {
    let noise = Law::laplace(scale);
    let mut losses = std::collections::BTreeMap::from([(0i64, 1.0f64)]);
    for shift in shifts.iter().filter(|shift| **shift != 0) {
        let mut of_one = std::collections::BTreeMap::<i64, f64>::new();
        for (z, p) in (-noise.most()..).zip(&noise.0) {
            *of_one.entry((z - shift).abs() - z.abs()).or_default() += p;
        }
        let mut next = std::collections::BTreeMap::<i64, f64>::new();
        for (loss, p) in &losses {
            for (more, q) in &of_one {
                *next.entry(loss + more).or_default() += p * q;
            }
        }
        losses = next;
    }
    let over = |(loss, p): (&i64, &f64)| {
        let loss = *loss as f64 / scale;
        if loss > epsilon { p * -(epsilon - loss).exp_m1() } else { 0.0 }
    };
    losses.iter().map(over).sum()
}

#[test]
fn known_figures() {
    assert!((above(1.959_963_984_540_054) - 0.025).abs() < 1e-15);
    assert!((ln_above(29.999_999) - ln_above(30.0)).abs() < 1e-4);
    assert!((ln_above(30.0) - above(30.0).ln()).abs() < 1e-10);
    // Balle and Wang 2018: σ = 1/μ for ε = 1 and δ = 10⁻⁵ is 3.730632.
    assert!((epsilon_of_gaussian(1.0 / 3.730_631_634_944_469, 1e-5) - 1.0).abs() < 1e-6);
    // Bun and Steinke 2016: never above ρ + 2 √(ρ ln(1/δ)).
    for (rho, delta) in [(0.1, 1e-6), (1.0, 1e-9), (0.001, 1e-3)] {
        let simple = rho + 2.0 * (rho * f64::ln(1.0 / delta)).sqrt();
        let least = epsilon_of_rho(rho, delta);
        assert!(least < simple && least > epsilon_of_gaussian((2.0 * rho).sqrt(), delta), "{rho} {delta}: {least}");
    }
    // One event under Laplace noise: exactly ε.
    assert!(delta_of_laplace(2.0, &[1], 0.5) < 1e-12 && delta_of_laplace(2.0, &[1], 0.4) > 0.01);
    assert!((Law::laplace(3.0).within(1000) - 1.0).abs() < 1e-12);
    assert_eq!(decimal("1.25e-3"), BigRational::new(1.into(), 800.into()));
}
