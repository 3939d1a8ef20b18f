//! The order of a person's events, and which of them can be dropped before all are gathered.

use super::ClusterJob;
use super::labels::LabelNumbers;
use evertally::privacy::contribution::{ContributionBound, Details, EventOrder, Kept, Offer, Pseudonym};
use evertally_declare::error::Result;
use evertally_declare::steps::Instant;
use evertally_declare::stream::Stream;
use evertally_publish::session::bound_of_persons;
use std::cmp::Ordering;

/// An event of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PersonEvent {
    /// The person's pseudonym.
    pub(super) person: [u8; 16],
    /// Microseconds since 1970.
    pub(super) time: i64,
    /// The number of the group.
    pub(super) label: u32,
    pub(super) value: i64,
}

impl PersonEvent {
    /// The step of the event.
    pub(super) fn step(&self, stream: &Stream) -> Option<u64> {
        stream.calendar.step_of(Instant::from_micros(self.time))
    }
}

/// Sorts a person's events: by time, and within one instant by a keyed hash of group and value. A single process sorts
/// them in the same way. Events that agree in all of these are interchangeable, so it does not matter which of them is
/// kept.
pub(super) struct PersonOrder {
    order: EventOrder,
    label: Vec<u8>,
}

impl PersonOrder {
    pub(super) fn new(work: &ClusterJob) -> Self {
        let stream = &work.stream;
        Self { order: EventOrder::new(&work.key, &stream.name, &stream.plan.digest()), label: Vec::new() }
    }

    /// By time, and so that equal events are adjacent.
    fn by_time(a: &PersonEvent, b: &PersonEvent) -> Ordering {
        (a.time, a.label, a.value).cmp(&(b.time, b.label, b.value))
    }

    /// Sorts the events of one person.
    pub(super) fn sort(&mut self, events: &mut [PersonEvent], labels: &LabelNumbers) {
        events.sort_unstable_by(Self::by_time);
        for alike in events.chunk_by_mut(|a, b| a.time == b.time) {
            if alike.len() > 1
                && alike.iter().any(|event| (event.label, event.value) != (alike[0].label, alike[0].value))
            {
                alike.sort_by_cached_key(|event| self.rank(event, labels));
            }
        }
    }

    fn rank(&mut self, event: &PersonEvent, labels: &LabelNumbers) -> u64 {
        self.label.clear();
        labels.push_bytes(event.label, &mut self.label);
        self.order.rank(Pseudonym::from_bytes(event.person), event.time, event.value, &self.label)
    }
}

/// Drops events of one person that no bound admits, whatever other events there are elsewhere.
///
/// If there are only bounds on events in total and per step, an event that is refused among some events of its person
/// is refused among all of them: in every step at least as many come before it. With other bounds the same holds within
/// one step and group, for the events after as many as any bound admits. The bound that refuses one of the earlier
/// events refuses this one, too, because it lasts to the end of the step; and if none was refused, the bound is
/// reached.
pub(super) struct Prefilter {
    bound: ContributionBound,
    is_hereditary: bool,
}

impl Prefilter {
    pub(super) fn new(stream: &Stream) -> Result<Self> {
        let bound = bound_of_persons(stream)?;
        Ok(Self { bound, is_hereditary: bound.is_hereditary() })
    }

    /// Thins only within one step and group.
    pub(super) fn restrict_to_same_cell(&mut self) {
        self.is_hereditary = false;
    }

    /// Thins the events of one person, which must be in order.
    pub(super) fn thin(&self, stream: &Stream, events: &mut Vec<PersonEvent>) {
        if self.is_hereditary {
            let mut kept = Kept::default();
            events.retain(|event| {
                let Some(step) = event.step(stream) else { return true };
                let offer = Offer::in_step(step).with_period_start(stream.periods.of(step).start);
                self.bound.keep(&mut kept, &mut Details::default(), offer).is_some()
            });
            return;
        }
        let most = self.bound.most_alike();
        if events.len() as u64 <= u64::from(most) {
            return;
        }
        let (mut step, mut seen) = (None, hashbrown::HashMap::<u32, u32>::new());
        events.retain(|event| {
            let next = event.step(stream);
            if next != step {
                (step, seen) = (next, hashbrown::HashMap::new());
            }
            let count = seen.entry(event.label).or_default();
            *count += 1; // fits: events of one buffer
            *count <= most
        });
    }
}
