//! Noise drawn late compared with noise drawn step by step: the covariance of everything that is seen.

use super::gap::{GapWeights, gaps};
use super::{RowNoise, advance};
use crate::recurrence::Recurrence;
use crate::schedule::schedule;
use crate::tests::{key, mechanisms, name, scheme};
use crate::{InstructionSet, Memory, Series, Tuning};
use evertally::mechanism::{Blt, ColumnScaling, EpochBands, Mechanism, Objective, Participation};
use evertally::noise::Node;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The increments of a mechanism's noise as linear forms of its nodes.
fn increments(mechanism: &Arc<dyn Mechanism>, sigma: f64) -> Vec<BTreeMap<Node, f64>> {
    let mut last = BTreeMap::<Node, f64>::new();
    (1..=mechanism.horizon())
        .map(|step| {
            let mut row = BTreeMap::new();
            mechanism.visit_row(step, &mut |node, weight| *row.entry(node).or_insert(0.0) += sigma * weight);
            let mut increment = row.clone();
            last.iter().for_each(|(node, weight)| *increment.entry(*node).or_insert(0.0) -= weight);
            last = row;
            increment
        })
        .collect()
}

/// `Σ rate_s n_s` over steps `from+1 ..= to`.
fn due(increments: &[BTreeMap<Node, f64>], rates: &[f64], (from, to): (u64, u64)) -> BTreeMap<Node, f64> {
    let mut sum = BTreeMap::new();
    for step in from as usize..to as usize {
        increments[step].iter().for_each(|(node, weight)| *sum.entry(*node).or_insert(0.0) += rates[step] * weight);
    }
    sum
}

fn inner(one: &BTreeMap<Node, f64>, other: &BTreeMap<Node, f64>) -> f64 {
    one.iter().filter_map(|(node, weight)| other.get(node).map(|other| weight * other)).sum()
}

/// The output of the code for rows at the ends of gaps, with one coordinate per drawn variable, set to 1 in that
/// coordinate alone: the values are the weights of the variables.
fn drawn_late(recurrence: &Recurrence, rates: &[f64], ends: &[u64]) -> Vec<Vec<f64>> {
    let variables = recurrence.width() + 1;
    let width = variables * ends.len();
    let (mut kept, mut before, mut seen) = (vec![], 0, vec![]);
    for (number, end) in ends.iter().enumerate() {
        let gap = gaps(recurrence, rates, &[before], *end).remove(0);
        let mut results = vec![0.0; variables * width];
        let draw = |variable: usize, out: &mut [f64]| {
            out.fill(0.0);
            out[number * variables + variable] = 1.0;
        };
        let weights = GapWeights::<f64>::from(&gap);
        advance(InstructionSet::PORTABLE, &weights, &kept, (width, &mut vec![0.0; width]), &draw, &mut results);
        seen.push(results.split_off(recurrence.width() * width));
        (kept, before) = (results, *end);
    }
    seen
}

fn check(mechanism: Arc<dyn Mechanism>, rates: &[f64], ends: &[u64]) {
    let scheme = scheme(mechanism.clone(), Series::Increments);
    let Ok(recurrence) = Recurrence::of(&mut *schedule(&scheme, Memory::Keep).unwrap(), mechanism.horizon()) else {
        assert!(mechanism.name().to_string().contains("sqrt"), "{} can be drawn late", mechanism.name());
        return;
    };
    let increments = increments(&mechanism, scheme.sigma);
    let seen = drawn_late(&recurrence, rates, ends);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let dense: Vec<_> = starts.zip(ends).map(|(from, to)| due(&increments, rates, (from, *to))).collect();
    for (one, dense_one) in seen.iter().zip(&dense) {
        for (other, dense_other) in seen.iter().zip(&dense) {
            let covariance: f64 = one.iter().zip(other).map(|(a, b)| a * b).sum();
            let scale = (inner(dense_one, dense_one) * inner(dense_other, dense_other)).sqrt();
            let off = (covariance - inner(dense_one, dense_other)).abs() / scale;
            assert!(off < 1e-12, "{} of {}: {off} at {ends:?}", mechanism.name(), mechanism.horizon());
        }
    }
}

/// Possible ends of a row's gaps: all steps, single ones, and some at random places.
fn patterns(horizon: u64) -> Vec<Vec<u64>> {
    let mut patterns: Vec<Vec<u64>> = vec![(1..=horizon).collect(), vec![horizon], vec![1, horizon]];
    let mut state = 7u64;
    for bits in [0, 2, 4] {
        let chosen = (1..=horizon).filter(|step| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *step == horizon || state >> (61 - bits / 2) == 0
        });
        patterns.push(chosen.collect());
    }
    patterns.retain(|ends| ends.windows(2).all(|pair| pair[0] < pair[1]));
    patterns
}

