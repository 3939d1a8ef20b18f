//! Coverage of bands, by releases of the exact law, which share no code with the simulation. The share of paths inside
//! is compared with the confidence in units of its standard error; 4.9 of them give each comparison a significance
//! level of 10⁻⁶.

use super::*;
use crate::mechanism::NoiseKind;
use crate::noise::{GuardedKey, TestSeed};
use crate::plan::PlanRequest;
use crate::privacy::{Budget, Epsilon, Rho};
use crate::stream::RunningSum;

fn plan(mechanism: &str, horizon: u64, kind: NoiseKind, strength: f64) -> Plan {
    let budget = match kind {
        NoiseKind::Laplace => Budget::Pure(Epsilon::new(strength).unwrap()),
        NoiseKind::Gaussian => Budget::Zcdp(Rho::new(strength).unwrap()),
    };
    PlanRequest::count(horizon, budget).with_mechanism(mechanism.parse().unwrap()).with_noise(kind).plan().unwrap()
}

/// The share of streams without events whose releases are all inside.
fn held(plan: &Plan, intervals: &mut Intervals, paths: usize) -> f64 {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(31));
    let grid = plan.request().grid().to_f64(1);
    let widths: Vec<f64> = (1..=plan.horizon()).map(|step| intervals.half_width(step) as f64 * grid).collect();
    let inside = (0..paths).filter(|path| {
        let mut stream = RunningSum::new(plan.clone(), &key, format!("path {path}").parse().unwrap()).unwrap();
        widths.iter().all(|width| stream.tick().unwrap().value().abs() <= *width)
    });
    inside.count() as f64 / paths as f64
}

#[test]
fn bands_hold_at_all_steps_at_once() {
    let (confidence, paths) = (0.95, 16_000);
    let error = (confidence * (1.0f64 - confidence) / paths as f64).sqrt();
    for (mechanism, horizon, kind) in [
        ("binary", 60, NoiseKind::Laplace),
        ("subtract(k=3)", 60, NoiseKind::Laplace),
        ("hats", 60, NoiseKind::Laplace),
        ("consistent", 40, NoiseKind::Laplace),
        ("output", 30, NoiseKind::Laplace),
        ("smooth", 100, NoiseKind::Gaussian),
        ("path-sum", 100, NoiseKind::Gaussian),
        ("honaker-online", 60, NoiseKind::Gaussian),
        ("normalized-blt", 100, NoiseKind::Gaussian),
        ("normalized-sqrt", 100, NoiseKind::Gaussian),
        ("dense", 100, NoiseKind::Gaussian),
        ("optimal", 60, NoiseKind::Gaussian),
    ] {
        // Noise of a hundred events: rounding to whole events is negligible compared with it.
        let plan = plan(mechanism, horizon, kind, if kind == NoiseKind::Laplace { 0.05 } else { 1e-4 });
        let mut intervals = plan.simultaneous_intervals(confidence).unwrap();
        let band = intervals.band().unwrap();
        assert!(band.simulation_error > 0.0 && band.simulation_error < 0.0035, "{mechanism}: {band:?}");
        let share = held(&plan, &mut intervals, paths);
        assert!(share > confidence - 4.9 * error, "{mechanism} over {horizon} steps: {share}, {band:?}");
        assert!(share < confidence + 4.0 * band.simulation_error + 4.9 * error, "{mechanism}: {share}, {band:?}");
        if kind == NoiseKind::Gaussian {
            // Single-step intervals do not all hold at once.
            assert!(held(&plan, &mut plan.intervals(confidence).unwrap(), 500) < 0.75, "{mechanism}");
        }
    }
}

/// If steps are independent, the probability is known: `(2Φ(c) - 1)^T`.
#[test]
fn independent_steps_have_the_exact_band() {
    let plan = plan("output", 200, NoiseKind::Gaussian, 0.001);
    for confidence in [0.5, 0.9, 0.99] {
        let band = plan.band(confidence).unwrap();
        let c = band.standard_errors.unwrap();
        let holds = libm::pow(1.0 - libm::erfc(c / std::f64::consts::SQRT_2), 200.0);
        let above = (holds - confidence) / band.simulation_error;
        assert!(above > 1.645 - 4.9 && above < 1.645 + 4.9, "{confidence}: {holds}, {band:?}");
    }
}

