//! Every bound compared with every pattern, in dense matrices.

use super::*;
use crate::mechanism::ColumnScaling;
use crate::mechanism::Mechanism;
use crate::mechanism::{Criterion, MechanismName, NoiseKind, Objective};
use nalgebra::DMatrix;
use std::sync::Arc;

const STREAMED: [&str; 26] = [
    "input",
    "output",
    "binary",
    "honaker-online",
    "kary(k=3)",
    "kary(k=4)",
    "subtract(k=3)",
    "subtract(k=4)",
    "subtract(k=5)",
    "smooth",
    "smooth(h=10,zeros=2)",
    "path-sum",
    "path-sum(levels=unit)",
    "sqrt",
    "normalized-sqrt",
    "banded-sqrt(bands=1)",
    "banded-sqrt(bands=3)",
    "banded-inverse-sqrt(bands=2)",
    "banded-inverse-sqrt(bands=4)",
    "banded-inverse(bands=2,exponent=0.9)",
    "banded-inverse(bands=3)",
    "epoch-bands(bands=1,run=3,gap=4)",
    "epoch-bands(bands=3,run=3,gap=4)",
    "blt(buffers=2)",
    "normalized-blt(buffers=2)",
    "normalized-blt",
];

/// Mechanisms whose value is exact, not only a bound.
const EXACT: [&str; 9] =
    ["input", "output", "sqrt", "banded-sqrt", "banded-inverse", "blt", "honaker", "smooth", "path"];

fn build(name: &str, horizon: u64) -> Option<Arc<dyn Mechanism>> {
    name.parse::<MechanismName>().unwrap().build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).ok()
}

/// `Aᵀ (L Lᵀ)⁻¹ A`, by another library's linear algebra.
fn gram(mechanism: &dyn Mechanism) -> DMatrix<f64> {
    let l = mechanism.dense().l;
    let (rows, columns) = l.shape();
    let l = DMatrix::from_fn(rows, columns, |i, j| l.row(i)[j]);
    let sums = DMatrix::from_fn(rows, rows, |t, i| f64::from(u8::from(t >= i)));
    let covariance = (&l * l.transpose()).cholesky().expect("releases are linearly independent");
    sums.transpose() * covariance.solve(&sums)
}

/// The largest `Σ G_st` over all patterns; where `G` has negative entries, over all signs of parallel vectors too.
fn largest(gram: &DMatrix<f64>, participation: Participation) -> f64 {
    let steps = gram.nrows();
    let signed = gram.iter().any(|entry| *entry < -1e-9);
    let mut largest = 0.0f64;
    for pattern in 1u32..1 << steps {
        let chosen: Vec<usize> = (0..steps).filter(|t| pattern >> t & 1 == 1).collect();
        let apart = chosen.windows(2).all(|pair| (pair[1] - pair[0]) as u64 >= participation.separation());
        if !apart || chosen.len() as u64 > participation.most() {
            continue;
        }
        for signs in 0..if signed { 1u32 << (chosen.len() - 1) } else { 1 } {
            let sign = |i: usize| if signs >> i & 1 == 1 { -1.0 } else { 1.0 };
            let row = |i: usize| chosen.iter().enumerate().map(|(j, t)| sign(j) * gram[(chosen[i], *t)]).sum::<f64>();
            largest = largest.max((0..chosen.len()).map(|i| sign(i) * row(i)).sum());
        }
    }
    largest
}

/// No pattern of steps exceeds a bound; some pattern reaches the bounds that are exact.
#[test]
fn no_pattern_beats_the_figures() {
    for horizon in [1, 2, 3, 7, 8, 11] {
        for name in STREAMED {
            let Some(mechanism) = build(name, horizon) else { continue };
            let gram = gram(&*mechanism);
            for (most, separation) in [(1, 1), (1, 4), (2, 1), (2, 3), (3, 2), (4, 1), (3, 4), (20, 1), (20, 2)] {
                let participation = Participation::new(most, separation).unwrap();
                let (ours, want) = (mechanism.participation_squared(participation), largest(&gram, participation));
                let place = format!("{name} at {horizon}, {most} steps {separation} apart: {ours}, largest {want}");
                assert!(ours >= want * (1.0 - 1e-10), "{place}");
                let several = most > 1 && ["honaker", "smooth", "path"].iter().any(|tree| name.starts_with(tree));
                let exact = EXACT.iter().any(|exact| name.starts_with(exact)) && !several;
                assert!(!exact || ours <= want * (1.0 + 1e-6), "{place}");
                // Subtracted blocks at the end reveal less than their columns suggest.
                let most = if name.starts_with("subtract") { 3.25 } else { 1.5 };
                assert!(ours <= most * want, "{place}");
            }
        }
    }
}

