//! Weights that make the patterns of a unit, not its single events, equally long.
//!
//! A unit with events in up to `k` steps, `b` apart, is best protected if its worst patterns `t, t-b, …, t-(k-1)b` are
//! all equally long. Let `N(x)` be the norm of the sum of the `k` columns of `C` of which the last begins `x` steps
//! before the horizon. Column `t` gets the weight `N(0)/N(T-t)`, which grows with `t`; while fewer than `k` steps lie
//! before `t`, that of the first `t` with `k` such steps. For `k = 1` these are the weights of a normalized BLT.
//!
//! With `S(y) = Σ_{i<k} c_{y+ib}` (and `c_j = 0` for `j < 0`) the sum of the columns is `S(y)` in the row that is `y`
//! steps after the beginning of the last one: `N(x)² = Σ_{y ≤ x} S(y)²`, a sum of positive numbers, each of which is a
//! sum of `d` exponentials.

mod closed;
mod long;

use crate::Result;
use crate::mechanism::accounting::chain::{self, ColumnProducts, Pattern};
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::state_space::response::{BufferRow, Modes, PartialFractions, row};
use crate::mechanism::state_space::segments::{self, Segment, WEIGHT_BITS};
use crate::mechanism::{Participation, SearchWatch};
use crate::number::power;
use crate::privacy::Spread;
pub(super) use closed::Closed;
pub(super) use long::SegmentColumns;
use std::cell::Cell;

/// Longest horizon for which weights are computed step by step: a table of 8 MB. Beyond, by [segments](long).
pub(super) const MAX_TABLE_STEPS: u64 = 1 << 20;

/// `N(0)²`, of a pattern that fits the horizon. `O(kb d)`, with `O((k+b) d)` exponentials and `O(b)` memory.
pub(super) fn last_squared(modes: &Modes, runs: Participation) -> f64 {
    let (most, separation) = (runs.most(), runs.separation());
    let sums = ColumnSums::new(modes, separation);
    // The last column begins in the last row.
    let echoes: Vec<BufferRow> = (1..if most > 1 { separation } else { 1 }).map(|r| sums.echoes(r - 1)).collect();
    (1..=most).map(|n| sums.squares(n, if n < most { &echoes } else { &[] })).sum()
}

/// The same, or for patterns over very many steps in closed form, which is good enough to compare buffers.
pub(super) fn shortest_squared(response: &PartialFractions, runs: Participation) -> f64 {
    if runs.most().saturating_mul(runs.separation()) <= MAX_TABLE_STEPS {
        return last_squared(&response.direct, runs);
    }
    Closed::new(&response.direct, runs).at(0.0)
}

/// `N(x)²` for every `x < T`. `O((T + kb) d)`.
pub(super) fn norms_squared(response: &PartialFractions, horizon: u64, runs: Participation) -> Vec<f64> {
    let runs = runs.over(horizon);
    let (most, modes) = (runs.most(), &response.direct);
    let sums = ColumnSums::new(modes, runs.separation());
    let mut squared = last_squared(modes, runs);
    let whole = row((0..modes.poles.len()).map(|i| sums.columns(i, most)));
    let mut echo = modes.weights;
    let mut norms = Vec::with_capacity(horizon as usize);
    for _ in 0..horizon {
        norms.push(squared);
        let sum: f64 = echo.iter().zip(&whole).map(|(echo, columns)| echo * columns).sum();
        squared += sum * sum;
        echo.iter_mut().zip(&modes.poles).for_each(|(echo, pole)| *echo -= *echo * pole.q);
    }
    norms
}

/// The weight of every step from 1, the last one 1.
pub(super) fn weights(norms_squared: &[f64], runs: Participation) -> Vec<f64> {
    let horizon = norms_squared.len();
    let runs = runs.over(horizon as u64);
    // fits: a pattern within the horizon
    let first = ((runs.most() - 1) * runs.separation()) as usize;
    let last = libm::sqrt(norms_squared[0]);
    (0..horizon).map(|t| last / libm::sqrt(norms_squared[horizon - 1 - t.max(first)])).collect()
}

