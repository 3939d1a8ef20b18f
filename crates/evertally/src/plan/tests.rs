//! Plans: calibration, choice, files, and refusals.

use super::*;
use crate::mechanism::{MechanismName, Workload};
use crate::number::exact::Exact;
use crate::privacy::Spread;
use crate::privacy::{Budget, Neighbours, Unit, Values};
use crate::privacy::{Delta, Epsilon, Rho};
use std::ops::ControlFlow;

fn pure(epsilon: f64) -> Budget {
    Budget::Pure(Epsilon::new(epsilon).unwrap())
}

fn zcdp(rho: f64) -> Budget {
    Budget::Zcdp(Rho::new(rho).unwrap())
}

#[test]
fn the_least_error_is_chosen_for_each_law_and_objective() {
    let name = |request: PlanRequest| request.plan().unwrap().mechanism().name().to_string();
    // The optimum itself, and buffers if its matrix is too large.
    assert!(name(PlanRequest::count(1024, zcdp(0.5))).starts_with("dense(objective=max,digest="));
    assert!(name(PlanRequest::count(1 << 30, zcdp(0.5))).starts_with("normalized-blt(decay="));
    let light = PlanRequest::count(1024, zcdp(0.5)).with_search(Search::default().with_light_steps(true));
    assert!(name(light).starts_with("normalized-blt(decay="));
    let path_sum = PlanRequest::count(1024, zcdp(0.5)).with_mechanism("path-sum".parse().unwrap());
    assert_eq!(name(path_sum), "path-sum(levels=80:28:56:45:48*5:36:60)");
    // The shape is the best by exact accounting.
    let smooth = PlanRequest::count(1000, zcdp(0.5)).with_mechanism("smooth".parse().unwrap());
    assert_eq!(name(smooth), "smooth(h=14,zeros=4)");
    assert_eq!(name(PlanRequest::count(1, pure(1.0))), "input");
    let mean = |budget| PlanRequest::count(1024, budget).with_objective(Objective::Mean);
    // The asymptotically best arity 19 has 199 here.
    let plan = mean(pure(1.0)).with_search(Search::default().with_light_steps(true)).plan().unwrap();
    assert_eq!(plan.mechanism().name().to_string(), "subtract(k=13)");
    assert!((plan.mean_std_error().powi(2) / 170.5 - 1.0).abs() < 0.01);
    // Overlapping hats are better still, if memory may grow with the horizon.
    assert!(mean(pure(1.0)).plan().unwrap().mean_std_error().powi(2) < 95.0);
    // Every candidate is at least as bad as the first.
    for request in [mean(pure(0.3)), mean(zcdp(0.1)), PlanRequest::count(500, pure(2.0))] {
        let all = request.candidates().unwrap();
        let figure =
            |c: &Candidate| if request.objective == Objective::Max { c.max_std_error } else { c.mean_std_error };
        assert!(all.iter().all(|c| figure(c) >= figure(&all[0])));
    }
}

/// Under (ε, δ) both laws are compared: a huge δ favours Gaussian noise, a tiny one with a short horizon Laplace.
#[test]
fn laplace_and_gaussian_compete_under_approximate_privacy() {
    let plan = |horizon, delta| {
        let budget = Budget::Approximate(Epsilon::new(1.0).unwrap(), Delta::new(delta).unwrap());
        PlanRequest::count(horizon, budget).plan().unwrap()
    };
    assert_eq!(plan(1 << 40, 1e-2).noise_kind(), NoiseKind::Gaussian);
    assert_eq!(plan(4, 1e-12).noise_kind(), NoiseKind::Laplace);
    assert!(plan(4, 1e-12).guarantee().pure_epsilon.is_some());
}

