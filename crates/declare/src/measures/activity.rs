//! Counts of people: once each, and those who had an event within the last `w` steps.
//!
//! **Once.** A person adds 1 to a group with the first kept event there; again in each period, if the unit has periods.
//! Which event that is depends only on the person's own events. Without the person (or the person's events of one
//! period) 1 is missing in each of the groups at one step.
//!
//! **Within a window of `w` steps.** Let `A(t)` be 1 while a person is active in a group: some event was in one of the
//! steps `t − w + 1 … t`. The released count is the running sum of the **toggles** `A(t) − A(t − 1)`: +1 in the step of
//! an event with none in the `w` steps before, −1 in the first step with no event in it nor in the `w − 1` before. Both
//! kinds depend only on the person's own events, including the absence of events.
//!
//! The change by one unit: let `m` be the number of its kept events (`m_g` in a group).
//!
//! * *A whole history, added or removed.* `A` is a union of at most `m` windows, one after each event: at most `m` ups
//!   and `m` downs, which alternate. Two ups are at least `w + 1` steps apart, as a down is `w` steps or more after its
//!   up, and the next up is after that; so are two downs. For any `R` without negative entries
//!   `‖R(u − d)‖² ≤ ‖Ru‖² + ‖Rd‖²` and `‖R(u − d)‖₁ ≤ ‖Ru‖₁ + ‖Rd‖₁`: to the mechanism, ups are added events
//!   and downs are removed events, of a unit of `m` events, one per step and `w + 1` apart, **replaced**.
//! * *One period of a person.* The events of one period change `A` on a union of at most `m` windows, minus the windows
//!   of the person's earlier events (which cut off its beginning) and later events (which cut off its end); those
//!   windows stay. These are still at most `m` runs, but two ups may be nearer than `w + 1`. So the bound is one per
//!   step, without a gap. (Later windows cover everything after their beginning: a window that begins after the period
//!   ends after those of the period.)
//! * *Several groups* may toggle in one step. Then the bounds are those of the declared unit, without a gap: an event
//!   makes at most one up and one down, in its own group, so the total bound, the bound per group and the bound on
//!   groups hold for ups and for downs. The bound per step holds for ups, and for downs, which are `w` steps after the
//!   last event of a run. With periods it doubles: some groups toggle by the period's own events, and some where other
//!   events cut off a window.
//! * *Replaced units.* The difference is the toggles of one person minus those of another: ups of the one and downs of
//!   the other, and vice versa. Each is at most twice as many events, and two per step instead of one.
//!
//! **Afresh in every step.** The same numbers may be released step by step, each with its own noise: `A(t)` is then
//! added to step `t` alone. Each of a unit's events makes it 1 instead of 0 in at most `w` steps, and never smaller: at
//! most `w m` steps in total, `w m_g` in a group, once per step and group; also for one period. That is less noise if
//! windows are short or people have many events, and it does not grow with the horizon. The plan uses the variant with
//! the smaller largest error.
//!
//! Tight constants for toggles in trees (arXiv 2601.02257) concern the mechanism that is chosen for this unit.
//!
//! **Memory.** The times at which people were active are not privatised, and stay with the exact sums: 128-bit keyed
//! hashes of people who were active in the window (or have been counted in this period), each with a group and a step.

use evertally::privacy::{Neighbours, PersonBounds, Unit};
use evertally::{Error, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A person, as a keyed hash, in a group.
pub type GroupMember = ([u8; 16], u32);

/// The unit of toggles, for neighbours that replace events; see the [module](self).
///
/// # Errors
/// If no person is protected.
pub fn unit(unit: Unit, neighbours: Neighbours, window: u64, horizon: u64, is_grouped: bool) -> Result<Unit> {
    let Some(bounds) = unit.bounds() else { return Err(no_person()) };
    let gap = window.saturating_add(1);
    let is_apart = !is_grouped && bounds.period.is_none();
    // This includes the bound on events that other bounds imply.
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
    Error::invalid("people can be counted only if persons are protected")
}

/// The people already counted in the current period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountedMembers {
    since: u64,
    members: HashSet<GroupMember>,
}

impl CountedMembers {
    /// Whether a member's event, in the period that began with step `since`, is the first.
    pub fn is_first(&mut self, member: GroupMember, since: u64) -> bool {
        if since != self.since {
            (self.since, self.members) = (since, HashSet::new());
        }
        self.members.insert(member)
    }

    /// A form that [`restore`](Self::restore) reads; equal states have equal forms.
    pub fn save(&self) -> (u64, Vec<GroupMember>) {
        let mut members: Vec<GroupMember> = self.members.iter().copied().collect();
        members.sort_unstable();
        (self.since, members)
    }

    /// The reverse of [`save`](Self::save).
    pub fn restore((since, members): (u64, Vec<GroupMember>)) -> Self {
        Self { since, members: members.into_iter().collect() }
    }
}

/// The people active within a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    window: u64,
    /// The step of the last event of every active member.
    last: HashMap<GroupMember, u64>,
    /// The members that may become inactive in a step, each listed once.
    ends: BTreeMap<u64, Vec<GroupMember>>,
}

impl Activity {
    /// Without any active member.
    pub fn new(window: u64) -> Self {
        Self { window, last: HashMap::new(), ends: BTreeMap::new() }
    }

    /// Adds an event of the open step; returns whether the member becomes active with it.
    pub fn activate(&mut self, member: GroupMember, step: u64) -> bool {
        let before = self.last.insert(member, step);
        if before.is_none() {
            self.ends.entry(step.saturating_add(self.window)).or_default().push(member);
        }
        before.is_none()
    }

    /// Closes a step, and returns the groups of all members that become inactive in it, having had no event in it.
    /// Steps are closed in order.
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

    /// The number of active members in each of `groups` groups.
    pub fn active(&self, groups: usize) -> Vec<i64> {
        let mut active = vec![0; groups];
        self.last.keys().for_each(|(_, group)| active[*group as usize] += 1);
        active
    }

    /// A form that [`restore`](Self::restore) reads; equal states have equal forms.
    pub fn save(&self) -> Vec<(GroupMember, u64)> {
        let mut active: Vec<(GroupMember, u64)> = self.last.iter().map(|(member, step)| (*member, *step)).collect();
        active.sort_unstable();
        active
    }

    /// The state saved after a closed step; `None` if it is inconsistent.
    pub fn restore(window: u64, closed: u64, active: Vec<(GroupMember, u64)>) -> Option<Self> {
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