/// The largest `Σ G_st` that moving steps one by one reaches, from rows of steps `b` apart and from rows with shifted
/// ends: a lower bound of the truth.
fn found(gram: &DMatrix<f64>, participation: Participation) -> f64 {
    let (steps, apart) = (gram.nrows(), participation.separation() as usize);
    let most = participation.within(steps as u64) as usize;
    let sum =
        |pattern: &[usize]| pattern.iter().map(|s| pattern.iter().map(|t| gram[(*s, *t)]).sum::<f64>()).sum::<f64>();
    let room = steps - 1 - (most - 1) * apart;
    let mut best = 0.0f64;
    for start in (0..=room).step_by(room / 16 + 1) {
        let mut pattern: Vec<usize> = (0..most).map(|j| start + j * apart).collect();
        let mut value = sum(&pattern);
        loop {
            let before = value;
            for j in 0..most {
                let first = if j == 0 { 0 } else { pattern[j - 1] + apart };
                let end = if j + 1 == most { steps } else { pattern[j + 1] + 1 - apart };
                for t in first..end {
                    // The step alone, and all steps from it on.
                    for others in [j + 1, most] {
                        let mut moved = pattern.clone();
                        for step in &mut moved[j..others] {
                            *step = (*step + t).wrapping_sub(pattern[j]);
                        }
                        if moved[most - 1] < steps && moved.windows(2).all(|pair| pair[1] >= pair[0] + apart) {
                            let other = sum(&moved);
                            if other > value * (1.0 + 1e-12) {
                                (pattern, value) = (moved, other);
                            }
                        }
                    }
                }
            }
            if value <= before * (1.0 + 1e-12) {
                break;
            }
        }
        best = best.max(value);
    }
    best
}

/// `RᵀR`.
fn gram_of_nodes(mechanism: &dyn Mechanism) -> DMatrix<f64> {
    let r = mechanism.dense().r;
    let (rows, columns) = r.shape();
    let r = DMatrix::from_fn(rows, columns, |i, j| r.row(i)[j]);
    r.transpose() * r
}

/// At least this part of the squared sensitivity that a budget allows is really spent: some pattern shows it. (For
/// trees of blocks, measured on their nodes.)
#[test]
fn little_of_a_budget_is_left() {
    let spent = [
        ("smooth", 0.99),
        ("path-sum", 0.98),
        ("path-sum(levels=unit)", 0.98),
        ("normalized-sqrt", 1.0 - 1e-9),
        ("normalized-blt", 0.999),
        ("epoch-bands(bands=14,run=10,gap=25)", 0.97),
        ("subtract(k=4)", 0.9),
        ("subtract(k=5)", 0.85),
        ("kary(k=3)", 0.85),
        ("binary", 0.85),
        ("honaker-online", 0.85),
    ];
    for (name, least) in spent {
        for (horizon, most, separation) in [(256, 4, 64), (256, 10, 25), (200, 16, 12), (120, 12, 1)] {
            let mechanism = build(name, horizon).unwrap();
            let participation = Participation::new(most, separation).unwrap();
            let exactly = ["smooth", "path-sum", "subtract", "honaker-online"]; // by the covariance of the releases
            let is_exact = exactly.iter().any(|stem| name.starts_with(stem));
            let gram = if is_exact { gram(&*mechanism) } else { gram_of_nodes(&*mechanism) };
            let share = found(&gram, participation) / mechanism.participation_squared(participation);
            println!("spent: {name} {horizon} {most} {separation} {share:.4}");
            assert!(share < 1.0 + 1e-9, "{name} at {horizon}, {most} steps {separation} apart: {share}");
            assert!(share >= least, "{name} at {horizon}, {most} steps {separation} apart: {share}");
        }
    }
}

/// A unit in one step costs what exact accounting says, for long horizons, too.
#[test]
fn single_steps_cost_the_exact_figure() {
    for horizon in [1u64, 100, 1024, 1 << 14] {
        for name in STREAMED {
            if name.starts_with("epoch-bands") && horizon > 1024 {
                continue; // its search takes minutes
            }
            let Some(mechanism) = build(name, horizon) else { continue };
            let exact = mechanism.exact_l2_squared().unwrap_or(mechanism.column_norms().l2_squared);
            // Subtraction over longer horizons, without its dense twin.
            let by_nodes = name.starts_with("subtract") && horizon > 256;
            let exact = if by_nodes { mechanism.column_norms().l2_squared } else { exact };
            for separation in [1, 7, u64::MAX] {
                let ours = mechanism.participation_squared(Participation::new(1, separation).unwrap());
                assert!(ours >= exact * (1.0 - 1e-12), "{name} at {horizon}: {ours} below {exact}");
                assert!(ours <= exact * (1.0 + 1e-4), "{name} at {horizon}: {ours} above {exact}");
            }
        }
    }
}

