//! The heaviest chains of a matrix: what its sensitivity consists of, for the search.

use crate::mechanism::toeplitz::filter::packed;
use std::rc::Rc;

/// Entries of the packed lower triangle of `X`, with how often each counts: once for a square, twice for a product.
pub(super) type Chain = Vec<(u32, f64)>;

/// A list that shares its tail with others.
type SharedSteps = Option<Rc<SharedStep>>;

struct SharedStep {
    step: usize,
    before: SharedSteps,
}

/// The largest sums of `1 ..= most` of these numbers that are `separation` apart, with their places.
fn largest_sums(numbers: &[f64], separation: usize, most: usize) -> Vec<(f64, Vec<usize>)> {
    let most = most.min(numbers.len().div_ceil(separation));
    let mut sums = Vec::with_capacity(most);
    let mut upto: Vec<(f64, SharedSteps)> = vec![(0.0, None); numbers.len()];
    for count in 0..most {
        let mut best: (f64, SharedSteps) = (f64::NEG_INFINITY, None);
        let mut next: Vec<(f64, SharedSteps)> = vec![(f64::NEG_INFINITY, None); numbers.len()];
        for (s, number) in numbers.iter().enumerate().skip(count * separation) {
            let before = if count == 0 { (0.0, None) } else { upto[s - separation].clone() };
            if before.0 + number > best.0 {
                best = (before.0 + number, Some(Rc::new(SharedStep { step: s, before: before.1 })));
            }
            next[s] = best.clone();
        }
        sums.push((best.0, places(&best.1)));
        upto = next;
    }
    sums
}

fn places(mut steps: &SharedSteps) -> Vec<usize> {
    let mut found = vec![];
    while let Some(link) = steps {
        found.push(link.step);
        steps = &link.before;
    }
    found
}

/// The heaviest chain that ends at each step, of `most` steps or as many as fit there, with its weight. `x` are the
/// sizes of the entries of `X`. `O(T² k)`.
pub(super) fn heaviest_by_end(x: &[f64], steps: usize, separation: usize, most: usize) -> Vec<(f64, Chain)> {
    let before: Vec<_> = (0..steps)
        .map(|t| largest_sums(&x[packed(t)..][..(t + 1).saturating_sub(separation)], separation, most - 1))
        .collect();
    let added = |t: usize, number: usize| {
        let sum = if number == 0 { 0.0 } else { before[t].get(number - 1).map_or(f64::NEG_INFINITY, |(sum, _)| *sum) };
        x[packed(t) + t] + 2.0 * sum
    };
    let chain_of = |ends: Vec<usize>| {
        let number = ends.len();
        let mut chain = Chain::new();
        for (place, t) in ends.into_iter().enumerate() {
            let earlier = number - 1 - place;
            chain.push(((packed(t) + t) as u32, 1.0));
            if earlier > 0 {
                chain.extend(before[t][earlier - 1].1.iter().map(|s| ((packed(t) + s) as u32, 2.0)));
            }
        }
        chain
    };
    let mut found: Vec<(f64, SharedSteps)> = vec![(f64::NEG_INFINITY, None); steps];
    let mut best_before: Vec<(f64, SharedSteps)> = vec![(0.0, None); steps];
    for number in 0..most.min(steps.div_ceil(separation)) {
        let mut best: (f64, SharedSteps) = (f64::NEG_INFINITY, None);
        let mut next: Vec<(f64, SharedSteps)> = vec![(f64::NEG_INFINITY, None); steps];
        for t in number * separation..steps {
            let earlier = if number == 0 { (0.0, None) } else { best_before[t - separation].clone() };
            let here = (earlier.0 + added(t, number), Some(Rc::new(SharedStep { step: t, before: earlier.1 })));
            if here.0 > found[t].0 {
                found[t] = here.clone();
            }
            if here.0 > best.0 {
                best = here;
            }
            next[t] = best.clone();
        }
        best_before = next;
    }
    found.into_iter().map(|(weight, ends)| (weight, chain_of(places(&ends)))).collect()
}
