//! Known values, calibration compared with other arithmetic, and files.

mod against_poisson;
mod long;
mod sampling;

use super::*;
use evertally::mechanism::{Competes, Participation, Vectors};
use evertally::plan::Objective;
use evertally::privacy::{Budget, Neighbours};
use evertally::privacy::{Delta, Epsilon, Rho};

fn zcdp(rho: f64) -> Budget {
    Budget::Zcdp(Rho::new(rho).unwrap())
}

fn approximate(epsilon: f64, delta: f64) -> Budget {
    Budget::Approximate(Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap())
}

fn named(name: &str, request: VectorRequest) -> VectorPlan {
    request.with_mechanism(name.parse().unwrap()).plan().unwrap()
}

/// 2ρ·variance equals that of counts, where it is known from dense linear algebra.
#[test]
fn figures_of_single_steps() {
    for (name, horizon, figure, tolerance) in [
        ("input", 1024, 1024.0, 1e-9),
        ("output", 1024, 1024.0, 1e-9),
        ("binary", 1024, 110.0, 1e-9),
        ("smooth(h=14,zeros=7)", 1024, 27.88, 0.006),
        ("smooth", 1024, 25.46, 0.006),
        ("smooth", 1 << 20, 91.75, 0.006),
        ("path-sum(levels=unit)", 1024, 19.70, 0.006),
        ("path-sum", 1024, 17.10, 0.01),
        ("sqrt", 1024, 10.71, 0.006),
        ("normalized-blt", 1024, 9.48, 0.006),
    ] {
        let plan = named(name, VectorRequest::new(horizon, zcdp(0.5), 1.0));
        let ours = plan.max_std_error().powi(2);
        assert!((ours - figure).abs() < tolerance, "{name} at {horizon}: {ours}, want {figure}");
    }
    let chosen = VectorRequest::new(1024, zcdp(0.5), 1.0).plan().unwrap();
    assert!(chosen.name().to_string().starts_with("normalized-blt"), "{}", chosen.name());
}

/// Errors scale with norm, budget and neighbours; standard errors follow the rows of `L`.
#[test]
fn scales_and_steps() {
    let base = VectorRequest::new(100, zcdp(0.5), 1.0);
    let plan = named("subtract(k=3)", base.clone());
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
    assert!(close(named("subtract(k=3)", base.clone().with_norm(7.5)).sigma(), 7.5 * plan.sigma()));
    let replaced = base.clone().with_neighbours(Neighbours::ReplaceOne);
    assert!(close(named("subtract(k=3)", replaced).sigma(), 2.0 * plan.sigma()));
    assert!(close(named("subtract(k=3)", base.with_budget(zcdp(2.0))).sigma(), plan.sigma() / 2.0));
    let mut squares = 0.0;
    for step in 1..=100 {
        let want = plan.sigma() * plan.mechanism().row_norm_squared(step).sqrt();
        assert!(close(plan.std_error(step), want) && want <= plan.max_std_error() * (1.0 + 1e-12));
        squares += want * want;
    }
    assert!(close(plan.mean_std_error(), (squares / 100.0).sqrt()));
}

