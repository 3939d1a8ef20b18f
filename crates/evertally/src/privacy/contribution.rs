//! Contribution bounding: which events of a person count.
//!
//! A guarantee for [`Unit::Person`](super::Unit::Person) holds for data in which nobody has more events than declared,
//! in all and in one step. [`Contributions`] makes data so: of each person's events, offered in order of their steps,
//! it keeps the first that fit and refuses the rest.
//!
//! **Why keeping the first is enough.** Whether an event is kept depends on earlier events of the same person and on
//! nothing else. So without that person's events the kept events of all others are the same, and two data sets that
//! differ in one person's events differ, after bounding, in at most `total` kept events of that person, `per_step` of
//! them in any step: what [`Spread`] says, and what plans are calibrated for.

//!
//! [`ContributionBound`] decides, from what was kept of one person so far ([`Kept`]); [`Contributions`] keeps that of
//! persons who are numbered, and a program that knows persons by name keeps it beside the name, or beside its
//! [`Pseudonym`].

mod pseudonym;

pub use pseudonym::{Pseudonym, Pseudonyms};

use super::{PersonBounds, Spread, Unit};
use crate::{Error, Result};

/// How many events of one person were kept: 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The step of the last one that was offered, 0 before the first, and how many were kept in it.
    step: u64,
    total: u32,
    in_step: u32,
}

impl Kept {
    /// The step of the last event that was offered; 0 before the first.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// How many events were kept.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// How many of them in the last step.
    pub fn in_step(&self) -> u32 {
        self.in_step
    }
}

/// What is kept of a person: the first events that fit the bounds of a unit, and nothing else decides.
///
/// Of bounds beyond 2³² - 1 events the first 2³² - 1 are kept: fewer than declared are as well protected.
///
/// ```
/// use evertally::privacy::{Unit, contribution::{ContributionBound, Kept}};
/// let bound = ContributionBound::new(Unit::person(3).per_step(2))?;
/// let mut ada = Kept::default();
/// assert_eq!([1, 1, 1, 2, 2].map(|step| bound.keep(&mut ada, step)), [true, true, false, true, false]);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContributionBound {
    total: u32,
    per_step: u32,
}

impl ContributionBound {
    /// The bounds of a unit. [`Unit::Event`] is a person with one event.
    ///
    /// # Errors
    /// If a bound is 0.
    pub fn new(unit: Unit) -> Result<Self> {
        let Spread { total, per_step, .. } = unit.spread()?;
        let enforced = |bounds: PersonBounds| {
            unit == Unit::person(bounds.max_events).with_optional_per_step(bounds.max_events_per_step)
        };
        if !unit.bounds().is_none_or(enforced) {
            return Err(Error::invalid("only the events in all and in a step are bounded here"));
        }
        let narrow = |bound: u64| u32::try_from(bound).unwrap_or(u32::MAX);
        Ok(Self { total: narrow(total), per_step: narrow(per_step) })
    }

    /// Whether one more event of a person, in this step (from 1), is kept: yes while fewer are kept than the bounds
    /// allow, in this step and in all. `O(1)`.
    ///
    /// # Panics
    /// If the step is before one that was offered for the same person.
    #[inline]
    pub fn keep(&self, kept: &mut Kept, step: u64) -> bool {
        assert!(step >= kept.step, "steps never go back: {step} after {}", kept.step);
        if kept.step != step {
            (kept.step, kept.in_step) = (step, 0);
        }
        let room = kept.total < self.total && kept.in_step < self.per_step;
        kept.total += u32::from(room);
        kept.in_step += u32::from(room);
        room
    }

    /// What was kept of a person whose last event was offered in this step, as an earlier run left it.
    ///
    /// # Errors
    /// If no history under these bounds leaves it so.
    pub fn restore(&self, step: u64, total: u32, in_step: u32) -> Result<Kept> {
        // The first event of all is kept, so that somebody who was offered one has one; a step in which nothing was
        // kept is one that came when the total was reached.
        let fits = (1..=self.total).contains(&total) && in_step <= self.per_step.min(total) && step >= 1;
        if !fits || (in_step == 0 && total < self.total) {
            let what = format!("{in_step} in step {step}, {total} in all");
            return Err(Error::state(format!("no person can have kept {what} under the declared bounds")));
        }
        Ok(Kept { step, total, in_step })
    }
}

/// A person, as a place in a [`Contributions`]; good for that one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersonId(u32);

/// How many events of every person were kept so far, and whether there is room for one more.
///
/// Memory: 16 bytes a person, however many events they have.
///
/// ```
/// use evertally::privacy::{Unit, contribution::Contributions};
/// let unit = Unit::person(3).per_step(2);
/// let mut contributions = Contributions::new(unit)?;
/// let ada = contributions.add_person();
/// let kept: Vec<bool> = [1, 1, 1, 2, 2].map(|step| contributions.keep(ada, step)).into();
/// assert_eq!(kept, [true, true, false, true, false]);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Contributions {
    bound: ContributionBound,
    persons: Vec<Kept>,
}

impl Contributions {
    /// Nobody's events yet, under the bounds of this unit. For [`Unit::Event`] every event is a person of its own.
    ///
    /// # Errors
    /// If a bound is 0.
    pub fn new(unit: Unit) -> Result<Self> {
        Ok(Self { bound: ContributionBound::new(unit)?, persons: Vec::new() })
    }

    /// One more person, without events. `O(1)`.
    ///
    /// # Panics
    /// After 2³² persons, which need 64 GiB.
    pub fn add_person(&mut self) -> PersonId {
        let id = u32::try_from(self.persons.len()).expect("memory ends before four billion persons");
        self.persons.push(Kept::default());
        PersonId(id)
    }

    /// How many persons there are.
    pub fn person_count(&self) -> usize {
        self.persons.len()
    }

    /// Whether one more event of a person, in this step (from 1), is kept: as [`ContributionBound::keep`] says.
    ///
    /// # Panics
    /// If the person is of another value of this type, or the step is before one that was offered for the same person.
    pub fn keep(&mut self, person: PersonId, step: u64) -> bool {
        self.bound.keep(&mut self.persons[person.0 as usize], step)
    }
}

#[cfg(test)]
mod tests;
