//! The worst division of a unit's events among the epochs.
//!
//! Let `F_k(n)` bound the squared norm of the node sums of `n` events in epoch `k`. All epochs together have at most
//! `max Σ F_k(n_k)` over `Σ n_k = m`, which is at most `m · max_k max_{n≤m} F_k(n)/n`. `F_k` does not fall, so sizes
//! are examined in intervals `a < n ≤ b`, in which `F(n)/n ≤ F(b)/(a+1)`: short ones near `m`, where the quotient is
//! largest, as events together add up. For some mechanisms inside, the largest `F(n)/n` is known
//! ([`Epoch::largest_ratios`]).

use super::epoch::Epoch;
use crate::Result;
use crate::mechanism::SearchWatch;
use crate::privacy::Spread;

/// Upper bounds of `‖R u‖²` over the counts of a unit, for several numbers of events in non-decreasing order; one pass
/// over an epoch serves all of them.
///
/// # Errors
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the computation.
pub(super) fn largest_squares(
    epochs: &[Epoch],
    spread: Spread,
    events: &[u64],
    watch: SearchWatch<'_>,
) -> Result<Vec<f64>> {
    let longest = epochs.iter().map(|epoch| epoch.column_norms().l2_squared).fold(0.0, f64::max);
    let spread_out: Vec<u64> = events.iter().copied().filter(|events| *events > spread.per_step).collect();
    let mut others = vec![];
    let mut ratios = vec![0.0f64; spread_out.len()];
    for epoch in epochs {
        watch.check()?;
        match epoch.largest_ratios(spread, &spread_out, watch)? {
            Some(own) => ratios.iter_mut().zip(own).for_each(|(ratio, own)| *ratio = ratio.max(own)),
            None => others.push(epoch),
        }
    }
    let by_intervals = ratios_by_intervals(&others, spread, &spread_out, watch)?;
    ratios.iter_mut().zip(by_intervals).for_each(|(ratio, own)| *ratio = ratio.max(own));
    let squared = |events: &u64| {
        // All events in the longest column.
        let together = (*events as f64) * (*events as f64) * longest;
        match spread_out.binary_search(events) {
            Ok(place) => together.min(*events as f64 * ratios[place] * (1.0 + 1e-12)),
            Err(_) => together,
        }
    };
    Ok(events.iter().map(squared).collect())
}

/// For several numbers of events, a bound of the largest `F_k(n)/n` of all epochs.
fn ratios_by_intervals(epochs: &[&Epoch], spread: Spread, events: &[u64], watch: SearchWatch<'_>) -> Result<Vec<f64>> {
    if epochs.is_empty() {
        return Ok(vec![0.0; events.len()]);
    }
    let mut all: Vec<u64> = events.iter().flat_map(|events| sizes(*events)).filter(|size| *size > 0).collect();
    all.sort_unstable();
    all.dedup();
    // For every size, the largest value over the epochs.
    let mut largest = vec![0.0f64; all.len()];
    for epoch in epochs.iter().filter(|_| !all.is_empty()) {
        watch.check()?;
        for (largest, squared) in largest.iter_mut().zip(epoch.largest_squares(spread, &all, watch)?) {
            *largest = largest.max(squared);
        }
    }
    let of_size = |size: u64| largest[all.binary_search(&size).expect("all sizes are there")];
    let ratio = |events: &u64| {
        let pairs = sizes(*events);
        pairs.windows(2).map(|pair| of_size(pair[1]) / (pair[0] + 1) as f64).fold(0.0, f64::max)
    };
    Ok(events.iter().map(ratio).collect())
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
