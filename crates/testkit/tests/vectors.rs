//! The noise of vectors compared with `σ² L Lᵀ` over the steps; every coordinate is a path. Levels: [`LEVEL`] =
//! 10⁻⁹ for each family of comparisons in a `Verdict` (Bonferroni inside a family), five families for each of
//! about 70 plans.
//!
//! 300,000 coordinates over 24 steps detect 1 % of a variance.

use evertally::mechanism::Participation;
use evertally::privacy::{Budget, Rho};
use evertally_testkit::LEVEL;
use evertally_testkit::covariance::{StatedMoments, vector_noise};
use evertally_training::{Cipher, Real, Series, VectorPlan, VectorRequest};
use nalgebra::DMatrix;

const HORIZON: u64 = 24;
const COORDINATES: usize = 300_000;

const MECHANISMS: [&str; 16] = [
    "input",
    "output",
    "binary",
    "kary(k=3)",
    "subtract(k=4)",
    "subtract(k=5)",
    "smooth",
    "smooth(h=9,zeros=6)",
    "path-sum",
    "honaker-online",
    "blt",
    "normalized-blt",
    "banded-sqrt(bands=4)",
    "banded-inverse-sqrt(bands=4)",
    "sqrt",
    "normalized-sqrt",
];

fn request(mechanism: &str, series: Series) -> VectorRequest {
    let budget = Budget::Zcdp(Rho::new(0.5).expect("a valid rho"));
    let mechanism = Some(mechanism.parse().expect("a known mechanism"));
    VectorRequest::new(HORIZON, budget, 3.0).with_optional_mechanism(mechanism).with_series(series)
}

fn check<F: Real>(plan: &VectorPlan, seed: u64, what: &str) -> DMatrix<f64> {
    let noise = vector_noise::<F>(plan, seed, COORDINATES);
    let verdict = StatedMoments::from_vector_plan(plan).judge(&noise);
    assert!(verdict.passes(LEVEL), "{what} over {HORIZON} steps: {verdict:?}");
    noise
}

fn has_its_covariance(mechanism: &str) {
    for series in [Series::RunningSums, Series::Increments] {
        let plan = request(mechanism, series).plan().expect("a valid plan");
        check::<f32>(&plan, 1, &format!("{mechanism}, {series:?}, f32"));
        check::<f64>(&plan, 2, &format!("{mechanism}, {series:?}, f64"));
    }
}

#[test]
fn half_of_the_mechanisms_have_their_covariances() {
    MECHANISMS[..8].iter().for_each(|mechanism| has_its_covariance(mechanism));
}

#[test]
fn the_other_half_of_the_mechanisms_have_their_covariances() {
    MECHANISMS[8..].iter().for_each(|mechanism| has_its_covariance(mechanism));
}

/// Noise that is 1 % too small is detected, by comparing with the plan of a slightly larger norm.
#[test]
fn one_percent_of_a_standard_deviation_is_seen() {
    let request = request("smooth", Series::RunningSums);
    let larger = request.clone().with_norm(1.01 * request.norm()).plan().expect("a valid plan");
    let noise = vector_noise::<f32>(&request.plan().expect("a valid plan"), 1, COORDINATES);
    assert!(!StatedMoments::from_vector_plan(&larger).judge(&noise).passes(LEVEL));
}

/// Different plans, precisions and series have independent noise.
#[test]
fn noise_of_different_plans_is_independent() {
    let base = request("blt", Series::Increments);
    let plans = [
        base.clone(),
        base.clone().with_series(Series::RunningSums),
        base.clone().with_cipher(Cipher::ChaCha8),
        base.clone().with_norm(6.0),
        base.clone().with_participation(Participation::new(2, 12).expect("valid")),
        request("binary", Series::Increments),
    ]
    .map(|request| request.plan().expect("a valid plan"));
    let promise = StatedMoments::from_vector_plan(&plans[0]);
    let noise = check::<f32>(&plans[0], 3, "the first plan");
    let double = vector_noise::<f64>(&plans[0], 3, COORDINATES);
    let (products, squares) = promise.independent(&noise, &promise, &double);
    assert!(products > LEVEL && squares > LEVEL, "precisions: {products:e}, {squares:e}");
    for plan in &plans[1..] {
        let other = vector_noise::<f32>(plan, 3, COORDINATES);
        let (products, squares) = promise.independent(&noise, &StatedMoments::from_vector_plan(plan), &other);
        assert!(products > LEVEL && squares > LEVEL, "{:?}: {products:e}, {squares:e}", plan.request());
    }
}