/// The noise of a plan really spends no more than the budget on the worst change, by brute force: over the columns, or
/// by the covariance of the releases if the noise is that of exact accounting.
#[test]
fn calibrated_noise_keeps_the_budget() {
    let trees = ["input", "output", "binary", "honaker-online", "kary(k=3)", "subtract(k=5)", "smooth", "path-sum"];
    for (horizon, mechanism) in [1, 7, 40].into_iter().flat_map(|t| trees.map(|name| (t, name))) {
        for (unit, m) in [(Unit::Event, 1.0), (Unit::person(3), 3.0)] {
            let place = format!("{mechanism} over {horizon} steps, {unit:?}");
            let request =
                |budget| PlanRequest::count(horizon, budget).with_unit(unit).with_mechanism(mechanism.parse().unwrap());
            let gaussian = request(zcdp(0.07)).with_noise(NoiseKind::Gaussian).plan().unwrap();
            let dense = gaussian.mechanism().dense();
            let revealed = dense.exact_l2_squared().unwrap() * m * m / (2.0 * gaussian.node_variance());
            let by_columns = dense.column_norms().l2_squared * m * m / (2.0 * gaussian.node_variance());
            let rho = if gaussian.noise_divisor() > 1 { revealed } else { by_columns };
            assert!(rho <= 0.07 * (1.0 + 1e-12) && rho > 0.07 * (1.0 - 4e-6), "{place}: ρ {rho}");
            assert!(gaussian.noise_divisor() > 1 || revealed > 0.07 * (1.0 - 1e-6) || !mechanism.contains('s'));

            if mechanism != "path-sum" {
                let laplace = request(pure(0.7)).plan().unwrap();
                let epsilon = laplace.mechanism().dense().column_norms().l1 * m / laplace.law().parameter().to_f64();
                assert!(epsilon <= 0.7 * (1.0 + 1e-12) && epsilon > 0.7 * (1.0 - 1e-6), "{place}: ε {epsilon}");
            }
        }
    }
}

/// 2ρ·variance of the releases under exact accounting, from an independent computation; by column norms the shape (14,
/// 4) of the smooth mechanism has 40.
#[test]
fn exact_accounting_saves_noise_on_the_discrete_grid() {
    for (mechanism, horizon, want) in [
        ("smooth(h=14,zeros=4)", 1000, 23.69),
        ("smooth", 1024, 25.46),
        ("smooth", 1 << 20, 91.75),
        ("path-sum(levels=unit)", 1024, 19.70),
        ("path-sum", 1024, 17.10),
    ] {
        for (grid, values) in [("1", Values::Count), ("0.000001", Values::Sum { lower: 0, upper: 1_000_000 })] {
            let grid = grid.parse().unwrap();
            let mechanism = mechanism.parse().ok();
            let plan = PlanRequest::count(horizon, zcdp(0.5))
                .with_optional_mechanism(mechanism)
                .with_grid(grid)
                .with_values(values)
                .plan()
                .unwrap();
            let figure = plan.max_std_error().powi(2);
            assert!((figure - want).abs() < 0.01, "{} on {grid}: {figure}, want {want}", plan.mechanism().name());
            assert_eq!(plan.fraction_bits(), 8);
            let scale = plan.law().scale() / plan.noise_divisor() as f64;
            assert!((scale * grid.to_f64(1) / plan.node_variance().sqrt() - 1.0).abs() < 1e-12);
        }
    }
}

/// If events are replaced, or have both signs, exact accounting multiplies the same factors as column norms do.
#[test]
fn exact_accounting_follows_the_sensitivity() {
    let variance = |unit, neighbours, values| {
        let mechanism = "path-sum(levels=unit)".parse().ok();
        let request = PlanRequest::count(100, zcdp(0.5))
            .with_unit(unit)
            .with_neighbours(neighbours)
            .with_values(values)
            .with_optional_mechanism(mechanism);
        request.plan().unwrap().node_variance()
    };
    let one = variance(Unit::Event, Neighbours::AddRemove, Values::Count);
    let both_signs = Values::Sum { lower: -2, upper: 3 };
    for (unit, neighbours, values, factor) in [
        (Unit::person(5), Neighbours::AddRemove, Values::Count, 25.0),
        (Unit::person(5), Neighbours::ReplaceOne, Values::Count, 50.0),
        (Unit::person(2), Neighbours::AddRemove, both_signs, 36.0),
        (Unit::person(2), Neighbours::ReplaceOne, both_signs, 100.0),
    ] {
        let ratio = variance(unit, neighbours, values) / one;
        assert!((ratio / factor - 1.0).abs() < 3e-6, "{unit:?} {neighbours:?} {values:?}: {ratio}");
    }
}