/// A coarse grid: noise of about one event.
#[test]
fn discrete_noise_is_covered() {
    for (mechanism, kind, strength) in [("output", NoiseKind::Laplace, 5.0), ("binary", NoiseKind::Gaussian, 2.0)] {
        let plan = plan(mechanism, 8, kind, strength);
        let mut intervals = plan.simultaneous_intervals(0.9).unwrap();
        let share = held(&plan, &mut intervals, 10_000);
        assert!(share > 0.9 - 4.9 * 0.003, "{mechanism}: {share}");
    }
}

/// A band is a function of the plan: it needs no key, and a second call gives the same.
#[test]
fn bands_are_the_same_again() {
    let one = plan("smooth", 50, NoiseKind::Gaussian, 0.1);
    let other = plan("smooth", 50, NoiseKind::Gaussian, 0.1);
    assert_eq!(one.band(0.95).unwrap(), other.band(0.95).unwrap());
    assert!(one.band(0.99).unwrap().standard_errors > one.band(0.95).unwrap().standard_errors);
    assert!(one.band(1.0).is_err() && one.band(f64::NAN).is_err());
}

/// Too many steps to simulate: wider than any simulated band, but not by much for Gaussian noise.
#[test]
fn long_horizons_have_the_band_of_independent_steps() {
    for (kind, most) in [(NoiseKind::Gaussian, 9.5), (NoiseKind::Laplace, 14.0)] {
        for horizon in [1 << 17, 1 << 40, crate::mechanism::MAX_HORIZON] {
            let plan = plan("binary", horizon, kind, 0.1);
            let mut intervals = plan.simultaneous_intervals(0.95).unwrap();
            assert_eq!(intervals.band().unwrap().paths, 0);
            let step = horizon - 1; // many blocks
            let errors = intervals.half_width(step) as f64 / plan.std_error(step);
            assert!(errors > 4.9 && errors < most, "{kind} {horizon}: {errors}");
        }
    }
}

#[test]
#[ignore = "takes minutes: the numbers of the guide"]
fn figures_of_the_guide() {
    for (mechanism, kind, horizon, paths) in [
        ("smooth", NoiseKind::Gaussian, 366, 16_000),
        ("normalized-blt", NoiseKind::Gaussian, 366, 16_000),
        ("normalized-sqrt", NoiseKind::Gaussian, 366, 16_000),
        ("dense", NoiseKind::Gaussian, 366, 16_000),
        ("binary", NoiseKind::Laplace, 366, 16_000),
        ("hats", NoiseKind::Laplace, 366, 16_000),
        ("smooth", NoiseKind::Gaussian, 8760, 4000),
        ("normalized-blt", NoiseKind::Gaussian, 8760, 4000),
        ("normalized-sqrt", NoiseKind::Gaussian, 8760, 4000),
        ("binary", NoiseKind::Laplace, 8760, 4000),
        ("hats", NoiseKind::Laplace, 8760, 4000),
    ] {
        let plan = plan(mechanism, horizon, kind, if kind == NoiseKind::Laplace { 0.05 } else { 1e-4 });
        let start = std::time::Instant::now();
        let mut intervals = plan.simultaneous_intervals(0.95).unwrap();
        let (took, band) = (start.elapsed(), intervals.band().unwrap());
        let alone = held(&plan, &mut plan.intervals(0.95).unwrap(), 500);
        let share = held(&plan, &mut intervals, paths);
        println!("{mechanism} {kind} {horizon}: {share} of {paths}, alone {alone}, {band:?} in {took:?}");
        assert!((0.94..0.966).contains(&share), "{mechanism}: {share}");
    }
}
