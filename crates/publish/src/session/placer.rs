//! Reads events, on any thread, because the result depends on nothing but the event.

use super::step_finder::{StepFinder, leave_out, skip_or};
use evertally::noise::SecretKey;
use evertally::number::{DecimalError, Grid};
use evertally::privacy::Unit;
use evertally::privacy::contribution::{Pseudonym, Pseudonyms};
use evertally_declare::error::{InputError, Result};
use evertally_declare::event::{ColumnRole, Event};
use evertally_declare::parameter::Parameter;
use evertally_declare::policy::OutOfBounds;
use evertally_declare::problem::sentence;
use evertally_declare::settings::Settings;
use evertally_declare::steps::Instant;
use evertally_declare::stream::Stream;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Assigns labels to events: the part of a [`Accumulator`](super::Accumulator) that each thread has to itself.
#[doc(alias = "Labels")]
pub trait LabelAssigner: Clone + Send {
    /// The label of an event: its group or its item.
    type Label: Send;

    /// The group or item of an event; `None` for an event that the stream skips.
    fn label_of(&mut self, stream: &Stream, event: &Event<'_>) -> Result<Option<Self::Label>>;

    /// The grid on which values with a label are counted.
    fn grid_of(&self, stream: &Stream, label: &Self::Label) -> Grid {
        let _ = label;
        stream.plan.request().grid()
    }
}

/// An event, reduced to what the release needs.
pub struct Placed<L> {
    pub(super) step: u64,
    /// Its time in microseconds since 1970, which orders the events of a person; 0 if events are counted elsewhere.
    pub(super) time: i64,
    pub(super) value: i64,
    /// The person; the same for all events if single events are protected.
    pub(super) person: Pseudonym,
    pub(super) label: L,
    /// The caller's mark for finding the event again.
    pub(super) mark: u32,
}

impl<L> Placed<L> {
    /// The step that it belongs to.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Its value, as a multiple of the grid.
    pub fn value(&self) -> i64 {
        self.value
    }

    /// The person whose event it is; the same for all if single events are protected.
    pub fn person(&self) -> Pseudonym {
        self.person
    }

    /// Its group or item.
    pub fn label(&self) -> &L {
        &self.label
    }
}

/// Placed events in the order of the input, each with a mark of the caller.
pub struct Batch<L> {
    pub(super) events: VecDeque<Placed<L>>,
}

impl<L> Batch<L> {
    /// An empty batch.
    pub fn new() -> Self {
        Self { events: VecDeque::new() }
    }

    /// Appends an event that a [`Placer`] has read. A session that cannot accept it returns the mark.
    #[inline]
    pub fn push(&mut self, mark: u32, placed: Placed<L>) {
        self.events.push_back(Placed { mark, ..placed });
    }

    /// The number of events that have not been taken yet.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether all events were taken.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Drops the remaining events, and keeps the allocation.
    pub fn clear(&mut self) {
        self.events.clear();
    }
}

impl<L> Default for Batch<L> {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads the parts of an event that the release needs: step, label, value and person.
///
/// The result depends on that event alone, so clones may work in several threads. Everything that depends on other
/// events (order, bounds of a person, sums) is decided by the [`Session`](super::Session).
#[derive(Clone)]
pub struct Placer<S> {
    stream: Arc<Stream>,
    steps: StepFinder,
    labels: S,
    /// `None` if single events are protected.
    pseudonyms: Option<Pseudonyms>,
    text: String,
}

impl<S: LabelAssigner> Placer<S> {
    /// A placer for the events of a stream.
    pub fn new(stream: Arc<Stream>, labels: S, key: &SecretKey) -> Self {
        let steps = StepFinder::new(&stream);
        let pseudonyms = match stream.enforced() {
            Unit::Event => None,
            _ => Some(Pseudonyms::new(key, &stream.name, &stream.plan.digest())),
        };
        Self { stream, steps, labels, pseudonyms, text: String::new() }
    }

    /// This placer with the record of another one of the same stream.
    #[must_use]
    pub(super) fn with_times_of(mut self, other: &Self) -> Self {
        self.steps.share(&other.steps);
        self
    }

    /// Refuses to publish anything if this placer and its clones have read events, and none is inside the horizon.
    ///
    /// # Errors
    /// If so, unless the stream skips [any event](evertally_declare::policy::Outside::SkipAny) outside.
    pub(crate) fn check_times(&self) -> Result<()> {
        self.steps.seen().check(&self.stream)
    }

    /// Whether the filter left out every row that this placer and its clones have read.
    pub(super) fn is_all_left_out(&self) -> bool {
        self.steps.seen().is_all_left_out()
    }

    /// Records that a row of the input could not be read, and was set aside.
    pub(super) fn note_unreadable(&self) {
        self.steps.seen().note_unreadable();
    }

    /// The pseudonym of the person with an identity; `None` if single events are protected.
    pub(super) fn pseudonym_of(&self, identity: &str) -> Option<Pseudonym> {
        self.pseudonyms.as_ref().map(|pseudonyms| pseudonyms.of(identity))
    }

