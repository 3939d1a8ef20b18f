//! Units of several events, compared with every way to place them.

use super::*;
use crate::mechanism::{Blt, ColumnScaling, Objective};
use crate::privacy::Spread;
use crate::privacy::{Neighbours, Sensitivity, Unit, Values};

/// Every placement of a spread's events into this many steps of one sum.
fn placements(steps: usize, spread: Spread) -> Vec<Vec<u64>> {
    let mut all: Vec<Vec<u64>> = vec![vec![]];
    for _ in 0..steps {
        let longer = |placement: Vec<u64>| {
            let left = spread.total - placement.iter().sum::<u64>();
            let last = placement.iter().rposition(|count| *count > 0);
            let near = last.is_some_and(|last| ((placement.len() - last) as u64) < spread.separation);
            let most = if near { 0 } else { spread.per_step.min(left) };
            (0..=most).map(move |count| placement.iter().copied().chain([count]).collect::<Vec<_>>())
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

fn largest(r: &Matrix, placements: &[Vec<u64>]) -> f64 {
    let moved = |placement: &Vec<u64>| {
        let sum = |n: usize| r.row(n).iter().zip(placement).map(|(r, u)| r * *u as f64).sum::<f64>();
        (0..r.shape().0).map(|n| sum(n).powi(2)).sum::<f64>()
    };
    placements.iter().map(moved).fold(0.0, f64::max)
}

fn spread(total: u64, per_step: u64, separation: u64) -> Spread {
    Spread { separation, ..Spread::new(total, per_step) }
}

/// The bounds of families for units, and the allowed distance above the truth.
#[test]
fn bounds_of_units_by_enumeration() {
    let spreads = [(4, 1, 1), (4, 4, 1), (7, 2, 1), (3, 2, 1), (5, 1, 2), (4, 2, 3), (5, 3, 2), (2, 1, 4)];
    for horizon in [1u64, 2, 5, 8, 9] {
        let mut mechanisms: Vec<Arc<dyn Mechanism>> = all(horizon);
        if horizon > 2 {
            for (most, separation) in [(1, 1), (2, 1), (4, 1), (3, 2)] {
                let runs = Participation::new(most, separation).unwrap();
                mechanisms.push(Arc::new(Blt::optimised_for_runs(horizon, runs, 2, Objective::Max).unwrap()));
            }
        }
        for mechanism in mechanisms {
            let (name, r) = (mechanism.name(), mechanism.dense().r);
            let unit = libm::exp2(f64::from(2 * mechanism.noise_bits()));
            let one = mechanism.spread_squared(Spread::ONE) as f64 / unit;
            for spread in spreads.map(|(total, per_step, separation)| spread(total, per_step, separation)) {
                let reached = largest(&r, &placements(horizon as usize, spread));
                let bound = crate::mechanism::units::squared(&*mechanism, spread) as f64 / unit;
                let place = format!("{name} at {horizon}, {spread:?}: {reached} of {bound}");
                // Real factorizations are protected as integers, which are rounded.
                assert!(reached <= bound * (1.0 + 1e-4), "{place}");
                let total = spread.total as f64;
                assert!(bound <= total * total * one * 1.001, "looser than that many times one event: {place}");
                // Events that fit into the steps: a unit has no more.
                let room = spread.per_step * horizon.div_ceil(spread.separation);
                assert!(bound <= near(name.family().stem) * reached || spread.total > room, "{place}");
            }
        }
    }
}

/// The allowed distance of a bound above the truth: those of Toeplitz matrices are exact if columns are alike, and
/// close if they are not; the dense twin reveals nodes that cannot all be full together.
fn near(stem: &str) -> f64 {
    match stem {
        "input" | "output" | "sqrt" | "blt" | "banded-sqrt" | "banded-inverse-sqrt" | "banded-inverse" => 1.001,
        "normalized-blt" | "normalized-sqrt" => 1.05,
        _ => 1.15,
    }
}

/// Groups by enumeration: every way to place events into two or three sums.
#[test]
fn bounds_of_groups_by_enumeration() {
    let steps = 4;
    for name in ["input", "binary", "sqrt", "blt(buffers=1)", "normalized-blt(run=2)"] {
        let mechanism = name.parse::<MechanismName>().unwrap();
        let mechanism = mechanism.build(steps, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).unwrap();
        let r = mechanism.dense().r;
        let square = libm::exp2(f64::from(2 * mechanism.noise_bits()));
        for (total, per_step, per_group, groups) in
            [(3, 3, 2, 2), (4, 2, 2, 2), (4, 1, 2, 3), (3, 2, 1, 3), (5, 2, 3, 2)]
        {
            let unit = Unit::person(total).per_step(per_step).per_group(per_group).in_groups(groups);
            let sensitivity = Sensitivity::of(unit, Neighbours::AddRemove, Values::Count, steps).unwrap();
            let bound = sensitivity.squared(&*mechanism) / square;
            // One sum after the other, each with the remaining events.
            let of_one = |left: u64| placements(steps as usize, spread(per_group.min(left), per_step, 1));
            let mut best = 0.0f64;
            let mut open: Vec<(u64, Vec<u64>, f64, u64)> = vec![(groups, vec![0; steps as usize], 0.0, total)];
            while let Some((groups, steps_used, squared, left)) = open.pop() {
                best = best.max(squared);
                if groups == 0 {
                    continue;
                }
                for placement in of_one(left) {
                    let used: Vec<u64> = steps_used.iter().zip(&placement).map(|(a, b)| a + b).collect();
                    if placement.iter().sum::<u64>() > 0 && used.iter().all(|count| *count <= per_step) {
                        let own = largest(&r, std::slice::from_ref(&placement));
                        open.push((groups - 1, used, squared + own, left - placement.iter().sum::<u64>()));
                    }
                }
            }
            let place =
                format!("{name}, {total} events, {per_step} a step, {per_group} in {groups} groups: {best} of {bound}");
            assert!(best <= bound * (1.0 + 1e-4), "{place}");
            // Two groups are counted as if both could have the fullest node.
            assert!(bound <= 1.35 * best, "{place}");
        }
    }
}

/// The flights: 300 events of an aircraft, three an hour, over a year of hours.
#[test]
fn flights_by_hour() {
    let spread = spread(300, 3, 1);
    let criterion = Criterion::new(NoiseKind::Gaussian, Objective::Max).with_spread(spread);
    let best = "normalized-blt".parse::<MechanismName>().unwrap().build(8760, &criterion).unwrap();
    let error = (criterion.figure(&*best) * spread.total as f64).sqrt();
    assert!(error < 700.0, "{}: {error}", best.name());
    let plain = "blt".parse::<MechanismName>().unwrap().build(8760, &criterion).unwrap();
    let error = (criterion.figure(&*plain) * spread.total as f64).sqrt();
    assert!(error < 760.0, "{}: {error}", plain.name());
    let _ = ColumnScaling::BOTH;
}