#[test]
fn what_is_seen_has_the_covariance_of_dense_noise() {
    for horizon in [1, 2, 7, 24] {
        let even = vec![1.0; horizon as usize];
        let falling: Vec<f64> = (0..horizon).map(|step| 0.3 / (1.0 + step as f64)).collect();
        for mechanism in mechanisms(horizon) {
            for ends in patterns(horizon) {
                check(mechanism.clone(), &even, &ends);
                check(mechanism.clone(), &falling, &ends);
            }
        }
    }
}

/// Buffers that hardly differ, and decays near 1, over gaps of a thousand steps.
#[test]
fn long_gaps_lose_no_digits() {
    let horizon = 2000;
    let rates = vec![1.0; horizon as usize];
    let mut all: Vec<Arc<dyn Mechanism>> = vec![];
    for buffers in [2, 4] {
        all.push(Arc::new(Blt::optimised(horizon, ColumnScaling::Normalized, buffers, Objective::Max).unwrap()));
    }
    let runs = Participation::new(4, 500).unwrap();
    all.push(Arc::new(EpochBands::new(horizon, 16, runs, Objective::Max).unwrap()));
    for mechanism in all {
        for ends in [&[1000, 2000][..], &[3, 4, 1500, 1501, 2000], &[1999, 2000]] {
            check(mechanism.clone(), &rates, ends);
        }
    }
}

fn noise(mechanism: Arc<dyn Mechanism>, shape: (u64, u64), threads: usize) -> RowNoise<f32> {
    let scheme = scheme(mechanism, Series::Increments);
    RowNoise::of(&scheme, &key(), name(), shape, &[0.5], Tuning { threads, ..Tuning::default() }).unwrap()
}

fn blt(horizon: u64) -> Arc<dyn Mechanism> {
    Arc::new(Blt::optimised(horizon, ColumnScaling::Normalized, 3, Objective::Max).unwrap())
}

/// Real variables: rows, coordinates and calls are independent, with the variance of the law. Two-sided normal bounds
/// for 2^17 values at significance level 10^-6: 0.7 % of a standard deviation and 1 % of a variance.
#[test]
fn rows_have_the_variance_of_their_law_and_are_independent() {
    let (rows, width, horizon) = (1 << 13, 16, 40);
    let mechanism = blt(horizon);
    let increments = increments(&mechanism, 1.5);
    let rates = vec![0.5; horizon as usize];
    let mut noise = noise(mechanism, (rows, width), 2);
    let mut table = vec![0.0f32; (rows * width) as usize];
    let (mut seen, mut before) = (vec![], 0);
    for end in [1, 9, 40] {
        while noise.step() < end {
            noise.descend(&mut table, &[], &[]).unwrap();
        }
        let last = table.clone();
        noise.catch_up_all(&mut table).unwrap();
        let form = due(&increments, &rates, (before, end));
        seen.push((table.iter().zip(&last).map(|(now, last)| f64::from(now - last)).collect::<Vec<f64>>(), form));
        before = end;
    }
    let count = (rows * width) as f64;
    for (one, form) in &seen {
        for (other, other_form) in &seen {
            let expected = inner(form, other_form) / (inner(form, form) * inner(other_form, other_form)).sqrt();
            let found: f64 = one.iter().zip(other).map(|(a, b)| a * b).sum::<f64>() / count;
            let found = found / (inner(form, form) * inner(other_form, other_form)).sqrt();
            assert!((found - expected).abs() < 7.0 / count.sqrt(), "{found} for {expected}");
        }
        let mean = one.iter().sum::<f64>() / count / inner(form, form).sqrt();
        let lagged: f64 = one.windows(17).map(|values| values[0] * values[16]).sum::<f64>() / count / inner(form, form);
        assert!(mean.abs() < 5.0 / count.sqrt() && lagged.abs() < 5.0 / count.sqrt(), "{mean}, {lagged}");
    }
}

