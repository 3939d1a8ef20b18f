//! Every step of the proofs, compared with probabilities from the three-term recurrence of the Bessel functions alone.

use super::*;
use crate::privacy::{Delta, Epsilon};

/// The law of Skellam noise: `ln p_k` and `θ_k` for `0 ≤ k ≤ reach`, by Miller's backward recurrence; all probabilities
/// sum to 1.
struct Law {
    log_p: Vec<f64>,
    theta: Vec<f64>,
}

impl Law {
    fn new(variance: f64, reach: usize) -> Self {
        // `I_{k-1}/I_k = 2k/μ + I_{k+1}/I_k`: an error shrinks by the square of this ratio in every step.
        let start = reach + 20 * (variance.sqrt() as usize) + 100;
        let mut ratios = vec![1.0; start + 1];
        for k in (1..start).rev() {
            ratios[k] = 2.0 * k as f64 / variance + 1.0 / ratios[k + 1];
        }
        let theta: Vec<f64> = ratios[1..=reach + 1].iter().map(|ratio| libm::log(*ratio)).collect();
        let mut log_p = vec![0.0];
        for step in &theta[..reach] {
            log_p.push(log_p[log_p.len() - 1] - step);
        }
        let total: f64 = 2.0 * log_p.iter().rev().map(|log| libm::exp(*log)).sum::<f64>() - 1.0;
        log_p.iter_mut().for_each(|log| *log -= libm::log(total));
        Self { log_p, theta }
    }

    fn reach(&self) -> i64 {
        self.log_p.len() as i64 - 1
    }

    fn log_p(&self, k: i64) -> f64 {
        self.log_p[k.unsigned_abs() as usize]
    }

    fn p(&self, k: i64) -> f64 {
        libm::exp(self.log_p(k))
    }

    fn theta(&self, k: i64) -> f64 {
        if k >= 0 { self.theta[k as usize] } else { -self.theta[(-1 - k) as usize] }
    }

    /// All values whose neighbours at distance `margin` also have a probability.
    fn support(&self, margin: i64) -> std::ops::RangeInclusive<i64> {
        margin - self.reach()..=self.reach() - margin
    }

    /// `ln E e^{β(F - c)}` for the loss `F(Z)` of the shift `d`.
    fn log_moment(&self, d: i64, beta: f64, centre: f64) -> f64 {
        let loss = |k: i64| beta * (self.log_p(k) - self.log_p(k + d) - centre);
        let largest = (-self.reach()..=self.reach() - d).map(|k| self.log_p(k) + loss(k)).fold(0.0, f64::max);
        // Around 1 without cancellation, far from it without overflow.
        let term = |k: i64| match loss(k) {
            x if largest > 3.0 => libm::exp(self.log_p(k) + x - largest),
            x if x < 1.0 => self.p(k) * libm::expm1(x),
            x => libm::exp(self.log_p(k) + x) - self.p(k),
        };
        let sum: f64 = (-self.reach()..=self.reach() - d).map(term).sum();
        let ends = term(-self.reach()).abs().max(term(self.reach() - d).abs());
        assert!(ends < 1e-13 * sum.abs(), "cut too early: d = {d}, β = {beta}");
        if largest > 3.0 { largest + libm::log(sum) } else { libm::log1p(sum) }
    }

    /// `D_{1+β}(Z + d ‖ Z)`.
    fn divergence(&self, d: i64, beta: f64) -> f64 {
        self.log_moment(d, beta, 0.0) / beta
    }
}

fn whole(variance: u128) -> Ratio {
    Ratio::new(variance, 1).unwrap()
}

fn shift(squared: f64) -> IntegerShift {
    IntegerShift::from_integers(squared).unwrap()
}

/// The recurrence gives known values: `I_0(1), I_1(1), I_5(10)` and the start of the barrier of fact (b), `y_0(4)`.
#[test]
fn the_reference_law_is_right() {
    let near = |value: f64, want: f64| assert!((value / want - 1.0).abs() < 1e-13, "{value} {want}");
    let one = Law::new(1.0, 30);
    near(one.p(0) * 1f64.exp(), 1.266_065_877_752_008_3);
    near(one.p(1) * 1f64.exp(), 0.565_159_103_992_485);
    near(Law::new(10.0, 90).p(5) * 10f64.exp(), 777.188_286_403_26);
    let four = Law::new(4.0, 60);
    assert!(4.0 * four.p(1) / four.p(0) > 3.454);
}

