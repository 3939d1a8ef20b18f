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
//! **Memory.** Events are appended to one vector. When it is full, it is thinned person by person: events that no
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

use super::persons::Persons;
use super::placer::{LabelAssigner, Placed};
use super::places_by_person::PlacesByPerson;
use evertally::noise::SecretKey;
use evertally::privacy::contribution::{EventOrder, Offer, Pseudonym};
use evertally_declare::error::Result;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::StreamDigest;
use hashbrown::HashMap;

/// The number of events that are gathered at least before they are thinned.
const MIN_FULL: usize = 1 << 16;

/// The number of events whose persons are read ahead at a time.
const PREFETCHED: usize = 64;

/// What a session adds events to: running sums of groups, items in a sketch, or keys in a tree.
pub trait Accumulator {
    /// The label of an event: its group or its item.
    type Label: Send + Ord;

    /// Assigns labels to events.
    type Labels: LabelAssigner<Label = Self::Label>;

    /// The results of closed steps.
    type Closed<'a>
    where
        Self: 'a;

    /// Assigns labels to events, for one thread.
    fn labels(&self) -> Self::Labels;

    /// A number for the group of a label, for bounds on a person's groups.
    fn group_of(label: &Self::Label) -> u64;

    /// Appends bytes that identify a label, the same in every process and run.
    fn push_label(label: &Self::Label, bytes: &mut Vec<u8>);

    /// Reads the bytes of [`push_label`](Self::push_label); `None` for any others.
    fn read_label(&self, bytes: &[u8]) -> Option<Self::Label>;

    /// The last closed step, 0 before the first.
    fn step(&self) -> u64;

    /// Adds the kept part of an event to the open step.
    fn add(&mut self, label: &Self::Label, kept: KeptEvent) -> Result<()>;

    /// Adds the kept events of the open step of the period since `since`. Each implementation calls
    /// `open.close(step, since, …)` in a function that is not generic, so that it is compiled in this crate, which is
    /// optimised for speed, and not in the front ends, which are optimised for size.
    #[doc(hidden)]
    fn add_kept(&mut self, open: &mut OpenStep<Self>, step: u64, since: u64) -> Result<()>
    where
        Self: Sized;

    /// Closes the open step, and possibly empty ones after it, at most through `through`. Their sums go into the digest
    /// first, which refuses data that differ from those published before.
    fn close<'a>(&'a mut self, stream: &'a Stream, through: u64, digest: &mut StreamDigest)
    -> Result<Self::Closed<'a>>;
}

/// The kept part of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptEvent {
    /// Its value, or the part of it that fits the person's bounds, in multiples of the grid.
    pub value: i64,
    /// The person; the same for all events if single events are protected.
    pub person: Pseudonym,
    /// The first step of the event's period.
    pub since: u64,
}

/// An event of a person that may be kept.
struct OpenEvent<L> {
    person: Pseudonym,
    /// Microseconds since 1970.
    time: i64,
    value: i64,
    label: L,
}

/// The events of the open step, and the record of each person's kept events in closed steps.
pub struct OpenStep<T: Accumulator> {
    persons: Persons,
    /// In no particular order.
    events: Vec<OpenEvent<T::Label>>,
    by_person: PlacesByPerson,
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
    /// The rank of each event at one instant, and its place.
    ranks: Vec<(u64, u32)>,
}

impl Sorter {
    /// Sorts the places of some events by time, then by [rank](EventOrder::rank).
    fn sort<T: Accumulator>(&mut self, run: &mut [u32], events: &[OpenEvent<T::Label>]) {
        let at = |place: u32| &events[place as usize];
        run.sort_unstable_by_key(|place| at(*place).time);
        for tied in run.chunk_by_mut(|a, b| at(*a).time == at(*b).time) {
            let first = at(tied[0]);
            if tied.iter().all(|place| at(*place).value == first.value && at(*place).label == first.label) {
                continue;
            }
            self.ranks.clear();
            for place in &*tied {
                let event = at(*place);
                self.label.clear();
                T::push_label(&event.label, &mut self.label);
                let rank = self.order.rank(event.person, event.time, event.value, &self.label);
                self.ranks.push((rank, *place));
            }
            // Equal ranks of different events: practically never.
            self.ranks.sort_unstable_by(|(rank, place), (other_rank, other)| {
                let (event, other) = (at(*place), at(*other));
                (rank, event.value, &event.label).cmp(&(other_rank, other.value, &other.label))
            });
            tied.iter_mut().zip(&self.ranks).for_each(|(place, (_, ranked))| *place = *ranked);
        }
    }
}

impl<T: Accumulator> OpenStep<T> {
    /// An empty step after these persons' closed ones.
    pub(super) fn new(stream: &Stream, persons: Persons, key: &SecretKey) -> Self {
        let order = EventOrder::new(key, &stream.name, &stream.plan.digest());
        let sorter = Sorter { order, label: Vec::new(), ranks: Vec::new() };
        let (by_person, of_group) = (PlacesByPerson::default(), HashMap::new());
        Self { persons, events: Vec::new(), by_person, sorter, full: MIN_FULL, of_group }
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
        self.events.push(OpenEvent { person, time, value, label });
        if self.events.len() >= self.full {
            self.thin(step, stream.periods.of(step).start);
        }
    }

