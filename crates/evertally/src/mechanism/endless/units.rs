//! The worst division of a unit's events among the epochs.
//!
//! Let `F_k(n)` bound the squared norm of the node sums of `n` events in epoch `k`. All epochs together have at most
//! `max Σ F_k(n_k)` over `Σ n_k = m`, which is at most `m · max_k max_{n≤m} F_k(n)/n`. `F_k` does not fall, so that sizes
//! are looked at in intervals `a < n ≤ b`, in which `F(n)/n ≤ F(b)/(a+1)`: short ones near `m`, where the quotient is
//! largest, as events together add up.

use super::epoch::Epoch;
use crate::privacy::Spread;

/// An upper bound of `‖R u‖²` over the counts of a unit.
pub(super) fn largest_square(epochs: &[Epoch], spread: Spread) -> f64 {
    let total = spread.total;
    let longest = epochs.iter().map(|epoch| epoch.column_norms().l2_squared).fold(0.0, f64::max);
    // All events in the longest column.
    let together = (total as f64) * (total as f64) * longest;
    if spread.per_step >= total {
        return together;
    }
    let by_ratio = |epoch: &Epoch| {
        let ratios = sizes(total).windows(2).map(|pair| (pair[0] + 1, pair[1])).collect::<Vec<_>>();
        let ratio = |(first, last): (u64, u64)| epoch.largest_square(spread, last) / first as f64;
        ratios.into_iter().map(ratio).fold(0.0, f64::max)
    };
    let ratio = epochs.iter().map(by_ratio).fold(0.0, f64::max);
    together.min(total as f64 * ratio * (1.0 + 1e-12))
}

/// `0 = a_0 < a_1 < … = total`: singly near the total, ever farther apart below.
fn sizes(total: u64) -> Vec<u64> {
    let (mut sizes, mut size) = (vec![total], total);
    while size > 0 {
        // As wide as the distance from the total, and at most an eighth of what is left.
        size -= (total - size).clamp(1, (size / 8).max(1));
        sizes.push(size);
    }
    sizes.reverse();
    sizes
}
