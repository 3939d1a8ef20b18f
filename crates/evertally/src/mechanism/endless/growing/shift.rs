//! The sensitivity of a growing filter to a unit that has events in several steps.
//!
//! The inner product of a column of stage `k` and one of stage `l ≥ k`, `d` steps later, is
//!
//! ```text
//! G = w_k w_l Σ_i γ_i(k) θ_i^(d-1) u_i(l),   and within a stage   H_l(d) = w_l² Σ_i γ_i(l) θ_i^(d-1) u_i(l),
//! ```
//!
//! with norms over all steps without an end. All terms are positive, so `G ≤ c (H_k(d) + H_l(d))/2` for all `d`, where
//! `c` is the largest quotient of two terms, over all `k`, `l` and `i`, and at least 1: about 1.06. Of `e` steps with
//! one event each, `b` apart or more, the `n`-th step before or after another is at least `n b` away, and `H` falls
//! with the distance. So half of the products on both sides of a step can be counted in its own stage:
//!
//! ```text
//! ‖R u‖² ≤ Σ_{j≤e} max_l (H_l(0) + c A_l(j-1) + c A_l(e-j)),   A_l(n) = Σ_{0<i≤n} H_l(ib).
//! ```
//!
//! Equal stages would reach it with `c = 1`. `A` grows with `n` and is a geometric sum, so steps `a < j ≤ z` are added
//! together with `A_l(z-1)` and `A_l(e-a-1)`. If one more step has a part `λ` of an event, the shift is a mean, with
//! weights `1-λ` and `λ`, of one by `e` and one by `e+1` events, and so is the bound of its length. The header of
//! [`chain`](crate::mechanism::accounting::chain) shows that all other steps have as many events as possible.

use super::filter::GrowingFilter;
use crate::mechanism::accounting::participation::rounded_up;
use crate::number::power;
use crate::privacy::Spread;

/// Groups of steps are shorter than this part of the steps on the shorter side.
const FINENESS: u64 = 8;
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
    let products = StageProducts::new(filter);
    let bounded = |count: &u64| if spread_out { products.of_count(spread.separation, *count) } else { 0.0 };
    let bounds: Vec<f64> = counts.iter().map(bounded).collect();
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

/// The inner products of columns within a stage, all stages one after the other.
struct StageProducts<'a> {
    filter: &'a GrowingFilter,
    /// `H_l(0)`.
    squares: Vec<f64>,
    /// `c w_l² γ_i(l) u_i(l)`.
    echoes: Vec<Vec<f64>>,
}

impl<'a> StageProducts<'a> {
    fn new(filter: &'a GrowingFilter) -> Self {
        let weighted = |values: Vec<f64>, weight: f64| values.into_iter().map(|value| weight * value).collect();
        let weight = GrowingFilter::weight;
        let gains: Vec<Vec<f64>> = filter.stages.iter().map(|stage| weighted(stage.gains(), weight(stage))).collect();
        let partners = filter.stages.iter().map(|stage| weighted(filter.partners(stage), weight(stage)));
        let partners: Vec<Vec<f64>> = partners.collect();
        let mut excess = 1.0f64;
        for l in 0..gains.len() {
            for k in 0..l {
                for i in 0..filter.q.len() {
                    let within = gains[k][i] * partners[k][i] + gains[l][i] * partners[l][i];
                    excess = excess.max(2.0 * gains[k][i] * partners[l][i] / within);
                }
            }
        }
        let squares = filter.stages.iter().map(|stage| power(weight(stage), 2) * filter.square(stage)).collect();
        let echoes = gains.iter().zip(&partners);
        let echoes = echoes.map(|(gains, partners)| gains.iter().zip(partners).map(|(g, u)| excess * g * u).collect());
        Self { filter, squares, echoes: echoes.collect() }
    }

    /// `Σ_{0<i≤n} θ^(ib-1)` of every buffer.
    fn kept(&self, separation: u64, n: u64) -> Vec<f64> {
        let of_rate = |(i, rate): (usize, &f64)| {
            let (once, apart) = (separation as f64 * rate, (n as f64) * separation as f64 * rate);
            self.filter.kept(i, separation - 1) * libm::expm1(-apart) / libm::expm1(-once)
        };
        self.filter.rates.iter().enumerate().map(of_rate).collect()
    }

    /// The bound of `‖R u‖²` for `e` steps with an event each. `O(d S log e)` for `S` stages.
    fn of_count(&self, separation: u64, count: u64) -> f64 {
        let (mut done, mut sum, mut groups) = (0, 0.0, 0);
        while done < count {
            // Short near both ends, where `A` changes fast.
            let near = done.min(count - done);
            let end = (done + (near / FINENESS).max(1)).min(count);
            let before = self.kept(separation, end - 1);
            let after = self.kept(separation, count - done - 1);
            let both: Vec<f64> = before.iter().zip(after).map(|(before, after)| before + after).collect();
            let of_stage = |(square, echoes): (&f64, &Vec<f64>)| {
                square + echoes.iter().zip(&both).map(|(echo, kept)| echo * kept).sum::<f64>()
            };
            let largest = self.squares.iter().zip(&self.echoes).map(of_stage).fold(0.0, f64::max);
            sum += (end - done) as f64 * largest;
            (done, groups) = (end, groups + 1);
        }
        rounded_up(sum, OPERATIONS + 8 * groups)
    }
}