/// The concentrated guarantee of Laplace noise is that of its worst column, by brute force, and never more than ε²/2.
#[test]
fn laplace_noise_is_better_concentrated_than_its_epsilon_says() {
    for mechanism in ["input", "binary", "kary(k=4)", "smooth", "honaker-online"] {
        let plan = PlanRequest::count(40, pure(0.7)).with_mechanism(mechanism.parse().unwrap()).plan().unwrap();
        let (columns, scale) = (plan.mechanism().dense().r.transpose(), plan.law().parameter().to_f64());
        let spent = |j| columns.row(j).iter().map(|d| (d / scale).powi(2) / 2.0).sum::<f64>();
        let worst = (0..40).map(spent).fold(0.0, f64::max);
        let rho = plan.guarantee().rho.get();
        assert!(
            (rho / worst - 1.0).abs() < 1e-9 && rho >= worst && rho <= 0.245 * (1.0 + 1e-9),
            "{mechanism}: {rho} {worst}"
        );
    }
}

#[test]
fn plans_round_trip_and_tampering_is_noticed() {
    let mut request =
        PlanRequest::count(8760, Budget::Approximate(Epsilon::new(1.0).unwrap(), Delta::new(1e-9).unwrap()));
    request.unit = Unit::person(10);
    request.values = Values::Sum { lower: -100, upper: 250 };
    request.noise = Some(NoiseKind::Gaussian);
    request.grid = "0.5".parse().unwrap();
    request.meaning.insert("every".into(), "1h".into());
    let plan = request.plan().unwrap();
    let text = toml::to_string_pretty(&plan).unwrap();
    let back: Plan = toml::from_str(&text).unwrap();
    assert_eq!((back.digest(), back.request()), (plan.digest(), plan.request()), "{text}");
    let json: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    assert_eq!(json.digest(), plan.digest());

    let gaussian = text.lines().find(|l| l.starts_with("gaussian")).unwrap();
    let less_noise = text.replace(gaussian, "gaussian = \"1/1\"");
    assert!(toml::from_str::<Plan>(&less_noise).unwrap_err().to_string().contains("is not the one its budget needs"));
    assert!(
        toml::from_str::<Plan>(&text.replace("version = 1", "version = 2"))
            .unwrap_err()
            .to_string()
            .contains("version 2")
    );
    assert!(toml::from_str::<Plan>(&format!("surprise = 1\n{text}")).is_err());
}

#[test]
fn every_field_of_a_plan_is_in_its_digest() {
    let base = || PlanRequest::count(100, pure(1.0)).with_mechanism(MechanismName::Binary);
    let sum = Values::Sum { lower: 0, upper: 1 };
    let variants = [
        base(),
        base().with_horizon(101),
        base().with_budget(pure(1.5)),
        base().with_unit(Unit::person(1)),
        base().with_unit(Unit::person(1).per_step(1)),
        base().with_neighbours(Neighbours::ReplaceOne),
        base().with_values(sum),
        base().with_values(sum).with_grid("0.1".parse().unwrap()),
        base().with_mechanism(MechanismName::HonakerOnline),
        base().with_objective(Objective::Mean),
        base().with_meanings([("a".to_owned(), "b".to_owned())].into()),
    ];
    let digests: std::collections::BTreeSet<_> = variants.iter().map(|v| v.clone().plan().unwrap().digest()).collect();
    assert_eq!(digests.len(), variants.len());
}

/// A bound on a person's events in one step lowers Gaussian noise, and never raises it. It is used if it saves more
/// than exact accounting, which ignores it.
#[test]
fn events_spread_over_steps_need_less_noise() {
    let plan = |per_step| {
        let unit = Unit::person(300).with_optional_per_step(per_step);
        let mechanism = "smooth(h=16,zeros=7)".parse().ok();
        PlanRequest::count(8760, zcdp(0.5)).with_unit(unit).with_optional_mechanism(mechanism).plan().unwrap()
    };
    let exact = plan(None).mechanism().exact_l2_squared().unwrap();
    assert!((plan(None).node_variance() / (300.0 * 300.0 * exact) - 1.0).abs() < 3e-6);
    assert_eq!(plan(None).max_std_error(), plan(Some(300)).max_std_error());
    let spread = plan(Some(1));
    assert_eq!((spread.noise_divisor(), spread.fraction_bits()), (1, 0));
    let capped = spread.mechanism().spread_squared(Spread::new(300, 1));
    assert_eq!(spread.law().parameter().to_f64(), capped as f64);
    assert!(spread.node_variance() < 0.9 * plan(None).node_variance(), "{capped} {exact}");
}