#[test]
fn bessel_ratios_keep_their_bounds() {
    for variance in [4.0, 64.0, 100.0, 1e3, 3e4] {
        let law = Law::new(variance, 30 * variance as usize);
        for k in 0..law.reach() {
            let (theta, bound) = (law.theta(k), libm::asinh((k as f64 + 0.5) / variance));
            assert!(bound <= theta * (1.0 + 1e-15), "(a) from below, μ = {variance}, k = {k}");
            assert!(theta <= bound * (1.0 + 2.0 / variance), "(a) from above, μ = {variance}, k = {k}");
            let step = theta - law.theta(k - 1);
            let most = (1.0 + 1.0 / variance) / variance;
            assert!(step > 0.0 && step <= most, "(b), μ = {variance}, k = {k}: {step} {most}");
        }
        // (b) is almost tight.
        assert!((law.theta(0) - law.theta(-1)) * variance > 1.0);
    }
}

/// The orders at which the divergence is tried, as `β = α - 1`.
const BETAS: [f64; 12] = [1e-3, 0.03, 0.3, 1.0, 1.7, 4.0, 10.0, 33.3, 100.0, 1e3, 1e4, 1e5];

/// The shifts: small ones, around the standard deviation, around the variance.
fn shifts(variance: f64) -> [i64; 9] {
    let deviation = variance.sqrt() as i64;
    let variance = variance as i64;
    [1, 2, 5, deviation / 2, deviation, 3 * deviation, variance / 4, variance, 4 * variance]
}

#[test]
fn the_divergence_keeps_the_theorem() {
    let mut tried = 0;
    for variance in [64.0, 65.5, 200.0, 1e3] {
        let law = Law::new(variance, 60 * variance as usize);
        for d in shifts(variance) {
            for beta in BETAS {
                // The tilted law is around μ sinh t, t cosh t = αd/μ: up to 17 μ here.
                let t = (1.0 + beta) * d as f64 / variance;
                if t > 100.0 {
                    continue;
                }
                tried += 1;
                let divergence = law.divergence(d, beta);
                let bound = rho_of(variance, d) * (1.0 + beta);
                assert!(divergence <= bound, "μ = {variance}, d = {d}, β = {beta}: {divergence} {bound}");
                // As long as the loss is nearly linear the bound is reached.
                if t * t < 0.1 && d * d < variance as i64 {
                    let lost = bound / divergence - 1.0;
                    let logarithm = libm::log(variance) / (variance - libm::log(variance));
                    assert!(lost < logarithm + t * t / 4.0, "μ = {variance}, d = {d}, β = {beta}: {lost}");
                }
            }
        }
    }
    assert!(tried > 250, "{tried}");
}

fn rho_of(variance: f64, d: i64) -> f64 {
    rho(Ratio::from_f64(variance).unwrap(), shift((d * d) as f64)).unwrap()
}

#[test]
fn the_two_halves_of_the_proof_hold() {
    for variance in [64.0, 300.0, 2e3] {
        let law = Law::new(variance, 40 * variance as usize);
        let step = (1.0 + 1.0 / variance) / variance;
        for d in shifts(variance) {
            let mean: f64 =
                (-law.reach()..=law.reach() - d).map(|k| law.p(k) * (law.log_p(k) - law.log_p(k + d))).sum();
            let (size, limit) = (d as f64, (d * d) as f64 * step / 2.0);
            assert!(mean <= limit * (1.0 + 1e-12), "mean, μ = {variance}, d = {d}: {mean} {limit}");
            for beta in BETAS {
                let (w, kappa) = (beta * size * step, 1.0 + 2.0 / variance);
                if w > 2.0 {
                    continue;
                }
                // Centred, so that a small β does not cancel.
                let centred = law.log_moment(d, beta, mean);
                let half = libm::sinh(w / 2.0);
                assert!(centred <= 2.0 * variance * half * half * (1.0 + 1e-9), "μ = {variance}, d = {d}, β = {beta}");
                let (mut low, mut high) = (0.0, 10.0);
                while high - low > 1e-13 {
                    let t = (low + high) / 2.0;
                    if variance * t * libm::cosh(t) < kappa * beta * size { low = t } else { high = t }
                }
                let (t, sinh, cosh) = (high, libm::sinh(high), libm::cosh(high));
                let psi = t * t * cosh - t * sinh + cosh - 1.0;
                let exponent = variance * psi + t * size / 2.0;
                let direct = law.log_moment(d, beta, 0.0);
                let bound = exponent + libm::log1p(libm::exp(-exponent));
                assert!(
                    direct <= bound * (1.0 + 1e-12),
                    "tangent, μ = {variance}, d = {d}, β = {beta}: {direct} {bound}"
                );
            }
        }
    }
}