/// More participation costs more, more separation costs less, and steps beyond the horizon cost nothing.
#[test]
fn figures_are_monotone() {
    for horizon in [5, 100, 1000] {
        for name in STREAMED {
            let Some(mechanism) = build(name, horizon) else { continue };
            let of = |most, separation| mechanism.participation_squared(Participation::new(most, separation).unwrap());
            let slack = 1.0 + 1e-9;
            for separation in [1, 2, 7, 50, 2000] {
                let costs = [1, 2, 3, 10, 100, 5000, u64::MAX].map(|most| of(most, separation));
                assert!(costs.windows(2).all(|pair| pair[0] <= pair[1] * slack), "{name} at {horizon}: {costs:?}");
                assert!((of(horizon.div_ceil(separation), separation) / costs[6] - 1.0).abs() < 1e-9, "{name}");
            }
            for most in [2, 5, 100] {
                let costs = [1, 2, 3, 10, 100, u64::MAX].map(|separation| of(most, separation));
                assert!(costs.windows(2).all(|pair| pair[0] * slack >= pair[1]), "{name} at {horizon}: {costs:?}");
                assert!((costs[5] / of(1, 1) - 1.0).abs() < 1e-9, "{name}: steps beyond the horizon");
            }
        }
    }
}

/// The sum of the columns of the worst pattern, term by term.
fn sum_of_columns(coefficients: &[f64], participation: Participation) -> f64 {
    let horizon = coefficients.len();
    let times = participation.within(horizon as u64) as usize;
    let reach = |t: usize| (t / participation.separation() as usize + 1).min(times);
    let entry =
        |t: usize| (0..reach(t)).map(|j| coefficients[t - j * participation.separation() as usize]).sum::<f64>();
    (0..horizon).map(|t| entry(t).powi(2)).sum()
}

/// Doubling, the closed forms of BLTs and of output noise, against the definition.
#[test]
fn sums_of_columns_at_longer_horizons() {
    let horizon = 700;
    let coefficients = |mechanism: &dyn Mechanism| {
        let r = mechanism.dense().r;
        (0..horizon as usize).map(|t| r.row(t)[0]).collect::<Vec<f64>>()
    };
    for name in ["sqrt", "banded-sqrt(bands=40)", "banded-inverse-sqrt(bands=40)", "blt", "blt(buffers=1)", "output"] {
        let mechanism = build(name, horizon).unwrap();
        let coefficients = coefficients(&*mechanism);
        for (most, separation) in [(1, 1), (2, 699), (2, 700), (7, 100), (8, 100), (5, 31), (700, 1), (350, 2), (13, 3)]
        {
            let participation = Participation::new(most, separation).unwrap();
            let (ours, want) =
                (mechanism.participation_squared(participation), sum_of_columns(&coefficients, participation));
            let ratio = ours / want;
            assert!((1.0 - 1e-13..1.0 + 1e-9).contains(&ratio), "{name}, {most} steps {separation} apart: {ratio}");
        }
    }
}

/// After 2^16 steps of a pattern a BLT uses the limit of its echoes: above the definition, and near it.
#[test]
fn very_many_steps() {
    let horizon = 1u64 << 18;
    let blt = crate::mechanism::Blt::optimised(1 << 12, ColumnScaling::Plain, 3, Objective::Max).unwrap().buffers();
    let blt = crate::mechanism::Blt::new(horizon, ColumnScaling::Plain, blt).unwrap();
    let unit = 1.0 / (1u64 << 62) as f64;
    let (decays, echoes) = (blt.buffers().decays().to_vec(), blt.buffers().echoes().to_vec());
    let mut modes: Vec<f64> = echoes.iter().map(|echo| *echo as f64 * unit).collect();
    let mut coefficients = vec![1.0];
    while coefficients.len() < horizon as usize {
        coefficients.push(modes.iter().sum());
        modes.iter_mut().zip(&decays).for_each(|(mode, decay)| *mode *= *decay as f64 * unit);
    }
    for (most, separation) in [(u64::MAX, 1), (u64::MAX, 2), (100_000, 1), (70_000, 3)] {
        let participation = Participation::new(most, separation).unwrap();
        let (ours, want) = (blt.participation_squared(participation), participation.of_toeplitz(&coefficients, 0));
        assert!((1.0 - 1e-9..1.001).contains(&(ours / want)), "{most} steps {separation} apart: {ours}, {want}");
    }
}