#[test]
fn impossible_requests_are_refused() {
    let gaussian_for_pure = PlanRequest::count(10, pure(1.0)).with_noise(NoiseKind::Gaussian);
    assert!(gaussian_for_pure.plan().unwrap_err().to_string().contains("pure"));
    let square_root = PlanRequest::count(10, pure(1.0)).with_mechanism(MechanismName::Sqrt);
    assert!(square_root.plan().unwrap_err().to_string().contains("Gaussian noise only"));
    let weighted = PlanRequest::count(10, pure(1.0)).with_mechanism("path-sum(levels=2*4)".parse().unwrap());
    assert!(weighted.plan().unwrap_err().to_string().contains("Gaussian noise only"));
    let enormous = Values::Sum { lower: 0, upper: i64::MAX };
    let path_sum = PlanRequest::count(10, zcdp(1.0)).with_values(enormous).with_mechanism("path-sum".parse().unwrap());
    assert!(path_sum.plan().unwrap_err().to_string().contains("coarsen the grid"));
    assert!(PlanRequest::count(0, pure(1.0)).plan().is_err());
    let zero = PlanRequest::count(10, pure(1.0)).with_values(Values::Sum { lower: 0, upper: 0 });
    assert!(zero.plan().unwrap_err().to_string().contains("sensitivity is 0"));
    let small = PlanRequest::count(10, pure(1.0)).with_mechanism("smooth(h=4,zeros=2)".parse().unwrap());
    assert!(small.plan().unwrap_err().to_string().contains("serves at most 5 steps"));
}

/// If noise is read before its node's data are complete, composition over nodes fails against an adversary who chooses
/// the event while watching.
#[test]
fn open_nodes_count_by_pure_epsilon_alone() {
    for mechanism in ["subtract(k=4)", "consistent(k=4)", "hats", "dense-pure"] {
        let plan = |budget| {
            let request = PlanRequest::count(40, budget).with_noise(NoiseKind::Laplace);
            request.with_mechanism(mechanism.parse().unwrap()).plan().unwrap()
        };
        assert!((plan(pure(0.7)).guarantee().rho.get() / 0.245 - 1.0).abs() < 1e-9, "{mechanism}");
        let loose = Budget::Approximate(Epsilon::new(0.7).unwrap(), Delta::new(1e-2).unwrap());
        assert_eq!(plan(loose).law(), plan(pure(0.7)).law(), "{mechanism}");
        assert_eq!(plan(loose).guarantee().pure_epsilon, plan(pure(0.7)).guarantee().pure_epsilon);
    }
}

/// Under (ε, δ) the noise is certified for the worst column, and not much larger than needed.
#[test]
fn approximate_budgets_are_spent_tightly() {
    use crate::privacy::loss::{self, ShiftProfile};
    for (epsilon, delta) in [(1.0, 1e-6), (0.1, 1e-9), (4.0, 1e-3)] {
        let (epsilon, delta) = (Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap());
        let budget = Budget::Approximate(epsilon, delta);
        for mechanism in ["input", "binary", "kary(k=3)", "smooth", "honaker-online"] {
            let plan = |noise| {
                let request = PlanRequest::count(40, budget);
                request.with_mechanism(mechanism.parse().unwrap()).with_noise(noise).plan().unwrap()
            };
            let (laplace, gaussian) = (plan(NoiseKind::Laplace), plan(NoiseKind::Gaussian));
            let ones = ShiftProfile::ones(laplace.mechanism().column_norms().l1 as u64).unwrap();
            let DiscreteLaw::Laplace(law) = laplace.law() else { panic!("a Laplace law") };
            let spent = loss::delta_of_laplace(law.scale(), &ones, epsilon);
            // Pure ε needs no more if few nodes move.
            let pure = ones.variables() as f64 / law.scale().to_f64() <= epsilon.get() * (1.0 + 1e-6);
            assert!(spent <= delta.get() && (pure || spent > 0.9 * delta.get()), "{mechanism}: {spent}");
            let DiscreteLaw::Gaussian(law) = gaussian.law() else { panic!("a Gaussian law") };
            let divisor = u128::from(gaussian.noise_divisor());
            let norm = if gaussian.exact_accounting() {
                (gaussian.mechanism().exact_l2_squared().unwrap() * (divisor * divisor) as f64) as u128
            } else {
                gaussian.mechanism().spread_squared(Spread::ONE) * divisor * divisor
            };
            let spent = loss::delta_of_discrete_gaussian_by_norm(law.parameter(), norm, epsilon);
            assert!(spent <= delta.get() * (1.0 + 1e-9) && spent > 0.98 * delta.get(), "{mechanism}: {spent}");
            let by_zcdp = crate::privacy::conversions::rho_for(epsilon, delta).get();
            // If the mechanism's own grid cannot be refined, discreteness costs up to s² of the variance.
            let refined = mechanism != "honaker-online";
            assert!(!refined || gaussian.guarantee().rho.get() > 1.02 * by_zcdp, "{mechanism}: no better than zCDP");
            assert!(gaussian.guarantee().epsilon_at(delta) <= epsilon.get());
        }
    }
}

