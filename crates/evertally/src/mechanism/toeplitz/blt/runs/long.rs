//! Weights and the shift of a unit over long horizons: by segments of steps, without a table of steps.
//!
//! Weights `w` do not fall with the step and are constant on [segments]. By the header of
//! [`chain`](crate::mechanism::accounting::chain), with one event in a step, the `j`-th step with events, `t`, adds at
//! most
//!
//! ```text
//! φ(t, j) = w_t (w_t G_0 + 2 Σ_{0<i<j} w_{t-ib} G_ib),
//! ```
//!
//! where `G_d` is the inner product of two columns of `C`, `d` apart, of which the later one is column `t`. It grows
//! with the length of that column, so the first step of a segment has the largest `G`, and the last step the largest
//! weights before it. Steps `a < j ≤ e` are added together, as if each were the last of them:
//!
//! ```text
//! φ(t, e) ≤ φ(t, a) + 2 w_t w_{t-ab} Σ_{a≤i<e} G_ib,
//! F_e(s) = max_{s'≤s} (F_a(s') + (e-a) φ(s', e)),   F_0 = 0,
//! ```
//!
//! for segments `s' ≤ s`, with geometric sums. Steps with events are in ascending order, but several may count as the
//! same step: that only adds. `F_e` of the last segment bounds the squared shift by `e` steps with an event each. If
//! one more step has a part `λ` of an event, the shift is a mean, with weights `1-λ` and `λ`, of one by `e` and one by
//! `e+1` events, and so is the bound of its length.

use super::Closed;
use crate::mechanism::Participation;
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::state_space::response::{BufferRow, PartialFractions, row};
use crate::mechanism::state_space::segments::{self, Segment};
use crate::number::power;

/// Groups of steps are shorter than this part of the steps before: they add a few thousandths at most.
const FINENESS: u64 = 128;
/// Covers the roundings of one group and of an inner product.
const OPERATIONS: u64 = 1 << 11;
/// Weights follow from a sum over all rows of a pattern, if it has at most this many.
const MAX_PATTERN_ROWS: u64 = 1 << 12;

/// The segments of weights for these patterns.
pub(in crate::mechanism::toeplitz::blt) fn segments(
    response: &PartialFractions,
    horizon: u64,
    runs: Participation,
) -> Vec<Segment> {
    let runs = runs.over(horizon);
    // fits: a pattern within the horizon
    let first = (runs.most() - 1) * runs.separation();
    let norms = if first <= MAX_PATTERN_ROWS {
        Closed::after(&response.direct, runs, super::last_squared(&response.direct, runs))
    } else {
        Closed::new(&response.direct, runs)
    };
    let last = norms.at(0.0);
    segments::of_weights(horizon, |step| libm::sqrt(last / norms.at((horizon - step.max(first + 1)) as f64).max(last)))
}

/// Columns of `C` with weights that are constant on segments.
pub(in crate::mechanism::toeplitz::blt) struct SegmentColumns<'a> {
    response: &'a PartialFractions,
    places: Vec<SegmentStart>,
}

/// The products of the first step of a segment.
struct SegmentStart {
    last: u64,
    weight: f64,
    /// `G_0` of its first step.
    square: f64,
    /// `G_d = Σ partner_i θ_i^(d-1)` of its first step.
    partner: BufferRow,
}

impl<'a> SegmentColumns<'a> {
    /// A weight 1 has this many bits.
    pub(in crate::mechanism::toeplitz::blt) fn new(
        response: &'a PartialFractions,
        segments: &[Segment],
        weight_bits: u32,
    ) -> Self {
        let (modes, unit) = (&response.direct, libm::exp2(-f64::from(weight_bits)));
        let horizon = segments.last().map_or(0, |segment| segment.last);
        let (mut places, mut before, mut most) = (Vec::with_capacity(segments.len()), 0, 0);
        for segment in segments {
            most = segment.weight.max(most);
            let couplings = modes.couplings(&modes.decayed((horizon - before - 1) as f64));
            let partner = |i: usize| modes.weights[i] * (1.0 + (1.0 - modes.poles[i].q) * couplings[i]);
            places.push(SegmentStart {
                last: segment.last,
                weight: f64::from(most) * unit,
                square: response.column_norm_squared((horizon - before) as f64),
                partner: row((0..modes.poles.len()).map(partner)),
            });
            before = segment.last;
        }
        Self { response, places }
    }

    /// An upper bound of the squared shift by `each` events in every one of `full` steps, `separation` apart, and
    /// `rest` in one more, for several such numbers of steps in non-decreasing order that fit the horizon.
    pub(in crate::mechanism::toeplitz::blt) fn largest(
        &self,
        each: f64,
        separation: u64,
        patterns: &[(u64, f64)],
    ) -> Vec<f64> {
        let counts = patterns.iter().flat_map(|(full, rest)| [*full, full + u64::from(*rest > 0.0)]);
        let mut counts: Vec<u64> = counts.collect();
        counts.sort_unstable();
        counts.dedup();
        let bounds = self.of_counts(separation, &counts);
        let of = |count: u64| bounds[counts.binary_search(&count).expect("every count is bounded")];
        let squared = |(full, rest): &(u64, f64)| {
            let part = rest / each;
            let length = match part > 0.0 {
                true => (1.0 - part) * libm::sqrt(of(*full)) + part * libm::sqrt(of(full + 1)),
                false => return each * each * of(*full),
            };
            rounded_up(power(each * length, 2), 16)
        };
        patterns.iter().map(squared).collect()
    }

    /// `F_e` of the last segment for several `e` in ascending order. `O(S log k)` for `S` segments.
    fn of_counts(&self, separation: u64, counts: &[u64]) -> Vec<f64> {
        let mut sums: Vec<f64> = self.places.iter().map(|place| place.weight * place.square).collect();
        let mut chains = vec![0.0; self.places.len()];
        let (mut done, mut groups) = (0, 0);
        let mut bound = |count: &u64| {
            while done < *count {
                let end = if done == 0 { 1 } else { (done + (done / FINENESS).max(1)).min(*count) };
                self.extend(separation, (done, end), &mut sums, &mut chains);
                (done, groups) = (end, groups + 1);
            }
            rounded_up(chains.last().copied().unwrap_or(0.0), OPERATIONS + 8 * groups)
        };
        counts.iter().map(&mut bound).collect()
    }

    /// `φ(t, e) / w_t` and `F_e` from those of `a`.
    fn extend(&self, separation: u64, (done, end): (u64, u64), sums: &mut [f64], chains: &mut [f64]) {
        let modes = &self.response.direct;
        let (distance, number) = (done * separation, (end - done) as f64);
        let earlier = |pole: &crate::mechanism::state_space::response::Pole| {
            let near = libm::exp(-(distance as f64 - 1.0) * pole.a);
            near * pole.decayed(number * separation as f64) / pole.decayed(separation as f64)
        };
        let earlier = row(modes.poles.iter().map(earlier));
        let (mut best, mut before) = (f64::NEG_INFINITY, 0);
        for ((place, sum), chain) in self.places.iter().zip(sums).zip(chains) {
            // A step with enough others before it.
            if place.last > distance {
                if done > 0 {
                    while self.places[before].last < place.last - distance {
                        before += 1;
                    }
                    let products: f64 = place.partner.iter().zip(&earlier).map(|(a, b)| a * b).sum();
                    *sum += 2.0 * self.places[before].weight * products;
                }
                best = best.max(*chain + number * place.weight * *sum);
            }
            *chain = best;
        }
    }
}

#[cfg(test)]
mod tests;
