//! Undeclared keys: which of the keys that occur may be published.
//!
//! Every text is a key with its own running sum and noise; most keys have no events. The releases of all keys together
//! satisfy the plan's guarantee, whichever of them are read; but nobody can read all, and reading those **that occur**
//! reveals that they do. So keys are checked only at declared **selection times**, when every key that has had an event
//! is checked. From the first time at which its released value reaches a **threshold**, all its steps are published,
//! including the earlier ones.
//!
//! # Guarantee
//! Let `D'` have the events `U` of one unit more than `D`, let `Y(D)` be the releases of all keys at all steps, and
//! call `(k, s)` *alone* if key `k` has events in `D'` through the selection time `s`, and none in `D`: all of them are
//! the unit's. Let `Q(Y)` publish the keys that occur in `D` by the rule above, which is a function of `Y` because `D`
//! decides only which keys it checks; and let `B` be the event that some alone `(k, s)` reaches the threshold. On `D`
//! the rule is `Q(Y(D))`. On `D'` it is `Q(Y(D'))` unless `B`, because a key that does not reach the threshold while it
//! is alone is checked in both from then on. For all outputs `S`, if the plan guarantees `(ε, δ)`,
//!
//! ```text
//! P[rule(D') ∈ S] ≤ P[Q(Y(D')) ∈ S] + P[B | D']      ≤ e^ε P[rule(D) ∈ S] + δ + P[B | D'],
//! P[rule(D) ∈ S]  ≤ P[Q(Y(D)) ∈ S, not B] + P[B | D]  ≤ e^ε P[Q(Y(D')) ∈ S, not B] + δ + P[B | D]
//!                                                     ≤ e^ε P[rule(D') ∈ S] + δ + P[B | D],
//! ```
//!
//! and because only the unit moves the noise of alone keys,
//!
//! ```text
//! P[B | D] ≤ P[B | D'] ≤ Σ_k Σ_s P[noise(s) ≥ τ - the unit's part in k by s]  ≤ δ_sel.
//! ```
//!
//! So the rule is `(ε, δ + δ_sel)`-private for **every** pair `(ε, δ)` of the plan: with probability `1 - δ_sel` the
//! output is a function of a release that satisfies the plan's guarantee (δ-approximate zCDP if the plan is stated in
//! ρ). For several streams, the plans add up and, separately, the `δ_sel`. If the unit's events are *replaced*, use the
//! common part of `D` and `D'` as the smaller data: on each side the keys of that side's events are alone, and `B` must
//! also cover the keys of the other side, which are empty there: `Σ_k Σ_s P[noise(s) ≥ τ]` more.
//!
//! If the unit is one person's events of one period, this guarantee holds for one period. The person may bring new keys
//! in each.
//!
//! With pure ε there is no such rule, whatever the threshold and however many people a key must have: on `D` a key that
//! does not occur has probability 0, and a ratio to 0 has no bound.
//!
//! # Windows
//! The proof does not depend on what a release reads. If it is the sum over the last `w` steps, keys are checked and
//! published by that sum: `Y(D)` are the releases of the windows. They include keys without events in the window, as
//! long as the key ever had an event, because checking a key only while its window has events would reveal when these
//! were. `noise(s)` is the noise of the window that ends with `s`, by the law of that row, and the unit's part in `k`
//! by `s` is its part within the last `w` steps: earlier events of both signs do not count. All selection times count,
//! also those at windows that the unit's events have left, where the noise alone would have to reach `τ`.
//!
//! # The worst unit
//! By step `s` a unit adds at most `min(j, c ⌈s/b⌉)` events to a key, for `j` events in this key, at most `c` per step,
//! and steps with events `b` apart; for windows at most `min(j, c ⌈min(s, w)/b⌉)`. The sum over its keys is largest for
//! some split of its `m` events into at most `g` keys of at most `m_g` each. With
//! `f(j) = Σ_s P[noise(s) ≥ τ - v min(j, …)]` and any `λ ≥ 0`,
//!
//! ```text
//! Σ_k f(j_k) ≤ λ Σ_k j_k + Σ_k max_j (f(j) - λ j) ≤ λ m + g max(0, max_j (f(j) - λ j)),
//! ```
//!
//! and the smallest of these bounds is the linear relaxation of the exact answer.