/// Under (ε, δ) the noise is that of the analytic Gaussian mechanism, to 12 digits and never smaller: reference values
/// of `μ` by bisection with 40 digits.
#[test]
fn analytic_gaussian_noise() {
    for (epsilon, delta, mu) in ANALYTIC {
        let plan = named("output", VectorRequest::new(16, approximate(epsilon, delta), 3.0));
        let want = 4.0 * 3.0 / mu;
        assert!(plan.sigma() >= want * (1.0 - 1e-15), "ε {epsilon}, δ {delta}: {} below {want}", plan.sigma());
        assert!(plan.sigma() <= want * (1.0 + 1e-9), "ε {epsilon}, δ {delta}: {} above {want}", plan.sigma());
        let guarantee = plan.guarantee();
        assert!((guarantee.mu() / mu - 1.0).abs() < 1e-9 && guarantee.mu() <= mu);
        assert_eq!(guarantee.epsilon_delta().map(|(e, d)| (e.get(), d.get())), Some((epsilon, delta)));
        assert!((guarantee.rho().get() / (mu * mu / 2.0) - 1.0).abs() < 1e-9);
    }
    let guarantee = VectorRequest::new(16, zcdp(0.5), 1.0).plan().unwrap().guarantee();
    assert_eq!((guarantee.rho().get(), guarantee.epsilon_delta()), (0.5, None));
    assert!(guarantee.mu() >= 1.0 && guarantee.mu() < 1.0 + 1e-13);
    // Tighter than any conversion from zCDP.
    let delta = Delta::new(1e-6).unwrap();
    let converted = evertally::privacy::conversions::epsilon_of_zcdp(guarantee.rho(), delta);
    assert!(guarantee.epsilon_at(delta) < 0.95 * converted);
}

/// (ε, δ, μ).
const ANALYTIC: [(f64, f64, f64); 5] = [
    (1.0, 1e-6, 0.236_704_380_663_435_7),
    (2.0, 1e-5, 0.501_551_689_169_656_6),
    (0.1, 1e-9, 0.019_916_423_412_681_467),
    (8.0, 1e-10, 1.199_056_252_265_964),
    (0.5, 0.001, 0.216_913_719_247_652_64),
];

/// `σ` is never below the exact quotient, in exact arithmetic if the sensitivity is an integer.
#[test]
fn noise_is_rounded_up() {
    use num_bigint::BigInt;
    use num_rational::BigRational;
    let exact = |x: f64| BigRational::from_float(x).unwrap();
    for rho in [0.5, 0.3, 1e-3, 0.123_456_789, 9.7] {
        for norm in [1.0, 0.1, 3.3e-5, 12345.678] {
            for (name, squared) in [("output", 100), ("binary", 7), ("input", 1)] {
                let sigma = exact(named(name, VectorRequest::new(100, zcdp(rho), norm)).sigma());
                let needed = exact(norm) * exact(norm) * BigRational::from(BigInt::from(squared))
                    / (exact(rho) * BigRational::from(BigInt::from(2)));
                let spent = &sigma * &sigma / needed;
                let one = BigRational::from(BigInt::from(1));
                assert!(spent >= one && spent < one + exact(1e-12), "{name}, ρ {rho}, norm {norm}");
            }
        }
    }
}

/// Participation in several steps costs what the mechanism states, and the choice accounts for it.
#[test]
fn participation_is_paid_for() {
    let epochs = |most, separation| {
        VectorRequest::new(1000, approximate(2.0, 1e-6), 1.0)
            .with_participation(Participation::new(most, separation).unwrap())
    };
    let of = |name: &str, most, separation| named(name, epochs(most, separation));
    // Steps that share no node, only norms.
    let (once, ten) = (of("input", 1, 1), of("input", 10, 100));
    assert!((ten.sigma() / once.sigma() - 10f64.sqrt()).abs() < 1e-12);
    // Bands that do not overlap.
    let (once, ten) = (of("banded-sqrt(bands=100)", 1, 1), of("banded-sqrt(bands=100)", 10, 100));
    assert!((ten.sigma() / once.sigma() - 10f64.sqrt()).abs() < 1e-6);
    for (most, separation) in [(1, 1), (4, 250), (10, 100), (10, 1)] {
        let ranking = epochs(most, separation).candidates().unwrap();
        let plan = epochs(most, separation).plan().unwrap();
        let first = ranking.iter().find(|candidate| candidate.constant_memory).unwrap();
        assert_eq!(plan.name(), first.name);
        assert!(plan.lower_bound_max_std_error() < ranking[0].max_std_error);
        for name in ["blt", "normalized-blt", "smooth", "subtract", "binary", "path-sum"] {
            let direct = of(name, most, separation).max_std_error();
            assert!(direct >= first.max_std_error * (1.0 - 1e-12), "{name}: {direct} below {}", first.max_std_error);
        }
    }
}

