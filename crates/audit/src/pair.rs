//! Neighbouring streams, and the worst pair of them.

use crate::black_box::AuditStream;
use crate::promise::Promise;
use evertally::plan::Plan;
use evertally::privacy::{Neighbours, Spread, Values};
use evertally::{Error, Result};
use std::fmt;
use std::ops::RangeInclusive;

/// The maximum number of events of one person that an audit adds one by one.
const MAX_EVENTS: u64 = 1000;

/// Two neighbouring streams.
#[derive(Clone, Debug)]
pub struct Pair {
    /// A description of the rest of the two streams.
    pub name: &'static str,
    /// One stream.
    pub first: AuditStream,
    /// The other stream.
    pub second: AuditStream,
}

impl Pair {
    /// The difference of their running sums, in multiples of the grid.
    pub fn difference(&self) -> Vec<f64> {
        self.second.running_sums().iter().zip(self.first.running_sums()).map(|(b, a)| b - a).collect()
    }
}

/// Events of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ValueEvents {
    step: u64,
    value: i64,
    times: u64,
}

/// The difference between two neighbouring streams: events that only one of them has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    first: Vec<ValueEvents>,
    second: Vec<ValueEvents>,
}

impl Change {
    /// The change, in streams where only these steps are audited.
    fn pair(&self, name: &'static str, others: &AuditStream, steps: &[u64]) -> Pair {
        let with = |batches: &[ValueEvents]| {
            let mut stream = others.clone();
            for batch in batches {
                let seen = steps.partition_point(|step| *step < batch.step);
                // Events after the last audited step affect no release.
                if seen < steps.len() {
                    stream.add(seen + 1, batch.value, batch.times);
                }
            }
            stream
        };
        Pair { name, first: with(&self.first), second: with(&self.second) }
    }

    /// The two pairs that an audit draws: without other events, and with a fixed pattern of others.
    pub fn pairs(&self, plan: &Plan, promise: &Promise) -> Vec<Pair> {
        let (steps, empty) = (promise.steps(), AuditStream::empty(promise.steps().len()));
        let busy = busy(plan, steps.len());
        vec![self.pair("no other events", &empty, steps), self.pair("many others", &busy, steps)]
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |batches: &[ValueEvents]| {
            let one = |b: &ValueEvents| match (b.times, b.value) {
                (1, 1) => format!("an event in step {}", b.step),
                (1, value) => format!("an event of {value} in step {}", b.step),
                (times, value) => format!("{times} events of {value} in step {}", b.step),
            };
            batches.iter().map(one).collect::<Vec<_>>().join(" and ")
        };
        match (self.first.as_slice(), self.second.as_slice()) {
            ([], second) => write!(f, "{} or not", list(second)),
            (first, second) => write!(f, "{} or {}", list(first), list(second)),
        }
    }
}

/// Up to six events per step, in an irregular order; of all values that the plan allows.
fn busy(plan: &Plan, steps: usize) -> AuditStream {
    let mut stream = AuditStream::empty(steps);
    let (lower, upper) = plan.request().values().bounds();
    for step in 1..=steps {
        match plan.request().values() {
            Values::Count => stream.add(step, 1, (5 * step * step + 3 * step) as u64 % 7),
            Values::Sum { .. } => {
                let sizes = [upper, lower, lower.midpoint(upper)];
                (0..(5 * step * step + 3 * step) % 4).for_each(|e| stream.add(step, sizes[(step + e) % 3], 1));
            }
        }
    }
    stream
}

/// The change of one privacy unit that the plan's noise hides worst: by `Δᵀ C⁻¹ Δ` under Gaussian noise, by `‖R d‖₁`
/// and then that under Laplace noise. All positions are tried for one unit's events, or only `event` if it is given; a
/// unit of several events has them in as few neighbouring steps as allowed. If events may move, the two positions are
/// searched in turn. If only some steps are audited, the first and the last steps are tried that affect each of them
/// first.
///
/// # Errors
/// If `event` is not a step or after all audited steps, or the unit has too many events to add them one by one.
pub fn worst_change(plan: &Plan, promise: &Promise, event: Option<u64>) -> Result<Change> {
    let search = PairSearch::new(plan, promise, event)?;
    let (lower, upper) = plan.request().values().bounds();
    let mut candidates = Vec::new();
    match plan.request().neighbours() {
        Neighbours::AddRemove => {
            let largest = if lower.unsigned_abs() > upper.unsigned_abs() { lower } else { upper };
            candidates.extend(search.starts.iter().map(|&s| search.change(None, Some((s, largest)))));
        }
        Neighbours::ReplaceOne => {
            candidates.extend(search.moves(lower));
            if lower < upper {
                candidates.extend(search.moves(upper));
                candidates.extend(search.starts.iter().map(|&s| search.change(Some((s, lower)), Some((s, upper)))));
            }
        }
    }
    search.best(candidates).ok_or_else(|| {
        Error::invalid(
            "an event cannot be replaced by a different one here: there is only one value and one step; audit more \
             steps",
        )
    })
}