use super::{Delta, Neighbours, Sensitivity, Unit, Values};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The steps after which keys are checked: every `every` steps, and the last of the horizon.
///
/// ```
/// use evertally::privacy::selection::SelectionTimes;
/// let times = SelectionTimes::every(5, 12)?;
/// assert_eq!(times.iter().collect::<Vec<_>>(), [5, 10, 12]);
/// assert!(times.contains(10) && !times.contains(11));
/// assert_eq!(SelectionTimes::twelve(365)?.iter().count(), 12);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectionTimes {
    every: u64,
    horizon: u64,
}

/// Maximum number of selection times: each raises the threshold, and is visited when the threshold is computed.
const MAX_TIMES: u64 = 1 << 16;

impl SelectionTimes {
    /// After every `every` steps, and after the last.
    ///
    /// # Errors
    /// If one of them is 0, or there are more than 65,536 times.
    pub fn every(every: u64, horizon: u64) -> Result<Self> {
        if every == 0 || horizon == 0 {
            return Err(Error::invalid("the distance of selection times and the horizon must be at least 1 step"));
        }
        if horizon.div_ceil(every) > MAX_TIMES {
            return Err(Error::invalid(format!(
                "there can be at most {MAX_TIMES} selection times; select after {} or more steps",
                horizon.div_ceil(MAX_TIMES)
            )));
        }
        Ok(Self { every, horizon })
    }

    /// Twelve times, as evenly spaced as possible, or after every step if there are at most twelve steps.
    ///
    /// # Errors
    /// If the horizon is 0.
    pub fn twelve(horizon: u64) -> Result<Self> {
        Self::every(horizon.div_ceil(12).max(1), horizon)
    }

    /// The distance of selection times, in steps.
    pub fn distance(self) -> u64 {
        self.every
    }

    /// Whether keys are selected after this step.
    pub fn contains(self, step: u64) -> bool {
        step > 0 && step <= self.horizon && (step.is_multiple_of(self.every) || step == self.horizon)
    }

    /// All selection times, ascending.
    pub fn iter(self) -> impl Iterator<Item = u64> {
        let whole = (1..=self.horizon / self.every).map(move |number| number * self.every);
        whole.chain((!self.horizon.is_multiple_of(self.every)).then_some(self.horizon))
    }
}

/// The declared selection of keys.
///
/// ```
/// use evertally::privacy::{Delta, selection::{Selection, SelectionTimes}};
/// let monthly = Selection::new(Delta::new(1e-9)?, SelectionTimes::every(31, 365)?).with_floor(10);
/// assert_eq!(monthly.floor(), 10);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawSelection", into = "RawSelection")]
pub struct Selection {
    delta: Delta,
    times: SelectionTimes,
    floor: u64,
}

/// A selection in files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSelection {
    delta: f64,
    every: u64,
    horizon: u64,
    floor: u64,
}

impl TryFrom<RawSelection> for Selection {
    type Error = Error;

    fn try_from(raw: RawSelection) -> Result<Self> {
        let times = SelectionTimes::every(raw.every, raw.horizon)?;
        Ok(Self::new(Delta::new(raw.delta)?, times).with_floor(raw.floor))
    }
}

impl From<Selection> for RawSelection {
    fn from(Selection { delta, times, floor }: Selection) -> Self {
        Self { delta: delta.get(), every: times.every, horizon: times.horizon, floor }
    }
}

impl Selection {
    /// For one unit, a key that nobody else has is shown with at most this probability.
    pub fn new(delta: Delta, times: SelectionTimes) -> Self {
        Self { delta, times, floor: 1 }
    }

