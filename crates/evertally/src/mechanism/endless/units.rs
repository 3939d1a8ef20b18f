//! The worst division of a unit's events among the epochs.
//!
//! Let `F_k(n)` bound the squared norm of the node sums of `n` events in epoch `k`. All epochs together have at most
//! `max Σ F_k(n_k)` over `Σ n_k = m`, which is at most `m · max_k max_{n≤m} F_k(n)/n`. `F_k` does not fall, so sizes
//! are examined in intervals `a < n ≤ b`, in which `F(n)/n ≤ F(b)/(a+1)`: short ones near `m`, where the quotient is
//! largest, as events together add up. If the bound is such that `F(n)/n` does not fall, `n = m` is enough.

use super::epoch::Epoch;
use crate::privacy::Spread;

/// Upper bounds of `‖R u‖²` over the counts of a unit, for several numbers of events in non-decreasing order; one pass
/// over the epochs serves all of them.
pub(super) fn largest_squares(epochs: &[Epoch], spread: Spread, events: &[u64]) -> Vec<f64> {
    let longest = epochs.iter().map(|epoch| epoch.column_norms().l2_squared).fold(0.0, f64::max);
    let is_spread = |events: &u64| *events > spread.per_step;
    let mut all: Vec<u64> =
        events.iter().filter(|events| is_spread(events)).flat_map(|events| sizes(*events)).collect();
    all.retain(|size| *size > 0);
    all.sort_unstable();
    all.dedup();
    let (rising, others): (Vec<_>, Vec<_>) = epochs.iter().partition(|epoch| epoch.ratio_rises());
    // For every size, the largest value over the epochs.
    let largest_of = |epochs: &[&Epoch], sizes: &[u64]| {
        let mut largest = vec![0.0f64; sizes.len()];
        for epoch in epochs.iter().filter(|_| !sizes.is_empty()) {
            for (largest, squared) in largest.iter_mut().zip(epoch.largest_squares(spread, sizes)) {
                *largest = largest.max(squared);
            }
        }
        largest
    };
    let totals: Vec<u64> = events.iter().copied().filter(|events| is_spread(events)).collect();
    let (largest, of_totals) = (largest_of(&others, &all), largest_of(&rising, &totals));
    let squared = |events: &u64| {
        // All events in the longest column.
        let together = (*events as f64) * (*events as f64) * longest;
        if !is_spread(events) {
            return together;
        }
        let of_size = |size: u64| largest[all.binary_search(&size).expect("all sizes are there")];
        let ratios = sizes(*events);
        let at_total = of_totals[totals.binary_search(events).expect("every total is there")] / *events as f64;
        let ratio = ratios.windows(2).map(|pair| of_size(pair[1]) / (pair[0] + 1) as f64).fold(at_total, f64::max);
        together.min(*events as f64 * ratio * (1.0 + 1e-12))
    };
    events.iter().map(squared).collect()
}

/// `0 = a_0 < a_1 < … = total`: one by one near the total, farther and farther apart below.
fn sizes(total: u64) -> Vec<u64> {
    let (mut sizes, mut size) = (vec![total], total);
    while size > 0 {
        // As wide as the distance from the total, and at most an eighth of the remainder.
        size -= (total - size).clamp(1, (size / 8).max(1));
        sizes.push(size);
    }
    sizes.reverse();
    sizes
}