    /// Removes events that cannot be kept, in this step of the period since `since`.
    #[cold]
    fn thin(&mut self, step: u64, since: u64) {
        let before = self.events.len();
        let mut stays = vec![false; before];
        let mut by_person = std::mem::take(&mut self.by_person);
        by_person.sort(&self.events, |event| event.person);
        let (places, mut from) = (by_person.places_mut(), 0);
        while from < places.len() {
            let run = run_from(places, from, &self.events);
            from += run.len();
            let stay = self.thin_run(run, step, since);
            run[..stay].iter().for_each(|place| stays[*place as usize] = true);
        }
        self.by_person = by_person;
        let mut stays = stays.into_iter();
        self.events.retain(|_| stays.next() == Some(true));
        let left = self.events.len();
        // If little was removed, little will be: sort less often.
        let factor = if left > before / 4 * 3 { 4 } else { 2 };
        self.full = (left * factor).max(self.full.min(MIN_FULL)); // fits: a vector of events was as long
    }

    /// Moves the places of those events of one person that may be kept to the front, and returns their number.
    fn thin_run(&mut self, run: &mut [u32], step: u64, since: u64) -> usize {
        let Self { persons, events, sorter, of_group, .. } = self;
        let (mut kept, details) = persons.record(events[run[0] as usize].person, since);
        let bound = persons.bound();
        let allowance = bound.allowance(&kept, step, since) as usize;
        if run.len() <= allowance {
            return run.len();
        }
        if allowance == 0 {
            return 0;
        }
        sorter.sort::<T>(run, events);
        if !bound.needs_details() {
            return allowance;
        }
        if bound.limits_groups() {
            of_group.clear();
            return retain(run, |place| {
                let of_group = of_group.entry(T::group_of(&events[*place as usize].label)).or_default();
                *of_group += 1; // fits: below 2^32 events of one person are in memory
                *of_group <= bound.most_alike()
            });
        }
        let (bound, mut details) = (bound.without_total(), details.cloned().unwrap_or_default());
        retain(run, |place| {
            bound.keep(&mut kept, &mut details, offer::<T>(&events[*place as usize], step, since)).is_some()
        })
    }

    /// Closes the step of the period since `since`: passes the kept events to `add`, person by person.
    ///
    /// # Errors
    /// If `add` fails.
    pub(super) fn close(
        &mut self,
        step: u64,
        since: u64,
        mut add: impl FnMut(&T::Label, KeptEvent) -> Result<()>,
    ) -> Result<()> {
        let Self { persons, events, by_person, sorter, full, .. } = self;
        *full = (*full).min(MIN_FULL);
        by_person.sort(events, |event| event.person);
        let (places, mut from, mut ahead) = (by_person.places_mut(), 0, 0);
        while from < places.len() {
            // Entries are read one block ahead of the closing, and the keys that find them another block ahead.
            while ahead <= from + PREFETCHED {
                let block = |from: usize| places[from.min(places.len())..].iter().take(PREFETCHED);
                let names = |from| block(from).map(|place| events[*place as usize].person);
                if ahead == 0 {
                    persons.prefetch_keys(names(0));
                }
                persons.prefetch_keys(names(ahead + PREFETCHED));
                persons.prefetch_entries(names(ahead));
                ahead += PREFETCHED;
            }
            let run = run_from(places, from, events);
            from += run.len();
            if run.len() > 1 {
                let (bound, (kept, _)) = (persons.bound(), persons.record(events[run[0] as usize].person, since));
                let allowance = bound.allowance(&kept, step, since) as usize;
                if allowance == 0 {
                    continue;
                }
                if bound.needs_details() || run.len() > allowance {
                    sorter.sort::<T>(run, events);
                }
            }
            for place in run {
                let event = &events[*place as usize];
                if let Some(value) = persons.keep(event.person, offer::<T>(event, step, since)) {
                    add(&event.label, KeptEvent { value, person: event.person, since })?;
                }
            }
        }
        events.clear();
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
        let Self { events, by_person, sorter, .. } = self;
        by_person.sort(events, |event| event.person);
        let (places, mut from) = (by_person.places_mut(), 0);
        while from < places.len() {
            let run = run_from(places, from, events);
            from += run.len();
            sorter.sort::<T>(run, events);
            let in_order = run.iter().map(|place| &events[*place as usize]);
            in_order.for_each(|event| visit(&event.label, event.value, (event.time, event.person)));
        }
    }
}

/// The places of the events of the person at `from`, among places that are sorted by person.
#[inline]
fn run_from<'p, L>(places: &'p mut [u32], from: usize, events: &[OpenEvent<L>]) -> &'p mut [u32] {
    let person = |place: u32| events[place as usize].person;
    let first = person(places[from]);
    let count = places[from..].iter().take_while(|place| person(**place) == first).count();
    &mut places[from..from + count]
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