/// `E (Π R_n - e^ε)₊` of two nodes, whose likelihood ratios are given as pairs of probability and logarithm.
fn hockey_stick(first: &[(f64, f64)], second: &[(f64, f64)], epsilon: f64) -> f64 {
    let mut sum = 0.0;
    for (p, a) in first {
        for (q, b) in second {
            let above = a + b - epsilon;
            if above > 0.0 {
                sum += p * q * libm::exp(epsilon) * libm::expm1(above);
            }
        }
    }
    sum
}

fn ratios(law: &Law, d: i64) -> Vec<(f64, f64)> {
    let kept = law.support(d).filter(|k| law.log_p(*k) > -60.0 || law.log_p(*k - d) > -60.0);
    kept.map(|k| (law.p(k), law.log_p(k - d) - law.log_p(k))).collect()
}

/// Step 1 of the comparison: the likelihood ratio compared with the exponential of the noise itself.
#[test]
fn the_linear_loss_dominates() {
    for variance in [64.0, 700.0] {
        let law = Law::new(variance, 6 * variance as usize);
        let nothing = [(1.0, 0.0)];
        for d in [1i64, 3, 8, 20] {
            let slope = d as f64 * (1.0 + 1.0 / variance) / variance;
            let drift = variance * (libm::cosh(slope) - 1.0);
            let linear: Vec<_> = law.support(d).map(|k| (law.p(k), slope * k as f64 - drift)).collect();
            let own = ratios(&law, d);
            for sigmas in [-3.0, -1.0, 0.0, 0.5, 1.0, 2.0, 4.0, 6.0] {
                let epsilon = sigmas * d as f64 / variance.sqrt();
                let (delta, bound) = (hockey_stick(&own, &nothing, epsilon), hockey_stick(&linear, &nothing, epsilon));
                assert!(delta <= bound, "μ = {variance}, d = {d}, ε = {epsilon}: {delta} {bound}");
            }
        }
    }
}

/// Step 2: the weight of the tails of the exponential, at the largest shift that the theorem allows.
#[test]
fn the_tails_are_as_light_as_claimed() {
    for variance in [64.0, 700.0, 1e4] {
        let law = Law::new(variance, 6 * variance as usize);
        for (w, part) in [(0.1f64, 0.0), (0.1, 0.5), (0.3, 0.2), (0.3, 0.9), (0.9, 0.1), (0.9, 0.6)] {
            let slope = part * w;
            let h = (1.0 + w * w).sqrt() - libm::cosh(slope) - (libm::asinh(w) - slope) * w;
            // Far below 1e-300 nothing can be checked.
            if variance * h < -300.0 {
                continue;
            }
            let drift = variance * (libm::cosh(slope) - 1.0);
            let outside = law.support(0).filter(|k| k.unsigned_abs() as f64 >= w * variance);
            let weight: f64 = outside.map(|k| libm::exp(law.log_p(k) + slope * k as f64 - drift)).sum();
            assert!(weight > 0.0 && weight <= 2.0 * libm::exp(variance * h), "μ = {variance}, w = {w}: {weight}");
        }
    }
}

/// The inequalities between elementary functions and the numbers in the proofs.
#[test]
fn elementary_steps() {
    for i in 1..4000 {
        let t = f64::from(i) * 2e-3;
        let (sinh, cosh) = (libm::sinh(t), libm::cosh(t));
        let psi = t * t * cosh - t * sinh + cosh - 1.0;
        assert!(psi >= t * t / 2.0 - 1e-14, "ψ({t})");
        assert!(t * t * cosh * cosh / 2.0 - psi >= t * t * t * t / 8.0 - 1e-14, "square less ψ({t})");
        assert!(cosh - 1.0 <= t * t / 2.0 * libm::exp(t * t / 12.0) + 1e-15, "cosh {t}");
        assert!(t > 1.0 || cosh - 1.0 <= 0.5431 * t * t + 1e-15, "cosh {t}");
    }
    for i in 0..500 {
        let log = libm::log(64.0) + 0.2 * f64::from(i);
        let mu = libm::exp(log);
        let t = libm::sqrt(2.0 * log / mu);
        let factor = 1.0 / (1.0 - log / mu);
        let small = (1.0 + 1.0 / mu) * (1.0 + 1.0 / mu) * libm::exp(t * t * libm::cosh(t) * libm::cosh(t) / 12.0);
        assert!(small <= factor && (1.0 + 2.0 / mu) * (1.0 + 2.0 / mu) <= factor, "{mu}");
        assert!(libm::exp(-mu * t * t / 2.0) <= mu * t * t * t * t / 8.0 * (1.0 + 1e-12), "{mu}");
        // Fact (b): the larger of the two T, and its consequence.
        let large = 1.0 / mu + 0.25 / (mu * mu);
        assert!(-libm::log1p(-large) <= (1.0 + 1.0 / mu) / mu, "{mu}");
    }
}

