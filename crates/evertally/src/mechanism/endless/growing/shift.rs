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
//!
//! **Per event** the bound `B` is largest for all events, or for those that fill their steps. With `g(j, e)` for term
//! `j` of `e`: as `A` does not fall, `g(j, e)` is at most `g(j, e+1)` and at most `g(j+1, e+1)`, so
//! it is at most their mean with weights `(e+1-j)/(e+1)` and `j/(e+1)`. Added over `j ≤ e`, every term of `e+1` has the
//! weight `e/(e+1)`: `B(e)/e ≤ B(e+1)/(e+1)`. Between whole numbers of steps `√B` is linear, so `B(x)/x` is convex, and
//! largest at an end.

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
    let bounds = PatternBounds::new(filter, horizon, spread, events);
    let squared = |events: &u64| {
        let together = power(*events as f64, 2) * longest;
        if *events <= spread.per_step { together } else { together.min(bounds.squared(bounds.steps_of(*events))) }
    };
    events.iter().map(squared).collect()
}

/// See [`Growing::largest_ratios`](super::Growing::largest_ratios).
pub(super) fn largest_ratios(filter: &GrowingFilter, horizon: u64, spread: Spread, events: &[u64]) -> Vec<f64> {
    let bounds = PatternBounds::new(filter, horizon, spread, events);
    let ratio = |events: &u64| {
        let (full, rest) = bounds.steps_of(*events);
        let filled = (full * spread.per_step) as f64; // fits: at most `events`
        (bounds.squared((full, 0)) / filled).max(bounds.squared((full, rest)) / (filled + rest as f64))
    };
    events.iter().map(ratio).collect()
}

/// Bounds of `‖R u‖²` for events that are spread over steps.
struct PatternBounds {
    each: u64,
    /// The largest number of steps with events.
    room: u64,
    /// `e` in ascending order, and the bounds for `e` steps with one event each.
    counts: Vec<u64>,
    bounds: Vec<f64>,
}

impl PatternBounds {
    /// For these numbers of events, as far as they are more than one step may have.
    fn new(filter: &GrowingFilter, horizon: u64, spread: Spread, events: &[u64]) -> Self {
        let (each, room) = (spread.per_step, horizon.div_ceil(spread.separation));
        let mut all = Self { each, room, counts: vec![], bounds: vec![] };
        for events in events.iter().filter(|events| **events > each) {
            let (full, rest) = all.steps_of(*events);
            all.counts.extend(full..=full + u64::from(rest > 0));
        }
        all.counts.sort_unstable();
        all.counts.dedup();
        let products = StageProducts::new(filter, spread.separation);
        all.bounds = all.counts.iter().map(|count| products.of_count(*count)).collect();
        all
    }

    /// The number of steps with as many events as possible, and the events of one more step.
    fn steps_of(&self, events: u64) -> (u64, u64) {
        let (full, rest) = (events / self.each, events % self.each);
        if full >= self.room { (self.room, 0) } else { (full, rest) }
    }

    fn squared(&self, (full, rest): (u64, u64)) -> f64 {
        let of = |count: u64| self.bounds[self.counts.binary_search(&count).expect("every count is bounded")];
        let (each, part) = (self.each as f64, rest as f64 / self.each as f64);
        let length = (1.0 - part) * libm::sqrt(of(full)) + if rest > 0 { part * libm::sqrt(of(full + 1)) } else { 0.0 };
        rounded_up(power(each * length, 2), 16)
    }
}

/// The inner products of columns within a stage that are a multiple of the separation apart.
struct StageProducts<'a> {
    filter: &'a GrowingFilter,
    separation: u64,
    /// `H_l(0)` of all stages.
    squares: Vec<f64>,
    /// `c w_l² γ_i(l) u_i(l)`: of every buffer, those of all stages.
    echoes: Vec<Vec<f64>>,
    /// `θ^(b-1)` and `θ^b - 1` of every buffer.
    once: Vec<(f64, f64)>,
}

impl<'a> StageProducts<'a> {
    fn new(filter: &'a GrowingFilter, separation: u64) -> Self {
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
        let of_buffer = |i: usize| gains.iter().zip(&partners).map(|(g, u)| excess * g[i] * u[i]).collect();
        let echoes = (0..filter.q.len()).map(of_buffer).collect();
        let once =
            |(i, rate): (usize, &f64)| (filter.kept(i, separation - 1), libm::expm1(-(separation as f64 * rate)));
        let once = filter.rates.iter().enumerate().map(once).collect();
        Self { filter, separation, squares, echoes, once }
    }

    /// `Σ_{0<i≤n} θ^(ib-1)` of every buffer.
    fn kept(&self, n: u64) -> impl Iterator<Item = f64> {
        let of_rate = move |(rate, (first, once)): (&f64, &(f64, f64))| {
            let apart = (n as f64) * self.separation as f64 * rate;
            first * libm::expm1(-apart) / once
        };
        self.filter.rates.iter().zip(&self.once).map(of_rate)
    }

    /// The bound of `‖R u‖²` for `e` steps with an event each. `O(d S log e)` for `S` stages.
    fn of_count(&self, count: u64) -> f64 {
        let (mut done, mut sum, mut groups) = (0, 0.0, 0);
        let mut of_stages = vec![0.0; self.squares.len()];
        while done < count {
            // Short near both ends, where `A` changes fast.
            let near = done.min(count - done);
            let end = (done + (near / FINENESS).max(1)).min(count);
            let both = self.kept(end - 1).zip(self.kept(count - done - 1)).map(|(before, after)| before + after);
            of_stages.fill(0.0);
            // All stages side by side: sums of one stage would wait for each other.
            for (kept, echoes) in both.zip(&self.echoes) {
                of_stages.iter_mut().zip(echoes).for_each(|(sum, echo)| *sum += echo * kept);
            }
            let largest = self.squares.iter().zip(&of_stages).map(|(square, sum)| square + sum).fold(0.0, f64::max);
            sum += (end - done) as f64 * largest;
            (done, groups) = (end, groups + 1);
        }
        rounded_up(sum, OPERATIONS + 8 * groups)
    }
}
