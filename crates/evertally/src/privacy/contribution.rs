//! Contribution bounding: the choice of a person's events that count.
//!
//! A guarantee for [`Unit::Person`] holds for data in which nobody has more events than declared,
//! in total, in one step, in one group, and so on. [`Contributions`] enforces this: of each person's events, offered in
//! order of their steps, it keeps the first that fit and refuses the rest.
//!
//! **Why keeping the first is enough.** Whether an event is kept depends on other events of the same person in the
//! same period and on nothing else. So without that person's events of that period, the kept events of all others, and
//! of the same person in other periods, are the same. Two data sets that differ in one unit therefore differ, after
//! bounding, only in kept events of that unit, which fit the [`PersonBounds`] that plans are
//! calibrated for.
//!
//! Any [window](super::RollingWindow) of steps may be protected instead of one period; the bounds still restart in each
//! period. Events in the window then influence which later events of the same period are kept, and no others: that is
//! part of the [sensitivity](super::Sensitivity).
//!
//! **Order within a step.** The guarantee holds for any order in which a person's events of one step are offered, if
//! that order depends on no other person. Pipelines offer them when the step closes, in order of time, and at one
//! instant in the order of a keyed hash ([`EventOrder`]): then the kept events are a function of the set of events, and
//! the order of rows in a file does not matter.
//!
//! An event belongs to the period of the step in which it counts.
//!
//! [`ContributionBound`] decides from the record of one person's kept events so far ([`Kept`], and [`Details`] if
//! groups or the total are bounded). [`Contributions`] holds these records for numbered persons; a program that knows
//! persons by name stores them with the name, or with its [`Pseudonym`].

mod details;
mod order;
mod pseudonym;

pub use details::Details;
pub use order::EventOrder;
pub use pseudonym::{Pseudonym, Pseudonyms};

use super::{PersonBounds, Unit, Values};
use crate::{Error, Result};

/// The number of one person's kept events in the period of the last one: 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The step of the last one, 0 before the first, and the number kept in it.
    step: u64,
    total: u32,
    in_step: u32,
}

impl Kept {
    /// The step of the last kept event; 0 before the first.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The number of events kept in the period of that step.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The number of these in the last step.
    pub fn in_step(&self) -> u32 {
        self.in_step
    }
}

/// One event of a person, offered to be kept.
///
/// ```
/// use evertally::privacy::contribution::Offer;
/// let offer = Offer::in_step(40).with_period_start(32).in_group(7).with_value(-12);
/// assert_eq!((offer.step, offer.since, offer.group, offer.value), (40, 32, 7, -12));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The step in which it would count, from 1.
    pub step: u64,
    /// The first step of the period that this step is in; 1 if there are no periods.
    pub since: u64,
    /// Its group, as any number that identifies one group.
    pub group: u64,
    /// The value it would add, in multiples of the grid.
    pub value: i64,
}

impl Offer {
    /// An event of value 1 in this step, in group 0 and the only period.
    pub const fn in_step(step: u64) -> Self {
        Self { step, since: 1, group: 0, value: 1 }
    }

    /// The same in a period that begins with this step.
    #[must_use]
    pub const fn with_period_start(self, since: u64) -> Self {
        Self { since, ..self }
    }

    /// The same in another group.
    #[must_use]
    pub const fn in_group(self, group: u64) -> Self {
        Self { group, ..self }
    }

    /// The same with another value.
    #[must_use]
    pub const fn with_value(self, value: i64) -> Self {
        Self { value, ..self }
    }
}

/// Decides which events of a person are kept: the first ones that fit the bounds of a unit.
///
/// If a value would exceed the bound on the total, the part that fits is kept, or nothing if that part would not be a
/// [value](Self::with_values) of the stream. With bounds beyond 2³² - 1 events, the first 2³² - 1 are kept: fewer
/// events than declared are protected just as well.
///
/// ```
/// use evertally::privacy::{Unit, contribution::{ContributionBound, Details, Kept, Offer}};
/// let bound = ContributionBound::new(Unit::person(3).per_step(2))?;
/// let (mut ada, mut details) = (Kept::default(), Details::default());
/// let keeps = [1, 1, 1, 2, 2].map(|step| bound.keep(&mut ada, &mut details, Offer::in_step(step)).is_some());
/// assert_eq!(keeps, [true, true, false, true, false]);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContributionBound {
    total: u32,
    per_step: u32,
    min_gap: u64,
    /// Whether groups are counted, and the bounds on their number and size.
    counts_groups: bool,
    per_group: u32,
    groups: u32,
    /// The cap on the sum of absolute values.
    cap: Option<u64>,
    /// The smallest absolute value that a value may have.
    least: u64,
}

