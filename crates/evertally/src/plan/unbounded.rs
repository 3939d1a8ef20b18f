//! Errors of endless plans: at some steps, and compared with the best possible if that step were the last.

use super::Candidate;
use super::lower_bound::event_bound;
use crate::Result;
use crate::mechanism::{Mechanism, SearchWatch, SearchedOnce};

/// The steps at which tables show the error of an endless plan.
pub const LOOKED_AT: [u64; 4] = [16, 1000, 1_000_000, 1 << 40];

/// Consecutive steps of the comparison grow by one part in this many.
const FINENESS: u64 = 4;
/// The last step of the comparison.
const LAST: u64 = 1 << 40;

/// A proven upper bound of the largest ratio, from step `first` to 2^40, of the variance of a mechanism under Gaussian
/// noise to the smallest possible maximal variance of a mechanism that ends at that step: at steps that are at most a
/// quarter apart, and at both sides of all powers of two, where variances may jump.
///
/// ```
/// use evertally::mechanism::{Endless, Inside, MAX_HORIZON};
/// use evertally::plan::largest_ratio;
/// let endless = Endless::new(MAX_HORIZON, Inside::Normalized)?;
/// assert!(largest_ratio(&endless, 16) < 2.5);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn largest_ratio(mechanism: &dyn Mechanism, first: u64) -> f64 {
    largest_ratio_watched(mechanism, first, SearchWatch::NONE).expect("nothing cancels it")
}

/// The same; a watch may cancel the first call in a program, which computes the bounds.
pub(super) fn largest_ratio_watched(mechanism: &dyn Mechanism, first: u64, watch: SearchWatch<'_>) -> Result<f64> {
    let squared = mechanism.column_norms().l2_squared;
    let last = mechanism.horizon().min(LAST);
    let looks = bounds(watch)?.iter().filter(|(step, _)| (first..=last).contains(step));
    Ok(looks.map(|(step, bound)| squared * mechanism.row_norm_squared(*step) / bound).fold(0.0, f64::max))
}

/// Steps, and for each the lower bound of the maximal variance of mechanisms that end there, times 2ρ.
fn bounds(watch: SearchWatch<'_>) -> Result<&'static [(u64, f64)]> {
    static BOUNDS: SearchedOnce<Vec<(u64, f64)>> = SearchedOnce::new();
    let found = BOUNDS.get(watch, |watch| {
        let (mut steps, mut step) = (vec![], 1);
        while step <= LAST {
            steps.push(step);
            step += (step / FINENESS).max(1);
        }
        steps.extend((4..40).flat_map(|power| [1 << power, (1 << power) + 1]).chain([LAST]));
        steps.sort_unstable();
        steps.dedup();
        let bound = |step: u64| {
            watch.check()?;
            let bound = event_bound(step);
            Ok((step, bound * bound))
        };
        steps.into_iter().map(bound).collect()
    })?;
    Ok(found)
}

impl Candidate {
    /// The ranking criterion of endless candidates: the mean logarithm of the variance over the compared steps.
    pub(super) fn endless_figure(&self, node_variance: f64) -> f64 {
        let variance = |step: u64| libm::log(node_variance * self.mechanism.row_norm_squared(step));
        LOOKED_AT.map(variance).iter().sum::<f64>() / LOOKED_AT.len() as f64
    }
}