    /// The same, but a key of fewer than `floor` units is also shown with at most this probability.
    ///
    /// That needs neither more budget nor more memory: the threshold is raised so far that such a key does not reach
    /// it.
    #[must_use]
    pub fn with_floor(self, units: u64) -> Self {
        Self { floor: units.max(1), ..self }
    }

    /// The δ that the selection adds.
    pub fn delta(&self) -> Delta {
        self.delta
    }

    /// The selection times.
    pub fn times(&self) -> SelectionTimes {
        self.times
    }

    /// The number of units that a key must have; 1 by default.
    pub fn floor(&self) -> u64 {
        self.floor
    }
}

/// The possible effect of one unit on keys that nobody else has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectionReach {
    events: u64,
    per_key: u64,
    keys: u64,
    per_step: u64,
    separation: u64,
    period: Option<u64>,
    /// The number of steps that a release reads, if it does not read all so far.
    window: Option<u64>,
    /// The largest value of an event, and of a unit's events in a key.
    value: u64,
    most_value: u64,
    replaces: bool,
}

impl SelectionReach {
    /// `reads` is the number of steps that a release reads.
    pub(crate) fn new(unit: Unit, neighbours: Neighbours, values: Values, reads: u64, horizon: u64) -> Result<Self> {
        // Checks the bounds against each other.
        Sensitivity::new(unit, neighbours, values, horizon)?;
        let spread = unit.spread()?;
        let bounds = unit.bounds().unwrap_or_default();
        if bounds.window.is_some() {
            return Err(Error::invalid(
                "a protected window and undeclared groups do not go together: no bound is known on the probability \
                 that a group of only one person is shown because of the events in a window; declare the groups, or \
                 protect one period",
            ));
        }
        Ok(Self {
            events: spread.total,
            per_key: spread.per_group.min(spread.total),
            keys: bounds.max_groups.unwrap_or(u64::MAX).min(spread.total),
            per_step: spread.per_step,
            separation: spread.separation,
            period: bounds.period,
            window: Some(reads).filter(|width| *width < horizon),
            value: values.bounds().1.max(0).unsigned_abs(),
            most_value: bounds.max_total.unwrap_or(u64::MAX),
            replaces: neighbours == Neighbours::ReplaceOne,
        })
    }

    /// The largest number of new keys of a unit.
    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    /// The largest number of events of a unit in one key.
    pub(crate) fn per_key(&self) -> u64 {
        self.per_key
    }

    /// The largest number of events of a unit in a key that the release of a step can read.
    pub(crate) fn events_by(&self, step: u64) -> u64 {
        self.per_key.min(self.room(step))
    }

    /// The largest number of events that fit into the steps that the release of a step reads.
    fn room(&self, step: u64) -> u64 {
        self.per_step.saturating_mul(self.read(step).div_ceil(self.separation))
    }

    /// The number of steps that the release of a step reads.
    fn read(&self, step: u64) -> u64 {
        step.min(self.window.unwrap_or(u64::MAX))
    }

    /// The largest number of periods that the steps read by a release can touch, wherever in a period the first of them
    /// lies: calendar periods may begin before the stream, and whole ones have at least nine tenths of the steps of the
    /// longest (28 days and 31).
    fn periods(&self, step: u64) -> u64 {
        match (self.period, self.read(step)) {
            (None, _) | (_, 0 | 1) => 1,
            (Some(longest), read) => 2 + (read - 2) / (longest - longest / 10),
        }
    }

    /// The largest sum of `events` events of a unit in the release of a key at a step.
    fn moved(&self, events: u64, step: u64) -> f64 {
        let sum = u128::from(events.min(self.room(step))) * u128::from(self.value);
        sum.min(self.most_value.into()) as f64
    }

    /// The largest number of events that fit there if bounds start again in every period: the minimum gap of steps
    /// applies within a period, but not across its end.
    fn room_of_periods(&self, step: u64) -> u64 {
        if self.period.is_none() { self.room(step) } else { self.per_step.saturating_mul(self.read(step)) }
    }

