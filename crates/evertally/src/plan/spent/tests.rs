//! The first steps of every family, compared with the covariance of their releases.

use crate::noise::Node;
use crate::plan::{NoiseKind, Plan, PlanRequest};
use crate::privacy::{Budget, Delta, Epsilon, Neighbours, Rho, Unit};
use nalgebra::{DMatrix, DVector};

const STEPS: u64 = 10;

/// Families with a square `L`, whose releases reveal as much as their nodes.
const SQUARE: [&str; 14] = [
    "input",
    "output",
    "sqrt",
    "normalized-sqrt",
    "banded-sqrt(bands=3)",
    "banded-inverse-sqrt(bands=3)",
    "banded-inverse(bands=3)",
    "blt(buffers=2)",
    "normalized-blt(buffers=2)",
    "normalized-blt(buffers=2,run=2,gap=3)",
    "epoch-bands(bands=5,run=2,gap=6)",
    "dense",
    "optimal",
    "binary",
];

const OTHERS: [&str; 7] =
    ["kary(k=3)", "subtract(k=3)", "honaker-online", "smooth", "path-sum", "path-sum(levels=unit)", "consistent(k=3)"];

fn plan_of(name: &str, unit: Unit) -> Plan {
    let request = PlanRequest::count(STEPS, Budget::Zcdp(Rho::new(0.5).unwrap()));
    let request = request.with_noise(NoiseKind::Gaussian).with_unit(unit);
    request.with_mechanism(name.parse().unwrap()).plan().unwrap()
}

/// All counts of a unit over the first steps: at most `total`, `per_step` in one, and `apart`.
fn counts(steps: usize, total: u64, per_step: u64, apart: usize) -> Vec<Vec<u64>> {
    let mut open = vec![(vec![], total)];
    for step in 0..steps {
        let mut next = vec![];
        for (so_far, left) in open {
            let near = so_far.iter().rev().take(apart - 1).any(|count: &u64| *count > 0);
            for count in 0..=if near { 0 } else { per_step.min(left) } {
                let mut with: Vec<u64> = so_far.clone();
                with.push(count);
                next.push((with, left - count));
            }
        }
        open = next;
        debug_assert!(open.iter().all(|(counts, _)| counts.len() == step + 1));
    }
    open.into_iter().map(|(counts, _)| counts).collect()
}

/// ρ of the first releases for the worst of these counts, by their covariance.
fn brute_force(plan: &Plan, through: usize, patterns: &[Vec<u64>]) -> f64 {
    let left = plan.mechanism().dense().l;
    let left = DMatrix::from_fn(through, left.shape().1, |t, n| left.row(t)[n]);
    let covariance = (&left * left.transpose()) * plan.node_variance();
    let factor = covariance.cholesky().expect("the releases have a density");
    let reveals = |counts: &Vec<u64>| {
        let sums = counts.iter().scan(0.0, |sum, count| {
            *sum += *count as f64;
            Some(*sum)
        });
        let sums = DVector::from_iterator(through, sums);
        sums.dot(&factor.solve(&sums)) / 2.0
    };
    patterns.iter().map(reveals).fold(0.0, f64::max)
}

#[test]
fn no_first_steps_reveal_more_than_they_spend() {
    let units = [
        (Unit::Event, (1, 1, 1)),
        (Unit::person(3).per_step(1), (3, 1, 1)),
        (Unit::person(4).per_step(2).apart(3), (4, 2, 3)),
    ];
    for name in SQUARE.iter().chain(&OTHERS) {
        for (unit, (total, per_step, apart)) in units {
            let plan = plan_of(name, unit);
            let mut before = 0.0;
            for through in 1..=STEPS {
                let spent = plan.spent(through).unwrap().rho.get();
                let exact = brute_force(&plan, through as usize, &counts(through as usize, total, per_step, apart));
                // Weights and coefficients are rounded to 14 bits or more.
                assert!(exact <= spent * (1.0 + 1e-3), "{name}, {unit:?} through {through}: {exact} above {spent}");
                assert!(spent >= before * (1.0 - 1e-9), "{name}: {spent} after {before}");
                let is_tight = SQUARE.contains(name) && unit == Unit::Event;
                assert!(!is_tight || spent <= exact * 1.002, "{name} through {through}: {spent}, exact {exact}");
                before = spent;
            }
            assert_eq!(plan.spent(STEPS).unwrap().rho, plan.guarantee().rho, "{name}");
        }
    }
}