/// Laplace noise that spends a little δ is not exactly ε-private: the reported pure ε is the one actually spent.
#[test]
fn a_pure_epsilon_is_never_less_than_what_is_spent() {
    let mut beyond = 0;
    for delta in [1e-6, 1e-7, 1e-8, 1e-9] {
        let budget = Budget::Approximate(Epsilon::new(1.0).unwrap(), Delta::new(delta).unwrap());
        let request = PlanRequest::count(40, budget).with_mechanism("input".parse().unwrap());
        let plan = request.with_noise(NoiseKind::Laplace).plan().unwrap();
        let DiscreteLaw::Laplace(law) = plan.law() else { panic!("a Laplace law") };
        // One event moves one node by 1: ε is the denominator of the scale over its numerator.
        let more = law.scale().denominator() > law.scale().numerator();
        let guarantee = plan.guarantee();
        assert_eq!(guarantee.pure_epsilon.unwrap().get() > 1.0, more, "{delta}: {}", law.scale());
        assert_eq!(guarantee.epsilon_delta().unwrap().1.is_some(), more, "{delta}");
        let spent = Exact::from(law.scale().denominator()).over(&Exact::from(law.scale().numerator()));
        assert!(Exact::decimal(guarantee.pure_epsilon.unwrap().get()) >= spent, "{delta}");
        beyond += u32::from(more);
    }
    assert!(beyond > 0, "nothing was spent beyond ε");
}

/// A prepared mechanism is used for its name and competes in a search, only at its own horizon.
#[test]
fn prepared_mechanisms_are_not_built_again() {
    use crate::mechanism::DensePure;
    let found: Arc<dyn Mechanism> =
        Arc::new(DensePure::search(16, Objective::Max, &mut |_, _| ControlFlow::Continue(())).unwrap());
    let request = |horizon| {
        let prepared = Prepared::new([found.clone()]);
        PlanRequest::count(horizon, pure(1.0)).with_search(Search::default().with_prepared(prepared))
    };
    assert_eq!(request(16).plan().unwrap().mechanism().name(), found.name());
    assert_ne!(request(17).plan().unwrap().mechanism().name(), found.name());
    let named = request(16).with_mechanism("dense-pure".parse().unwrap()).plan().unwrap();
    assert!(Arc::ptr_eq(named.mechanism(), &found));
    assert_eq!(named.request().search.prepared, Prepared::default());
}

/// Laplace noise under zCDP is accounted node by node: twice the variance of Gaussian noise.
#[test]
fn laplace_under_zcdp_costs_a_factor_of_two() {
    let plan = |noise| {
        let request = PlanRequest::count(1000, zcdp(0.01)).with_mechanism("binary".parse().unwrap()).with_noise(noise);
        request.plan().unwrap()
    };
    let (laplace, gaussian) = (plan(NoiseKind::Laplace), plan(NoiseKind::Gaussian));
    assert!((laplace.node_variance() / gaussian.node_variance() - 2.0).abs() < 0.01);
    assert!(laplace.guarantee().rho.get() <= 0.01 * (1.0 + 1e-9));
}

/// A route that needs more noise than can be drawn is replaced by one that does not: exact accounting needs a finer
/// grid.
#[test]
fn too_fine_a_grid_gives_way() {
    let request = PlanRequest::count(1000, zcdp(0.5))
        .with_mechanism("smooth".parse().unwrap())
        .with_values(Values::Sum { lower: 0, upper: 1 << 55 });
    let plan = request.clone().plan().unwrap();
    let finer = plan.noise_divisor() > 1;
    assert!(plan.law().scale() <= (1u64 << 60) as f64 && (!finer || plan.exact_accounting()));
    let huge = request.with_values(Values::Sum { lower: 0, upper: i64::MAX });
    assert!(huge.plan().is_err_and(|e| e.to_string().contains("grid steps")));
}