/// A run with rows at random; its output, and a state in the middle.
fn run(threads: usize, shift: u64, restart: bool) -> Vec<f32> {
    let (rows, width, horizon) = (3000, 5, 30);
    let mut noise = noise(blt(horizon), (rows, width), threads);
    let mut table = vec![0.0f32; (rows * width) as usize];
    for step in 0..horizon {
        let used: Vec<u64> = (0..400).map(|i| (i * i * 7 + step * 131 + shift) % rows).collect();
        noise.catch_up(&mut table, &used).unwrap();
        noise.descend(&mut table, &used[..1], &[0.25; 5]).unwrap();
        if restart && step == 11 {
            let scheme = scheme(blt(horizon), Series::Increments);
            let saved = noise.save();
            let fresh = RowNoise::of(&scheme, &key(), name(), (rows, width), &[0.5], Tuning::default()).unwrap();
            noise = fresh.standing_at(&saved).unwrap();
            for place in (0..saved.len()).step_by(97) {
                let mut damaged = saved.clone();
                damaged[place] ^= 4;
                let fresh = RowNoise::<f32>::of(&scheme, &key(), name(), (rows, width), &[0.5], Tuning::default());
                assert!(fresh.unwrap().standing_at(&damaged).is_err(), "byte {place}");
            }
        }
    }
    noise.catch_up_all(&mut table).unwrap();
    assert_eq!(noise.touched(), 0, "nothing is kept after the last step");
    let done = table.clone();
    noise.catch_up_all(&mut table).unwrap();
    noise.catch_up(&mut table, &[5]).unwrap();
    assert_eq!(table, done, "noise is added once");
    assert!(noise.descend(&mut table, &[], &[]).unwrap_err().is_horizon_exhausted());
    table
}

#[test]
fn threads_and_restarts_change_nothing() {
    let once = run(1, 0, false);
    assert_eq!(once, run(3, 0, false));
    assert_eq!(once, run(2, 0, true));
    assert_ne!(once, run(1, 1, false));
}

#[test]
fn what_would_break_the_promise_is_refused() {
    let mut noise = noise(blt(30), (10, 3), 1);
    let mut table = vec![0.0f32; 30];
    noise.descend(&mut table, &[2], &[1.0; 3]).unwrap(); // before the first step no noise is pending
    let before = table.clone();
    let refused = [
        noise.descend(&mut table, &[4], &[1.0; 3]).unwrap_err(),
        noise.descend(&mut table, &[1, 1], &[1.0; 6]).unwrap_err(),
        noise.descend(&mut table, &[10], &[1.0; 3]).unwrap_err(),
        noise.descend(&mut table, &[1], &[1.0; 2]).unwrap_err(),
        noise.catch_up(&mut table, &[3, 10]).unwrap_err(),
        noise.catch_up(&mut table[..29], &[3]).unwrap_err(),
        noise.catch_up_all(&mut table[..29]).unwrap_err(),
    ];
    let said = refused.map(|error| error.to_string());
    assert!(said[0].contains("row 4 has a gradient, but not the noise of steps 1 to 1"), "{}", said[0]);
    assert!(said[1].contains("row 1 has two gradients") && said[2].contains("no row 10"), "{said:?}");
    assert_eq!((table, noise.step(), noise.touched()), (before, 1, 1));
    let of = |shape, rates: &[f64]| {
        RowNoise::<f32>::of(&scheme(blt(30), Series::Increments), &key(), name(), shape, rates, Tuning::default())
    };
    for (shape, rates) in [((0, 3), &[1.0][..]), ((3, 0), &[1.0]), ((1 << 40, 1 << 20), &[1.0]), ((3, 3), &[1.0; 29])] {
        assert!(of(shape, rates).is_err());
    }
    assert!(of((3, 3), &[f64::NAN]).is_err());
    let sums = scheme(blt(30), Series::RunningSums);
    assert!(RowNoise::<f32>::of(&sums, &key(), name(), (3, 3), &[1.0], Tuning::default()).is_err());
}

/// Other rates or another shape have another subkey: the same variables with other weights would reveal both.
#[test]
fn rates_and_shape_choose_the_variables() {
    let of = |shape, rates: &[f64]| {
        let scheme = scheme(blt(30), Series::Increments);
        let mut noise = RowNoise::<f32>::of(&scheme, &key(), name(), shape, rates, Tuning::default()).unwrap();
        let mut table = vec![0.0f32; (shape.0 * shape.1) as usize];
        noise.descend(&mut table, &[], &[]).unwrap();
        noise.catch_up_all(&mut table).unwrap();
        table
    };
    let one = of((4, 6), &[0.5]);
    assert_eq!(one, of((4, 6), &[0.5; 30]));
    let twice = of((4, 6), &[1.0]);
    assert!(one.iter().zip(&twice).all(|(one, twice)| (2.0 * one - twice).abs() > 1e-6));
    assert_ne!(one, of((6, 4), &[0.5]));
}

/// Frozen: a run that was saved with one version continues with the next.
#[test]
fn the_noise_of_rows_is_frozen() {
    let values = run(1, 0, false);
    let hash = blake3::hash(&crate::tests::bits(&values));
    assert_eq!(hash.to_hex()[..16], *"ac1da35f6a815f7d");
}