/// The segments of weights for these patterns.
pub(super) fn segments(response: &PartialFractions, horizon: u64, runs: Participation) -> Vec<Segment> {
    if horizon > MAX_TABLE_STEPS {
        return long::segments(response, horizon, runs);
    }
    let weights = weights(&norms_squared(response, horizon, runs), runs);
    segments::of_weights(horizon, |step| weights[step as usize - 1])
}

/// The largest squared shifts by several numbers of events of a unit, in non-decreasing order, each with its numbers of
/// full steps and of events in one more step; with these segments of weights for patterns. By [chains](chain) of steps
/// or of blocks of them, and if there are too many single steps also by [segments](long).
///
/// # Errors
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the computation, here and below.
pub(super) fn largest_squares(
    (response, segments): (&PartialFractions, &[Segment]),
    runs: Participation,
    (spread, events): (Spread, &[(u64, (u64, f64))]),
    watch: SearchWatch<'_>,
) -> Result<Vec<f64>> {
    let horizon = segments.last().map_or(0, |segment| segment.last);
    let patterns: Vec<(u64, f64)> = events.iter().map(|(_, pattern)| *pattern).collect();
    let by_segments = || {
        let columns = SegmentColumns::new(response, segments, WEIGHT_BITS);
        columns.largest(spread.per_step as f64, spread.separation, &patterns)
    };
    if horizon > MAX_TABLE_STEPS {
        return Ok(by_segments());
    }
    let columns = WeightedColumns::new(response, weights(&norms_squared(response, horizon, runs), runs));
    let squared = |(events, _): &(u64, (u64, f64))| chain_squared(&columns, spread, *events, watch);
    let squares = events.iter().map(squared).collect::<Result<Vec<f64>>>()?;
    Ok(match patterns.last() {
        Some((most, _)) if most.saturating_mul(horizon) > chain::MAX_ADDITIONS => {
            squares.into_iter().zip(by_segments()).map(|(blocks, segments)| blocks.min(segments)).collect()
        }
        _ => squares,
    })
}

/// The largest squared shift by this number of events of a unit, by [chains](chain), rounded up.
pub(super) fn chain_squared(
    columns: &WeightedColumns<'_>,
    spread: Spread,
    events: u64,
    watch: SearchWatch<'_>,
) -> Result<f64> {
    let (pattern, horizon) = (Pattern::new(spread.in_one_sum(events)), columns.weights.len() as u64);
    let operations = 4 * (horizon + pattern.full.min(horizon)) + 256;
    let squared = chain::largest_watched(columns, pattern, watch);
    watch.check().map(|()| rounded_up(squared, operations))
}

/// Sums of columns, `b` apart.
struct ColumnSums<'a> {
    modes: &'a Modes,
    separation: f64,
    /// `1 - θ^b`.
    apart: BufferRow,
}

impl<'a> ColumnSums<'a> {
    fn new(modes: &'a Modes, separation: u64) -> Self {
        let separation = separation as f64;
        Self { modes, separation, apart: modes.decayed(separation) }
    }

    /// `Σ_{i<n} θ^(ib)`.
    fn columns(&self, i: usize, n: u64) -> f64 {
        self.modes.poles[i].decayed(n as f64 * self.separation) / self.apart[i]
    }

    /// `ω_i θ_i^rows`: the parts of the coefficient this many rows after the first echo.
    fn echoes(&self, rows: u64) -> BufferRow {
        let modes = self.modes.poles.iter().zip(&self.modes.weights);
        row(modes.map(|(pole, weight)| weight * libm::exp(-(rows as f64) * pole.a)))
    }