/// Laplace noise under (ε, δ) is certified for every placement of several events of any size, by brute force over their
/// nodes.
#[test]
fn several_events_of_any_size_are_certified_under_approximate_privacy() {
    use crate::privacy::loss::{self, ShiftProfile};
    let (epsilon, delta) = (Epsilon::new(1.0).unwrap(), Delta::new(1e-3).unwrap());
    for (mechanism, neighbours) in ["binary", "kary(k=3)", "smooth"]
        .into_iter()
        .flat_map(|name| [Neighbours::AddRemove, Neighbours::ReplaceOne].map(|neighbours| (name, neighbours)))
    {
        let request = PlanRequest::count(12, Budget::Approximate(epsilon, delta))
            .with_unit(Unit::person(3))
            .with_values(Values::Sum { lower: -2, upper: 5 })
            .with_neighbours(neighbours)
            .with_mechanism(mechanism.parse().unwrap())
            .with_noise(NoiseKind::Laplace);
        let plan = request.plan().unwrap();
        let DiscreteLaw::Laplace(law) = plan.law() else { panic!("a Laplace law") };
        let columns = plan.mechanism().dense().r.transpose();
        let spent = |shift: &dyn Fn(usize) -> f64| {
            let shifts: Vec<_> = (0..columns.shape().1).map(|n| (shift(n).abs() as u64, 1)).collect();
            ShiftProfile::new(&shifts).map_or(0.0, |moved| loss::delta_of_laplace(law.scale(), &moved, epsilon))
        };
        let mut worst = 0.0f64;
        for a in 0..12 {
            worst = worst.max(match neighbours {
                Neighbours::AddRemove => spent(&|n| 15.0 * columns.row(a)[n]),
                Neighbours::ReplaceOne => {
                    let moved = (0..12).map(|b| spent(&|n| 15.0 * (columns.row(a)[n] - columns.row(b)[n])));
                    moved.fold(spent(&|n| 21.0 * columns.row(a)[n]), f64::max)
                }
            });
        }
        let reached = neighbours == Neighbours::ReplaceOne || worst > 0.9 * delta.get();
        assert!(worst <= delta.get() && reached, "{mechanism}, {neighbours:?}: {worst}");
    }
}

/// Error and interval computed together equal those computed separately, to the last bit, for every mechanism.
#[test]
fn errors_at_once_are_those_one_by_one() {
    for horizon in [1, 2, 37, 300] {
        for (kind, budget) in [(NoiseKind::Laplace, pure(1.0)), (NoiseKind::Gaussian, zcdp(0.1))] {
            for candidate in PlanRequest::count(horizon, budget).candidates().unwrap() {
                let named = PlanRequest::count(horizon, budget).with_mechanism(candidate.mechanism.name());
                let plan = named.with_noise(candidate.kind).plan().unwrap();
                let (mut both, mut alone) = (plan.intervals(0.9).unwrap(), plan.intervals(0.9).unwrap());
                for step in (1..=horizon).step_by(5).chain([horizon]) {
                    let (std_error, half_width) = both.error(step);
                    let name = plan.mechanism().name();
                    assert_eq!(std_error.to_bits(), plan.std_error(step).to_bits(), "{name} {kind:?} {horizon} {step}");
                    assert_eq!(half_width, alone.half_width(step), "{name} {kind:?} {horizon} {step}");
                }
            }
        }
    }
}

/// A plan that is read finds the mechanism and the noise of the plan that was written, for every mechanism.
#[test]
fn plans_of_every_candidate_are_read_back() {
    for workload in [Workload::Sum, Workload::Window(7), Workload::Decay(5), Workload::Increments] {
        for (horizon, budget) in [(1, pure(1.0)), (37, pure(0.3)), (300, zcdp(0.1)), (300, zcdp(2.0))] {
            let request =
                PlanRequest::count(horizon, budget).with_workload(workload).with_sums_per_event(horizon.min(3));
            for candidate in request.candidates().unwrap() {
                let named = request.clone().with_mechanism(candidate.mechanism.name());
                let plan = named.with_noise(candidate.kind).plan().unwrap();
                let name = plan.mechanism().name();
                let by_toml: Plan = toml::from_str(&toml::to_string(&plan).unwrap()).unwrap();
                let by_json: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
                assert_eq!([by_toml.digest(), by_json.digest()], [plan.digest(); 2], "{name} {workload:?} {horizon}");
            }
        }
    }
}

