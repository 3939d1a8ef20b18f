//! The frozen filter against exact arithmetic, dense twins and enumerations, its figures against the lower bound.

mod release;

use super::*;
use crate::mechanism::Dense;
use crate::mechanism::{Criterion, MechanismName, NoiseKind, Objective};
use num_bigint::BigInt;

const BOTH: [Objective; 2] = Objective::BOTH;

fn solve(horizon: u64, states: usize, objective: Objective) -> Optimal {
    Optimal::solve(horizon, Some(states), objective).unwrap()
}

fn some(horizon: u64) -> Vec<Optimal> {
    BOTH.into_iter().flat_map(|objective| [4, 8, 12].map(|states| solve(horizon, states, objective))).collect()
}

/// 2ρ·variance.
fn figure(filter: &Optimal) -> f64 {
    filter.columns.l2_squared * filter.objective.row_norm_squared(filter)
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

#[test]
fn figures_are_those_of_the_dense_twin() {
    for horizon in [1, 2, 3, 5, 17, 64, 130] {
        for filter in some(horizon) {
            let (name, dense) = (filter.name(), filter.dense());
            assert!(dense.prefix_sum_error() < 1e-12, "{name} at {horizon}: {}", dense.prefix_sum_error());
            let (ours, want) = (filter.column_norms(), dense.column_norms());
            assert!(ours.l1 >= want.l1 && close(ours.l1, want.l1, 1e-12), "{name} at {horizon}");
            assert!(ours.l2_squared >= want.l2_squared, "{name} at {horizon}");
            assert!(close(ours.l2_squared, want.l2_squared, 1e-12), "{name} at {horizon}");
            let rows = dense.row_norms_squared();
            for (row, step) in rows.iter().zip(1..) {
                assert!(close(*row, filter.row_norm_squared(step), 1e-12), "{name} at {horizon}, step {step}");
            }
            let (max, mean) = (rows.iter().copied().fold(0.0, f64::max), rows.iter().sum::<f64>() / horizon as f64);
            assert!(close(max, filter.max_row_norm_squared(), 1e-12), "{name} at {horizon}");
            assert!(close(mean, filter.mean_row_norm_squared(), 1e-12), "{name} at {horizon}");
            let exact = dense.exact_l2_squared().unwrap();
            assert!(close(filter.exact_l2_squared().unwrap(), exact, 1e-9), "{name} at {horizon}");
        }
    }
}

/// `2^point R`, where no entry is rounded.
fn exact_matrix(frozen: &Frozen, point: u32) -> Vec<Vec<BigInt>> {
    let row = |t: usize| {
        let mut state: Vec<BigInt> =
            frozen.of_step(t).iter().map(|n| BigInt::from(n.output) << (point - frozen::OUTPUT_BITS)).collect();
        let mut row: Vec<BigInt> = (0..=t)
            .rev()
            .map(|i| {
                let entry = state.iter().sum();
                state.iter_mut().zip(frozen.of_step(i)).for_each(|(q, n)| *q = (&*q * n.decay) >> 32u32);
                entry
            })
            .collect();
        row.reverse();
        row
    };
    (0..frozen.steps()).map(row).collect()
}

/// Column norms by exact arithmetic, never above ours.
#[test]
fn column_norms_are_never_below_the_exact_ones() {
    for horizon in [1u32, 2, 7, 40] {
        for filter in some(horizon.into()) {
            let point = 30 + 32 * horizon;
            let matrix = exact_matrix(&filter.frozen, point);
            let column = |j: usize| matrix[j..].iter().map(move |row| &row[j]);
            let l1: BigInt = (0..matrix.len()).map(|j| column(j).sum()).max().unwrap();
            let l2_squared: BigInt = (0..matrix.len()).map(|j| column(j).map(|x| x * x).sum()).max().unwrap();
            // In units of 2^-52, which is exact for ours.
            let ours = filter.columns;
            let units = |x: f64| BigInt::from((x * libm::exp2(52.0)) as u64);
            let (l1, l2_squared) = (l1 >> (point - 52), l2_squared >> (2 * point - 52));
            assert!(units(ours.l1) > l1 && units(ours.l2_squared) > l2_squared, "{} at {horizon}", filter.name());
            assert!(units(ours.l1) < l1 + (1 << 15) && units(ours.l2_squared) < l2_squared + (1 << 15));
        }
    }
}

/// On long horizons: columns computed one by one, rows by the transposed inverse.
#[test]
fn long_figures_are_those_of_single_columns_and_rows() {
    for horizon in [3000u64, 1 << 16] {
        for filter in BOTH.map(|objective| solve(horizon, 8, objective)) {
            let (mut largest, places) = (0.0f64, 200);
            for j in (0..places).map(|i| i * (horizon - 1) / (places - 1)) {
                let (mut state, mut norm) = (vec![1.0; 8], 0.0);
                for t in j as usize..horizon as usize {
                    let numbers = filter.frozen.of_step(t);
                    if t > j as usize {
                        state.iter_mut().zip(numbers).for_each(|(s, number)| *s *= number.decay());
                    }
                    let entry: f64 = state.iter().zip(numbers).map(|(s, number)| s * number.output()).sum();
                    norm += entry * entry;
                }
                largest = largest.max(norm);
                // The iteration makes all relevant columns equally long.
                assert!(
                    norm <= filter.columns.l2_squared && norm > 0.99,
                    "{} at {horizon}, {j}: {norm}",
                    filter.name()
                );
            }
            assert!(close(largest, filter.columns.l2_squared, 2e-4), "{} at {horizon}: {largest}", filter.name());
            for step in [1, horizon / 1000, horizon / 2, horizon - 60, horizon] {
                let mut row = 0.0;
                filter.visit_row(step, &mut |_, entry| row += entry * entry);
                assert!(close(row, filter.row_norm_squared(step), 1e-10), "{} at {horizon}, {step}", filter.name());
            }
        }
    }
}

/// Within this factor of the lower bound of all factorizations.
#[test]
fn targets_are_reached() {
    for (horizon, states, objective, within) in [
        (1024, 4, Objective::Max, 1.4e-2),
        (1024, 8, Objective::Max, 5e-4),
        (1024, 8, Objective::Mean, 2e-4),
        (1 << 14, 8, Objective::Max, 2e-3),
        (1 << 14, 12, Objective::Max, 3e-4),
        (1 << 14, 12, Objective::Mean, 2e-4),
        (1 << 17, 12, Objective::Max, 5e-4),
    ] {
        let (reached, bound) =
            (figure(&solve(horizon, states, objective)), Dense::lower_bound(horizon, objective).unwrap());
        assert!(reached >= bound && reached < bound * (1.0 + within), "{horizon} {states}: {reached} {bound}");
    }
}

/// Every horizon: never below the lower bound, and close above it.
#[test]
fn every_horizon_is_solved() {
    for horizon in (1..=40).chain([63, 64, 65, 66, 255, 257, 1000, 1023, 4097, 8193]) {
        for objective in BOTH {
            let bound = Dense::lower_bound(horizon, objective).unwrap();
            for states in [4, 8, 12, 16] {
                let reached = figure(&solve(horizon, states, objective));
                let within = if states == 4 { 4e-2 } else { 2e-3 };
                assert!(reached > bound * (1.0 - 1e-9), "{horizon} {states} {objective}: {reached} {bound}");
                assert!(reached < bound * (1.0 + within), "{horizon} {states} {objective}: {reached} {bound}");
            }
        }
    }
}

/// Solving is deterministic, names lead back to the filter, and invalid ones are rejected.
#[test]
fn names_round_trip_and_bad_ones_are_refused() {
    let shape = Criterion::new(NoiseKind::Gaussian, Objective::Max);
    let filter = Optimal::solve(300, None, Objective::Mean).unwrap();
    let name: MechanismName = filter.name().to_string().parse().unwrap();
    assert_eq!(name.to_string(), filter.name().to_string());
    let again = name.build(300, &shape).unwrap();
    assert_eq!((again.name(), again.max_row_norm_squared()), (filter.name(), filter.max_row_norm_squared()));
    for open in ["optimal", "optimal(states=4)", "optimal(objective=mean)", "optimal(states=8,objective=max)"] {
        assert_eq!(open.parse::<MechanismName>().unwrap().to_string(), open);
    }
    let by_mean = "optimal"
        .parse::<MechanismName>()
        .unwrap()
        .build(300, &Criterion::new(NoiseKind::Gaussian, Objective::Mean))
        .unwrap();
    assert_eq!(by_mean.name(), filter.name());
    let build = |name: &str, horizon| name.parse::<MechanismName>().and_then(|name| name.build(horizon, &shape));
    let named = filter.name().to_string();
    assert_eq!(build(&named, 300).unwrap().name().to_string(), named);
    // Another digest, and a digest cut short.
    let other = named.replace("digest=", "digest=f").replace(&named[named.len() - 2..], ")");
    let short = named.replace(&named[named.len() - 25..], ")");
    assert!(named.parse::<MechanismName>().is_ok() && other.parse::<MechanismName>().is_ok());
    assert!(short.parse::<MechanismName>().is_err(), "{short}");
    for bad in
        [&other, "optimal(states=5)", "optimal(states=0)", "optimal(states=20)", "optimal(states=x)", "optimal(k=3)"]
    {
        assert!(build(bad, 300).is_err(), "{bad}");
    }
    assert!(build("optimal", 0).is_err() && build("optimal", MAX_HORIZON + 1).is_err());
    assert!(build(&filter.name().to_string(), 301).is_err());
}

/// Every machine finds the same filters: plans made on one are read on others.
#[test]
fn the_filters_are_frozen() {
    for (horizon, states, objective, digest) in [
        (100, 8, Objective::Max, 0xfcf2_34d0u32),
        (300, 8, Objective::Mean, 0xd819_01b8),
        (1024, 8, Objective::Max, 0x8edc_aac6),
        (5000, 8, Objective::Mean, 0xaa1c_bb2c),
        (1 << 14, 12, Objective::Max, 0x065c_3927),
    ] {
        assert_eq!(
            solve(horizon, states, objective).digest().to_string()[..8],
            format!("{digest:08x}"),
            "{horizon} {states}"
        );
    }
}
