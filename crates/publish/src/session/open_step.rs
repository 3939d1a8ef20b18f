//! The events of persons in the open step: which of them are kept is decided when the step closes.
//!
//! **Rule.** Of a person's events in a step, those are kept that [`ContributionBound::keep`] accepts if it is offered
//! all of them in order of time, and at one instant in the order of a keyed hash ([`EventOrder`]) of person, time,
//! value and label. Events that agree in all of these are interchangeable. So the kept events are a function of the
//! multiset of events: the order of rows within a step does not matter, and every path (files, runs that continue one
//! another, a service, a cluster) keeps the same ones.
//!
//! **Privacy.** Nothing of an open step enters a sum, and nothing of it is published. When it closes, every person's
//! kept events pass through `keep`, which enforces all bounds, on a record that depends on this person only.
//!
//! **Memory.** Events are appended to one vector. When it is full, it is sorted by person and thinned: events that no
//! further event of the step can bring back are removed. The vector then has at most the *allowance* of each person in
//! the step ([`ContributionBound::allowance`]), and it is full again when it has grown to a multiple of that. So memory
//! is proportional to the allowances of the step's persons, whatever the number of events, and an event costs no
//! allocation and no look-up of its person. What can be removed (`thin_run`):
//!
//! - *Bounds on events in all, per step and in distance* admit the first `allowance` events, whatever else there is.
//! - *A bound per group*, too, makes the sets of events that can be kept a laminar matroid. Its greedy choice is
//!   stable: an event that is refused among some events is refused among more. The bound on the total only cuts off the
//!   end of this choice ([`ContributionBound::without_total`]), so the choice is made without it.
//! - *A bound on the number of groups* is not a matroid: an earlier event of another group can make that group one of
//!   the person's, with all of its events. Of each group the first events up to its bounds remain; the others cannot be
//!   kept, because whatever refuses one event of a group in a step refuses all later ones.
//!
//! [`ContributionBound::keep`]: evertally::privacy::contribution::ContributionBound::keep
//! [`ContributionBound::allowance`]: evertally::privacy::contribution::ContributionBound::allowance
//! [`ContributionBound::without_total`]: evertally::privacy::contribution::ContributionBound::without_total

use super::accumulator::{Accumulator, KeptEvent};
use super::persons::Persons;
use super::placer::Placed;
use evertally::noise::SecretKey;
use evertally::privacy::contribution::{EventOrder, Offer, Pseudonym};
use evertally_declare::error::Result;
use evertally_declare::stream::Stream;
use hashbrown::HashMap;

/// The number of events that are gathered at least before they are thinned.
const MIN_FULL: usize = 1 << 16;
/// The number of events whose persons are looked up together.
const LOOKAHEAD_EVENTS: usize = 32;

/// An event of a person that may be kept.
struct OpenEvent<L> {
    person: Pseudonym,
    /// Microseconds since 1970.
    time: i64,
    value: i64,
    /// See [`EventOrder::rank`]; computed when the event is compared with another one of the same time.
    rank: u64,
    label: L,
}

/// The events of the open step, and the record of each person's kept events in closed steps.
pub(super) struct OpenStep<T: Accumulator> {
    persons: Persons,
    events: Vec<OpenEvent<T::Label>>,
    sorter: Sorter,
    /// The number of events at which they are thinned.
    full: usize,
    /// The events of each group, of one person at a time.
    of_group: HashMap<u64, u32>,
}

/// Sorts the events of a person.
struct Sorter {
    order: EventOrder,
    label: Vec<u8>,
}

impl Sorter {
    /// Sorts by time, then by rank.
    fn sort<T: Accumulator>(&mut self, run: &mut [OpenEvent<T::Label>]) {
        run.sort_unstable_by_key(|event| event.time);
        for tied in run.chunk_by_mut(|a, b| a.time == b.time) {
            if tied.iter().all(|event| event.value == tied[0].value && event.label == tied[0].label) {
                continue;
            }
            for event in &mut *tied {
                self.label.clear();
                T::push_label(&event.label, &mut self.label);
                event.rank = self.order.rank(event.person, event.time, event.value, &self.label);
            }
            // Equal ranks of different events: practically never.
            tied.sort_unstable_by(|a, b| (a.rank, a.value, &a.label).cmp(&(b.rank, b.value, &b.label)));
        }
    }
}

impl<T: Accumulator> OpenStep<T> {
    /// An empty step after these persons' closed ones.
    pub(super) fn new(stream: &Stream, persons: Persons, key: &SecretKey) -> Self {
        let order = EventOrder::new(key, &stream.name, &stream.plan.digest());
        let sorter = Sorter { order, label: Vec::new() };
        Self { persons, events: Vec::new(), sorter, full: MIN_FULL, of_group: HashMap::new() }
    }

    /// Thins the events when there are this many, so that tests reach it with few events.
    #[cfg(test)]
    pub(super) fn thin_at(&mut self, full: usize) {
        self.full = full;
    }

    /// The persons' records in closed steps.
    pub(super) fn persons(&self) -> &Persons {
        &self.persons
    }

    /// Replaces the persons' records, before the first event of the step.
    pub(super) fn restore(&mut self, persons: Persons) {
        self.persons = persons;
    }

