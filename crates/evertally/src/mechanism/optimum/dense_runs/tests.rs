//! Sensitivities against brute force, optima against other optimisers and the lower bound, releases against their
//! definition.

use super::*;
use crate::mechanism::toeplitz::filter::tests::{by_rationals, every_placement_stays_below_the_bound, noise};
use crate::mechanism::{Criterion, NoiseKind};
use crate::plan::unit_lower_bound;

fn unit(most: u64, separation: u64) -> Participation {
    Participation::new(most, separation).unwrap()
}

fn solved(horizon: u64, runs: Participation, objective: Objective) -> DenseRuns {
    DenseRuns::solve(horizon, runs, objective).unwrap()
}

fn figure(built: &dyn Mechanism, runs: Participation, objective: Objective) -> f64 {
    built.participation_squared(runs) * objective.row_norm_squared(built)
}

fn spread(total: u64, per_step: u64, separation: u64) -> Spread {
    Spread { separation, ..Spread::new(total, per_step) }
}

/// The largest `uᵀXu` over all counts of a spread, one by one.
fn by_brute_force(optimum: &DenseRuns, spread: Spread) -> f64 {
    fn heaviest(optimum: &DenseRuns, spread: Spread, counts: &mut Vec<(usize, u64)>, left: u64) -> f64 {
        let x = |s: usize, t: usize| optimum.products[packed(s.max(t)) + s.min(t)];
        let product = |(s, a): (usize, u64), (t, b): (usize, u64)| (a * b) as f64 * x(s, t);
        let mut best = counts.iter().flat_map(|one| counts.iter().map(|other| product(*one, *other))).sum();
        let first = counts.last().map_or(0, |(last, _)| last + spread.separation as usize);
        for next in first..optimum.steps() {
            for count in 1..=left.min(spread.per_step) {
                counts.push((next, count));
                best = f64::max(best, heaviest(optimum, spread, counts, left - count));
                counts.pop();
            }
        }
        best
    }
    heaviest(optimum, spread, &mut vec![], spread.total)
}

fn integer_matrix(optimum: &DenseRuns) -> Vec<Vec<u128>> {
    let steps = optimum.steps();
    let row = |t: usize| (0..steps).map(|j| if j <= t { optimum.matrix[packed(t) + j].into() } else { 0 }).collect();
    (0..steps).map(row).collect()
}

#[test]
fn sensitivities_are_those_of_brute_force() {
    for (horizon, most, separation) in [(12, 3, 4), (14, 3, 2), (12, 4, 1), (16, 2, 5)] {
        for objective in Objective::BOTH {
            let (runs, name) = (unit(most, separation), format!("{horizon} {most} {separation} {objective}"));
            let optimum = solved(horizon, runs, objective);
            let (exact, bound) =
                (by_brute_force(&optimum, spread(most, 1, separation)), optimum.participation_squared(runs));
            assert!(bound >= exact && bound < 1.001 * exact, "{name}: {bound} {exact}");
            let grid = libm::exp2(-f64::from(2 * MATRIX_BITS));
            for counts in [spread(most, 1, separation), spread(5, 2, separation), spread(3, 3, 1), Spread::ONE] {
                let (exact, bound) = (by_brute_force(&optimum, counts), optimum.spread_squared(counts) as f64 * grid);
                assert!(bound >= exact * (1.0 - 1e-15) && bound < 1.35 * exact, "{name} {counts:?}: {bound} {exact}");
            }
            // Units for which the matrix is not optimised.
            for other in [unit(2, separation + 1), unit(5, separation.div_ceil(2))] {
                let exact = by_brute_force(&optimum, spread(other.most(), 1, other.separation()));
                let bound = optimum.participation_squared(other);
                assert!(bound >= exact && bound < 1.35 * exact, "{name} {other:?}: {bound} {exact}");
            }
        }
    }
    let optimum = solved(7, unit(4, 1), Objective::Max);
    every_placement_stays_below_the_bound(&optimum, &integer_matrix(&optimum));
    let huge = Spread { separation: 3, ..Spread::new(u64::MAX, u64::MAX / 3) };
    assert!(optimum.spread_squared(huge) >= 1 << 120, "nothing wraps around");
}

/// Vectors of any direction in a plane, at every multiple of 30 degrees, move the nodes by at most the bound; equal
/// ones by nearly as much.
#[test]
fn vectors_of_any_direction_stay_below_the_bound() {
    let runs = unit(3, 3);
    let optimum = solved(11, runs, Objective::Mean);
    let (bound, mut largest) = (optimum.participation_squared(runs), 0.0f64);
    let direction = |twelfths: usize| (twelfths as f64 * std::f64::consts::PI / 6.0).sin_cos();
    for pattern in [[0, 3, 6], [0, 3, 7], [1, 4, 7], [2, 5, 8], [0, 5, 10], [4, 7, 10]] {
        for code in 0..144 {
            let vectors = [direction(0), direction(code / 12), direction(code % 12)];
            let squared = |s: usize, t: usize| {
                let x = optimum.products[packed(pattern[s.max(t)]) + pattern[s.min(t)]];
                x * (vectors[s].0 * vectors[t].0 + vectors[s].1 * vectors[t].1)
            };
            largest = largest.max((0..9).map(|pair| squared(pair / 3, pair % 3)).sum());
        }
    }
    assert!(largest <= bound && largest > 0.99 * bound, "{largest} {bound}");
}