    /// Reads an event; `None` for one that the stream skips, or that its filter leaves out.
    ///
    /// # Errors
    /// If a cell cannot be read, or if the event fits no step, group or bounds and the stream refuses such events. The
    /// error names the row.
    #[inline]
    pub fn place(&mut self, event: &Event<'_>) -> Result<Option<Placed<S::Label>>> {
        Ok(self.place_with_time(event)?.map(|(_, placed)| placed))
    }

    /// Like [`place`](Self::place), with the time of the event.
    #[inline]
    pub fn place_with_time(&mut self, event: &Event<'_>) -> Result<Option<(Instant, Placed<S::Label>)>> {
        if !self.stream.keeps(event)? {
            self.steps.seen().note_left_out();
            return Ok(None);
        }
        let Some((instant, step)) = self.steps.find(&self.stream, event)? else { return Ok(None) };
        Ok(self.place_in(event, (instant, step))?.map(|placed| (instant, placed)))
    }

    /// Reads an event from before the first step, of a stream that this one continues. Its step is 0, and the caller
    /// decides in which step it counts.
    ///
    /// # Errors
    /// As [`place`](Self::place).
    pub fn place_earlier(&mut self, event: &Event<'_>, time: Instant) -> Result<Option<Placed<S::Label>>> {
        self.place_in(event, (time, 0))
    }

    /// The rest of an event whose time and step are known.
    #[inline]
    fn place_in(&mut self, event: &Event<'_>, (instant, step): (Instant, u64)) -> Result<Option<Placed<S::Label>>> {
        let Some(label) = self.labels.label_of(&self.stream, event)? else { return Ok(None) };
        let value = match self.stream.columns.value {
            None => Some(1),
            Some(_) => value(&self.stream, self.labels.grid_of(&self.stream, &label), event)?,
        };
        let Some(value) = value else { return Ok(None) };
        let person = match &self.pseudonyms {
            None => Some(Pseudonym::default()),
            Some(pseudonyms) => {
                let name = event.identity(ColumnRole::Person, self.stream.ids, &mut self.text)?;
                name.map(|name| pseudonyms.of(name))
            }
        };
        let Some(person) = person else {
            return skip_or(self.stream.missing, || no_person(event));
        };
        Ok(Some(Placed { step, time: instant.micros(), value, person, label, mark: 0 }))
    }
}

impl<S: LabelAssigner> Placer<S> {
    /// Reads a row that holds a step's sum for a group: the sum of events that were counted and bounded elsewhere. The
    /// column of times holds the number of the step. `None` for a group that the stream skips.
    ///
    /// # Errors
    /// If its step is not in `steps`, or it has no group, or no sum on the group's grid. The error names the row.
    pub fn place_sum(&mut self, row: &Event<'_>, steps: RangeInclusive<u64>) -> Result<Option<Placed<S::Label>>> {
        let Some(step) = row.step_number().filter(|step| steps.contains(step)) else {
            let problem = format!("is not a step from {} through {}", steps.start(), steps.end());
            return Err(row.bad_cell(ColumnRole::Time, problem).into());
        };
        let Some(label) = self.labels.label_of(&self.stream, row)? else { return Ok(None) };
        let grid = self.labels.grid_of(&self.stream, &label);
        let value = row.sum_on(grid)?.ok_or_else(|| row.error(ColumnRole::Value, "the row has no sum"))?;
        Ok(Some(Placed { step, time: 0, value, person: Pseudonym::default(), label, mark: 0 }))
    }
}

/// The error of an event without a value.
pub fn no_value(event: &Event<'_>) -> InputError {
    event.error(ColumnRole::Value, "the event has no value").remedy(leave_out())
}

/// The error of an event without a person.
pub(super) fn no_person(event: &Event<'_>) -> InputError {
    event.error(ColumnRole::Person, "the event names no person").remedy(leave_out())
}

/// The value that an event adds, in multiples of its group's grid; `None` for an event that the stream skips.
///
/// If values are clamped, one too large for 64 bits is treated like any value beyond the bounds.
pub(super) fn value(stream: &Settings, grid: Grid, event: &Event<'_>) -> Result<Option<i64>> {
    if stream.columns.value.is_none() {
        return Ok(Some(1));
    }
    let (lower, upper) = stream.values.bounds();
    let clamps = stream.out_of_bounds == OutOfBounds::Clamp;
    let cell = event.value();
    let value = match stream.numbers.multiple_of(cell, grid) {
        Ok(Some(value)) => value,
        Ok(None) => {
            return skip_or(stream.missing, || no_value(event));
        }
        Err(DecimalError::Overflow) if clamps => {
            if stream.numbers.is_negative(cell) {
                i64::MIN
            } else {
                i64::MAX
            }
        }
        Err(problem) => return Err(stream.numbers.refusal(event, ColumnRole::Value, cell, problem).into()),
    };
    if !clamps && !(lower..=upper).contains(&value) {
        let (lower, upper) = (grid.format(lower.into()), grid.format(upper.into()));
        let remedy = sentence!["widen them, or use ", (Parameter::OutOfBounds, "clamp")];
        let problem = format!("is outside the bounds {lower} to {upper}");
        return Err(event.bad_cell(ColumnRole::Value, problem).remedy(remedy).into());
    }
    Ok(Some(value.clamp(lower, upper)))
}
