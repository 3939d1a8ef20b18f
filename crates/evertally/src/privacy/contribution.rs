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

use super::{Spread, Unit};
use crate::Result;

/// A person, as a place in a [`Contributions`]; good for that one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersonId(u32);

/// How many events of every person were kept so far, and whether there is room for one more.
///
/// Memory: 24 bytes a person, however many events they have.
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
    bound: Spread,
    persons: Vec<Kept>,
}

/// The kept events of one person.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    total: u64,
    /// The step of the last one that was offered, and how many were kept in it.
    step: u64,
    in_step: u64,
}

impl Contributions {
    /// Nobody's events yet, under the bounds of this unit. For [`Unit::Event`] every event is a person of its own.
    ///
    /// # Errors
    /// If a bound is 0.
    pub fn new(unit: Unit) -> Result<Self> {
        Ok(Self { bound: unit.spread()?, persons: Vec::new() })
    }

    /// One more person, without events. `O(1)`.
    ///
    /// # Panics
    /// After 2³² persons, which need 96 GiB.
    pub fn add_person(&mut self) -> PersonId {
        let id = u32::try_from(self.persons.len()).expect("memory ends before four billion persons");
        self.persons.push(Kept::default());
        PersonId(id)
    }

    /// How many persons there are.
    pub fn person_count(&self) -> usize {
        self.persons.len()
    }

    /// Whether one more event of a person, in this step (from 1), is kept: yes while fewer are kept than the bounds
    /// allow, in this step and in all. `O(1)`.
    ///
    /// # Panics
    /// If the person is of another value of this type, or the step is before one that was offered for the same person.
    pub fn keep(&mut self, person: PersonId, step: u64) -> bool {
        let kept = &mut self.persons[person.0 as usize];
        assert!(step >= kept.step, "steps never go back: {step} after {}", kept.step);
        if kept.step != step {
            (kept.step, kept.in_step) = (step, 0);
        }
        let room = kept.total < self.bound.total && kept.in_step < self.bound.per_step;
        kept.total += u64::from(room);
        kept.in_step += u64::from(room);
        room
    }
}

#[cfg(test)]
mod tests;