impl ContributionBound {
    /// The bounds of a unit. [`Unit::Event`] is a person with one event.
    ///
    /// # Errors
    /// If a bound is 0.
    pub fn new(unit: Unit) -> Result<Self> {
        let spread = unit.without_window().spread()?;
        let bounds = unit.bounds().unwrap_or(PersonBounds { max_events: 1, ..PersonBounds::default() });
        let narrow = |bound: u64| u32::try_from(bound).unwrap_or(u32::MAX);
        // As many groups as events, each as large as the total: not a restriction.
        let (per_group, groups) = (bounds.max_events_per_group, bounds.max_groups);
        let binds = |bound: Option<u64>| bound.is_some_and(|bound| bound < spread.total);
        Ok(Self {
            total: narrow(spread.total),
            per_step: narrow(spread.per_step),
            min_gap: bounds.min_gap.unwrap_or(1),
            counts_groups: binds(per_group) || binds(groups),
            per_group: narrow(per_group.unwrap_or(u64::MAX)),
            groups: narrow(groups.unwrap_or(u64::MAX)),
            cap: bounds.max_total,
            least: 0,
        })
    }

    /// The same for values between these bounds: parts of values outside them are not kept.
    #[must_use]
    pub fn with_values(self, values: Values) -> Self {
        let (lower, upper) = values.bounds();
        let least = if lower > 0 { lower.unsigned_abs() } else { upper.min(0).unsigned_abs() };
        Self { least, ..self }
    }

    /// Whether an event that is refused among some of its person's events is refused among all of them: only the number
    /// of events in total and per step is bounded. Then parts of a person's events may be thinned before they are
    /// merged.
    pub fn is_hereditary(&self) -> bool {
        !self.needs_details() && self.min_gap <= 1
    }

    /// The maximum number of a person's events kept in one step and group; the first ones are kept.
    pub fn most_alike(&self) -> u32 {
        self.total.min(self.per_step).min(self.per_group)
    }

    /// Whether [`Details`] matter: groups or the total are bounded.
    pub fn needs_details(&self) -> bool {
        self.counts_groups || self.cap.is_some()
    }

    /// Whether the number of groups of a person is bounded, so that an event in one may displace events of another.
    pub fn limits_groups(&self) -> bool {
        self.counts_groups && self.groups < self.total
    }

    /// The same bounds without the one on the sum of absolute values.
    ///
    /// Until that bound is reached, the same events are kept; afterwards it admits none. So of a person's events in one
    /// step, in order, those that all bounds keep are the first of those that these bounds keep.
    #[must_use]
    pub fn without_total(self) -> Self {
        Self { cap: None, least: 0, ..self }
    }

    /// The maximum number of a person's events that can be kept in a step of the period since `since`, in addition to
    /// the person's record of kept events.
    ///
    /// # Panics
    /// If the step is before the last one of the record.
    #[inline]
    pub fn allowance(&self, kept: &Kept, step: u64, since: u64) -> u32 {
        assert!(step >= kept.step, "steps never go back: {step} after {}", kept.step);
        if kept.step < since || kept.step == 0 {
            return self.total.min(self.per_step);
        }
        let left = self.total - kept.total; // fits: no record has more
        match step - kept.step {
            0 => left.min(self.per_step - kept.in_step),
            gap if gap < self.min_gap => 0,
            _ => left.min(self.per_step),
        }
    }

    /// Offers one more event of a person and returns the kept value: the whole, the part that fits the bound on the
    /// total, or nothing. An event is kept while there is room for it in total, in its step and in its group, and its
    /// step is that of the last event or far enough after it. All counts start again in each period. `O(log groups)`.
    ///
    /// # Panics
    /// If the step is before one in which an event of the same person was kept, or before its own period.
    #[inline]
    pub fn keep(&self, kept: &mut Kept, details: &mut Details, offer: Offer) -> Option<i64> {
        let Offer { step, since, .. } = offer;
        assert!(step >= kept.step && step >= since, "steps never go back: {step} after {}, {since}", kept.step);
        let mut next = *kept;
        let is_anew = kept.step < since;
        if is_anew {
            next = Kept::default();
        }
        if next.step != step {
            if next.step != 0 && step - next.step < self.min_gap {
                return None;
            }
            (next.step, next.in_step) = (step, 0);
        }
        if next.total >= self.total || next.in_step >= self.per_step {
            return None;
        }
        let value = if self.needs_details() {
            if is_anew {
                details.clear();
            }
            self.keep_in_details(details, offer)?
        } else {
            offer.value
        };
        next.total += 1;
        next.in_step += 1;
        *kept = next;
        Some(value)
    }

    fn keep_in_details(&self, details: &mut Details, offer: Offer) -> Option<i64> {
        let value = match self.cap {
            Some(cap) => details.part_below(cap, self.least, offer.value)?,
            None => offer.value,
        };
        if self.counts_groups && !details.enter(offer.group, self.per_group, self.groups) {
            return None;
        }
        if self.cap.is_some() {
            details.spend(value);
        }
        Some(value)
    }

