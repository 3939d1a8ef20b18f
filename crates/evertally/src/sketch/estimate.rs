//! The answers of queries.

/// An estimated count, in units of the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The closed step that it refers to.
    pub step: u64,
    /// The estimate.
    pub value: f64,
    /// Standard error that the noise causes. It does not include the error of collisions.
    pub noise_std_error: f64,
}

/// An item or key whose estimate reaches a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeavyHitter<K> {
    /// The item or key.
    pub key: K,
    /// Its estimated count.
    pub estimate: Estimate,
}

/// A quantile of a distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    /// The closed step that it refers to.
    pub step: u64,
    /// The estimated quantile.
    pub key: u64,
    /// Smallest key that the quantile may be, at the requested confidence.
    pub lower: u64,
    /// Largest key that it may be.
    pub upper: u64,
}

/// Sorts by estimate, largest first; equal ones stay in order.
pub(super) fn largest_first<K>(found: &mut [HeavyHitter<K>]) {
    found.sort_by(|a, b| b.estimate.value.total_cmp(&a.estimate.value));
}

/// The middle of an odd number of values.
pub(super) fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
