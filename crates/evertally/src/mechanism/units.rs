//! A unit's events in several groups: each group is a running sum with separate noise, and squared shifts add up.
//!
//! Let `F(n)` bound the squared shift of one sum by `n` events of the unit ([`Mechanism::spread_squared`]). The shifts
//! of all sums together are at most `Σ_g F(n_g)` over counts `n_g ≤ m_g` with `Σ n_g ≤ m`. Moreover, as no entry of `R`
//! is negative, `Σ_g ‖R u_g‖² ≤ ‖R Σ_g u_g‖²`, so `F(m)` bounds it too.
//!
//! Over a short horizon `F` is also computed from the dense twin, by [chains](chain), and the smaller bound is used.
//!
//! **Substitutes.** If events of the unit are removed and others are kept instead, the shifts `p` and `n` have opposite
//! signs. If no entry of `R` is negative, `‖R (p - n)‖² ≤ ‖R p‖² + ‖R n‖²`. Otherwise the bound for exchanged events
//! counts, of which there are no more in `n` than in `p`: `‖R (p - n)‖²` is at most twice that of `p`.
//!
//! For few events the best counts are found exactly. For many, `Σ F(n_g) ≤ m · max F(n)/n`: sizes are examined in
//! intervals `a < n ≤ b`, in which `F(n)/n ≤ F(b)/(a+1)`: some `8 log m_g` of them.

use super::accounting::chain::{self, Pattern, RankedColumns};
use crate::Result;
use crate::mechanism::{Mechanism, SearchWatch};
use crate::privacy::Spread;

/// Up to this many steps the columns are examined one by one, for every mechanism.
const MAX_TWIN_STEPS: u64 = 64;
/// Up to this size of entries and events, sums of squares are exact in floating point: `2^8 (2^10 2^10)² < 2^53`.
const MAX_EXACT_ENTRY: f64 = 1024.0;
/// Up to this many events the best counts of all groups are found one by one.
const MAX_ENUMERATED_EVENTS: u64 = 64;

/// An upper bound of the squared norm by which a unit's change of size 1 moves all node sums of all groups, in squared
/// units of `2^-noise_bits`; `u128::MAX` if that does not fit.
pub(crate) fn squared<M: Mechanism + ?Sized>(mechanism: &M, spread: Spread) -> u128 {
    squared_watched(mechanism, spread, SearchWatch::NONE).expect("nothing cancels it")
}

/// The same in a computation that a watch may cancel.
///
/// # Errors
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels it.
pub(crate) fn squared_watched<M: Mechanism + ?Sized>(
    mechanism: &M,
    spread: Spread,
    watch: SearchWatch<'_>,
) -> Result<u128> {
    let own = squared_of_events(mechanism, spread.without_substitutes(), watch)?;
    Ok(match spread.of_substitutes() {
        None => own,
        Some(_) if mechanism.has_negative_entries() => own.saturating_mul(2),
        Some(others) => own.saturating_add(squared_of_events(mechanism, others, watch)?),
    })
}

fn squared_of_events<M: Mechanism + ?Sized>(mechanism: &M, spread: Spread, watch: SearchWatch<'_>) -> Result<u128> {
    let (total, per_group) = (spread.total, spread.per_group.min(spread.total));
    let mut sizes: Vec<u64> = match per_group {
        _ if per_group == total => vec![],
        _ if total <= MAX_ENUMERATED_EVENTS => (1..=per_group).collect(),
        _ => intervals(per_group).into_iter().map(|(_, size)| size).rev().collect(),
    };
    sizes.push(total);
    let mut squares = mechanism.spreads_squared_watched(spread, &sizes, watch)?;
    if let Some(twin) = twin(mechanism, spread) {
        for (size, squared) in sizes.iter().zip(&mut squares) {
            let by_twin = chain::largest(&twin, Pattern::new(spread.in_one_sum(*size)));
            *squared = (*squared).min(by_twin as u128); // whole: sums of integers
        }
    }
    let of_one = |events: u64| squares[sizes.binary_search(&events).expect("every size was requested")];
    let together = of_one(total);
    if per_group == total {
        return Ok(together);
    }
    Ok(together.min(if total <= MAX_ENUMERATED_EVENTS {
        best_counts(total, per_group, of_one)
    } else {
        by_ratios(total, per_group, of_one)
    }))
}

