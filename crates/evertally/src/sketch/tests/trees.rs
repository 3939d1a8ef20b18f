//! Trees of counts: exact answers without noise, variances, coverage.

use super::*;
use crate::sketch::quantile::CellTail;
use crate::sketch::{KeyTree, Shape};

/// A deterministic mix of keys, some of them often.
fn keys(bits: u32, count: u64) -> Vec<u64> {
    let mask = u64::MAX >> (64 - bits);
    (0..count)
        .map(|i| if i % 3 == 0 { (0x9e37 << 3) & mask } else { (i * i).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask })
        .collect()
}

fn quantile_of(keys: &[u64], q: f64) -> u64 {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let rank = (q * keys.len() as f64).ceil().max(1.0) as usize;
    if q == 0.0 { 0 } else { sorted[rank - 1] }
}

#[test]
fn dyadic_counts_are_exact_without_noise() {
    for (bits, branching, sampling) in
        [(12, 8, LazySampling::Float), (12, 2, LazySampling::Keyed), (39, 16, LazySampling::Float)]
    {
        let plan = plan(&format!("dyadic(bits={bits},branching={branching})"), 10, plenty(), sampling);
        let mut counts = DyadicCounts::new(plan, &key(1), named("keys")).unwrap();
        let keys = keys(bits, 501);
        keys.iter().for_each(|key| counts.add(*key, 1).unwrap());
        counts.tick_through(3).unwrap();
        let all = 1u64 << bits;
        for (start, end) in
            [(0, all), (0, 1), (5, 5), (all / 3, all / 2), (all - 1, all), (1, all - 1), (all, u64::MAX)]
        {
            let exact = keys.iter().filter(|key| (start..end).contains(key)).count() as f64;
            let estimate = counts.count(start..end).unwrap();
            assert!((estimate.value - exact).abs() < 0.4, "{start}..{end}: {estimate:?} {exact}");
        }
        for q in [0.051, 0.301, 0.5, 0.77, 0.999] {
            let (exact, found) = (quantile_of(&keys, q), counts.quantile(q, 0.99).unwrap());
            assert!(found.step == 3 && found.lower <= found.key && found.key <= found.upper);
            assert_eq!(found.key, exact, "{q}");
            assert!(found.lower <= exact && exact <= found.upper);
            let share = counts.cdf(exact).unwrap().value;
            assert!(share >= q - 1e-3 && share <= 1.001, "{share}");
        }
        let heavy = counts.heavy_hitters(20.0).unwrap();
        let often = keys.iter().filter(|key| **key == keys[0]).count() as f64;
        assert!(heavy.len() == 1 && heavy[0].key == keys[0] && (heavy[0].estimate.value - often).abs() < 0.1);
        assert!((counts.cdf(all - 1).unwrap().value - 1.0).abs() < 1e-12);
    }
}

/// Memory grows with the touched nodes alone, however large the tree.
#[test]
fn only_what_is_read_takes_memory() {
    let plan = plan("dyadic(bits=39,branching=8)", 1 << 30, gaussian(), LazySampling::Float);
    let mut counts = DyadicCounts::new(plan, &key(1), named("keys")).unwrap();
    assert_eq!(counts.plan().shape().sums_per_event(), 14);
    for value in 0..3000 {
        counts.add(12_345_678_901, 1).unwrap();
        counts.add(value << 20, 1).unwrap();
    }
    counts.tick_through(1 << 29).unwrap();
    // 13 levels with 8 children each, and the root; noise may let a few more blocks pass, and the large ones really
    // are large.
    let heavy = counts.heavy_hitters(1000.0).unwrap();
    assert_eq!(heavy.iter().map(|h| h.key).collect::<Vec<_>>(), [12_345_678_901]);
    assert!(counts.touched() < 400, "{}", counts.touched());
    assert!(counts.memory_bytes() < 4 << 20);
}

/// Range counts have the variance of their nodes; shares and totals that of their combination.
#[test]
fn ranges_have_the_stated_variance() {
    for (budget, sampling) in
        [(gaussian(), LazySampling::Float), (gaussian(), LazySampling::Keyed), (pure(), LazySampling::Float)]
    {
        let plan = plan("dyadic(bits=10,branching=4)", 30, budget, sampling);
        let (mut errors, mut shares, mut nodes) = (vec![], vec![], 0.0);
        for seed in 0..6000 {
            let mut counts = DyadicCounts::new(plan.clone(), &key(seed), named("keys")).unwrap();
            (0..20).for_each(|key| counts.add(key * 51, 1).unwrap());
            counts.tick_through(17).unwrap();
            let estimate = counts.count(100..=613).unwrap();
            nodes = (estimate.noise_std_error / plan.lazy().std_error(17)).powi(2);
            errors.push((estimate.value - 11.0) / estimate.noise_std_error);
            shares.push(counts.count(..1024).unwrap().value - 20.0);
        }
        let tree = KeyTree::new(10, 4).unwrap();
        assert!((nodes - tree.cover(&tree.ends(100..614)).len() as f64).abs() < 1e-9);
        let what = format!("{budget:?} {sampling}");
        assert_mean(&errors, 0.0, &what);
        assert_variance(&errors, 1.0, &what);
        assert_variance(&shares, plan.lazy().std_error(17).powi(2), &what);
    }
}

