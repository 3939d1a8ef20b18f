//! Norms of patterns compared with their columns, one by one; chains compared with every placement.

use super::*;
use crate::mechanism::SearchWatch;
use crate::mechanism::accounting::chain::{self, Pattern};
use crate::mechanism::toeplitz::blt::aim::interlaced;

fn response() -> PartialFractions {
    let (poles, inverse) = interlaced(&[0.02, 0.05, 0.3, 0.9]);
    PartialFractions::from_poles(poles, inverse)
}

/// `c_0 … c_(n-1)`.
pub(super) fn coefficients(response: &PartialFractions, n: usize) -> Vec<f64> {
    let Modes { weights, poles, .. } = &response.direct;
    let echo = |j: usize| -> f64 {
        poles.iter().zip(weights).map(|(pole, echo)| echo * libm::exp(-((j - 1) as f64) * pole.a)).sum()
    };
    (0..n).map(|j| if j == 0 { 1.0 } else { echo(j) }).collect()
}

#[test]
fn norms_are_those_of_the_sums_of_columns() {
    let (response, horizon) = (response(), 60usize);
    let c = coefficients(&response, horizon);
    for (most, separation) in [(1, 1), (3, 1), (7, 1), (4, 5), (2, 30), (100, 1), (9, 7)] {
        let runs = Participation::new(most, separation).unwrap();
        let norms = norms_squared(&response, horizon as u64, runs);
        let runs = runs.over(horizon as u64);
        let closed = Closed::new(&response.direct, runs);
        let before = ((runs.most() - 1) * runs.separation()) as usize;
        for last in before..horizon {
            // Columns last, last - b, …, from 0.
            let columns = (0..runs.most() as usize).map(|i| last - i * runs.separation() as usize);
            let row = |t: usize| columns.clone().filter(|j| *j <= t).map(|j| c[t - j]).sum::<f64>();
            let exact: f64 = (0..horizon).map(|t| row(t).powi(2)).sum();
            let ours = norms[horizon - 1 - last];
            assert!((ours / exact - 1.0).abs() < 1e-12, "{runs:?} at {last}: {ours}, {exact}");
            let closed = closed.at((horizon - 1 - last) as f64);
            assert!((closed / exact - 1.0).abs() < 1e-9, "{runs:?} at {last}: {closed}, {exact}");
        }
        let weights = weights(&norms, runs);
        assert!(weights.windows(2).all(|pair| pair[0] <= pair[1]) && weights[horizon - 1] == 1.0);
    }
}

/// The largest `‖R u‖²` over all patterns, by the Gram matrix.
pub(super) fn by_enumeration(c: &[f64], weights: &[f64], pattern: Pattern) -> f64 {
    let steps = weights.len();
    let gram = |s: usize, t: usize| {
        let (s, t) = (s.min(t), s.max(t));
        let inner: f64 = (0..steps - t).map(|m| c[m] * c[m + t - s]).sum();
        inner * weights[s] * weights[t]
    };
    let mut best = 0.0f64;
    let count = pattern.full as usize + usize::from(pattern.rest > 0.0);
    let mut open: Vec<Vec<usize>> = vec![vec![]];
    while let Some(places) = open.pop() {
        let from = places.last().map_or(0, |last| last + pattern.separation as usize);
        if places.len() == count {
            for rest in 0..count {
                let mass = |i: usize| if i == rest && pattern.rest > 0.0 { pattern.rest } else { pattern.each };
                let pair = |(i, s): (usize, &usize)| -> f64 {
                    places.iter().enumerate().map(|(j, t)| mass(i) * mass(j) * gram(*s, *t)).sum()
                };
                best = best.max(places.iter().enumerate().map(pair).sum());
            }
            continue;
        }
        open.extend((from..steps).map(|t| places.iter().copied().chain([t]).collect::<Vec<_>>()));
    }
    best
}

#[test]
fn chains_bound_every_pattern_closely() {
    let (response, horizon) = (response(), 14usize);
    let c = coefficients(&response, horizon);
    for (most, separation) in [(1, 1), (3, 1), (5, 1), (3, 2)] {
        let runs = Participation::new(most, separation).unwrap();
        let weights = weights(&norms_squared(&response, horizon as u64, runs), runs);
        let columns = WeightedColumns::new(&response, weights.clone());
        for (full, each, rest, separation) in
            [(1, 1.0, 0.0, 1), (3, 1.0, 0.0, 1), (2, 3.0, 2.0, 1), (4, 2.0, 1.0, 1), (3, 2.0, 1.0, 2), (2, 1.0, 0.0, 5)]
        {
            let pattern = Pattern { full, each, rest, separation };
            let exact = by_enumeration(&c, &weights, pattern);
            let bound = chain::largest(&columns, pattern);
            let place = format!("{runs:?}, {pattern:?}: {exact} of {bound}");
            assert!(exact <= bound * (1.0 + 1e-12), "{place}");
            assert!(bound <= exact * 1.05, "{place}");
        }
    }
}

/// Blocks of steps give an upper bound that is close to that of single steps.
#[test]
fn blocks_are_close_to_steps() {
    let (poles, inverse) = interlaced(&[1e-4, 4e-4, 3e-3, 0.02]);
    let response = PartialFractions::from_poles(poles, inverse);
    for (horizon, most, separation) in [(4096u64, 700, 1), (4096, 300, 7), (3000, 100, 24)] {
        let runs = Participation::new(most, separation).unwrap();
        let weights = weights(&norms_squared(&response, horizon, runs), runs);
        let columns = WeightedColumns::new(&response, weights);
        let pattern = Pattern { full: most, each: 1.0, rest: 0.0, separation };
        let exact = chain::largest(&columns, pattern);
        for q in [1, 2, 4].map(|times| times * separation.max(2)) {
            let blocks = chain::by_blocks(&columns, pattern, q, SearchWatch::NONE);
            assert!(blocks >= exact * (1.0 - 1e-12), "{most} {separation} by {q}: {blocks} of {exact}");
            assert!(blocks <= exact * 1.15, "{most} {separation} by {q}: {blocks} of {exact}");
        }
    }
}