/// The columns of the dense twin, if the horizon is short and the twin is exactly the protected matrix: whole numbers
/// of the noise grid.
fn twin<M: Mechanism + ?Sized>(mechanism: &M, spread: Spread) -> Option<RankedColumns> {
    if mechanism.horizon() > MAX_TWIN_STEPS || spread.per_step >= spread.total || mechanism.noise_bits() > 0 {
        return None;
    }
    let r = mechanism.dense().r;
    let whole =
        |n: usize| r.row(n).iter().all(|entry| *entry >= 0.0 && *entry <= MAX_EXACT_ENTRY && entry.fract() == 0.0);
    let fits = (spread.total as f64) < MAX_EXACT_ENTRY && (0..r.shape().0).all(whole);
    fits.then(|| RankedColumns::new(&r, spread.separation))
}

/// The largest `Σ F(n_g)`.
fn best_counts(total: u64, per_group: u64, of_one: impl Fn(u64) -> u128) -> u128 {
    let of_sizes: Vec<u128> = (1..=per_group).map(of_one).collect();
    let mut best = vec![0u128; total as usize + 1];
    for events in 1..best.len() {
        let with = |(size, squared): (usize, &u128)| best[events.checked_sub(size)?].checked_add(*squared);
        let sizes = (1..).zip(&of_sizes).take(events);
        let largest = sizes.map(|(size, squared)| with((size, squared)).unwrap_or(u128::MAX)).max();
        best[events] = largest.unwrap_or(0);
    }
    best[total as usize]
}

/// `total · max F(b)/(a+1)`, rounded up.
fn by_ratios(total: u64, per_group: u64, of_one: impl Fn(u64) -> u128) -> u128 {
    let of_interval = |(below, size): (u64, u64)| {
        let squared = of_one(size);
        // ⌈total · squared / (below + 1)⌉
        let least = u128::from(below + 1);
        let (whole, rest) = (squared / least, squared % least);
        let whole = whole.checked_mul(total.into())?;
        // fits: both are below 2^64
        whole.checked_add((rest * u128::from(total)).div_ceil(least))
    };
    intervals(per_group).into_iter().map(|interval| of_interval(interval).unwrap_or(u128::MAX)).max().unwrap_or(0)
}

/// Intervals `a < n ≤ b` that cover all sizes up to this one. They are short enough that `b²/(a+1)` is at most the
/// largest, and at most an eighth of `b` long: nothing is lost if `F` grows with the square, and little if it grows as
/// `n`.
fn intervals(largest: u64) -> Vec<(u64, u64)> {
    let (mut all, mut end) = (vec![], largest);
    while end > 0 {
        // a + 1 ≥ b²/largest; fits: both factors are below 2^64. Small sizes may grow more slowly than with the square.
        let length = u128::from(largest - end) * u128::from(end) / u128::from(largest);
        let below = end - (length as u64).clamp(1, (end / 8).max(1));
        all.push((below, end));
        end = below;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_cover_all_sizes() {
        for largest in [1, 2, 3, 17, 100, 12345] {
            let all = intervals(largest);
            assert_eq!((all[0], all[all.len() - 1].0), ((largest - 1, largest), 0));
            assert!(all.windows(2).all(|pair| pair[0].0 == pair[1].1 && pair[1].0 < pair[1].1));
        }
    }

    /// Compared with every way to share events among groups.
    #[test]
    fn best_counts_by_enumeration() {
        fn every(left: u64, per_group: u64, of_one: &dyn Fn(u64) -> u128) -> u128 {
            let with = |n: u64| of_one(n) + every(left - n, per_group, of_one);
            (1..=per_group.min(left)).map(with).max().unwrap_or(0)
        }
        let square = |n: u64| u128::from(n * n);
        let bent = |n: u64| u128::from(if n.is_multiple_of(2) { n * n } else { n * n - n + 1 });
        for of_one in [&square as &dyn Fn(u64) -> u128, &bent] {
            for (total, per_group) in [(5, 2), (7, 3), (9, 4), (6, 1), (10, 9)] {
                let exact = every(total, per_group, of_one);
                assert_eq!(best_counts(total, per_group, of_one), exact, "{total} {per_group}");
                assert!(by_ratios(total, per_group, of_one) >= exact);
            }
        }
        assert_eq!(by_ratios(300, 100, square), 30_000);
        // Events that hardly interact: F(n)/n is nearly the same for all sizes.
        let slow = |n: u64| u128::from(1000 * n + n * n);
        assert!(by_ratios(300, 100, slow) <= 300 * 1100 * 9 / 8);
    }
}
