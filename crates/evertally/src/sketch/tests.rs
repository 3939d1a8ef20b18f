//! Tests of sketches: laws of noise and of collisions, exact counts, privacy, states, input.

mod coverage;
mod exact;
mod laws;
mod privacy;
mod states;
mod trees;

use super::{CountMin, CountSketch, DyadicCounts, DyadicSketch, SketchPlan};
use crate::noise::{GuardedKey, StreamName, TestSeed};
use crate::plan::PlanRequest;
use crate::privacy::{Budget, Epsilon, Rho};
use crate::stream::LazySampling;

fn key(seed: u64) -> GuardedKey {
    GuardedKey::insecure_from_test_seed(TestSeed(seed))
}

fn named(text: impl Into<String>) -> StreamName {
    StreamName::new(text).unwrap()
}

fn gaussian() -> Budget {
    Budget::Zcdp(Rho::new(0.5).unwrap())
}

fn pure() -> Budget {
    Budget::Pure(Epsilon::new(1.0).unwrap())
}

/// A budget so large that no release is off by 0.1.
fn plenty() -> Budget {
    Budget::Zcdp(Rho::new_even_if_weak(1e6).unwrap())
}

fn plan(shape: &str, horizon: u64, budget: Budget, sampling: LazySampling) -> SketchPlan {
    SketchPlan::new(PlanRequest::count(horizon, budget), shape.parse().unwrap(), sampling).unwrap()
}

/// Mean and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    (mean, (variance / count).sqrt())
}

/// Checks that the mean of the values is this, to 5.5 standard errors: significance level 4·10^-8.
fn assert_mean(values: &[f64], expected: f64, what: &str) {
    let (mean, error) = mean(values);
    assert!((mean - expected).abs() < 5.5 * error, "{what}: {mean} ± {error}, not {expected}");
}

/// Checks the mean square of the values in the same way, and that it is known to a tenth.
fn assert_variance(values: &[f64], expected: f64, what: &str) {
    let squares: Vec<f64> = values.iter().map(|x| x * x).collect();
    assert_mean(&squares, expected, what);
    assert!((mean(&squares).0 / expected - 1.0).abs() < 0.1, "{what}: {} is not {expected}", mean(&squares).0);
}