#[test]
fn senseless_requests_are_refused() {
    let base = VectorRequest::new(100, zcdp(0.5), 1.0);
    let refusal = |request: VectorRequest| request.plan().unwrap_err().to_string();
    for norm in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-40, 1e31] {
        assert!(refusal(base.clone().with_norm(norm)).contains("clipping norm"), "{norm}");
    }
    let pure = Budget::Pure(Epsilon::new(1.0).unwrap());
    assert!(refusal(base.clone().with_budget(pure)).contains("delta"));
    assert!(refusal(base.clone().with_horizon(0)).contains("horizon"));
    for name in ["consistent", "hats", "dense", "optimal", "dense-pure"] {
        let mechanism = Some(name.parse().unwrap());
        assert!(refusal(base.clone().with_optional_mechanism(mechanism)).contains("cannot stream"), "{name}");
    }
    let far = base.clone().with_mechanism(MechanismName::Sqrt).with_horizon(1 << 21);
    assert!(refusal(far).contains("at most"));
    let quiet = base.with_norm(1e30).with_budget(zcdp(1e-20));
    assert!(refusal(quiet).contains("scale the vectors"));
    assert!(Participation::new(3, 0).is_err() && Participation::new(0, 3).is_err());
}

/// Mechanisms with constant memory are chosen automatically, others only by name, and every family that streams is in
/// the ranking.
#[test]
fn ranking_and_choice() {
    let ranking = VectorRequest::new(300, zcdp(0.5), 1.0).candidates().unwrap();
    let competing = MechanismName::all_families()
        .filter(|family| family.vectors == Vectors::Streamed && matches!(family.competes, Competes::ForSums));
    assert_eq!(competing.clone().count(), 12);
    for family in competing {
        assert!(ranking.iter().any(|c| c.name.family().stem == family.stem), "{}", family.stem);
    }
    let others: Vec<String> = ranking.iter().filter(|c| !c.constant_memory).map(|c| c.name.to_string()).collect();
    assert_eq!(others.len(), 2, "{others:?}");
    assert_eq!(named("normalized-sqrt", VectorRequest::new(300, zcdp(0.5), 1.0)).name(), MechanismName::NormalizedSqrt);
    // The longest horizon has a plan.
    let longest = VectorRequest::new(1 << 62, zcdp(0.5), 1.0).plan().unwrap();
    assert!(longest.max_std_error().is_finite());
}

/// The dense optimum competes for units that return, where the memory allows it, and is close to the lower bound.
#[test]
fn dense_optima_compete_for_units_that_return() {
    let request = VectorRequest::new(24, zcdp(0.5), 1.0).with_participation(Participation::new(2, 11).unwrap());
    let request = request.with_objective(Objective::Mean);
    let plan = request.clone().plan().unwrap();
    assert!(plan.name().to_string().starts_with("dense(run=2,gap=11,objective=mean,digest="), "{}", plan.name());
    assert!(plan.mean_std_error() < 1.0015 * plan.lower_bound_max_std_error());
    let few = request.clone().with_max_memory(10).plan().unwrap();
    assert!(few.name().family().stem != "dense" && few.mean_std_error() > 1.01 * plan.mean_std_error());
    let ranking = request.clone().candidates().unwrap();
    let memory = ranking.iter().find(|c| c.name == plan.name()).unwrap().memory;
    assert!(memory > 10 && memory <= 24, "{memory}");
    let again: VectorPlan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    assert_eq!(again.digest(), plan.digest());
    // A single participation has no dense optimum that streams, and long horizons have it by name.
    let once = request.with_participation(Participation::ONCE);
    assert!(once.candidates().unwrap().iter().all(|c| c.name.family().stem != "dense"));
}

