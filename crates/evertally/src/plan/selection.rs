//! The threshold that keys must reach to be shown, from the exact law of a plan's noise.

use super::Plan;
use super::tails::{StepClass, Tail};
use crate::privacy::selection::{Looks, Selection, SelectionReach};
use crate::privacy::{Budget, Unit};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// Maximum threshold, in multiples of the grid.
const MAX_THRESHOLD: i64 = 1 << 60;

/// A threshold and its properties, all known before any event is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    selection: Selection,
    value: i64,
    failure: f64,
    of_few: Option<f64>,
    over_periods: Option<f64>,
    shown_half: i64,
    shown_almost: i64,
    new_keys: u64,
    per_key: u64,
}

impl Plan {
    /// The smallest threshold, in whole multiples of the grid, with which keys may be
    /// [selected](crate::privacy::selection) under this plan, by the tails of its noise at the selection times.
    ///
    /// The bound is proven: it adds up the worst contributions of every selection time and every key.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::selection::{Selection, SelectionTimes};
    /// use evertally::privacy::{Budget, Delta, Rho};
    /// let plan = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
    /// let monthly = Selection::new(Delta::new(1e-9)?, SelectionTimes::every(31, 365)?);
    /// let threshold = plan.threshold_of(&monthly)?;
    /// assert!(threshold.failure() <= 1e-9);
    /// assert!(threshold.value() as f64 > 6.0 * plan.std_error(365));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the plan guarantees pure ε, which is impossible with undeclared keys; if the selection times are those of
    /// another horizon; or if no threshold is high enough.
    pub fn threshold_of(&self, selection: &Selection) -> Result<Threshold> {
        let request = self.request();
        if matches!(request.budget(), Budget::Pure(_)) {
            return Err(Error::invalid(
                "undeclared keys cannot be shown under pure ε, whatever the threshold: data without a person \
                 never show the person's keys, and no ε bounds a ratio to 0; give a δ or ρ, or declare the keys",
            ));
        }
        if request.sums_per_event() != 1 {
            return Err(Error::invalid("keys can be selected only if an event belongs to one key"));
        }
        if selection.times().iter().last() != Some(self.horizon()) {
            return Err(Error::invalid("the selection times of keys are those of another horizon"));
        }
        let reach = self.reach_of(request.unit())?;
        let looks = SelectionLaws::new(self, &reach, selection);
        let (steps, above) = (&looks.steps[..], &|looks_at: &Looks, x: f64| looks.tails[looks_at.law].above(x));
        let delta = selection.delta().get();
        let failure = |value: i64| reach.failure(value as f64, steps, above);
        let has_floor = selection.floor() > 1;
        let of_few = |value: i64| reach.failure_of_few(selection.floor(), value as f64, steps, above);
        let holds = |value: i64| failure(value) <= delta && (!has_floor || of_few(value) <= delta);
        let value = least(1, &holds).ok_or_else(|| {
            Error::invalid("no threshold is high enough to select keys: a unit can add too much to a key")
        })?;
        let shown = |missed: f64| {
            let is_shown = |sum: i64| looks.tails.iter().all(|tail| tail.below((value - sum) as f64) <= missed);
            least(0, &is_shown).unwrap_or(MAX_THRESHOLD)
        };
        Ok(Threshold {
            selection: *selection,
            value,
            failure: failure(value),
            of_few: has_floor.then(|| of_few(value)),
            over_periods: request
                .unit()
                .bounds()
                .and_then(|bounds| bounds.period)
                .map(|_| reach.failure_of_all_periods(value as f64, steps, above).min(1.0)),
            shown_half: shown(0.5),
            shown_almost: shown(0.05),
            new_keys: reach.keys(),
            per_key: reach.per_key(),
        })
    }
}

