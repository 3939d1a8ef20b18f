//! Intervals of combinations and ratios compared with exact draws. Every coverage is compared with its confidence in
//! units of its own standard error; the two-sided limit of 4.9 of them gives each comparison a significance level of
//! 10⁻⁶.

use super::*;
use crate::noise::{GuardedKey, TestSeed};
use crate::plan::{PlanRequest, RatioSet};
use crate::privacy::{Budget, Epsilon, Rho};
use crate::stream::RunningSum;

const MISSED: f64 = 4.9;

fn plan(mechanism: &str, horizon: u64, kind: NoiseKind) -> Plan {
    let budget = match kind {
        NoiseKind::Laplace => Budget::Pure(Epsilon::new(0.5).unwrap()),
        NoiseKind::Gaussian => Budget::Zcdp(Rho::new(0.1).unwrap()),
    };
    PlanRequest::count(horizon, budget).with_mechanism(mechanism.parse().unwrap()).with_noise(kind).plan().unwrap()
}

/// The noise of all steps in three series, drawn from the exact law.
fn draws(plan: &Plan, seed: u64, paths: usize) -> Vec<[Vec<f64>; 3]> {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(seed));
    let of = |path: usize, series: usize| {
        let name = format!("path {path} {series}").parse().unwrap();
        let mut stream = RunningSum::new(plan.clone(), &key, name).unwrap();
        (0..plan.horizon()).map(|_| stream.tick().unwrap().value()).collect()
    };
    (0..paths).map(|path| [0, 1, 2].map(|series| of(path, series))).collect()
}

fn value(combination: &Combination, noise: &[Vec<f64>; 3]) -> f64 {
    combination.weights.iter().map(|(((_, s), t), w)| w * noise[*s as usize][*t as usize - 1]).sum()
}

const CASES: [(&str, NoiseKind); 7] = [
    ("binary", NoiseKind::Laplace),
    ("hats", NoiseKind::Laplace),
    ("consistent", NoiseKind::Laplace),
    ("subtract(k=3)", NoiseKind::Laplace),
    ("smooth", NoiseKind::Gaussian),
    ("normalized-blt", NoiseKind::Gaussian),
    ("dense", NoiseKind::Gaussian),
];

/// Variances are within 5 of their standard errors; intervals hold at least as often as the confidence (minus the
/// test's noise), and are not too wide: they hold in at most 96 % if the noise is fine.
#[test]
fn intervals_of_combinations_hold() {
    let paths = 6000;
    for (mechanism, kind) in CASES {
        let plan = plan(mechanism, 24, kind);
        let drawn = draws(&plan, 7, paths);
        let week = Combination::default().with_stretch(0, 13, 20, 1.0);
        let groups = week.clone().with_stretch(1, 13, 20, 1.0).with_stretch(2, 13, 20, 2.5);
        let against = week.clone().plus(-1.0, &Combination::default().with_stretch(0, 6, 13, 1.0));
        for combination in [week, groups, against] {
            let values: Vec<f64> = drawn.iter().map(|noise| value(&combination, noise)).collect();
            let variance = plan.variance_of(&combination);
            let seen = values.iter().map(|x| x * x).sum::<f64>() / paths as f64;
            let fourth = values.iter().map(|x| x.powi(4)).sum::<f64>() / paths as f64;
            let error = ((fourth - variance * variance) / paths as f64).sqrt();
            assert!((seen - variance).abs() < MISSED * error, "{mechanism} {combination:?}: {seen} {variance}");
            for confidence in [0.5, 0.95] {
                let half_width = plan.half_width_of(&combination, confidence).unwrap();
                let inside = values.iter().filter(|x| x.abs() <= half_width).count() as f64 / paths as f64;
                let error = (confidence * (1.0 - confidence) / paths as f64).sqrt();
                assert!(inside > confidence - MISSED * error, "{mechanism} {confidence} {combination:?}: {inside}");
                let rounded = 0.02 + 0.1 * (1.0 - confidence);
                assert!(inside < confidence + rounded, "{mechanism} {confidence} {combination:?}: {inside} is wide");
            }
        }
    }
}

/// Coverage of the Fieller set for ratios with small and large denominators, with common noise in both values.
#[test]
fn sets_of_ratios_hold() {
    let (paths, confidence) = (6000, 0.95);
    let mut intervals = RatioIntervals::new(confidence).unwrap();
    let error = (confidence * (1.0f64 - confidence) / paths as f64).sqrt();
    for (mechanism, kind) in [CASES[0], CASES[1], CASES[4], CASES[5]] {
        let plan = plan(mechanism, 24, kind);
        let drawn = draws(&plan, 11, paths);
        let this = Combination::default().with_stretch(0, 17, 24, 1.0);
        let last = Combination::default().with_stretch(0, 10, 17, 1.0);
        let all = [0, 1, 2].into_iter().fold(Combination::default(), |all, series| all.with(series, 24, 1.0));
        let one = Combination::default().with(1, 24, 1.0);
        let mut shapes = [0; 3];
        for (numerator, denominator) in [(&this, &last), (&one, &all)] {
            for (x, y) in [(60.0, 2.0), (500.0, 1000.0), (1.0, 4.0)] {
                let mut held = 0;
                let pair = plan.pair((x, numerator), (y, denominator));
                for noise in &drawn {
                    let values = [x + value(numerator, noise), y + value(denominator, noise)];
                    let set = intervals.of(&NoisyPair { values, ..pair });
                    held += usize::from(match set {
                        RatioSet::Between(low, high) => low <= x / y && x / y <= high,
                        RatioSet::Outside(low, high) => x / y <= low || high <= x / y,
                        RatioSet::Everything => true,
                    });
                    shapes[match set {
                        RatioSet::Between(..) => 0,
                        RatioSet::Outside(..) => 1,
                        RatioSet::Everything => 2,
                    }] += 1;
                }
                let held = held as f64 / paths as f64;
                assert!(held > confidence - MISSED * error, "{mechanism} {x}/{y}: {held}");
                assert!(held < confidence + 0.012 + MISSED * error, "{mechanism} {x}/{y}: {held} is wide");
            }
        }
        assert!(shapes.iter().all(|count| *count > 0), "{mechanism}: every kind of set occurred: {shapes:?}");
    }
}

#[test]
fn what_happened_before_the_first_step_is_nothing() {
    let plan = plan("binary", 24, NoiseKind::Laplace);
    let first = Combination::default().with_stretch(0, 0, 5, 1.0);
    assert_eq!(plan.variance_of(&first), plan.variance(5));
    let mut intervals = plan.intervals(0.95).unwrap();
    assert_eq!(plan.half_width_of(&first, 0.95).unwrap(), intervals.half_width(5) as f64);
    assert_eq!(plan.half_width_of(&Combination::default(), 0.95).unwrap(), 0.0);
}
