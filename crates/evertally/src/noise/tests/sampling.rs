//! Tools for tests of samples. Significance: 10⁻⁶ for every single test, seeds fixed.

use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::super::NodeBits;
use super::{node, noise};

pub(super) const SIGNIFICANCE: f64 = 1e-6;

/// `count` draws from the bits of one node of this seed.
pub(super) fn draw<T>(seed: u64, count: usize, mut one: impl FnMut(&mut NodeBits<'_>) -> T) -> Vec<T> {
    let noise = noise(seed);
    let mut bits = noise.bits(node(0));
    (0..count).map(|_| one(&mut bits)).collect()
}

/// Pearson's test that the samples have these probabilities. Neighbours are merged until 10 are expected; the remaining
/// probability is the last class.
pub(super) fn assert_probabilities(what: &str, samples: &[usize], probabilities: &[f64]) {
    let total = samples.len() as f64;
    let mut observed = vec![0.0; probabilities.len() + 1];
    for &sample in samples {
        observed[sample.min(probabilities.len())] += 1.0;
        assert!(sample >= probabilities.len() || probabilities[sample] > 0.0, "{what}: {sample} is impossible");
    }
    let rest = (1.0 - probabilities.iter().sum::<f64>()).max(0.0);
    let classes = observed.iter().zip(probabilities.iter().chain([&rest]));
    // Classes of (observed, expected).
    let mut merged = vec![(0.0, 0.0)];
    for (observed, probability) in classes {
        if merged.last().is_some_and(|&(_, expected)| expected >= 10.0) {
            merged.push((0.0, 0.0));
        }
        let last = merged.last_mut().expect("not empty");
        *last = (last.0 + observed, last.1 + total * probability);
    }
    // A last class that is too small is merged with the one before.
    if merged.len() > 1 && merged.last().is_some_and(|&(_, expected)| expected < 10.0) {
        let small = merged.pop().expect("not empty");
        let last = merged.last_mut().expect("not empty");
        *last = (last.0 + small.0, last.1 + small.1);
    }
    let statistic: f64 = merged.iter().map(|(observed, expected)| (observed - expected).powi(2) / expected).sum();
    if merged.len() > 1 {
        let freedom = (merged.len() - 1) as f64;
        let p = ChiSquared::new(freedom).expect("positive").sf(statistic);
        assert!(p > SIGNIFICANCE, "{what}: χ² = {statistic} with {freedom} degrees of freedom, p = {p:e}");
    } else {
        assert!(statistic < 1e-9, "{what}");
    }
}

/// √(−ln(α/2)/2): the critical value of √n·D of Kolmogorov's test; for discrete laws it is conservative.
fn critical() -> f64 {
    (-(SIGNIFICANCE / 2.0).ln() / 2.0).sqrt()
}

/// Kolmogorov's test, and tests of mean and variance, of samples with a continuous law (nearly).
pub(super) fn assert_distribution<D>(what: &str, mut samples: Vec<f64>, law: &D)
where
    D: ContinuousCDF<f64, f64> + statrs::statistics::Distribution<f64>,
{
    samples.sort_by(f64::total_cmp);
    let count = samples.len() as f64;
    let distance = samples.iter().enumerate().fold(0.0f64, |distance, (i, &x)| {
        let exact = law.cdf(x);
        distance.max((exact - i as f64 / count).abs()).max((exact - (i + 1) as f64 / count).abs())
    });
    assert!(distance * count.sqrt() < critical(), "{what}: distance {distance}");
    let (mean, variance) = (law.mean().expect("known"), law.variance().expect("known"));
    let moment = |power: i32| samples.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / count;
    let (first, second, fourth) = (moment(1), moment(2), moment(4));
    // A normal law exceeds 4.9 deviations with probability 10^-6.
    assert!(first.abs() < 4.9 * (variance / count).sqrt(), "{what}: mean off by {first}");
    let spread = ((fourth - second * second) / count).sqrt();
    assert!((second - variance).abs() < 4.9 * spread, "{what}: variance {second}, not {variance}");
}

/// The two-sample test of Kolmogorov and Smirnov.
pub(super) fn assert_same_law(what: &str, mut left: Vec<u128>, mut right: Vec<u128>) {
    left.sort_unstable();
    right.sort_unstable();
    let (n, m) = (left.len() as f64, right.len() as f64);
    let distance = left.iter().chain(&right).fold(0.0f64, |distance, x| {
        let below = |sample: &[u128]| sample.partition_point(|y| y <= x) as f64;
        distance.max((below(&left) / n - below(&right) / m).abs())
    });
    assert!(distance * (n * m / (n + m)).sqrt() < critical(), "{what}: distance {distance}");
}