impl Plan {
    /// The bound of the probability that, at the threshold of the plan, keys that only one larger unit has are shown;
    /// `None` if keys are declared.
    pub(super) fn selection_failure_of(&self, unit: Unit) -> Result<Option<f64>> {
        let Some(threshold) = &self.threshold else { return Ok(None) };
        let reach = self.reach_of(unit)?;
        let looks = SelectionLaws::new(self, &reach, threshold.selection());
        let above = &|looks_at: &Looks, x: f64| looks.tails[looks_at.law].above(x);
        Ok(Some(reach.failure(threshold.value() as f64, &looks.steps, above)))
    }

    /// The possible effect of a unit on new keys.
    fn reach_of(&self, unit: Unit) -> Result<SelectionReach> {
        let (request, horizon) = (self.request(), self.horizon());
        SelectionReach::of(unit, request.neighbours(), request.values(), request.workload().reach(horizon), horizon)
    }
}

impl Threshold {
    /// The declared selection.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// The threshold: a key is shown once its released value is at least this many multiples of the grid.
    pub fn value(&self) -> i64 {
        self.value
    }

    /// The proven bound of the probability that a key of only one unit is shown: at most the δ of selection.
    pub fn failure(&self) -> f64 {
        self.failure
    }

    /// The proven bound of the probability that a key of fewer units than the [floor](Selection::with_floor) is shown,
    /// at most the δ of selection; `None` without a floor. If a unit is a person's activity in one period, it is the
    /// bound for fewer persons than the floor who do all that the bounds allow, in as many periods as the steps can
    /// touch, wherever the first period begins.
    pub fn failure_of_few(&self) -> Option<f64> {
        self.of_few
    }

    /// If the unit is a person's activity in one period: the same for a key of only one person, who does all that the
    /// bounds allow in it, in every period. It may be large, because sums keep growing: a
    /// [floor](Selection::with_floor) of 2 keeps it below the δ of selection.
    pub fn failure_over_periods(&self) -> Option<f64> {
        self.over_periods
    }

    /// The smallest sum, in multiples of the grid, with which a key is shown at any one selection time with
    /// probability at least ½.
    pub fn shown_half(&self) -> i64 {
        self.shown_half
    }

    /// The same with probability 0.95.
    pub fn shown_almost(&self) -> i64 {
        self.shown_almost
    }

    /// The largest number of keys in which one unit has events.
    pub fn new_keys(&self) -> u64 {
        self.new_keys
    }

    /// The largest number of events of one unit in a key.
    pub fn events_per_key(&self) -> u64 {
        self.per_key
    }
}

/// The smallest number from `first` on for which a monotone condition holds.
fn least(first: i64, holds: &dyn Fn(i64) -> bool) -> Option<i64> {
    if holds(first) {
        return Some(first);
    }
    let (mut low, mut high) = (first, first + 1);
    while !holds(high) {
        (low, high) = (high, high.saturating_mul(2));
        if high > MAX_THRESHOLD {
            return None;
        }
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// The laws of the noise at the selection times, each once, and the index of the law at each time.
struct SelectionLaws {
    tails: Vec<Tail>,
    steps: Vec<Looks>,
}

impl SelectionLaws {
    fn new(plan: &Plan, reach: &SelectionReach, selection: &Selection) -> Self {
        let (mut tails, mut laws) = (Vec::<Tail>::new(), BTreeMap::<StepClass, usize>::new());
        let mut steps = BTreeMap::<(usize, u64), Looks>::new();
        for step in selection.times().iter() {
            let class = Tail::class(plan, step);
            let law = match laws.get(&class) {
                Some(law) => {
                    if let StepClass::Near(_) = class {
                        tails[*law].widen(Tail::new(plan, step));
                    }
                    *law
                }
                None => {
                    tails.push(Tail::new(plan, step));
                    laws.insert(class, tails.len() - 1);
                    tails.len() - 1
                }
            };
            let looks = steps.entry((law, reach.events_by(step))).or_insert(Looks { step, count: 0.0, law });
            (looks.step, looks.count) = (step, looks.count + 1.0);
        }
        Self { tails, steps: steps.into_values().collect() }
    }
}

#[cfg(test)]
mod tests;
