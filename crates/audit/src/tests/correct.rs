//! Mechanisms that keep their promise are not refuted.

use super::*;
use crate::{AuditSettings, Finding, audit};
use crate::{Promise, worst_change};
use evertally::mechanism::MechanismName;
use evertally::privacy::Delta;
use evertally::privacy::{Neighbours, Unit, Values};

const PATHS: u64 = 8000;

#[track_caller]
fn passes(plan: &Plan, seed: u64) -> AuditReport {
    let report = against(plan, &mut library(plan, seed), PATHS);
    assert!(!report.refuted, "{}: {report:#?}", plan.mechanism().name());
    report
}

#[test]
fn every_family_passes_under_either_law() {
    for family in MechanismName::FAMILIES {
        for (kind, budget) in [(NoiseKind::Laplace, 1.0), (NoiseKind::Gaussian, 0.5)] {
            let Ok(plan) = request(&family.to_string(), 16, kind, budget).plan() else {
                assert_eq!(kind, NoiseKind::Laplace, "{family}"); // some are for Gaussian noise only
                continue;
            };
            let report = passes(&plan, 1);
            let tested = |c: &&crate::Check| !matches!(c.finding, Finding::NotTested { .. });
            assert_eq!(report.checks.iter().filter(tested).count(), report.checks.len(), "{family}");
        }
    }
}

/// Noise of less than one grid step, for which normal approximations are far off, and of thousands.
#[test]
fn coarse_and_fine_noise_passes() {
    for mechanism in ["input", "binary", "honaker-online", "smooth", "consistent(k=3)", "subtract(k=5)"] {
        for (kind, budgets) in [(NoiseKind::Laplace, [20.0, 0.001]), (NoiseKind::Gaussian, [10.0, 1e-6])] {
            for budget in budgets {
                passes(&plan(mechanism, 7, kind, budget), 2);
            }
        }
    }
}

#[test]
fn shortest_horizons_pass() {
    for horizon in [1, 2, 3] {
        for mechanism in ["binary", "honaker-online", "consistent(k=2)", "normalized-sqrt"] {
            passes(&plan(mechanism, horizon, NoiseKind::Gaussian, 3.0), 3);
        }
    }
}

#[test]
fn other_neighbours_units_values_and_budgets_pass() {
    let base = request("binary", 12, NoiseKind::Gaussian, 0.5);
    let values = Values::Sum { lower: -2, upper: 5 };
    let unit = Unit::person(5).per_step(2);
    let grid = "0.25".parse().unwrap();
    let approximate = Budget::Approximate(Epsilon::new(1.0).unwrap(), Delta::new(1e-3).unwrap());
    for (seed, request) in (4..).zip([
        base.clone().with_neighbours(Neighbours::ReplaceOne),
        base.clone().with_neighbours(Neighbours::ReplaceOne).with_values(values).with_grid(grid),
        base.clone().with_unit(unit),
        base.clone().with_unit(unit).with_neighbours(Neighbours::ReplaceOne).with_values(values),
        base.clone().with_unit(unit.apart(3)),
        base.clone().with_unit(unit.per_period(2)).with_neighbours(Neighbours::ReplaceOne),
        base.clone().with_unit(unit.per_group(3).in_groups(2)),
        base.clone().with_unit(unit.of_total(7)).with_values(values),
        base.clone().with_budget(approximate),
        base.with_budget(approximate).with_noise(NoiseKind::Laplace).with_values(values),
    ]) {
        passes(&request.plan().unwrap(), seed);
    }
}

/// The stated level holds: at 90 % confidence at most one correct mechanism in ten is refuted. If a tenth is refuted,
/// more than 27 of 100 have a probability below 10⁻⁶.
#[test]
fn the_significance_is_kept() {
    let (mut refuted, mut tested) = (0, 0);
    for (mechanism, kind, budget) in [("binary", NoiseKind::Gaussian, 0.5), ("honaker-online", NoiseKind::Laplace, 1.0)]
    {
        let plan = plan(mechanism, 6, kind, budget);
        let promise = Promise::of(&plan).unwrap();
        let pairs = worst_change(&plan, &promise, None).unwrap().pairs(&plan, &promise);
        for seed in 0..50 {
            let settings = AuditSettings { paths: 1500, confidence: 0.9 };
            let report = audit(&mut library(&plan, 100 + seed), &promise, &pairs, settings, &mut || ()).unwrap();
            refuted += u32::from(report.refuted);
            tested += 1;
        }
    }
    assert_eq!(tested, 100);
    assert!(refuted <= 27, "{refuted} of {tested} correct mechanisms were refuted at a level of 10 %");
}

