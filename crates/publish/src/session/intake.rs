//! The parts of a session that depend on the order of events: their turn, and the bounds of their persons.

use super::persons::Persons;
use super::placer::Placed;
use evertally::privacy::Unit;
use evertally::privacy::contribution::{ContributionBound, Offer};
use evertally_declare::error::{Result, usage};
use evertally_declare::steps::Periods;
use evertally_declare::stream::Stream;
use std::cmp::Ordering;
use std::ops::Range;

/// An event that waits for its turn; ordered by step, then by arrival.
pub(super) struct PendingEvent<L> {
    arrival: u64,
    pub(super) placed: Placed<L>,
}

impl<L> PendingEvent<L> {
    fn turn(&self) -> (u64, u64) {
        (self.placed.step, self.arrival)
    }
}

impl<L> PartialEq for PendingEvent<L> {
    fn eq(&self, other: &Self) -> bool {
        self.turn() == other.turn()
    }
}

impl<L> Eq for PendingEvent<L> {}

impl<L> PartialOrd for PendingEvent<L> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<L> Ord for PendingEvent<L> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.turn().cmp(&other.turn())
    }
}

/// Numbers events as they arrive, and counts the kept events of each person. Memory grows with the number of persons in
/// a period, not with the number of events.
pub(super) struct Intake {
    /// `None` if single events are protected.
    pub(super) persons: Option<Persons>,
    /// The steps of the last event's period.
    period: Range<u64>,
    arrivals: u64,
}

/// The bounds of the stream's persons.
///
/// # Errors
/// If the bounds keep no event of a person.
pub fn bound_of_persons(stream: &Stream) -> Result<ContributionBound> {
    Ok(ContributionBound::new(stream.kept)?.of_values(stream.values))
}

fn bound(stream: &Stream) -> Result<Option<ContributionBound>> {
    match stream.kept {
        Unit::Event => Ok(None),
        _ => bound_of_persons(stream).map(Some),
    }
}

impl Intake {
    pub(super) fn new(stream: &Stream) -> Result<Self> {
        let persons = bound(stream)?.map(Persons::new);
        Ok(Self { persons, period: stream.periods.of(1), arrivals: 0 })
    }

    /// The state of the persons, if persons are protected, for this next step.
    pub(super) fn save(&self, next: u64, periods: &Periods) -> Option<Vec<u8>> {
        self.persons.as_ref().map(|persons| persons.save(periods.of(next).start))
    }

    /// Restores the state from [`save`](Self::save).
    ///
    /// # Errors
    /// If it is damaged, or belongs to another unit.
    pub(super) fn restore(&mut self, stream: &Stream, next: u64, saved: Option<&[u8]>) -> Result<()> {
        self.period = stream.periods.of(next);
        self.persons = match (bound(stream)?, saved) {
            (None, None) => None,
            (Some(bound), Some(saved)) => Some(Persons::restore(bound, self.period.start, saved)?),
            _ => return Err(usage("the saved state of the stream protects another unit")),
        };
        Ok(())
    }

    /// Queues an event after all that have arrived.
    pub(super) fn arrive<L>(&mut self, placed: Placed<L>) -> PendingEvent<L> {
        self.arrivals += 1;
        PendingEvent { arrival: self.arrivals, placed }
    }

    /// The first step of the last event's period.
    #[inline]
    pub(super) fn period_since(&self) -> u64 {
        self.period.start
    }

    /// Prefetches the persons of some events; see [`Persons::look_ahead`].
    pub(super) fn look_ahead<'p, L: 'p>(&self, events: impl Iterator<Item = &'p Placed<L>>) {
        if let Some(persons) = &self.persons {
            persons.look_ahead(events.map(|placed| placed.person));
        }
    }

    /// The kept value of an event, or a part of it: the first events of a person are kept, in the order of their steps.
    #[inline]
    pub(super) fn keep<L>(&mut self, placed: &Placed<L>, group: u64, periods: &Periods) -> Option<i64> {
        let (step, value) = (placed.step, placed.value);
        let Some(persons) = &mut self.persons else { return Some(value) };
        if step >= self.period.end {
            self.period = periods.of(step);
        }
        persons.keep(placed.person, Offer { step, since: self.period.start, group, value })
    }
}