/// Counts and vectors of the same unit have one search: the same mechanism with nearly the same error.
#[test]
fn counts_and_vectors_of_a_unit_choose_alike() {
    use evertally::plan::{NoiseKind, PlanRequest};
    use evertally::privacy::Unit;
    for (most, separation, stem) in [(6, 3, "normalized-blt"), (4, 40, "epoch-bands")] {
        let unit = Unit::person(most).per_step(1).apart(separation);
        let counts = PlanRequest::count(160, zcdp(0.5)).with_unit(unit).with_noise(NoiseKind::Gaussian);
        let participation = Participation::new(most, separation).unwrap();
        let counts = counts.candidates().unwrap();
        let vectors = VectorRequest::new(160, zcdp(0.5), 1.0).with_participation(participation).candidates().unwrap();
        let names = [counts[0].mechanism.name(), vectors[0].name].map(|name| name.brief().family().stem);
        assert_eq!(names, [stem; 2], "{most} steps {separation} apart");
        let ratio = vectors[0].max_std_error / counts[0].max_std_error;
        assert!((ratio - 1.0).abs() < 1e-3, "{most} steps {separation} apart: {ratio}");
        // Everything that vectors can be streamed with competes for both.
        for found in &vectors {
            let stem = found.name.family().stem;
            assert!(counts.iter().any(|count| count.mechanism.name().family().stem == stem), "{stem}");
        }
    }
}

fn example() -> VectorRequest {
    VectorRequest::new(100, approximate(1.5, 1e-7), 0.1 + 0.2)
        .with_participation(Participation::new(3, 20).unwrap())
        .with_mechanism("subtract(k=5)".parse().unwrap())
}

/// Every field of the request is in the digest.
#[test]
fn digests_depend_on_everything() {
    let base = example();
    let mut digests = vec![base.clone().plan().unwrap().digest()];
    let variants: Vec<VectorRequest> = vec![
        base.clone().with_horizon(101),
        base.clone().with_budget(approximate(1.5, 2e-7)),
        base.clone().with_budget(approximate(1.6, 1e-7)),
        base.clone().with_budget(zcdp(0.5)),
        base.clone().with_norm((0.1f64 + 0.2).next_up()),
        base.clone().with_neighbours(Neighbours::ReplaceOne),
        base.clone().with_participation(Participation::new(4, 20).unwrap()),
        base.clone().with_participation(Participation::new(3, 21).unwrap()),
        base.clone().with_mechanism("subtract(k=6)".parse().unwrap()),
        base.clone().with_objective(Objective::Mean),
        base.clone().with_series(Series::Increments),
        base.clone().with_cipher(Cipher::ChaCha8),
        base.clone().with_cipher(Cipher::ChaCha20),
        base.clone().with_meanings([("run".to_string(), "7".to_string())].into()),
        base.with_meanings([("run".to_string(), "8".to_string())].into()),
    ];
    digests.extend(variants.into_iter().map(|request| request.plan().unwrap().digest()));
    let distinct: std::collections::BTreeSet<_> = digests.iter().collect();
    assert_eq!(distinct.len(), digests.len());
}

/// The digest binds noise to a plan permanently: it must not change between versions.
#[test]
fn digests_are_frozen() {
    let digest = example().plan().unwrap().digest();
    assert_eq!(digest[..8], FROZEN, "{digest:?}");
}

const FROZEN: [u8; 8] = [139, 38, 216, 134, 145, 179, 157, 149];