/// Step 3: the quotient of the truncated law and the discrete Gaussian falls.
#[test]
fn the_discrete_gaussian_has_the_heavier_shoulders() {
    for variance in [64.0, 1e3, 1e5] {
        let law = Law::new(variance, 2 * variance as usize);
        for w in [0.9, 0.5, libm::sqrt(60.0 / variance).min(1.0)] {
            let (reach, xi) = (w * variance, w / libm::asinh(w) - 1.0);
            let parameter = variance * (1.0 + xi);
            let quotient = |k: i64| law.log_p(k) + (k * k) as f64 / (2.0 * parameter);
            for k in (0..).take_while(|k| ((k + 1) as f64) < reach) {
                assert!(quotient(k + 1) <= quotient(k) + 1e-12, "μ = {variance}, ξ = {xi}, k = {k}");
            }
        }
    }
}

/// The whole theorem about (ε, δ), with one node and with two of different weights.
#[test]
fn the_curve_is_above_the_true_one() {
    let check = |variance: u128, shift: IntegerShift, true_delta: &dyn Fn(f64) -> f64| {
        for sigmas in [0.5, 1.0, 2.0, 3.0, 4.5] {
            let spread = (shift.squared() / variance as f64).sqrt();
            let epsilon = Epsilon::new(sigmas * spread + spread * spread / 2.0).unwrap();
            let want = true_delta(epsilon.get());
            let found = delta(whole(variance), shift, epsilon).unwrap();
            assert!(want <= found, "μ = {variance}, {shift:?}, {epsilon:?}: {want} {found}");
            if let Some(compared) = approximate::delta(whole(variance), shift, epsilon) {
                assert!(want <= compared, "μ = {variance}, {shift:?}, {epsilon:?}: {want} {compared}");
            }
            let near = if variance < 10_000 { 3.0 } else { 1.3 };
            assert!(
                variance < 1000 || found < near * want,
                "loose, μ = {variance}, {shift:?}, {epsilon:?}: {want} {found}"
            );
            let back = super::epsilon(whole(variance), shift, Delta::new(found).unwrap()).unwrap();
            assert!(true_delta(back) <= found && back < epsilon.get() * 1.1, "{epsilon:?} {back}");
        }
    };
    for variance in [64u128, 1000, 30_000] {
        let law = Law::new(variance as f64, 3 * variance as usize);
        for d in [1i64, 4, 20] {
            let own = ratios(&law, d);
            let one = IntegerShift::new((d * d) as f64, 1.0).unwrap();
            check(variance, one, &|epsilon| hockey_stick(&own, &[(1.0, 0.0)], epsilon));
        }
    }
    // A node of weight 1 shifted by 3 and one of weight 2 shifted by 4: Σ d²/λ² = 9 + 4.
    let (first, second) = (ratios(&Law::new(100.0, 300), 3), ratios(&Law::new(400.0, 900), 4));
    check(100, shift(13.0), &|epsilon| hockey_stick(&first, &second, epsilon));
}

/// The certified variance is above the least by a logarithm, whatever the variance: with `ln(2/δ) + 4` less the exact
/// sum exceeds δ. From 2^34 on, where plans begin, that is below 3 parts in 10^9.
#[test]
fn the_certified_variance_is_near_the_least() {
    for variance in [1000u128, 20_000] {
        for (size, sigmas) in [(1i64, 1.0), (1, 4.0), (10, 2.5)] {
            let shift = IntegerShift::new((size * size) as f64, 1.0).unwrap();
            let epsilon = sigmas * size as f64 / (variance as f64).sqrt();
            let certified = delta(whole(variance), shift, Epsilon::new(epsilon).unwrap()).unwrap();
            let exact = |less: f64| {
                let variance = variance as f64 - less;
                let law = Law::new(variance, 12 * variance.sqrt() as usize);
                hockey_stick(&ratios(&law, size), &[(1.0, 0.0)], epsilon)
            };
            let logarithm = libm::log(2.0 / certified) + 4.0;
            assert!(exact(0.0) <= certified, "μ = {variance}, d = {size}, ε = {epsilon}: {certified:e}");
            assert!(exact(logarithm) > certified, "μ = {variance}, d = {size}, ε = {epsilon}: {certified:e}");
        }
    }
}