/// The rows of the first steps, and their nodes, are those of the whole mechanism.
#[test]
fn first_steps_are_the_same_rows() {
    for name in SQUARE.iter().chain(&OTHERS).chain(&["endless", "normalized-blt(buffers=3)"]) {
        for (unit, horizon) in [(Unit::Event, 40), (Unit::person(2).per_step(1).apart(4), 31)] {
            let request = PlanRequest::count(horizon, Budget::Zcdp(Rho::new(0.5).unwrap())).with_unit(unit);
            let request = request.with_noise(NoiseKind::Gaussian).with_mechanism(name.parse().unwrap());
            let Ok(plan) = request.plan() else { continue };
            for through in [1, 2, 7, 16, 27, horizon] {
                let Some(first) = plan.mechanism().through(through) else { continue };
                assert_eq!((first.horizon(), first.noise_bits()), (through, plan.mechanism().noise_bits()), "{name}");
                for step in 1..=through {
                    let row = |of: &dyn crate::mechanism::Mechanism| {
                        let mut row: Vec<(Node, f64)> = vec![];
                        of.visit_row(step, &mut |node, weight| row.push((node, weight)));
                        row
                    };
                    let (own, all) = (row(&*first), row(&**plan.mechanism()));
                    assert_eq!(own.len(), all.len(), "{name} through {through}, row {step}");
                    for ((node, weight), (other, expected)) in own.into_iter().zip(all) {
                        assert!(node == other && (weight - expected).abs() < 1e-9, "{name} row {step}");
                    }
                }
            }
        }
    }
}

/// Levels of a tree that the first steps do not use cost nothing, under pure ε too, and the (ε, δ) of a few steps is
/// smaller than that of all.
#[test]
fn every_form_of_budget_is_less_for_fewer_steps() {
    let delta = Delta::new(1e-6).unwrap();
    let pure = PlanRequest::count(1000, Budget::Pure(Epsilon::new(1.0).unwrap()));
    let pure = pure.with_mechanism("binary".parse().unwrap()).plan().unwrap();
    let first = pure.spent(7).unwrap();
    assert!((first.pure_epsilon.unwrap().get() - 0.3).abs() < 1e-9 && first.epsilon_at(delta) <= 0.3 + 1e-9);
    // Not causal, so that only pure ε adds up.
    let early = PlanRequest::count(1000, Budget::Pure(Epsilon::new(1.0).unwrap()));
    let early = early.with_mechanism("subtract(k=3)".parse().unwrap()).plan().unwrap();
    assert!(early.spent(4).unwrap().pure_epsilon.unwrap().get() < 0.5);
    for neighbours in [Neighbours::AddRemove, Neighbours::ReplaceOne] {
        let budget = Budget::Approximate(Epsilon::new(1.0).unwrap(), delta);
        let plan = PlanRequest::count(365, budget).with_noise(NoiseKind::Gaussian).with_neighbours(neighbours);
        let plan = plan.with_unit(Unit::person(30).per_step(1)).plan().unwrap();
        let at = |through: u64| plan.spent(through).unwrap().epsilon_at(delta);
        assert!(at(10) < 0.7 * at(100) && at(100) < at(365) && at(365) <= 1.0, "{} {} {}", at(10), at(100), at(365));
    }
    assert!(pure.spent(0).is_err() && pure.spent(1001).is_err());
}
