//! Reading what matters of an event, and whether its person has room for it.

use super::Tally;
use crate::declaration::Parameter::{self, Missing, Outside};
use crate::error::{InputError, Result};
use crate::event::{Event, Role};
use crate::problem::{Sentence, sentence};
use crate::steps::TimeParser;
use crate::stream::{OutOfBounds, Refusable, Stream};
use evertally::number::DecimalError;
use evertally::privacy::Unit;
use evertally::privacy::contribution::{Contributions, PersonId};
use std::cmp::Ordering;
use std::collections::HashMap;

/// An event with all that matters for the release; ordered by step, then by arrival.
pub(super) struct Placed<L> {
    pub(super) step: u64,
    arrival: u64,
    pub(super) label: L,
    pub(super) value: i64,
    person: Option<PersonId>,
}

impl<L> Placed<L> {
    fn turn(&self) -> (u64, u64) {
        (self.step, self.arrival)
    }
}

impl<L> PartialEq for Placed<L> {
    fn eq(&self, other: &Self) -> bool {
        self.turn() == other.turn()
    }
}

impl<L> Eq for Placed<L> {}

impl<L> PartialOrd for Placed<L> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<L> Ord for Placed<L> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.turn().cmp(&other.turn())
    }
}

/// Reads events, and remembers of each person how many were kept. Memory grows with the number of persons, not of
/// events.
pub(super) struct Intake {
    times: TimeParser,
    persons: Option<Persons>,
    arrivals: u64,
}

struct Persons {
    ids: HashMap<Box<str>, PersonId>,
    contributions: Contributions,
    text: String,
}

impl Intake {
    pub(super) fn new(stream: &Stream) -> Result<Self> {
        let persons = match stream.plan.request().unit() {
            Unit::Event => None,
            unit => {
                let contributions = Contributions::new(unit)?;
                Some(Persons { ids: HashMap::new(), contributions, text: String::new() })
            }
        };
        let times = TimeParser::new(stream.time_format, stream.calendar.zone().clone());
        Ok(Self { times, persons, arrivals: 0 })
    }

    /// Reads what matters of an event; `None` for one that is declared to be left out.
    pub(super) fn place<T: Tally>(
        &mut self,
        stream: &Stream,
        tally: &mut T,
        event: &Event<'_>,
    ) -> Result<Option<Placed<T::Label>>> {
        let instant = self.times.parse_event(event)?;
        let Some(step) = stream.calendar.step_of(instant) else {
            return skip_or(stream.outside, || outside(stream, event));
        };
        let Some(label) = tally.label_of(stream, event)? else { return Ok(None) };
        let Some(value) = value(stream, event)? else { return Ok(None) };
        let person = match &mut self.persons {
            None => None,
            Some(persons) => match persons.id(event) {
                Some(id) => Some(id),
                None => {
                    let missing = || event.error(Role::Person, "the event names no person").remedy(leave_out());
                    return skip_or(stream.missing, missing);
                }
            },
        };
        self.arrivals += 1;
        Ok(Some(Placed { step, arrival: self.arrivals, label, value, person }))
    }

    /// Whether an event is kept: its person's first ones are, in order of their steps.
    #[inline]
    pub(super) fn keep<L>(&mut self, placed: &Placed<L>) -> bool {
        match (&mut self.persons, placed.person) {
            (Some(persons), Some(person)) => persons.contributions.keep(person, placed.step),
            _ => true,
        }
    }
}

impl Persons {
    fn id(&mut self, event: &Event<'_>) -> Option<PersonId> {
        let name = event.person();
        let name = name.text(&mut self.text)?;
        if let Some(&id) = self.ids.get(name) {
            return Some(id);
        }
        let id = self.contributions.add_person();
        self.ids.insert(name.into(), id);
        Some(id)
    }
}

fn skip_or<T>(policy: Refusable, error: impl FnOnce() -> InputError) -> Result<Option<T>> {
    if policy == Refusable::Skip { Ok(None) } else { Err(error().into()) }
}

fn outside(stream: &Stream, event: &Event<'_>) -> InputError {
    let calendar = &stream.calendar;
    let (start, end) = (calendar.format(calendar.start()), calendar.format(calendar.end()));
    event
        .bad_cell(Role::Time, format!("is outside the horizon, {start} to {end}"))
        .remedy(sentence!["widen it, or leave such events out with ", (Outside, "skip")])
}

/// What to do with events that lack a cell.
pub(super) fn leave_out() -> Sentence {
    sentence!["leave such events out with ", (Missing, "skip")]
}

/// What an event adds, in multiples of the grid; `None` for one that is declared to be left out.
///
/// A value too large for 64 bits is as good as any beyond the bounds, where it is clamped.
fn value(stream: &Stream, event: &Event<'_>) -> Result<Option<i64>> {
    if stream.columns.value.is_none() {
        return Ok(Some(1));
    }
    let grid = stream.plan.request().grid();
    let (lower, upper) = stream.values.bounds();
    let clamps = stream.out_of_bounds == OutOfBounds::Clamp;
    let cell = event.value();
    let value = match cell.multiple_of(grid) {
        Ok(Some(value)) => value,
        Ok(None) => {
            let missing = || event.error(Role::Value, "the event has no value").remedy(leave_out());
            return skip_or(stream.missing, missing);
        }
        Err(DecimalError::Overflow) if clamps => {
            let negative = cell.to_string().trim_start().starts_with('-');
            if negative { i64::MIN } else { i64::MAX }
        }
        Err(problem) => return Err(event.bad_cell(Role::Value, problem.to_string()).into()),
    };
    if !clamps && !(lower..=upper).contains(&value) {
        let (lower, upper) = (grid.format(lower.into()), grid.format(upper.into()));
        let remedy = sentence!["widen them, or use ", (Parameter::OutOfBounds, "clamp")];
        let problem = format!("is outside the bounds {lower} to {upper}");
        return Err(event.bad_cell(Role::Value, problem).remedy(remedy).into());
    }
    Ok(Some(value.clamp(lower, upper)))
}
