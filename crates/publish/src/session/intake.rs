//! What depends on the order of events: their turn, and whether their person has room for them.

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
pub(super) struct Waiting<L> {
    arrival: u64,
    pub(super) placed: Placed<L>,
}

impl<L> Waiting<L> {
    fn turn(&self) -> (u64, u64) {
        (self.placed.step, self.arrival)
    }
}

impl<L> PartialEq for Waiting<L> {
    fn eq(&self, other: &Self) -> bool {
        self.turn() == other.turn()
    }
}

impl<L> Eq for Waiting<L> {}

impl<L> PartialOrd for Waiting<L> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<L> Ord for Waiting<L> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.turn().cmp(&other.turn())
    }
}

/// Numbers events as they arrive, and remembers of each person how many were kept. Memory grows with the number of
/// persons of a period, not of events.
pub(super) struct Intake {
    /// `None` where single events are protected.
    pub(super) persons: Option<Persons>,
    /// The steps of the period that the last event was of.
    period: Range<u64>,
    arrivals: u64,
}

/// What is kept of a person, where persons are protected.
/// The bounds of the stream's persons.
///
/// # Errors
/// If no event is kept of a person.
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

    /// All that is remembered of persons, where persons are protected, for this next step.
    pub(super) fn save(&self, next: u64, periods: &Periods) -> Option<Vec<u8>> {
        self.persons.as_ref().map(|persons| persons.save(periods.of(next).start))
    }

    /// Puts back what [`save`](Self::save) gave.
    ///
    /// # Errors
    /// If it is damaged, or of another unit.
    pub(super) fn restore(&mut self, stream: &Stream, next: u64, saved: Option<&[u8]>) -> Result<()> {
        self.period = stream.periods.of(next);
        self.persons = match (bound(stream)?, saved) {
            (None, None) => None,
            (Some(bound), Some(saved)) => Some(Persons::restore(bound, self.period.start, saved)?),
            _ => return Err(usage("the state of the stream protects another unit")),
        };
        Ok(())
    }

    /// An event that waits for its turn behind all that have arrived.
    pub(super) fn arrive<L>(&mut self, placed: Placed<L>) -> Waiting<L> {
        self.arrivals += 1;
        Waiting { arrival: self.arrivals, placed }
    }

    /// The first step of the period that the last event was of.
    #[inline]
    pub(super) fn period_since(&self) -> u64 {
        self.period.start
    }

    /// Looks ahead to the persons of some events; see [`Persons::look_ahead`].
    pub(super) fn look_ahead<'p, L: 'p>(&self, events: impl Iterator<Item = &'p Placed<L>>) {
        if let Some(persons) = &self.persons {
            persons.look_ahead(events.map(|placed| placed.person));
        }
    }

    /// What is kept of an event, its value or a part of it: its person's first ones are kept, in order of their steps.
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