#[test]
fn in_place_of_a_gaussian_a_logarithm_is_added() {
    let mut last = whole(1);
    for exponent in 7..124 {
        for numerator in [1u128 << exponent, (1 << exponent) + 1, 3 << (exponent - 1)] {
            let variance = variance_in_place_of(whole(numerator)).unwrap();
            assert!(variance >= last, "falls at {numerator}");
            last = variance;
            let (added, logarithm) = ((variance.numerator() - numerator) as f64, libm::log(variance.to_f64()));
            assert!(added >= logarithm && added <= 1.02 * logarithm + 2.0, "{numerator} {added}");
            for denominator in [3u128, 7] {
                // Exact: an integer is added.
                let gaussian = Ratio::new(numerator, denominator).unwrap();
                let Ok(variance) = variance_in_place_of(gaussian) else { continue };
                assert_eq!(gaussian.denominator(), variance.denominator());
                let added = variance.numerator() - gaussian.numerator();
                assert_eq!(added % variance.denominator(), 0);
                assert!((added / variance.denominator()) as f64 >= libm::log(variance.to_f64()));
            }
        }
    }
    assert!(variance_in_place_of(whole(50)).is_err());
    assert!(variance_in_place_of(whole(64)).is_ok());
    assert!(variance_in_place_of(whole(u128::MAX)).is_err());
    assert!(variance_in_place_of(Ratio::new(u128::MAX, 1 << 64).unwrap()).is_err());
}

#[test]
fn budgets_are_kept_and_used_up() {
    for squared in [1e9, 3.7e14, 1e18, 1e24] {
        let shift = shift(squared);
        for (epsilon, delta) in [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-12), (4.0, 1e-9), (15.0, 1e-5)] {
            let (epsilon, delta) = (Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap());
            let variance = variance_for(&Budget::Approximate(epsilon, delta), shift).unwrap();
            assert!(super::delta(variance, shift, epsilon).unwrap() <= delta.get() * (1.0 + 1e-9));
            let least = squared / conversions::mu_for(epsilon, delta).powi(2);
            let excess = variance.to_f64() - least;
            assert!(excess > 0.0 && excess < 60.0 + 7e-8 * least, "{squared} {epsilon:?} {delta:?} {excess}");
            let by_zcdp = variance_for(&Budget::Zcdp(conversions::rho_for(epsilon, delta)), shift).unwrap();
            assert!(variance < by_zcdp);
        }
        // Only the logarithm of the number of variables counts.
        let (epsilon, least) = (Epsilon::new(1.0).unwrap(), Delta::new(1e-200).unwrap());
        let many = IntegerShift::new(squared, 1e38).unwrap();
        let (few, many) = (super::epsilon(whole(1 << 100), shift, least), super::epsilon(whole(1 << 100), many, least));
        assert!((many.unwrap() / few.unwrap() - 1.0).abs() < 1e-9);
        assert!(super::delta(whole(1 << 100), shift, epsilon).unwrap() < 1e-300);
        for budget in [1e-3, 0.5, 8.0] {
            let variance = variance_for(&Budget::Zcdp(Rho::new(budget).unwrap()), shift).unwrap();
            let spent = rho(variance, shift).unwrap();
            assert!(spent <= budget && spent > budget * (1.0 - 2e-7), "{squared} {budget} {spent}");
        }
    }
}

#[test]
fn what_is_not_certified_is_refused() {
    let one = shift(1.0);
    let message = rho(whole(63), one).unwrap_err().to_string();
    assert!(message.contains("refine the grid"), "{message}");
    assert!(epsilon(whole(63), one, Delta::new(1e-6).unwrap()).is_err());
    assert!(variance_for(&Budget::Zcdp(Rho::new(1.0).unwrap()), one).is_err());
    assert!(variance_for(&Budget::Pure(Epsilon::new(1.0).unwrap()), shift(1e20)).is_err());
    for (squared, variables) in [(0.0, 1.0), (f64::NAN, 1.0), (f64::INFINITY, 1.0), (1.0, 0.5), (1.0, 1e39)] {
        assert!(IntegerShift::new(squared, variables).is_err());
    }
}

/// Not a bit less than in the theorem, from the smallest variance on.
#[test]
fn rho_is_that_of_the_theorem() {
    for variance in [64u32, 100, 1 << 20] {
        let exact = 1e3 / (2.0 * (f64::from(variance) - libm::log(f64::from(variance))));
        let found = rho(whole(variance.into()), shift(1e3)).unwrap();
        assert!(found >= exact && found <= exact * (1.0 + 1e-12), "{variance}: {found} {exact}");
    }
}
