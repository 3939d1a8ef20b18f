//! Who is active: people counted once, and people who had an event within the last so many steps.
//!
//! **Once.** A person adds 1 to a group with the first kept event there; in each period anew, where the unit has periods.
//! Which event that is depends on the person's own events alone. Without the person (or the person's events of one
//! period) 1 is missing in each of the groups at one step.
//!
//! **Within a window of `w` steps.** Let `A(t)` be 1 while a person is active in a group: some event was in one of the
//! steps `t − w + 1 … t`. The released count is the running sum of the **toggles** `A(t) − A(t − 1)`: +1 in the step of an
//! event with none in the `w` steps before, −1 in the first step with no event in it nor in the `w − 1` before. They follow from
//! the person's own events alone, so do the silent ones.
//!
//! What one unit moves: let `m` be the number of its kept events (`m_g` in a group).
//!
//! * *A whole history, added or removed.* `A` is a union of at most `m` windows, one behind each event: at most `m` ups
//!   and `m` downs, which alternate. Two ups are at least `w + 1` steps apart, as a down is `w` steps or more behind its
//!   up and the next up behind that; so are two downs. For any `R` without negative entries
//!   `‖R(u − d)‖² ≤ ‖Ru‖² + ‖Rd‖²` and `‖R(u − d)‖₁ ≤ ‖Ru‖₁ + ‖Rd‖₁`: to the mechanism the ups are events that were
//!   added and the downs events that were removed, of a unit of `m` events, one a step and `w + 1` apart, **replaced**.
//! * *One period of a person.* What the events of one period make of `A` is a union of at most `m` windows, less those of
//!   the person's events before (which cut something off its beginning) and behind (off its end), which stay: still at
//!   most `m` runs, but two ups may be nearer than `w + 1`. So one a step, and no gap is counted on.
//!   (What is behind covers all that is left: a window that begins behind the period ends behind those of the period.)
//! * *Several groups* toggle in one step; then the bounds are those of the declared unit, and no gap is counted on: an
//!   event makes at most one up and one down, in its own group, so that bounds in all, in a group and on groups hold for
//!   ups and for downs; those in a step hold for ups, and for downs, which stand `w` steps behind the last
//!   event of a run. Of a period they are twice as many: some groups toggle by the period's own events, and some where
//!   other events cut something off.
//! * *Replaced units.* The difference is the toggles of one person less those of another: ups of the one and downs of
//!   the other, and the other way round. Each is at most twice as many events, two in a step where it was one.
//!
//! **Anew in every step.** The same numbers may be released step by step, each with noise of its own: `A(t)` is then added
//! to step `t` alone. A unit's events make it 1 instead of 0 in at most `w` steps each, and nowhere less: at most `w m` steps
//! in all, `w m_g` in a group, once a step and group; also of one period. That is less noise where windows are short or
//! people come often, and does not grow with the horizon; the plan takes what has the smaller largest error.
//!
//! Tight constants for toggles in trees (arXiv 2601.02257) are a matter of the mechanism that is chosen for this unit.
//!
//! **Memory.** Who was active when is not private, and stays where the exact sums are: 128-bit keyed hashes of people who
//! were active in the window (or have counted in this period), each with a group and a step.

