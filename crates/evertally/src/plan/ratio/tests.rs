//! Intervals of ratios compared with exact laws and by simulation.

use super::*;
use crate::number::special::normal_cdf;
use crate::plan::PlanRequest;
use crate::privacy::{Budget, Epsilon, Rho};

/// Uniform numbers in (0, 1): SplitMix64, for tests alone.
struct Uniform(u64);

impl Uniform {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON / 4.0
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.next().ln()).sqrt() * (2.0 * std::f64::consts::PI * self.next()).cos()
    }

    fn laplace(&mut self) -> f64 {
        let size = -self.next().ln();
        if self.next() < 0.5 { size } else { -size }
    }
}

/// A Laplace variable of this scale.
fn laplace(scale: f64) -> NoiseMoments {
    NoiseMoments { variance: 2.0 * scale.powi(2), fourth: 12.0 * scale.powi(4) }
}

fn holds(set: RatioSet, theta: f64) -> bool {
    match set {
        RatioSet::Between(low, high) => low <= theta && theta <= high,
        RatioSet::Outside(low, high) => theta <= low || theta >= high,
        RatioSet::Everything => true,
    }
}

/// The allowed distance of a share of this many trials from a probability, at a significance level of 10⁻⁶ (4.9
/// standard deviations).
fn allowed(probability: f64, trials: u32) -> f64 {
    4.9 * (probability * (1.0 - probability) / f64::from(trials)).sqrt()
}

#[test]
fn gaussian_sets_hold_as_often_as_they_say_however_small_the_denominator() {
    const TRIALS: u32 = 40_000;
    let mut random = Uniform(1);
    for (place, (b, theta, correlation)) in
        [(0.0, 0.0, 0.0), (0.5, 3.0, 0.5), (2.0, -1.0, -0.7), (5.0, 0.3, 0.9), (50.0, 7.0, 0.0)].into_iter().enumerate()
    {
        for confidence in [0.8, 0.95] {
            let mut intervals = RatioIntervals::new(confidence).unwrap();
            let (mut held, mut bounded) = (0u32, 0u32);
            for _ in 0..TRIALS {
                let (z, own) = (random.normal(), random.normal());
                let w = correlation * z + (1.0f64 - correlation * correlation).sqrt() * own;
                // Standard deviations 2 and 1.
                let pair = NoisyPair::gaussian([theta * b + 2.0 * z, b + w], [4.0, 1.0], 2.0 * correlation);
                let set = intervals.of(&pair);
                held += u32::from(holds(set, theta));
                bounded += u32::from(matches!(set, RatioSet::Between(..)));
            }
            let share = f64::from(held) / f64::from(TRIALS);
            assert!((share - confidence).abs() < allowed(confidence, TRIALS), "{place}: {share} at {confidence}");
            // The set is an interval as often as the denominator is beyond its own quantile.
            let z = intervals.half_width(NoiseMoments::gaussian(1.0));
            let beyond = normal_cdf(b - z) + normal_cdf(-b - z);
            let share = f64::from(bounded) / f64::from(TRIALS);
            assert!((share - beyond).abs() <= allowed(beyond, TRIALS) + 1e-9, "{place}: {share} and {beyond}");
        }
    }
}

#[test]
fn laplace_sets_hold_as_often_as_they_say() {
    const TRIALS: u32 = 40_000;
    let mut random = Uniform(2);
    for (b, theta) in [(0.0, 0.0), (1.0, 2.0), (6.0, 0.5), (60.0, -3.0)] {
        let mut intervals = RatioIntervals::new(0.95).unwrap();
        let held = (0..TRIALS).filter(|_| {
            let a = theta * b + 2.0 * random.laplace();
            let pair = NoisyPair::independent(a, laplace(2.0), b + random.laplace(), laplace(1.0));
            holds(intervals.of(&pair), theta)
        });
        let share = held.count() as f64 / f64::from(TRIALS);
        assert!((share - 0.95).abs() < allowed(0.95, TRIALS) + 1e-3, "{b} {theta}: {share}");
    }
}