    /// `Σ S(y)²` over the row in which the `n`-th column begins, and the rows after it that have these echoes of its
    /// first entry.
    fn squares(&self, n: u64, echoes: &[BufferRow]) -> f64 {
        let columns = self.all_columns(n);
        let squared = |echoes: &BufferRow| power(sum_of(echoes, &columns), 2);
        echoes.iter().map(squared).fold(power(self.at(0, n), 2), |sum, squared| sum + squared)
    }

    /// `Σ_{i<n} c_(r+ib)` for `r < b`.
    fn at(&self, r: u64, n: u64) -> f64 {
        // The first entry of a column is 1; the echoes begin with the entry after it.
        match r {
            0 => 1.0 + sum_of(&self.echoes(self.separation as u64 - 1), &self.all_columns(n - 1)),
            _ => sum_of(&self.echoes(r - 1), &self.all_columns(n)),
        }
    }

    /// [`columns`](Self::columns) of all buffers.
    fn all_columns(&self, n: u64) -> BufferRow {
        row((0..self.modes.poles.len()).map(|i| self.columns(i, n)))
    }
}

/// Unused buffers add nothing.
fn sum_of(echoes: &BufferRow, columns: &BufferRow) -> f64 {
    echoes.iter().zip(columns).map(|(echo, columns)| echo * columns).sum()
}

/// The columns of `C` with weights per step, as chains need them.
pub(super) struct WeightedColumns<'a> {
    response: &'a PartialFractions,
    weights: Vec<f64>,
    /// `ω_i (1 + θ_i Σ_k ω_k Σ_m (θ_i θ_k)^m)` for the column of every step.
    partners: Vec<BufferRow>,
    /// The last distance, and `θ_i^(distance-1)`: many inner products in a row have the same distance.
    last: Cell<(usize, BufferRow)>,
}

impl<'a> WeightedColumns<'a> {
    pub(super) fn new(response: &'a PartialFractions, weights: Vec<f64>) -> Self {
        let modes = &response.direct;
        let horizon = weights.len();
        let of_step = |t: usize| {
            let couplings = modes.couplings(&modes.decayed((horizon - 1 - t) as f64));
            row((0..modes.poles.len()).map(|i| modes.weights[i] * (1.0 + (1.0 - modes.poles[i].q) * couplings[i])))
        };
        let last = Cell::new((1, row(modes.poles.iter().map(|_| 1.0))));
        Self { response, partners: (0..horizon).map(of_step).collect(), weights, last }
    }

    /// `G` of the unweighted columns at a distance, the later one that of a step (from 0).
    fn product(&self, kept: &BufferRow, t: usize) -> f64 {
        self.partners[t].iter().zip(kept).map(|(partner, kept)| partner * kept).sum()
    }

    fn kept(&self, distance: usize) -> BufferRow {
        let (last, kept) = self.last.get();
        if last == distance {
            return kept;
        }
        let kept = row(self.response.direct.poles.iter().map(|pole| libm::exp(-((distance - 1) as f64) * pole.a)));
        self.last.set((distance, kept));
        kept
    }

    fn square(&self, t: usize) -> f64 {
        self.response.column_norm_squared((self.weights.len() - t) as f64)
    }
}

impl ColumnProducts for WeightedColumns<'_> {
    fn steps(&self) -> usize {
        self.weights.len()
    }

    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        let weight = &self.weights;
        if distance == 0 {
            into.iter_mut().enumerate().for_each(|(t, g)| *g = weight[t] * weight[t] * self.square(t));
            return;
        }
        let kept = self.kept(distance);
        for (t, g) in into.iter_mut().enumerate().skip(distance) {
            *g = weight[t] * weight[t - distance] * self.product(&kept, t);
        }
    }

    /// Weights grow, and inner products fall with the distance and with the step.
    fn between(&self, distance: usize, earlier: (usize, usize), later: (usize, usize)) -> f64 {
        let weight = self.weights[earlier.1 - 1] * self.weights[later.1 - 1];
        let first = later.0 - 1;
        weight * if distance == 0 { self.square(first) } else { self.product(&self.kept(distance), first) }
    }
}

#[cfg(test)]
mod tests;