use evertally::privacy::{Neighbours, PersonBounds, Unit};
use evertally::{Error, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A person, as a keyed hash, in a group.
pub type Member = ([u8; 16], u32);

/// The unit of toggles, for neighbours that replace events; see the [module](self).
///
/// # Errors
/// If no person is protected.
pub fn unit(unit: Unit, neighbours: Neighbours, window: u64, horizon: u64, is_grouped: bool) -> Result<Unit> {
    let Some(bounds) = unit.bounds() else { return Err(no_person()) };
    let gap = window.saturating_add(1);
    let is_apart = !is_grouped && bounds.period.is_none();
    // What other bounds imply of the number of events is part of it.
    let events = unit.spread()?.total;
    let toggles = PersonBounds { max_events: events, period: None, max_total: None, min_gap: None, ..bounds };
    let twice = |bound: u64| bound.saturating_mul(2);
    let toggles = match is_grouped {
        true if bounds.period.is_some() => {
            PersonBounds { max_events_per_step: bounds.max_events_per_step.map(twice), ..toggles }
        }
        true => toggles,
        false => PersonBounds { max_events_per_step: Some(1), max_events_per_group: None, max_groups: None, ..toggles },
    };
    Ok(Unit::Person(match neighbours {
        Neighbours::AddRemove if is_apart => {
            PersonBounds { max_events: events.min(horizon.div_ceil(gap)), min_gap: Some(gap), ..toggles }
        }
        Neighbours::AddRemove => toggles,
        Neighbours::ReplaceOne => PersonBounds {
            max_events: twice(events),
            max_events_per_step: toggles.max_events_per_step.map(twice),
            max_events_per_group: toggles.max_events_per_group.map(twice),
            max_groups: toggles.max_groups.map(twice),
            ..toggles
        },
    }))
}

/// The unit of presence in steps, for the declared neighbours; see the [module](self).
///
/// # Errors
/// If no person is protected.
pub fn presence(unit: Unit, window: u64, horizon: u64, is_grouped: bool) -> Result<Unit> {
    let Some(bounds) = unit.bounds() else { return Err(no_person()) };
    let times = |bound: u64| bound.saturating_mul(window.min(horizon));
    let steps = times(unit.spread()?.total);
    let present = PersonBounds { max_events: steps, period: None, max_total: None, min_gap: None, ..bounds };
    Ok(Unit::Person(match is_grouped {
        true => PersonBounds {
            max_events_per_step: None,
            max_events_per_group: Some(bounds.max_events_per_group.map_or(steps, times).min(horizon)),
            ..present
        },
        false => PersonBounds {
            max_events: steps.min(horizon),
            max_events_per_step: Some(1),
            max_events_per_group: None,
            max_groups: None,
            ..present
        },
    }))
}

fn no_person() -> Error {
    Error::invalid("people are counted where people are protected")
}

/// Who has counted in the period that goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    since: u64,
    members: HashSet<Member>,
}

impl Counted {
    /// Whether a member's event, in the period that began with step `since`, is the first.
    pub fn is_first(&mut self, member: Member, since: u64) -> bool {
        if since != self.since {
            (self.since, self.members) = (since, HashSet::new());
        }
        self.members.insert(member)
    }

    /// In a form that [`restore`](Self::restore) reads; equal memories give equal forms.
    pub fn save(&self) -> (u64, Vec<Member>) {
        let mut members: Vec<Member> = self.members.iter().copied().collect();
        members.sort_unstable();
        (self.since, members)
    }

    /// The reverse of [`save`](Self::save).
    pub fn restore((since, members): (u64, Vec<Member>)) -> Self {
        Self { since, members: members.into_iter().collect() }
    }
}

/// Who is active within a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    window: u64,
    /// The step of the last event of everybody who is active.
    last: HashMap<Member, u64>,
    /// By step: those who may become inactive then, each once.
    ends: BTreeMap<u64, Vec<Member>>,
}

impl Activity {
    /// Nobody yet.
    pub fn new(window: u64) -> Self {
        Self { window, last: HashMap::new(), ends: BTreeMap::new() }
    }

    /// Takes in an event of the open step; whether the member becomes active with it.
    pub fn is_up(&mut self, member: Member, step: u64) -> bool {
        let before = self.last.insert(member, step);
        if before.is_none() {
            self.ends.entry(step.saturating_add(self.window)).or_default().push(member);
        }
        before.is_none()
    }

    /// Closes a step: the groups of all who become inactive in it, having had no event in it. Steps are closed one after
    /// the other.
    pub fn downs(&mut self, step: u64) -> Vec<u32> {
        let mut downs = Vec::new();
        for member in self.ends.remove(&step).unwrap_or_default() {
            let end = self.last[&member].saturating_add(self.window);
            if end > step {
                self.ends.entry(end).or_default().push(member);
            } else {
                self.last.remove(&member);
                downs.push(member.1);
            }
        }
        downs
    }

    /// How many are active in each group, in so many of them.
    pub fn active(&self, groups: usize) -> Vec<i64> {
        let mut active = vec![0; groups];
        self.last.keys().for_each(|(_, group)| active[*group as usize] += 1);
        active
    }

    /// In a form that [`restore`](Self::restore) reads; equal memories give equal forms.
    pub fn save(&self) -> Vec<(Member, u64)> {
        let mut active: Vec<(Member, u64)> = self.last.iter().map(|(member, step)| (*member, *step)).collect();
        active.sort_unstable();
        active
    }

    /// What was saved behind a closed step; `None` where nobody can have been active so.
    pub fn restore(window: u64, closed: u64, active: Vec<(Member, u64)>) -> Option<Self> {
        let mut restored = Self::new(window);
        for (member, step) in active {
            let end = step.saturating_add(window);
            if step > closed || end <= closed || restored.last.insert(member, step).is_some() {
                return None;
            }
            restored.ends.entry(end).or_default().push(member);
        }
        Some(restored)
    }
}

#[cfg(test)]
mod tests;
