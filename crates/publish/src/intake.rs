//! From rows to closed steps: placing, bounding and ordering events.

use crate::declaration::Parameter::{self, Missing, Outside, SortBuffer};
use crate::error::InputError;
use crate::event::{Event, Role};
use crate::problem::{Sentence, sentence};
use crate::steps::TimeParser;
use crate::stream::{OutOfBounds, Refusable, Stream};
use anyhow::Result;
use evertally::number::{DecimalError, Grid};
use evertally::privacy::Spread;
use evertally::privacy::Unit;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

/// Where bounded events go, step after step.
pub trait Steps {
    /// What names the group or item of an event.
    type Key;

    /// The group or item of an event; `None` for one that is declared to be left out.
    fn key_of(&mut self, event: &Event<'_>) -> Result<Option<Self::Key>>;

    /// The last closed step.
    fn closed(&self) -> u64;

    /// Adds an event to the open step.
    fn add(&mut self, key: Self::Key, value: i64) -> Result<()>;

    /// Closes the open step and those after it through `step`, if they are not closed yet.
    fn close_through(&mut self, step: u64) -> Result<()>;
}

/// Takes events in and hands them on in order of their steps, as far as their persons have room.
pub struct Intake<'a, S: Steps> {
    setup: &'a Stream,
    times: TimeParser,
    persons: Option<Persons>,
    waiting: BinaryHeap<Reverse<Placed<S::Key>>>,
    arrivals: u64,
    steps: S,
    /// Events of later steps are for a later run.
    last_step: u64,
}

/// An event with all that matters for the release; ordered by step, then by arrival.
struct Placed<K> {
    step: u64,
    arrival: u64,
    key: K,
    value: i64,
    person: Option<u32>,
}

impl<K> Placed<K> {
    fn turn(&self) -> (u64, u64) {
        (self.step, self.arrival)
    }
}

impl<K> PartialEq for Placed<K> {
    fn eq(&self, other: &Self) -> bool {
        self.turn() == other.turn()
    }
}

impl<K> Eq for Placed<K> {}

impl<K> PartialOrd for Placed<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Placed<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.turn().cmp(&other.turn())
    }
}

/// How many events of every person were kept so far. Memory grows with the number of persons, not of events.
struct Persons {
    ids: HashMap<Box<str>, u32>,
    kept: Vec<Kept>,
    spread: Spread,
    text: String,
}

/// The kept events of one person.
#[derive(Clone, Copy, Default)]
struct Kept {
    total: u64,
    /// The step of the last one, and how many there were in it.
    step: u64,
    in_step: u64,
}

impl<'a, S: Steps> Intake<'a, S> {
    /// Takes in the events of a stream through `last_step`.
    pub fn new(setup: &'a Stream, last_step: u64, steps: S) -> Result<Self> {
        let persons = match setup.plan.request().unit() {
            Unit::Event => None,
            unit => Some(Persons::new(unit.spread()?)),
        };
        let times = TimeParser::new(setup.time_format, setup.calendar.zone().clone());
        Ok(Self { setup, times, persons, waiting: BinaryHeap::new(), arrivals: 0, steps, last_step })
    }

