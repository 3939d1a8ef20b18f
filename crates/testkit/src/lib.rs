//! Shared code of the tests of evertally's guarantees: statistics of laws and covariances ([`covariance`]),
//! neighbouring data through whole runs ([`replay`]), and disk contents after power failures ([`crash`]).
//!
//! Every test draws from fixed seeds, so it always passes or always fails; its level is the probability that a
//! *correct* law failed when the seed was chosen. [`LEVEL`] is for one comparison; with fewer than 1000 comparisons in
//! this crate, the probability of any failure was below 10⁻⁶.

#![forbid(unsafe_code)]

pub mod bombs;
pub mod covariance;
pub mod crash;
pub mod fuzz;
pub mod replay;
pub mod service;
pub mod torn_disk;

use std::collections::BTreeMap;

use evertally::noise::{GuardedKey, KeyedNoise, Node, Purpose, StreamName, TestSeed};
use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

/// The significance level of one comparison.
pub const LEVEL: f64 = 1e-9;

/// The smallest expected count of a cell in a χ² test.
pub const MIN_EXPECTED: f64 = 10.0;

/// The noise of a test: one seed, one stream name.
pub fn noise(seed: u64) -> KeyedNoise {
    let name: StreamName = "statistical tests".parse().expect("a valid name");
    KeyedNoise::unrecorded(&GuardedKey::insecure_from_test_seed(TestSeed(seed)), &name, &[0; 32], Purpose::Total)
}

/// Leaf `index`.
pub fn leaf(index: u64) -> Node {
    Node { level: 0, index }
}

/// How often each value occurs.
pub fn count(values: impl IntoIterator<Item = i128>) -> BTreeMap<i128, u64> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_insert(0) += 1;
    }
    counts
}

/// P(χ² with `freedom` degrees of freedom ≥ `statistic`).
pub fn chi_square_tail(statistic: f64, freedom: f64) -> f64 {
    ChiSquared::new(freedom).expect("a positive number of degrees of freedom").sf(statistic)
}

/// The p-value of χ² for cells with the expected counts; cells are merged with the next until they expect at least
/// [`MIN_EXPECTED`], and the last remainder with the previous cell.
///
/// `cells` are (observed, expected) in an order suitable for merging.
pub fn chi_square(cells: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let mut joined: Vec<(f64, f64)> = Vec::new();
    let mut open = (0.0, 0.0);
    for (observed, expected) in cells {
        open = (open.0 + observed, open.1 + expected);
        if open.1 >= MIN_EXPECTED {
            joined.push(open);
            open = (0.0, 0.0);
        }
    }
    let last = joined.last_mut().expect("at least one cell of enough weight");
    *last = (last.0 + open.0, last.1 + open.1);
    if joined.len() == 1 {
        // All weight is in one cell: nothing can be compared, but a value outside it would appear in `last`.
        return 1.0;
    }
    let statistic: f64 = joined.iter().map(|(observed, expected)| (observed - expected).powi(2) / expected).sum();
    chi_square_tail(statistic, (joined.len() - 1) as f64)
}

/// The p-value of the two-sample χ² test: are these counts from one law?
pub fn two_samples(first: &BTreeMap<i128, u64>, second: &BTreeMap<i128, u64>) -> f64 {
    let total = |counts: &BTreeMap<i128, u64>| counts.values().sum::<u64>() as f64;
    let (n, m) = (total(first), total(second));
    let mut cells: Vec<(f64, f64)> = Vec::new();
    let mut open = (0.0, 0.0);
    let mut values: Vec<i128> = first.keys().chain(second.keys()).copied().collect();
    values.sort_unstable();
    values.dedup();
    for value in values {
        let of = |counts: &BTreeMap<i128, u64>| counts.get(&value).copied().unwrap_or(0) as f64;
        open = (open.0 + of(first), open.1 + of(second));
        if open.0 + open.1 >= 4.0 * MIN_EXPECTED {
            cells.push(open);
            open = (0.0, 0.0);
        }
    }
    let last = cells.last_mut().expect("at least one cell of enough weight");
    *last = (last.0 + open.0, last.1 + open.1);
    if cells.len() == 1 {
        return 1.0;
    }
    let (a, b) = ((m / n).sqrt(), (n / m).sqrt());
    let statistic: f64 = cells.iter().map(|(x, y)| (a * x - b * y).powi(2) / (x + y)).sum();
    chi_square_tail(statistic, (cells.len() - 1) as f64)
}

/// The two-sided p-value of a standard normal statistic.
pub fn normal_tail(z: f64) -> f64 {
    2.0 * Normal::standard().sf(z.abs())
}

/// P(N ≤ x) for the standard normal N, accurate in both tails.
pub fn normal_cdf(x: f64) -> f64 {
    Normal::standard().cdf(x)
}

/// The two-sided p-value of a count of a Poisson law with this mean (or of a binomial law with small probability).
pub fn poisson_tail(count: u64, mean: f64) -> f64 {
    // P(N ≥ n) = P(χ²_{2n} ≤ 2·mean), P(N ≤ n) = P(χ²_{2n+2} ≥ 2·mean).
    let law = |freedom: u64| ChiSquared::new(freedom as f64).expect("positive");
    let at_least = if count == 0 { 1.0 } else { law(2 * count).cdf(2.0 * mean) };
    let at_most = law(2 * count + 2).sf(2.0 * mean);
    (2.0 * at_least.min(at_most)).min(1.0)
}

/// Mean and variance about 0 of the values divided by `scale`, and the number of values.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// Mean of x/scale.
    pub mean: f64,
    /// Mean of (x/scale)².
    pub square: f64,
    /// Number of values.
    pub count: f64,
}

/// The [`Moments`] of values.
pub fn moments(values: impl IntoIterator<Item = i128>, scale: f64) -> Moments {
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for value in values {
        let x = value as f64 / scale;
        sum += x;
        squares += x * x;
        count += 1.0;
    }
    Moments { mean: sum / count, square: squares / count, count }
}

impl Moments {
    /// The p-value of "the variance is `variance` and the fourth moment `fourth`", by the central limit theorem.
    pub fn variance_tail(&self, variance: f64, fourth: f64) -> f64 {
        normal_tail((self.square - variance) / ((fourth - variance * variance) / self.count).sqrt())
    }

    /// The p-value of "the mean is 0 and the variance `variance`".
    pub fn mean_tail(&self, variance: f64) -> f64 {
        normal_tail(self.mean / (variance / self.count).sqrt())
    }
}

/// The examples of the README and of the guide, which use several crates.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/program/rust.md")]
struct Guide;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/run/keys.md")]
struct Keys;