    /// The largest sum of this many units, each in this many periods, in the release of a key at a step.
    fn moved_by(&self, units: u64, step: u64, periods: u64) -> f64 {
        let events = self.per_key.saturating_mul(periods).min(self.room_of_periods(step));
        let sum = u128::from(events) * u128::from(self.value);
        let most = u128::from(self.most_value) * u128::from(periods);
        (sum.min(most) as f64) * units as f64
    }

    /// A bound of the probability that, with this threshold, some key of only one unit is shown. `above` bounds the
    /// probability that the noise after a step is at least a given value.
    pub(crate) fn failure(&self, threshold: f64, steps: &[Looks], above: &dyn Fn(&Looks, f64) -> f64) -> f64 {
        let over_steps = |moved: &dyn Fn(u64) -> f64| -> f64 {
            steps.iter().map(|looks| looks.count * above(looks, threshold - moved(looks.step))).sum()
        };
        let counts = breakpoints(self.per_key);
        let of_key = |events: &u64| over_steps(&|step| self.moved(*events, step));
        let values: Vec<f64> = counts.iter().map(of_key).collect();
        // Between two breakpoints a key counts one event more than the lower one, and the failure probability of the
        // upper one.
        let costs: Vec<f64> = std::iter::once(1.0).chain(counts.iter().map(|events| *events as f64 + 1.0)).collect();
        let keys: Vec<(f64, f64)> = costs.into_iter().zip(values).collect();
        let empty = if self.replaces { self.keys as f64 * over_steps(&|_| 0.0) } else { 0.0 };
        (worst_split(&keys, self.events as f64, self.keys as f64) + empty) * (1.0 + 1e-9)
    }

    /// The same for a key of one unit fewer than the floor, each contributing the maximum in every period.
    pub(crate) fn failure_of_few(
        &self,
        floor: u64,
        threshold: f64,
        steps: &[Looks],
        above: &dyn Fn(&Looks, f64) -> f64,
    ) -> f64 {
        let moved = |step| self.moved_by(floor - 1, step, self.periods(step));
        steps.iter().map(|looks| looks.count * above(looks, threshold - moved(looks.step))).sum::<f64>() * (1.0 + 1e-9)
    }

    /// The same for a key of a single unit that contributes the maximum in every period.
    pub(crate) fn failure_of_all_periods(
        &self,
        threshold: f64,
        steps: &[Looks],
        above: &dyn Fn(&Looks, f64) -> f64,
    ) -> f64 {
        let moved = |step| self.moved_by(1, step, self.periods(step));
        steps.iter().map(|looks| looks.count * above(looks, threshold - moved(looks.step))).sum::<f64>() * (1.0 + 1e-9)
    }
}

/// Selection times with the same law.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// The last of these steps.
    pub(crate) step: u64,
    /// Their number.
    pub(crate) count: f64,
    /// The law of their noise, in the caller's numbering.
    pub(crate) law: usize,
}

/// 1, 2, … up to `most`, from 16 on with growing gaps.
fn breakpoints(most: u64) -> Vec<u64> {
    let mut counts = vec![];
    let mut next = 1;
    while next < most {
        counts.push(next);
        next += (next / 16).max(1);
    }
    counts.push(most);
    counts
}

/// The smallest `λ m + g max(0, max_i (F_i - λ c_i))` over `λ ≥ 0`, for keys `(c_i, F_i)`.
fn worst_split(keys: &[(f64, f64)], events: f64, most_keys: f64) -> f64 {
    let bound = |lambda: f64| {
        let best = keys.iter().map(|(cost, value)| value - lambda * cost).fold(0.0, f64::max);
        lambda * events + most_keys * best
    };
    // Convex in λ, and minimal at 0, at the value above which no key is worth it, or between.
    let (mut low, mut high) = (0.0, keys.iter().map(|(cost, value)| value / cost).fold(0.0, f64::max));
    let ends = bound(low).min(bound(high));
    for _ in 0..80 {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if bound(left) < bound(right) { high = right } else { low = left }
    }
    bound(low).min(bound(high)).min(ends)
}

#[cfg(test)]
mod tests;