    /// Adds an event of the open step.
    #[inline]
    pub(super) fn push(&mut self, placed: Placed<T::Label>, stream: &Stream) {
        let Placed { step, time, value, person, label, .. } = placed;
        self.events.push(OpenEvent { person, time, value, rank: 0, label });
        if self.events.len() >= self.full {
            self.thin(step, stream.periods.of(step).start);
        }
    }

    /// Removes events that cannot be kept, in this step of the period since `since`. The others are sorted by person.
    #[cold]
    fn thin(&mut self, step: u64, since: u64) {
        self.events.sort_unstable_by_key(|event| event.person);
        let before = self.events.len();
        let (mut left, mut from) = (0, 0);
        while from < before {
            let person = self.events[from].person;
            let count = self.events[from..].iter().take_while(|event| event.person == person).count();
            let stay = self.thin_run(from, count, step, since);
            (0..stay).for_each(|place| self.events.swap(left + place, from + place));
            left += stay;
            from += count;
        }
        self.events.truncate(left);
        // If little was removed, little will be: sort less often.
        let factor = if left > before / 4 * 3 { 4 } else { 2 };
        self.full = (left * factor).max(self.full.min(MIN_FULL)); // fits: a vector of events was as long
    }

    /// Moves those of one person's events that may be kept to their front, and returns their number.
    fn thin_run(&mut self, from: usize, count: usize, step: u64, since: u64) -> usize {
        let Self { persons, events, sorter, of_group, .. } = self;
        let run = &mut events[from..from + count];
        let (mut kept, details) = persons.record(run[0].person, since);
        let bound = persons.bound();
        let allowance = bound.allowance(&kept, step, since) as usize;
        if count <= allowance {
            return count;
        }
        if allowance == 0 {
            return 0;
        }
        sorter.sort::<T>(run);
        if !bound.needs_details() {
            return allowance;
        }
        if bound.limits_groups() {
            of_group.clear();
            return retain(run, |event| {
                let of_group = of_group.entry(T::group_of(&event.label)).or_default();
                *of_group += 1; // fits: below 2^32 events of one person are in memory
                *of_group <= bound.most_alike()
            });
        }
        let (bound, mut details) = (bound.without_total(), details.cloned().unwrap_or_default());
        retain(run, |event| bound.keep(&mut kept, &mut details, offer::<T>(event, step, since)).is_some())
    }

    /// Closes the step of the period since `since`: passes the kept events to `add`, person by person.
    ///
    /// # Errors
    /// If `add` fails.
    pub(super) fn close(
        &mut self,
        step: u64,
        since: u64,
        mut add: impl FnMut(T::Label, KeptEvent) -> Result<()>,
    ) -> Result<()> {
        let Self { persons, events, sorter, full, .. } = self;
        *full = (*full).min(MIN_FULL);
        events.sort_unstable_by_key(|event| event.person);
        let mut looked = events.len();
        // From the end, so that removing a person's events moves no others.
        while let Some(last) = events.last() {
            let person = last.person;
            let from = events.iter().rposition(|event| event.person != person).map_or(0, |place| place + 1);
            while looked > from {
                let next = looked.saturating_sub(LOOKAHEAD_EVENTS);
                persons.look_ahead(events[next..looked].iter().map(|event| event.person));
                looked = next;
            }
            let run = &mut events[from..];
            if run.len() > 1 {
                let (bound, (kept, _)) = (persons.bound(), persons.record(person, since));
                let allowance = bound.allowance(&kept, step, since) as usize;
                if allowance == 0 {
                    events.truncate(from);
                    continue;
                }
                if bound.needs_details() || run.len() > allowance {
                    sorter.sort::<T>(run);
                }
            }
            for event in events.drain(from..) {
                if let Some(value) = persons.keep(person, offer::<T>(&event, step, since)) {
                    add(event.label, KeptEvent { value, person, since })?;
                }
            }
        }
        Ok(())
    }

    /// Whether the step has no events.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Removes a person's events from the step. Those of closed steps are only known as numbers, which stay: they are
    /// spent.
    pub(super) fn erase(&mut self, person: Pseudonym) {
        self.events.retain(|event| event.person != person);
    }

    /// Takes the events of the step, in no particular order.
    pub(super) fn drain(&mut self, step: u64) -> impl Iterator<Item = Placed<T::Label>> {
        let placed =
            move |OpenEvent { person, time, value, label, .. }| Placed { step, time, value, person, label, mark: 0 };
        self.events.drain(..).map(placed)
    }

    /// Visits the events that may still be kept, in an order that depends on the set of events only.
    pub(super) fn for_each(
        &mut self,
        (step, since): (u64, u64),
        mut visit: impl FnMut(&T::Label, i64, (i64, Pseudonym)),
    ) {
        self.thin(step, since);
        for run in self.events.chunk_by_mut(|a, b| a.person == b.person) {
            self.sorter.sort::<T>(run);
            run.iter().for_each(|event| visit(&event.label, event.value, (event.time, event.person)));
        }
    }
}

fn offer<T: Accumulator>(event: &OpenEvent<T::Label>, step: u64, since: u64) -> Offer {
    Offer { step, since, group: T::group_of(&event.label), value: event.value }
}

/// Moves the items that satisfy a predicate to the front, in their order, and returns their number.
fn retain<E>(items: &mut [E], mut satisfies: impl FnMut(&E) -> bool) -> usize {
    let mut count = 0;
    for place in 0..items.len() {
        if satisfies(&items[place]) {
            items.swap(count, place);
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests;