/// Brute force over all placements of a person's events finds none that is much worse.
#[test]
fn the_worst_events_of_a_person_are_found() {
    const STEPS: usize = 8;
    let person = Unit::person(4);
    let units = [person, person.per_step(1), person.per_step(2).apart(2), person.per_step(2).apart(3).per_period(5)];
    for mechanism in ["input", "binary", "subtract(k=3)", "honaker-online", "sqrt", "smooth"] {
        for unit in units {
            let plan = request(mechanism, STEPS as u64, NoiseKind::Gaussian, 0.5).with_unit(unit).plan().unwrap();
            let promise = Promise::of(&plan).unwrap();
            let spread = unit.spread().unwrap();
            let separation = |difference: &[f64]| promise.separation(&promise.of_all_sums(difference));
            let mut worst = 0.0f64;
            // Every vector of counts, as digits.
            for code in 0..5u64.pow(STEPS as u32) {
                let counts: Vec<u64> = (0..STEPS as u32).map(|step| code / 5u64.pow(step) % 5).collect();
                let steps: Vec<u64> =
                    (0..).zip(&counts).filter(|(_, count)| **count > 0).map(|(step, _)| step).collect();
                let period = unit.bounds().unwrap().period.unwrap_or(STEPS as u64);
                let fits = counts.iter().sum::<u64>() == spread.total
                    && counts.iter().all(|count| *count <= spread.per_step)
                    && steps.windows(2).all(|pair| pair[1] - pair[0] >= spread.separation)
                    && steps[steps.len() - 1] - steps[0] < period;
                if fits {
                    let sums = counts.iter().scan(0.0, |sum, count| {
                        *sum += *count as f64;
                        Some(*sum)
                    });
                    worst = worst.max(separation(&sums.collect::<Vec<_>>()));
                }
            }
            let pair = worst_change(&plan, &promise, None).unwrap().pairs(&plan, &promise).remove(0);
            let found = separation(&pair.difference());
            assert!(worst > 0.0 && found <= worst * (1.0 + 1e-9), "{mechanism} {unit:?}: {found} of {worst}");
            assert!(found >= 0.97 * worst, "{mechanism} {unit:?}: {found} of {worst}");
        }
    }
}

/// The worst neighbours are as far apart as exact accounting computes.
#[test]
fn the_worst_change_is_the_worst() {
    for family in MechanismName::FAMILIES {
        let plan = plan(&family.to_string(), 13, NoiseKind::Gaussian, 0.02);
        let promise = Promise::of(&plan).unwrap();
        let pair = worst_change(&plan, &promise, None).unwrap().pairs(&plan, &promise).remove(0);
        let exact = plan.mechanism().exact_l2_squared().unwrap() / plan.node_variance();
        let separation = promise.separation(&pair.difference()).powi(2);
        assert!((separation / exact - 1.0).abs() < 1e-9, "{family}: {separation} and not {exact}");
        assert!(separation < 0.04 * (1.0 + 1e-3), "{family}");
    }
    // Moved events: by brute force over all pairs of places.
    let request = request("binary", 13, NoiseKind::Gaussian, 0.02).with_neighbours(Neighbours::ReplaceOne);
    let plan = request.plan().unwrap();
    let promise = Promise::of(&plan).unwrap();
    let change = worst_change(&plan, &promise, None).unwrap();
    let found = promise.separation(&change.pairs(&plan, &promise)[0].difference());
    let moved =
        |i: usize, j: usize| (1..=13).map(|t| f64::from(u8::from(t >= i)) - f64::from(u8::from(t >= j))).collect();
    let pairs = (1..=13).flat_map(|i| (1..=13).map(move |j| (i, j)));
    let worst = pairs
        .map(|(i, j): (usize, usize)| promise.separation(&Vec::<f64>::from_iter::<Vec<f64>>(moved(i, j))))
        .fold(0.0, f64::max);
    assert!((found / worst - 1.0).abs() < 1e-9, "{change}: {found}, but {worst} is possible");
    assert!(worst_change(&plan, &promise, Some(14)).is_err());
    assert_eq!(worst_change(&plan, &promise, Some(3)).unwrap().to_string().matches("step 3").count(), 1);
}