/// The stated error of a share is that of the ratio, to first order: for a total of 256 standard errors.
#[test]
fn shares_have_the_stated_error() {
    let plan = plan("dyadic(bits=6,branching=4)", 1, Budget::Zcdp(Rho::new(2.0).unwrap()), LazySampling::Float);
    let mut found = vec![];
    for seed in 0..4000 {
        let mut counts = DyadicCounts::new(plan.clone(), &key(seed), named("keys")).unwrap();
        (0..256).for_each(|event| counts.add(event / 4, 1).unwrap());
        counts.tick().unwrap();
        let share = counts.cdf(49).unwrap();
        found.push((share.value - 50.0 / 64.0) / share.noise_std_error);
    }
    assert_variance(&found, 1.0, "share");
}

/// The bands of quantiles contain the noise of single nodes and of ranges as often as stated, and are not wider than
/// Chernoff's bound at that probability.
#[test]
fn bands_hold_as_often_as_they_say() {
    for (budget, sampling) in [
        (gaussian(), LazySampling::Float),
        (gaussian(), LazySampling::Keyed),
        (gaussian(), LazySampling::Integer),
        (pure(), LazySampling::Float),
        (pure(), LazySampling::Integer),
    ] {
        let plan = plan("dyadic(bits=16,branching=4)", 100, budget, sampling);
        let mut counts = DyadicCounts::new(plan.clone(), &key(8), named("keys")).unwrap();
        counts.tick_through(37).unwrap();
        let tail = CellTail::new(plan.lazy(), 37, 20f64.ln());
        for nodes in [1u64, 2] {
            let band = tail.bound(nodes as f64, nodes as f64);
            // Blocks of leaves of different parents: 1 and 2 nodes.
            let ranges = (0..15_000u64).map(|i| 4 * i + 3..4 * i + 3 + nodes);
            let beyond: Vec<f64> =
                ranges.map(|range| f64::from(u8::from(counts.count(range).unwrap().value > band))).collect();
            let (share, error) = mean(&beyond);
            assert!(share < 0.05 + 5.5 * error && share > 0.004, "{budget:?} {sampling} {nodes}: {share}");
        }
    }
}

/// The quantile lies between its ends in far more runs than promised (the union bound), and the interval is not the
/// whole space.
#[test]
fn quantiles_are_covered_and_bounded() {
    for budget in [gaussian(), pure()] {
        let plan = plan("dyadic(bits=16,branching=8)", 100, budget, LazySampling::Float);
        let keys: Vec<u64> = (0..20_000u64).map(|i| (i * i * 7919) % 50_021).collect();
        let mut outside = 0;
        for seed in 0..40 {
            let mut counts = DyadicCounts::new(plan.clone(), &key(seed), named("keys")).unwrap();
            keys.iter().for_each(|key| counts.add(*key, 1).unwrap());
            counts.tick().unwrap();
            for q in [0.25, 0.5, 0.9] {
                let (exact, found) = (quantile_of(&keys, q), counts.quantile(q, 0.95).unwrap());
                outside += u32::from(exact < found.lower || found.upper < exact);
                assert!(found.upper - found.lower < 12_000, "{found:?}");
            }
        }
        // 120 runs, each outside with a probability of at most 0.05 (in truth far less).
        assert!(outside <= 1, "{outside}");
    }
}

#[test]
fn dyadic_sketches_find_heavy_keys_and_count_ranges() {
    for sampling in [LazySampling::Float, LazySampling::Keyed] {
        let plan = plan("dyadic-sketch(bits=64,branching=16,rows=5,width=3000)", 100, plenty(), sampling);
        assert!(matches!(plan.shape(), Shape::DyadicSketch(..)));
        let mut sketch = DyadicSketch::new(plan, &key(1), named("keys")).unwrap();
        let heavy = [u64::MAX, 0, 0x0123_4567_89ab_cdef, 1 << 63];
        for (key, count) in heavy.into_iter().zip([40, 30, 20, 10]) {
            (0..count).for_each(|_| sketch.add(key, 1).unwrap());
        }
        (1..200u64).for_each(|i| sketch.add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1).unwrap());
        sketch.tick_through(5).unwrap();
        let found = sketch.heavy_hitters(7.0).unwrap();
        assert_eq!(found.iter().map(|h| h.key).collect::<Vec<_>>(), heavy);
        assert!((found[0].estimate.value - 40.0).abs() < 2.0);
        assert!((sketch.count(..).unwrap().value - 299.0).abs() < 0.1);
        let low = (1..200u64).filter(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) < 1 << 63).count() as f64;
        assert!((sketch.count(..1 << 63).unwrap().value - (low + 50.0)).abs() < 0.1);
    }
}

/// Over noise and hash functions, ranges of a dyadic sketch are unbiased.
#[test]
fn ranges_of_dyadic_sketches_are_unbiased() {
    let plan = plan("dyadic-sketch(bits=20,branching=4,rows=3,width=20)", 4, gaussian(), LazySampling::Float);
    let mut errors = vec![];
    let mut stated = 0.0;
    for seed in 0..3000 {
        let mut sketch = DyadicSketch::new(plan.clone(), &key(seed), named("keys")).unwrap();
        (0..6u64).for_each(|i| sketch.add(i * 170_000, 1).unwrap());
        sketch.tick().unwrap();
        let estimate = sketch.count(340_000..520_123).unwrap();
        errors.push(estimate.value - 2.0);
        stated = estimate.noise_std_error;
    }
    assert_mean(&errors, 0.0, "range");
    // Collisions of a handful of events, and of nodes in one cell, are small compared with the noise.
    let squares: Vec<f64> = errors.iter().map(|e| (e / stated).powi(2)).collect();
    assert!((mean(&squares).0 - 1.0).abs() < 0.2, "{}", mean(&squares).0);
}
