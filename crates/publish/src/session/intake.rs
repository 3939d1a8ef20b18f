//! The parts of a session that depend on the order of events: the turn of unsorted ones, and the bounds of persons.

use super::open_step::Accumulator;
use super::open_step::OpenStep;
use super::persons::Persons;
use super::placer::Placed;
use evertally::noise::SecretKey;
use evertally::privacy::Unit;
use evertally::privacy::contribution::ContributionBound;
use evertally_declare::error::{Result, usage};
use evertally_declare::steps::Periods;
use evertally_declare::stream::Stream;
use std::cmp::Ordering;

/// An event that waits for its turn; ordered by step.
pub(super) struct PendingEvent<L>(pub(super) Placed<L>);

impl<L> PartialEq for PendingEvent<L> {
    fn eq(&self, other: &Self) -> bool {
        self.0.step == other.0.step
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
        self.0.step.cmp(&other.0.step)
    }
}

/// The bounds of the stream's persons.
///
/// # Errors
/// If the bounds keep no event of a person.
pub fn bound_of_persons(stream: &Stream) -> Result<ContributionBound> {
    Ok(ContributionBound::new(stream.enforced())?.with_values(stream.values))
}

fn bound(stream: &Stream) -> Result<Option<ContributionBound>> {
    match stream.enforced() {
        Unit::Event => Ok(None),
        _ => bound_of_persons(stream).map(Some),
    }
}

/// The open step of a stream before its first event; `None` if single events are protected.
///
/// # Errors
/// If the bounds keep no event of a person.
pub(super) fn open_step<T: Accumulator>(stream: &Stream, key: &SecretKey) -> Result<Option<OpenStep<T>>> {
    Ok(bound(stream)?.map(|bound| OpenStep::new(stream, Persons::new(bound), key)))
}

impl<T: Accumulator> OpenStep<T> {
    /// The state of the persons, for this next step.
    pub(super) fn save_persons(&self, next: u64, periods: &Periods) -> Vec<u8> {
        self.persons().save(periods.of(next).start)
    }
}

/// Restores the state of the persons from [`OpenStep::save_persons`], before the first event of step `next`.
///
/// # Errors
/// If it is damaged, or belongs to another unit.
pub(super) fn restore_persons<T: Accumulator>(
    open: &mut Option<OpenStep<T>>,
    stream: &Stream,
    next: u64,
    saved: Option<&[u8]>,
) -> Result<()> {
    match (open, bound(stream)?, saved) {
        (None, None, None) => Ok(()),
        (Some(open), Some(bound), Some(saved)) => {
            open.restore(Persons::restore(bound, stream.periods.of(next).start, saved)?);
            Ok(())
        }
        _ => Err(usage("the saved state of the stream protects another unit")),
    }
}
