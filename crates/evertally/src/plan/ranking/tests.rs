use super::*;
use crate::privacy::{Epsilon, Rho, Unit, Values};

/// No candidate is below the bound, whoever is protected and however values are bounded, and the best is near it for
/// single events.
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
                        let ranking = Ranking::new(&request, &request.candidates().unwrap()).unwrap();
                        let bound = ranking.bound().unwrap_or(0.0);
                        let gaussian = |row: &&Row| row.noise.law == NoiseKind::Gaussian;
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