/// The steps at which the events of a privacy unit can start such that all of them end within the horizon.
///
/// # Errors
/// If the unit of the plan has no bounds.
pub fn event_steps(plan: &Plan) -> Result<RangeInclusive<u64>> {
    let (events, spread) = events(plan)?;
    Ok(1..=plan.horizon() - (events.div_ceil(spread.per_step) - 1) * spread.separation)
}

/// The number of events that one unit can have in one running sum, and how they may be spread.
fn events(plan: &Plan) -> Result<(u64, Spread)> {
    let spread = plan.request().unit().spread()?;
    let room = spread.per_step.saturating_mul(plan.horizon().div_ceil(spread.separation));
    let events = spread.per_group.min(room);
    Ok((events, Spread { per_step: spread.per_step.min(events), ..spread }))
}

struct PairSearch<'a> {
    promise: &'a Promise,
    events: u64,
    spread: Spread,
    /// The maximum sum of the absolute values.
    cap: u64,
    /// The steps at which the unit's events can start.
    places: Vec<u64>,
    /// The subset that the caller allows.
    starts: Vec<u64>,
}

impl<'a> PairSearch<'a> {
    fn new(plan: &Plan, promise: &'a Promise, event: Option<u64>) -> Result<Self> {
        let (events, spread) = events(plan)?;
        if events > MAX_EVENTS {
            return Err(Error::invalid(format!(
                "the plan protects {events} events of one person; an audit adds them one by one, at most {MAX_EVENTS}"
            )));
        }
        let possible = event_steps(plan)?;
        // Releases do not depend on which of the steps between two audited ones has an event.
        let before = std::iter::once(&0).chain(promise.steps());
        let shown = before.zip(promise.steps()).flat_map(|(before, step)| [before + 1, *step]);
        let mut places: Vec<u64> = shown.filter(|step| possible.contains(step)).collect();
        places.dedup();
        let last = *possible.end().min(promise.steps().last().expect("an audit looks at some step"));
        let starts = match event {
            None => places.clone(),
            Some(step) if (1..=last).contains(&step) => vec![step],
            Some(step) => {
                return Err(Error::invalid(format!(
                    "the changed events must start in a step from 1 to {last}, to end within the horizon and to affect \
                     an audited step, not in {step}"
                )));
            }
        };
        let cap = plan.request().unit().bounds().and_then(|bounds| bounds.max_total).unwrap_or(u64::MAX);
        Ok(Self { promise, events, spread, cap, places, starts })
    }

    /// The unit's events from a step on, as close together as allowed.
    fn batches(&self, (start, value): (u64, i64)) -> Vec<ValueEvents> {
        let Spread { per_step, separation, .. } = self.spread;
        let value = value.signum() * value.unsigned_abs().min(self.cap) as i64;
        // The remainder of a cap below one event's value is dropped.
        let most = self.cap.checked_div(value.unsigned_abs()).unwrap_or(u64::MAX);
        let events = self.events.min(most);
        let times = |i| per_step.min(events - i * per_step);
        (0..events.div_ceil(per_step))
            .map(|i| ValueEvents { step: start + i * separation, value, times: times(i) })
            .collect()
    }

    fn change(&self, first: Option<(u64, i64)>, second: Option<(u64, i64)>) -> Change {
        let batches = |side: Option<(u64, i64)>| side.map(|s| self.batches(s)).unwrap_or_default();
        Change { first: batches(first), second: batches(second) }
    }

    /// Events that move: from the position that is worst alone to the worst one for it, and from the worst one for
    /// that.
    fn moves(&self, value: i64) -> Vec<Change> {
        let to = |from: u64, places: &[u64]| {
            let others = places.iter().filter(|&&place| place != from);
            self.best(others.map(|&place| self.change(Some((from, value)), Some((place, value)))).collect())
        };
        let start = |change: &Change| change.second.first().map(|batch| batch.step);
        let alone = self.best(self.starts.iter().map(|&s| self.change(None, Some((s, value)))).collect());
        let there = alone.as_ref().and_then(start).and_then(|from| to(from, &self.places));
        let back = there.as_ref().and_then(start).and_then(|from| to(from, &self.starts));
        there.into_iter().chain(back).collect()
    }

    /// The first of the worst changes.
    fn best(&self, candidates: Vec<Change>) -> Option<Change> {
        let scored = candidates.into_iter().map(|c| (self.score(&c), c));
        scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, c)| c)
    }

    /// The visibility of a change, rounded, so that the first of equally bad positions is taken.
    fn score(&self, change: &Change) -> (f64, f64) {
        let round = |x: f64| (x * 1e9).round();
        let pair = change.pair("", &AuditStream::empty(self.promise.steps().len()), self.promise.steps());
        let difference = self.promise.of_all_sums(&pair.difference());
        let moves = self.promise.node_moves(&difference).unwrap_or(0.0);
        (round(moves / self.promise.grid), round(self.promise.separation(&difference)))
    }
}