/// Under pure budgets, windows of few steps use noise on each step and wider ones use hats, and the choice is never
/// worse than the alternatives.
#[test]
fn windows_take_the_best_of_steps_and_hats() {
    let request = |horizon, width| PlanRequest::count(horizon, pure(0.1)).with_workload(Workload::Window(width));
    for (width, best) in [(2, "input"), (7, "input"), (13, "input"), (14, "rolling-hats"), (30, "rolling-hats")] {
        let plan = request(1 << 40, width).plan().unwrap();
        assert_eq!(plan.mechanism().name().family().stem, best, "{width}");
    }
    for (horizon, width) in [(60, 20), (365, 30)] {
        let chosen = request(horizon, width).plan().unwrap().max_std_error();
        for name in ["input", "rolling-hats", "hats", "consistent", "smooth", "subtract"] {
            let other = request(horizon, width).with_mechanism(name.parse().unwrap()).plan().unwrap();
            assert!(other.max_std_error() >= chosen, "{name} for {width} of {horizon}");
        }
    }
}

/// To the last bit: ε as given, and its ρ rounded up.
#[test]
fn promises_are_rounded_up() {
    let epsilon = 0.123_456_789;
    let plan = PlanRequest::count(1, pure(epsilon)).plan().unwrap();
    assert_eq!(plan.guarantee().pure_epsilon, Some(Epsilon::new(epsilon).unwrap()));
    let (rho, exact) = (plan.guarantee().rho.get(), Exact::decimal(epsilon).half_square());
    assert!(Exact::decimal(rho) >= exact && Exact::decimal(rho.next_down()) < exact, "{rho}");
}

/// ε at any δ: the best of all routes, the stated pair from its own δ on, and with the δ that selection leaves.
#[test]
fn epsilon_at_any_delta_is_the_best_route() {
    let delta = |value| Delta::new(value).unwrap();
    let budget = Budget::Approximate(Epsilon::new(1.0).unwrap(), delta(1e-6));
    let plan = PlanRequest::count(40, budget).with_noise(NoiseKind::Gaussian).plan().unwrap();
    let own = plan.guarantee();
    assert!(own.epsilon_at(delta(1e-6)) <= 1.0 && own.epsilon_at(delta(1.1e-6)) <= 1.0);
    let less = own.epsilon_at(delta(9e-7));
    let by_zcdp = crate::privacy::conversions::epsilon_of_zcdp(own.rho, delta(9e-7));
    assert!(less > 1.0 && less < 1.02 && by_zcdp > less, "{less} {by_zcdp}");
    let selected = own.with_selection(delta(1e-7));
    assert!(selected.epsilon_at(delta(1e-7)).is_infinite());
    let with = selected.epsilon_at(delta(1e-6));
    assert!(with >= less && with <= less * (1.0 + 1e-9), "{with} {less}");
    let laplace = PlanRequest::count(1, pure(0.7)).plan().unwrap();
    assert_eq!(laplace.guarantee().epsilon_at(delta(1e-300)), 0.7);
}

#[test]
fn parts_promise_together_what_the_whole_does() {
    use crate::privacy::composition::Split;
    let of = |budget: Budget, shares: &[f64]| {
        let parts = Split::new(budget).budgets(shares).unwrap();
        let plan = |part: Budget| (part, PlanRequest::count(20, part).plan().unwrap().guarantee());
        Guarantee::composed(budget, &parts.into_iter().map(plan).collect::<Vec<_>>())
    };
    let pair = (Epsilon::new(1.0).unwrap(), Delta::new(1e-6).unwrap());
    let budget = Budget::Approximate(pair.0, pair.1);
    let (whole, half) = (of(budget, &[0.25, 0.75]).unwrap(), of(budget, &[0.25, 0.25]).unwrap());
    assert_eq!((whole.stated, whole.pure_epsilon), (Some(pair), None));
    let rho = budget.rho().unwrap().get();
    assert!(whole.rho.get() <= rho && whole.rho.get() > rho * (1.0 - 1e-3));
    assert!(half.rho.get() < rho * 0.51 && half.rho.get() > rho * 0.49, "{half:?}");
    assert_eq!(of(pure(1.0), &[0.25, 0.25]).unwrap().pure_epsilon, Some(pair.0));
    assert!(Guarantee::composed(pure(1.0), &[]).is_err());
}
