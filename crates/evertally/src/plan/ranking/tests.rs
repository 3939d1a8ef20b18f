use super::*;
use crate::privacy::{Epsilon, Rho, Unit, Values};

/// No candidate is below the bound, for every unit and every bound on values, and the best is near it for single
/// events.
#[test]
fn nothing_is_below_the_bound() {
    let delta = Delta::new(1e-6).unwrap();
    let budgets = [Budget::Zcdp(Rho::new(0.1).unwrap()), Budget::Approximate(Epsilon::new(1.0).unwrap(), delta)];
    for budget in budgets {
        for (lower, upper) in [(1, 1), (0, 7), (-3, 5)] {
            for unit in [Unit::Event, Unit::person(4), Unit::person(4).per_step(2)] {
                for neighbours in [Neighbours::AddRemove, Neighbours::ReplaceOne] {
                    for sums_per_event in [1, 3] {
                        let values = Values::Sum { lower, upper };
                        let count = PlanRequest::count(60, budget);
                        let request = count
                            .with_unit(unit)
                            .with_neighbours(neighbours)
                            .with_values(values)
                            .with_sums_per_event(sums_per_event);
                        let ranking = Ranking::new(&request, &request.candidates().unwrap()).unwrap().unwrap();
                        let bound = ranking.bound().unwrap_or(0.0);
                        let gaussian = |row: &&RankingRow| row.noise.law == NoiseKind::Gaussian;
                        for row in ranking.ranking.iter().filter(gaussian) {
                            let least = row.max_std.max(row.mean_std);
                            assert!(least >= bound * (1.0 - 1e-9), "{request:?}: {} {least} {bound}", row.mechanism);
                        }
                        if unit == Unit::Event && neighbours == Neighbours::AddRemove {
                            let best = ranking.ranking.iter().find(gaussian).unwrap();
                            assert!(best.max_std < 1.02 * bound, "{request:?}: {} {bound}", best.max_std);
                        }
                    }
                }
            }
        }
    }
}

/// Where noise is so small that discrete laws differ from continuous ones, no candidate is below its bound, either.
#[test]
fn small_noise_has_its_bound() {
    let delta = |delta: f64| Delta::new(delta).unwrap();
    let mut budgets: Vec<Budget> = [0.5, 1.0, 2.0, 5.0, 8.0].map(|rho| Budget::Zcdp(Rho::new(rho).unwrap())).into();
    budgets.push(Budget::Approximate(Epsilon::new(20.0).unwrap(), delta(0.1)));
    budgets.push(Budget::Approximate(Epsilon::new(3.0).unwrap(), delta(1e-6)));
    for budget in budgets {
        for horizon in [1, 2, 7, 60] {
            for unit in [Unit::Event, Unit::person(3).per_step(1)] {
                let request = PlanRequest::count(horizon, budget).with_unit(unit);
                let ranking = Ranking::new(&request, &request.candidates().unwrap()).unwrap().unwrap();
                let ratios = ranking.ranking.iter().filter_map(|row| Some((row.mechanism, row.above_lower_bound?)));
                let optimum = ranking.optimum_max_std.unwrap_or(0.0);
                for (mechanism, ratio) in ratios {
                    assert!(ratio >= 1.0 - 1e-5, "{budget:?}, {horizon}, {unit:?}: {mechanism} {ratio}");
                }
                for row in ranking.ranking.iter().filter(|row| row.noise.law == NoiseKind::Gaussian) {
                    assert!(row.max_std >= optimum * (1.0 - 1e-5), "{budget:?}, {horizon}: {}", row.mechanism);
                }
            }
        }
    }
}

/// No plan is below its bound, also for units with several groups.
#[test]
fn groups_have_a_bound_of_their_own() {
    use crate::privacy::Unit;
    for unit in [
        Unit::person(9).per_group(3).in_groups(3),
        Unit::person(30).per_group(1),
        Unit::person(12).per_group(4).per_step(4),
        Unit::person(12).per_group(4).per_step(8),
        Unit::person(60).per_group(20).per_step(2),
    ] {
        for horizon in [16, 100] {
            let budget = Budget::Zcdp(crate::privacy::Rho::new(1.0).unwrap());
            let request = PlanRequest::count(horizon, budget).with_unit(unit);
            let candidates = request.candidates().unwrap();
            let ranking = Ranking::new(&request, &candidates).unwrap().unwrap();
            let (bound, best) = (ranking.bound().unwrap(), ranking.chosen.max_std);
            assert!(bound <= best * (1.0 + 1e-9), "{unit:?} over {horizon}: {best} below {bound}");
            // Over a few steps a unit has events in nearly all of them.
            assert!(horizon < 100 || best <= 1.3 * bound, "{unit:?} over {horizon}: {best} far above {bound}");
        }
    }
}

/// Under pure ε no candidate is below the bound, for every ε, and for few steps the best is near it where the laws of
/// integers matter.
#[test]
fn pure_plans_have_a_bound() {
    for epsilon in [0.01, 1.0, 4.0, 12.0] {
        let budget = Budget::Pure(Epsilon::new(epsilon).unwrap());
        for horizon in [1, 2, 3, 10, 60, 300] {
            for unit in [Unit::Event, Unit::person(4), Unit::person(4).per_step(2)] {
                for sums_per_event in [1, 3] {
                    let request =
                        PlanRequest::count(horizon, budget).with_unit(unit).with_sums_per_event(sums_per_event);
                    let ranking = Ranking::new(&request, &request.candidates().unwrap()).unwrap().unwrap();
                    for row in &ranking.ranking {
                        let ratio = row.above_lower_bound.unwrap();
                        assert!(ratio >= 1.0, "ε = {epsilon}, {request:?}: {} {ratio}", row.mechanism);
                    }
                    let best = ranking.chosen.above_lower_bound.unwrap();
                    if horizon == 1 && unit == Unit::Event && sums_per_event == 1 {
                        // One count: discrete Laplace noise has variance 1/(2 sinh²(ε/2)), twice the bound.
                        assert!((best / 2f64.sqrt() - 1.0).abs() < 1e-4, "ε = {epsilon}: {best}");
                    }
                    let is_simple = unit == Unit::Event && sums_per_event == 1;
                    assert!(epsilon > 1.0 || horizon > 60 || !is_simple || best < 3.3, "{epsilon}: {best}");
                }
            }
        }
    }
}