    /// One row of the input.
    pub fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let Some(placed) = self.place(event)? else { return Ok(()) };
        if placed.step <= self.steps.closed() {
            return Err(self.out_of_order(event).into());
        }
        if self.setup.sort_buffer == 0 {
            // Without a buffer the event's own step closes all before it, so that the next one out of order is seen.
            return self.take(placed);
        }
        self.waiting.push(Reverse(placed));
        if self.waiting.len() > self.setup.sort_buffer {
            let Reverse(first) = self.waiting.pop().expect("just pushed");
            self.take(first)?;
        }
        Ok(())
    }

    /// Closes all steps that are to be published.
    pub fn finish(mut self) -> Result<S> {
        while let Some(Reverse(placed)) = self.waiting.pop() {
            self.take(placed)?;
        }
        self.steps.close_through(self.last_step)?;
        Ok(self.steps)
    }

    /// Reads what matters of an event; `None` for one that is declared to be left out.
    fn place(&mut self, event: &Event<'_>) -> Result<Option<Placed<S::Key>>> {
        let instant = self.times.parse_event(event)?;
        let Some(step) = self.setup.calendar.step_of(instant) else {
            return self.skip_or(self.setup.outside, || {
                let calendar = &self.setup.calendar;
                let (start, end) = (calendar.format(calendar.start()), calendar.format(calendar.end()));
                event
                    .bad_cell(Role::Time, format!("is outside the horizon, {start} to {end}"))
                    .remedy(sentence!["widen it, or leave such events out with ", (Outside, "skip")])
            });
        };
        let Some(key) = self.steps.key_of(event)? else { return Ok(None) };
        let Some(value) = self.value(event)? else { return Ok(None) };
        let person = match &mut self.persons {
            None => None,
            Some(persons) => match persons.id(event) {
                Some(id) => Some(id),
                None => {
                    let missing = || event.error(Role::Person, "the event names no person").remedy(leave_out());
                    return self.skip_or(self.setup.missing, missing);
                }
            },
        };
        self.arrivals += 1;
        Ok(Some(Placed { step, arrival: self.arrivals, key, value, person }))
    }

    fn skip_or<T>(&self, policy: Refusable, error: impl FnOnce() -> InputError) -> Result<Option<T>> {
        if policy == Refusable::Skip { Ok(None) } else { Err(error().into()) }
    }

    fn value(&self, event: &Event<'_>) -> Result<Option<i64>> {
        if self.setup.columns.value.is_none() {
            return Ok(Some(1));
        }
        let grid = self.setup.plan.request().grid();
        let (lower, upper) = self.setup.values.bounds();
        let clamps = self.setup.out_of_bounds == OutOfBounds::Clamp;
        let Some(value) = multiple(event, grid, clamps)? else {
            let missing = || event.error(Role::Value, "the event has no value").remedy(leave_out());
            return self.skip_or(self.setup.missing, missing);
        };
        if !clamps && !(lower..=upper).contains(&value) {
            let (lower, upper) = (grid.format(lower.into()), grid.format(upper.into()));
            let remedy = sentence!["widen them, or use ", (Parameter::OutOfBounds, "clamp")];
            let problem = format!("is outside the bounds {lower} to {upper}");
            return Err(event.bad_cell(Role::Value, problem).remedy(remedy).into());
        }
        Ok(Some(value.clamp(lower, upper)))
    }

    fn out_of_order(&self, event: &Event<'_>) -> InputError {
        let remedy = match self.setup.sort_buffer {
            0 => sentence!["sort the file by time, or let ", (SortBuffer, "N"), " put events in order while reading"],
            n => {
                let of = format!(" of {n} events; raise it, or sort the file");
                sentence!["it is further out of order than the ", SortBuffer, of]
            }
        };
        event.bad_cell(Role::Time, "belongs to a step that a later event has closed").remedy(remedy)
    }

    /// Adds an event whose turn it is, unless its person has had enough.
    fn take(&mut self, placed: Placed<S::Key>) -> Result<()> {
        if placed.step > self.last_step {
            return Ok(()); // published later, from the same data
        }
        self.steps.close_through(placed.step - 1)?;
        if let (Some(persons), Some(id)) = (&mut self.persons, placed.person)
            && !persons.keep(id, placed.step)
        {
            return Ok(());
        }
        self.steps.add(placed.key, placed.value)
    }
}

/// What to do with events that lack a cell.
pub fn leave_out() -> Sentence {
    sentence!["leave such events out with ", (Missing, "skip")]
}

/// The value in multiples of the grid. One too large for 64 bits is as good as any beyond the bounds, where it is clamped.
fn multiple(event: &Event<'_>, grid: Grid, clamps: bool) -> Result<Option<i64>, InputError> {
    let value = event.value();
    match value.multiple_of(grid) {
        Err(DecimalError::Overflow) if clamps => {
            let negative = value.to_string().trim_start().starts_with('-');
            Ok(Some(if negative { i64::MIN } else { i64::MAX }))
        }
        _ => event.multiple_of(grid),
    }
}

impl Persons {
    fn new(spread: Spread) -> Self {
        Self { ids: HashMap::new(), kept: Vec::new(), spread, text: String::new() }
    }

    fn id(&mut self, event: &Event<'_>) -> Option<u32> {
        let name = event.person();
        let name = name.text(&mut self.text)?;
        if let Some(&id) = self.ids.get(name) {
            return Some(id);
        }
        let id = u32::try_from(self.kept.len()).expect("memory ends before four billion persons");
        self.ids.insert(name.into(), id);
        self.kept.push(Kept::default());
        Some(id)
    }

    /// Counts one more event of a person; false once enough are kept, in this step or in all. Steps never go back.
    fn keep(&mut self, id: u32, step: u64) -> bool {
        let kept = &mut self.kept[id as usize];
        if kept.step != step {
            (kept.step, kept.in_step) = (step, 0);
        }
        let room = kept.total < self.spread.total && kept.in_step < self.spread.per_step;
        kept.total += u64::from(room);
        kept.in_step += u64::from(room);
        room
    }
}