/// The quantile by two moments compared with exact laws of two unequal Laplace variables.
#[test]
fn quantiles_by_moments_are_those_of_the_law() {
    for confidence in [0.5, 0.8, 0.9, 0.95, 0.99] {
        let mut intervals = RatioIntervals::new(confidence).unwrap();
        for scale in [0.0f64, 0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.999] {
            let x = intervals.half_width(laplace(1.0).plus(laplace(scale)));
            // P(|X| > x) of a sum of Laplace variables of scales 1 and s: (e^-x - s² e^(-x/s)) / (1 - s²).
            let second = if scale == 0.0 { 0.0 } else { scale * scale * (-x / scale).exp() };
            let tail = ((-x).exp() - second) / (1.0 - scale * scale);
            let allowed = if confidence < 0.8 { 6.5e-3 } else { 1.3e-3 };
            assert!((tail - (1.0 - confidence)).abs() < allowed, "{scale} at {confidence}: {tail}");
        }
    }
    let mut at_95 = RatioIntervals::new(0.95).unwrap();
    assert!((at_95.half_width(laplace(1.0)) - 20f64.ln()).abs() < 1e-9, "one variable is exact");
    assert!((at_95.half_width(NoiseMoments::gaussian(4.0)) - 2.0 * 1.959_963_984_540_054).abs() < 1e-9);
    let many = (0..5000).fold(NoiseMoments::NONE, |sum, _| sum.plus(laplace(1.0)));
    assert!((at_95.half_width(many) / 100.0 - 1.96).abs() < 1e-3, "very many are nearly normal");
    assert_eq!(at_95.half_width(NoiseMoments::NONE), 0.0);
}

/// A plan's noise has the same quantile as the plan's own intervals, for trees and for real matrices.
#[test]
fn moments_of_a_plan_give_its_intervals() {
    for (budget, mechanism) in [
        (Budget::Pure(Epsilon::new(0.01).unwrap()), "subtract(k=3)"),
        (Budget::Pure(Epsilon::new(0.01).unwrap()), "honaker-online"),
        (Budget::Zcdp(Rho::new(1e-4).unwrap()), "smooth"),
        (Budget::Zcdp(Rho::new(1e-4).unwrap()), "sqrt"),
    ] {
        let plan = PlanRequest::count(100, budget).with_mechanism(mechanism.parse().unwrap()).plan().unwrap();
        let (mut by_plan, mut by_moments) = (plan.intervals(0.95).unwrap(), RatioIntervals::new(0.95).unwrap());
        for step in [1, 2, 3, 50, 99, 100] {
            let (own, noise) = (by_plan.half_width(step) as f64, plan.noise_moments(step));
            assert!((noise.variance / plan.variance(step) - 1.0).abs() < 1e-9);
            let half_width = by_moments.half_width(noise);
            assert!((own - half_width).abs() <= 1.0 + 1e-2 * own, "{mechanism} at {step}: {own} and {half_width}");
        }
    }
}

#[test]
fn known_bounds_cut_what_cannot_be() {
    assert_eq!(RatioSet::Between(-3.0, 2.0).within(-1.0, 1.0), (-1.0, 1.0));
    assert_eq!(RatioSet::Between(0.25, 0.5).within(-1.0, 1.0), (0.25, 0.5));
    assert_eq!(RatioSet::Between(4.0, 5.0).within(-1.0, 1.0), (-1.0, 1.0), "an empty set means nothing is known");
    assert_eq!(RatioSet::Outside(-2.0, 0.5).within(-1.0, 1.0), (0.5, 1.0));
    assert_eq!(RatioSet::Outside(-0.5, 3.0).within(-1.0, 1.0), (-1.0, -0.5));
    assert_eq!(RatioSet::Outside(-0.5, 0.5).within(-1.0, 1.0), (-1.0, 1.0));
    assert_eq!(RatioSet::Everything.within(-1.0, 1.0), (-1.0, 1.0));
}