/// By L-BFGS over all patterns, listed one by one, in SciPy (the mean, the maximum), and for the last three over bands.
#[test]
fn optima_are_those_of_another_program() {
    for (horizon, runs, mean, max) in [
        (16, unit(4, 4), 13.6772, 19.2526),
        (24, unit(3, 4), 13.8566, 15.8479),
        (20, unit(3, 2), 15.2169, 16.987),
        (16, unit(5, 1), 34.223, 40.5541),
        (64, unit(4, 16), 20.1417, 24.9346),
        (64, unit(8, 8), 51.523, 76.0714),
    ] {
        for objective in Objective::BOTH {
            let optimum = solved(horizon, runs, objective);
            let (reached, want) = (figure(&optimum, runs, objective), objective.of(max, mean));
            assert!(reached < 1.014 * want, "{horizon} {runs:?} {objective}: {reached} {want}");
            let bound = unit_lower_bound(horizon, spread(runs.most(), 1, runs.separation())).powi(2);
            assert!(objective == Objective::Mean || reached > bound, "{horizon} {runs:?}: {reached} {bound}");
        }
    }
}

#[test]
fn figures_are_those_of_the_dense_twin() {
    for (horizon, runs) in [(1, unit(2, 3)), (2, unit(2, 1)), (13, unit(3, 4)), (20, unit(2, 4))] {
        let optimum = solved(horizon, runs, Objective::Max);
        let dense = optimum.dense();
        assert!(dense.prefix_sum_error() < 1e-11, "{horizon}: L R is not A");
        let (ours, want) = (optimum.column_norms(), dense.column_norms());
        assert!(ours.l1 >= want.l1 && ours.l1 < want.l1 * (1.0 + 1e-12));
        assert!(ours.l2_squared >= want.l2_squared && ours.l2_squared < want.l2_squared * (1.0 + 1e-12));
        for (row, step) in dense.row_norms_squared().iter().zip(1..) {
            assert!((row - optimum.row_norm_squared(step)).abs() < 1e-12 * row, "{horizon}, step {step}");
        }
    }
}

/// The releases are the definition's.
#[test]
fn releases_are_correctly_rounded() {
    for (horizon, runs) in [(24, unit(4, 6)), (20, unit(3, 2))] {
        let optimum = solved(horizon, runs, Objective::Mean);
        let mut cursor = optimum.cursor();
        for (step, want) in by_rationals(&integer_matrix(&optimum)).into_iter().enumerate() {
            assert_eq!(cursor.advance(&mut noise), want, "{} step {step}", optimum.name());
        }
    }
}

/// A plan names the digest and the unit; an open name is that of the criterion's unit, over short horizons.
#[test]
fn names_are_those_of_the_matrix() {
    let runs = unit(3, 4);
    let found = solved(16, runs, Objective::Max);
    let name = found.name().to_string();
    assert!(name.starts_with("dense(run=3,gap=4,objective=max,digest="), "{name}");
    let parsed: MechanismName = name.parse().unwrap();
    let criterion = Criterion::new(NoiseKind::Gaussian, Objective::Max);
    assert_eq!(parsed, found.name());
    assert_eq!(parsed.build(16, &criterion).unwrap().name(), parsed);
    assert_eq!(parsed.brief().to_string(), "dense(run=3,gap=4,objective=max)");
    assert_eq!("dense(run=3,gap=4)".parse::<MechanismName>().unwrap().to_string(), "dense(run=3,gap=4)");
    let open: MechanismName = "dense".parse().unwrap();
    let of_unit = |horizon: u64| open.build(horizon, &criterion.with_spread(spread(3, 1, 4))).unwrap().name();
    assert_eq!(of_unit(16), parsed);
    assert!(open.matches_request(parsed, Objective::Max) && !open.matches_request(parsed, Objective::Mean));
    assert!(of_unit(MAX_SEARCHED + 1).to_string().starts_with("dense(objective=max"));
    assert!(DenseRuns::with_digest(16, runs, Objective::Mean, found.digest()).is_err());
    assert!(DenseRuns::solve(0, runs, Objective::Max).is_err());
    assert!(DenseRuns::solve(MAX_HORIZON + 1, runs, Objective::Max).is_err());
}