    /// Restores the record of a person from an earlier run.
    ///
    /// # Errors
    /// If no history under these bounds leads to it.
    pub fn restore(&self, step: u64, total: u32, in_step: u32) -> Result<Kept> {
        // The first event of a person is always kept, so anyone who was offered an event has one.
        let fits = (1..=self.total).contains(&total) && (1..=self.per_step.min(total)).contains(&in_step);
        if !fits || step == 0 {
            let what = format!("{in_step} in step {step}, {total} in all");
            return Err(Error::state(format!("no person can have {what} kept events under the declared bounds")));
        }
        Ok(Kept { step, total, in_step })
    }

    /// The details of a person who is [restored](Self::restore): the sum of the absolute values, and the number of
    /// events kept in each group, by ascending group number.
    ///
    /// # Errors
    /// If no history under these bounds leads to them.
    pub fn restore_details(&self, kept: Kept, spent: u64, groups: Vec<(u64, u32)>) -> Result<Details> {
        let rises = groups.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let fit = groups.iter().all(|(_, events)| (1..=self.per_group).contains(events));
        let few = groups.len() as u64 <= u64::from(self.groups);
        let of_all = groups.iter().map(|(_, events)| u64::from(*events)).sum::<u64>() == u64::from(kept.total);
        let groups_fit = if self.counts_groups { rises && fit && few && of_all } else { groups.is_empty() };
        if !groups_fit || spent > self.cap.unwrap_or(0) {
            let what = format!("{spent} of the total, {groups:?} by group, {} in all", kept.total);
            return Err(Error::state(format!("no person can have kept {what} under the declared bounds")));
        }
        Ok(Details::new(spent, groups))
    }
}

/// A person, as an index into a [`Contributions`]; valid only there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersonId(u32);

/// The kept events of every person so far, to decide whether one more event fits.
///
/// Memory: 16 bytes per person, however many events they have; if groups or totals are bounded, 32 more, and about 16
/// for each group of the person.
///
/// ```
/// use evertally::privacy::{Unit, contribution::{Contributions, Offer}};
/// // Two events a week, in one group, by days.
/// let unit = Unit::person(2).in_groups(1).per_period(7);
/// let mut contributions = Contributions::new(unit)?;
/// let ada = contributions.add_person();
/// let mut keep = |step: u64, group| contributions.keep(ada, Offer::in_step(step).in_group(group)).is_some();
/// assert_eq!([keep(1, 0), keep(2, 1), keep(6, 0), keep(7, 0)], [true, false, true, false]);
/// assert_eq!([keep(8, 1), keep(8, 1), keep(9, 1)], [true, true, false]);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Contributions {
    bound: ContributionBound,
    /// Steps of a period; 0 for none.
    period: u64,
    persons: Vec<Kept>,
    details: Vec<Details>,
}

impl Contributions {
    /// No events yet, under the bounds of this unit. For [`Unit::Event`] every event is a separate person.
    ///
    /// # Errors
    /// If a bound is 0.
    pub fn new(unit: Unit) -> Result<Self> {
        let period = unit.bounds().and_then(|bounds| bounds.period).unwrap_or(0);
        Ok(Self { bound: ContributionBound::new(unit)?, period, persons: Vec::new(), details: Vec::new() })
    }

    /// The same for values between these bounds; see [`ContributionBound::with_values`].
    #[must_use]
    pub fn with_values(self, values: Values) -> Self {
        Self { bound: self.bound.with_values(values), ..self }
    }

    /// One more person, without events. `O(1)`.
    ///
    /// # Panics
    /// After 2³² persons, which need 64 GiB.
    pub fn add_person(&mut self) -> PersonId {
        let id = u32::try_from(self.persons.len()).expect("memory ends before four billion persons");
        self.persons.push(Kept::default());
        if self.bound.needs_details() {
            self.details.push(Details::default());
        }
        PersonId(id)
    }

    /// The number of persons.
    pub fn person_count(&self) -> usize {
        self.persons.len()
    }

    /// Offers one more event of a person, like [`ContributionBound::keep`]. If the unit has periods and the offer names
    /// none, they are all as long as the longest, from step 1 on.
    ///
    /// # Panics
    /// If the person belongs to another value of this type, or the step is before one in which an event of the same
    /// person was kept.
    pub fn keep(&mut self, person: PersonId, offer: Offer) -> Option<i64> {
        // A period named by the offer belongs to a calendar, whose first period may be short.
        let in_period = offer.step.saturating_sub(1).checked_rem(self.period).map(|within| offer.step - within);
        let since = if offer.since > 1 { offer.since } else { in_period.unwrap_or(1) };
        let offer = offer.with_period_start(since);
        let place = person.0 as usize;
        let (mut none, details) = (Details::default(), self.details.get_mut(place));
        self.bound.keep(&mut self.persons[place], details.unwrap_or(&mut none), offer)
    }
}

#[cfg(test)]
mod tests;
