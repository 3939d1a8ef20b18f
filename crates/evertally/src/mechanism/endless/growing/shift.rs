//! The sensitivity of a growing filter to a unit that has events in several steps: by chains of stages.
//!
//! By the header of [`chain`](crate::mechanism::accounting::chain), with one event in a step, the `j`-th step with
//! events, `t`, adds at most `φ(t, j) = G_tt + 2 Σ_{0<i<j} Ḡ(t, ib)`, where `Ḡ(t, d)` is the largest inner product of
//! column `t` with a column at least `d` steps before. For `t` in stage `l` and an earlier column in stage `k`
//!
//! ```text
//! G = w_k w_l Σ_i γ_i(k) θ_i^(d-1) u_i(l),
//! ```
//!
//! with norms over all steps without an end, so it depends on `t` through `l` and the distance only, and falls with the
//! distance. A step of stage `k < l` is at least as far from `t` as the last step of `k` from the first of `l`. So
//! `Ḡ(t, d)` is at most the largest of these values, over `k ≤ l`, at the larger of the two distances. Steps
//! `a < j ≤ e` are added together as if each were the last of them, and their steps before as if each were the nearest:
//!
//! ```text
//! φ_l(e) ≤ φ_l(a) + 2 (e-a) Ḡ_l(ab),    F_e(l) = max_{k≤l} (F_a(k) + (e-a) φ_k(e)),   F_0 = 0.
//! ```
//!
//! `F_e` of the last stage bounds the squared shift by `e` steps with an event each. If one more step has a part `λ` of
//! an event, the shift is a mean, with weights `1-λ` and `λ`, of one by `e` and one by `e+1` events, and so is the
//! bound of its length.

use super::filter::GrowingFilter;
use crate::mechanism::accounting::participation::rounded_up;
use crate::number::power;
use crate::privacy::Spread;

/// Groups of steps are shorter than this part of the steps before.
const FINENESS: u64 = 128;
/// Covers the roundings of one group and of an inner product.
const OPERATIONS: u64 = 1 << 11;

/// See [`Growing::largest_squares`](super::Growing::largest_squares).
pub(super) fn largest_squares(
    filter: &GrowingFilter,
    horizon: u64,
    longest: f64,
    spread: Spread,
    events: &[u64],
) -> Vec<f64> {
    let each = spread.per_step as f64;
    let room = horizon.div_ceil(spread.separation);
    // Steps with `each` events, and the events of one more step.
    let pattern = |events: u64| {
        let (full, rest) = (events / spread.per_step, events % spread.per_step);
        if full >= room { (room, 0) } else { (full, rest) }
    };
    let counts = events.iter().flat_map(|events| [pattern(*events).0, pattern(*events).0 + 1]);
    let mut counts: Vec<u64> = counts.map(|count| count.min(room)).collect();
    counts.sort_unstable();
    counts.dedup();
    let spread_out = events.last().is_some_and(|events| *events > spread.per_step);
    let bounds = if spread_out { of_counts(filter, spread.separation, &counts) } else { vec![] };
    let of = |count: u64| bounds[counts.binary_search(&count.min(room)).expect("every count is bounded")];
    let squared = |events: &u64| {
        let together = power(*events as f64, 2) * longest;
        if *events <= spread.per_step {
            return together;
        }
        let (full, rest) = pattern(*events);
        let part = rest as f64 / each;
        let length = (1.0 - part) * libm::sqrt(of(full)) + if rest > 0 { part * libm::sqrt(of(full + 1)) } else { 0.0 };
        together.min(rounded_up(power(each * length, 2), 16))
    };
    events.iter().map(squared).collect()
}

/// The inner products of the columns of all stages.
struct StageProducts<'a> {
    filter: &'a GrowingFilter,
    /// `w γ_i` of every stage.
    echoes: Vec<Vec<f64>>,
    /// `w u_i` of every stage.
    partners: Vec<Vec<f64>>,
    /// For every stage and every earlier one, the inner product of their nearest columns.
    nearest: Vec<Vec<f64>>,
}

impl<'a> StageProducts<'a> {
    fn new(filter: &'a GrowingFilter) -> Self {
        let weighted = |values: Vec<f64>, weight: f64| values.into_iter().map(|value| weight * value).collect();
        let echoes = filter.stages.iter().map(|stage| weighted(stage.gains(), GrowingFilter::weight(stage))).collect();
        let partners = filter.stages.iter().map(|stage| weighted(filter.partners(stage), GrowingFilter::weight(stage)));
        let mut products = Self { filter, echoes, partners: partners.collect(), nearest: vec![] };
        let of_stage = |later: usize| -> Vec<f64> {
            (0..later)
                .map(|earlier| {
                    let distance = filter.stages[later].before + 1 - filter.stages[earlier].last;
                    products.product(earlier, later, &products.kept(distance))
                })
                .collect()
        };
        products.nearest = (0..filter.stages.len()).map(of_stage).collect();
        products
    }

    /// `θ_i^(d-1)`.
    fn kept(&self, distance: u64) -> Vec<f64> {
        (0..self.filter.q.len()).map(|i| self.filter.kept(i, distance - 1)).collect()
    }

    fn product(&self, earlier: usize, later: usize, kept: &[f64]) -> f64 {
        let echoes = self.echoes[earlier].iter().zip(kept);
        echoes.zip(&self.partners[later]).map(|((echo, kept), partner)| echo * kept * partner).sum()
    }

    /// `Ḡ_l(d)` for `d ≥ 1`; `kept` are `θ_i^(d-1)`.
    fn largest(&self, later: usize, distance: u64, kept: &[f64]) -> f64 {
        let first = self.filter.stages[later].before + 1;
        let of_stage = |earlier: usize| match self.filter.stages[earlier].last {
            last if earlier < later && first - last > distance => self.nearest[later][earlier],
            _ => self.product(earlier, later, kept),
        };
        (0..=later).map(of_stage).fold(0.0, f64::max)
    }
}

/// `F_e` of the last stage for several `e ≥ 1` in ascending order. `O(d S² log k)` for `S` stages.
fn of_counts(filter: &GrowingFilter, separation: u64, counts: &[u64]) -> Vec<f64> {
    let products = StageProducts::new(filter);
    let square = |stage| power(GrowingFilter::weight(stage), 2) * filter.square(stage);
    let mut sums: Vec<f64> = filter.stages.iter().map(square).collect();
    let mut chains = vec![0.0; sums.len()];
    let (mut done, mut groups) = (0, 0);
    let mut bound = |count: &u64| {
        while done < *count {
            let end = if done == 0 { 1 } else { (done + (done / FINENESS).max(1)).min(*count) };
            let (distance, number) = (done * separation, (end - done) as f64);
            let kept = if done > 0 { products.kept(distance) } else { vec![] };
            let mut best = f64::NEG_INFINITY;
            for (l, (sum, chain)) in sums.iter_mut().zip(&mut chains).enumerate() {
                // A step with enough others before it.
                if filter.stages[l].last > distance {
                    if done > 0 {
                        *sum += 2.0 * number * products.largest(l, distance, &kept);
                    }
                    best = best.max(*chain + number * *sum);
                }
                *chain = best;
            }
            (done, groups) = (end, groups + 1);
        }
        rounded_up(chains.last().copied().unwrap_or(0.0), OPERATIONS + 8 * groups)
    };
    counts.iter().map(&mut bound).collect()
}