/// A plan must have exactly the noise that its budget needs, whatever its digest.
#[test]
fn other_noise_is_refused() {
    let request = VectorRequest::new(64, zcdp(0.5), 1.0).with_participation(Participation::new(3, 20).unwrap());
    let plan = named("smooth", request);
    let read = |sigma: f64| {
        let mut changed = plan.clone();
        changed.chosen.sigma = sigma;
        changed.digest = file::digest(&changed);
        serde_json::from_str::<VectorPlan>(&serde_json::to_string(&changed).unwrap()).map_err(|error| error.to_string())
    };
    assert_eq!(read(plan.sigma()).unwrap().digest(), plan.digest());
    for sigma in [0.999 * plan.sigma(), plan.sigma().next_down(), plan.sigma().next_up(), 1.2 * plan.sigma()] {
        assert!(read(sigma).unwrap_err().contains("is not the one its budget needs"), "{sigma}");
    }
}

/// Every mechanism's plan survives its file, to the last bit; any change of the file is refused.
#[test]
fn files_are_read_back_and_checked() {
    for name in [
        "input",
        "output",
        "binary",
        "kary",
        "subtract",
        "smooth",
        "path-sum",
        "honaker-online",
        "blt",
        "normalized-blt",
        "banded-sqrt(bands=9)",
        "banded-inverse-sqrt(bands=9)",
        "banded-inverse(bands=2)",
        "epoch-bands(bands=9)",
        "sqrt",
        "normalized-sqrt",
    ] {
        let plan = named(name, example());
        let text = serde_json::to_string(&plan).unwrap();
        let read: VectorPlan = serde_json::from_str(&text).unwrap();
        assert_eq!(read.digest(), plan.digest(), "{name}");
        assert_eq!((read.request(), read.sigma()), (plan.request(), plan.sigma()), "{name}");
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
    let text = serde_json::to_string(&named("subtract(k=5)", example())).unwrap();
    let changed: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (field, value) in [
        ("version", serde_json::json!(2)),
        ("horizon", serde_json::json!(101)),
        ("mechanism", serde_json::json!("subtract(k=3)")),
        ("objective", serde_json::json!("mean")),
        ("series", serde_json::json!("increments")),
        ("neighbours", serde_json::json!("replace-one")),
        ("participation", serde_json::json!({"most": 2, "separation": 20})),
        ("norm", serde_json::json!(0.3)),
        ("budget", serde_json::json!({"epsilon": 1.6, "delta": 1e-7, "rho": null})),
        ("cipher", serde_json::json!("chacha20")),
        ("sigma", serde_json::json!(changed["sigma"].as_f64().unwrap().next_down())),
        ("meaning", serde_json::json!({"run": "7"})),
        ("digest", serde_json::json!("00")),
        ("unknown", serde_json::json!(1)),
    ] {
        let mut file = changed.clone();
        file[field] = value;
        assert!(serde_json::from_value::<VectorPlan>(file).is_err(), "{field}");
    }
    assert!(serde_json::from_value::<VectorPlan>(changed).is_ok());
}

/// By dense linear algebra, the releases of a plan move by at most `μ` standard deviations, for the worst pattern of
/// steps.
#[test]
fn plans_hide_the_worst_pattern() {
    for name in [
        "normalized-blt",
        "normalized-sqrt",
        "subtract(k=3)",
        "path-sum",
        "banded-inverse(bands=2)",
        "epoch-bands(bands=4)",
        "dense",
        "dense(run=2,gap=5)",
    ] {
        let request = VectorRequest::new(12, zcdp(0.5), 2.0).with_participation(Participation::new(3, 4).unwrap());
        let plan = named(name, request);
        let dense = plan.mechanism().dense();
        for pattern in [[0, 4, 8], [1, 5, 9], [0, 4, 11], [2, 6, 10], [0, 5, 10]] {
            // Three parallel vectors of norm 2: the norm of the node sums.
            let (nodes, _) = dense.r.shape();
            let node = |n: usize| pattern.iter().map(|t| 2.0 * dense.r.row(n)[*t]).sum::<f64>();
            let moved: f64 = (0..nodes).map(|n| node(n).powi(2)).sum();
            assert!(moved.sqrt() / plan.sigma() <= plan.guarantee().mu(), "{name} {pattern:?}");
        }
    }
}