/// Echoes that hardly decay keep growing after 2^16 steps: no more than those of the last step are counted.
#[test]
fn very_many_steps_of_slow_buffers() {
    let horizon = 1u64 << 18;
    let blt = build("blt(decay=3ffffffffffc0000,echo=1000000000000000)", horizon).unwrap();
    let mut coefficients = vec![1.0];
    coefficients.resize(horizon as usize, 0.25);
    for (most, separation) in [(u64::MAX, 1), (100_000, 2)] {
        let participation = Participation::new(most, separation).unwrap();
        let (ours, want) = (blt.participation_squared(participation), participation.of_toeplitz(&coefficients, 0));
        // The decay of the coefficients, below 2^-26, is omitted.
        assert!((1.0 - 1e-7..3.0).contains(&(ours / want)), "{most} steps {separation} apart: {ours}, {want}");
    }
}

/// Output noise is exact if floating point can hold the value, and otherwise above it: compared with 128-bit integers.
#[test]
fn output_noise_is_never_rounded_down() {
    let figure = |horizon: u64, most: u64, separation: u64| {
        let (k, b, steps) = (u128::from(most), u128::from(separation), u128::from(horizon));
        b * (k - 1) * k * (2 * k - 1) / 6 + k * k * (steps - (k - 1) * b)
    };
    // The third: a product of six times a part of the value is above 2^53, though the value is not.
    for (horizon, most, separation) in
        [(7, 3, 3), (1000, 10, 100), (282_454_968_412_420, 7, 43_538_453_355_353), (1 << 62, 1 << 31, 1 << 31)]
    {
        let participation = Participation::new(most, separation).unwrap();
        let ours = build("output", horizon).unwrap().participation_squared(participation);
        let want = figure(horizon, participation.within(horizon), separation);
        assert!(ours as u128 >= want && ours <= want as f64 * (1.0 + 1e-12), "{horizon} {most}: {ours}, {want}");
        assert!(want >= 1_000_000_000_000_000 || ours as u128 == want);
    }
}

/// Distances that are not evaluated use the bound of the next smaller one.
#[test]
fn many_pairs() {
    let gamma = |distance: u64| 1.0 / (1.0 + distance as f64).sqrt();
    for (most, separation) in [(1, 5), (2, 5), (128, 1), (129, 1), (130, 1), (1025, 1), (5000, 3), (100_000, 7)] {
        let participation = Participation::new(most, separation).unwrap();
        let pair = |n: u64| if n == 0 { most as f64 } else { 2.0 * (most - n) as f64 * gamma(n * separation) };
        let want: f64 = (0..most).map(pair).sum();
        let ours = participation.of_pairs(1 << 20, gamma);
        assert!(ours >= want && ours <= want * 1.01, "{most} steps: {ours}, {want}");
        assert!(most > 2 * FINENESS || ours <= want * (1.0 + 1e-9), "{most} steps: {ours}, {want}");
    }
}

/// Columns of one length: never more than the sum over pairs; for steps in a row, less.
#[test]
fn chains_of_normalized_columns() {
    let horizon = 300;
    for name in ["normalized-sqrt", "normalized-blt", "normalized-blt(buffers=1)"] {
        let mechanism = build(name, horizon).unwrap();
        let columns = mechanism.dense().r.transpose();
        let product = |s: usize, t: usize| columns.row(s).iter().zip(columns.row(t)).map(|(a, b)| a * b).sum::<f64>();
        for (most, separation) in [(1, 1), (2, 1), (2, 299), (3, 100), (30, 10), (300, 1)] {
            let participation = Participation::new(most, separation).unwrap();
            let steps = horizon as usize;
            let gamma = |distance: u64| {
                (distance as usize..steps).map(|t| product(t - distance as usize, t)).fold(0.0, f64::max)
            };
            let row: Vec<usize> = (0..steps).step_by(separation as usize).take(most as usize).collect();
            let in_a_row: f64 = row.iter().map(|s| row.iter().map(|t| product(*s, *t)).sum::<f64>()).sum();
            let (ours, pairs) =
                (mechanism.participation_squared(participation), participation.of_pairs(horizon, gamma));
            let place = format!("{name}, {most} steps {separation} apart: {ours}, {in_a_row} to {pairs}");
            assert!(ours >= in_a_row * (1.0 - 1e-10) && ours <= pairs * (1.0 + 1e-7), "{place}");
            assert!(most < 30 || ours < 0.95 * pairs, "{place}");
        }
    }
}

#[test]
fn participation_is_checked_and_written() {
    let participation = Participation::new(4, 500).unwrap();
    let text = serde_json::to_string(&participation).unwrap();
    assert_eq!(text, r#"{"most":4,"separation":500}"#);
    assert_eq!(serde_json::from_str::<Participation>(&text).unwrap(), participation);
    for refused in [r#"{"most":0,"separation":1}"#, r#"{"most":1,"separation":0}"#, r#"{"most":1}"#] {
        assert!(serde_json::from_str::<Participation>(refused).is_err(), "{refused}");
    }
}
