//! From rows to closed steps: placing, bounding and ordering events, and adding them to the streams.

use super::emit::Emitter;
use super::groups::GroupTable;
use super::options::{OutOfBounds, Refusable};
use super::setup::Setup;
use crate::input::{Cancelled, Event, InputError, Role};
use crate::ledger::StreamDigest;
use crate::steps::TimeParser;
use anyhow::Result;
use evertally::decimal::{DecimalError, Grid};
use evertally::mechanism::Spread;
use evertally::noise::SecretKey;
use evertally::plan::Unit;
use evertally::stream::{GroupedSums, RunningSum};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes events in, hands closed steps to the ledger's digest and to the outputs.
pub(super) struct Ingest<'a> {
    setup: &'a Setup,
    cancelled: &'a AtomicBool,
    times: TimeParser,
    groups: Option<GroupTable>,
    persons: Option<Persons>,
    waiting: BinaryHeap<Reverse<Placed>>,
    arrivals: u64,
    streams: Streams,
    /// The sums of the open step, one a group.
    open: Vec<i64>,
    digest: StreamDigest,
    emitter: Emitter,
}

/// An event with all that matters for the release; ordered by step, then by arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Placed {
    step: u64,
    arrival: u64,
    group: usize,
    value: i64,
    person: Option<u32>,
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

enum Streams {
    Total(Box<RunningSum>),
    Groups(Box<GroupedSums>),
}

impl<'a> Ingest<'a> {
    pub(super) fn new(
        setup: &'a Setup,
        key: &SecretKey,
        digest: StreamDigest,
        emitter: Emitter,
        cancelled: &'a AtomicBool,
    ) -> Result<Self> {
        let (plan, name) = (setup.plan.clone(), setup.stream.clone());
        let streams = match &setup.groups {
            None => Streams::Total(Box::new(RunningSum::new(plan, key, name)?)),
            Some(table) => Streams::Groups(Box::new(GroupedSums::new(plan, key, name, table.to_library()?)?)),
        };
        let persons = match setup.plan.request().unit {
            Unit::Event => None,
            unit => Some(Persons::new(unit.spread()?)),
        };
        Ok(Self {
            cancelled,
            times: TimeParser::new(setup.time_format, setup.calendar.zone().clone()),
            groups: setup.groups.clone(),
            persons,
            waiting: BinaryHeap::new(),
            arrivals: 0,
            open: vec![0; setup.groups.as_ref().map_or(1, |table| table.tuples().len())],
            streams,
            digest,
            emitter,
            setup,
        })
    }

    /// One row of the input.
    pub(super) fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let Some(placed) = self.place(event)? else { return Ok(()) };
        if placed.step <= self.streams.step() {
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
    pub(super) fn finish(mut self) -> Result<(StreamDigest, Emitter)> {
        while let Some(Reverse(placed)) = self.waiting.pop() {
            self.take(placed)?;
        }
        self.close_through(self.setup.last_step)?;
        Ok((self.digest, self.emitter))
    }

    /// Reads what matters of an event; `None` for one that is declared to be left out.
    fn place(&mut self, event: &Event<'_>) -> Result<Option<Placed>> {
        let instant = self.times.parse_event(event)?;
        let Some(step) = self.setup.calendar.step_of(instant) else {
            return self.skip_or(self.setup.outside, || {
                let calendar = &self.setup.calendar;
                let (start, end) = (calendar.format(calendar.start()), calendar.format(calendar.end()));
                event.bad_cell(
                    Role::Time,
                    format_args!("is outside the horizon, {start} to {end}; widen it, or leave such events out with --outside skip"),
                )
            });
        };
        let group = match &mut self.groups {
            Some(table) => table.place_of(event)?,
            None => 0,
        };
        let Some(value) = self.value(event)? else { return Ok(None) };
        let person = match &mut self.persons {
            None => None,
            Some(persons) => match persons.id(event) {
                Some(id) => Some(id),
                None => {
                    let missing = || {
                        event
                            .error(Role::Person, "the event names no person; leave such events out with --missing skip")
                    };
                    return self.skip_or(self.setup.missing, missing);
                }
            },
        };
        self.arrivals += 1;
        Ok(Some(Placed { step, arrival: self.arrivals, group, value, person }))
    }

    fn skip_or<T>(&self, policy: Refusable, error: impl FnOnce() -> InputError) -> Result<Option<T>> {
        if policy == Refusable::Skip { Ok(None) } else { Err(error().into()) }
    }

    fn value(&self, event: &Event<'_>) -> Result<Option<i64>> {
        if self.setup.columns.value.is_none() {
            return Ok(Some(1));
        }
        let request = self.setup.plan.request();
        let (lower, upper) = request.values.bounds();
        let clamps = self.setup.out_of_bounds == OutOfBounds::Clamp;
        let Some(value) = multiple(event, request.grid, clamps)? else {
            let missing =
                || event.error(Role::Value, "the event has no value; leave such events out with --missing skip");
            return self.skip_or(self.setup.missing, missing);
        };
        if !clamps && !(lower..=upper).contains(&value) {
            let (lower, upper) = (request.grid.format(lower.into()), request.grid.format(upper.into()));
            let problem = format!("is outside the bounds {lower} to {upper}; widen them, or use --out-of-bounds clamp");
            return Err(event.bad_cell(Role::Value, problem).into());
        }
        Ok(Some(value.clamp(lower, upper)))
    }

    fn out_of_order(&self, event: &Event<'_>) -> InputError {
        let hint = match self.setup.sort_buffer {
            0 => "sort the file by time, or let --sort-buffer N put events in order while reading".to_owned(),
            n => format!("it is further out of order than the --sort-buffer of {n} events; raise it, or sort the file"),
        };
        event.bad_cell(Role::Time, format_args!("belongs to a step that a later event has closed; {hint}"))
    }

    /// Adds an event whose turn it is, unless its person has had enough.
    fn take(&mut self, placed: Placed) -> Result<()> {
        if placed.step > self.setup.last_step {
            return Ok(()); // published later, from the same data
        }
        if let (Some(persons), Some(id)) = (&mut self.persons, placed.person)
            && !persons.keep(id, placed.step)
        {
            return self.close_through(placed.step - 1);
        }
        self.close_through(placed.step - 1)?;
        self.streams.add(placed.group, placed.value)?;
        self.open[placed.group] += placed.value; // fits: the stream has just checked the larger running sum
        Ok(())
    }

    fn close_through(&mut self, step: u64) -> Result<()> {
        while self.streams.step() < step {
            if self.streams.step().is_multiple_of(1024) && self.cancelled.load(Ordering::Relaxed) {
                return Err(Cancelled.into());
            }
            self.digest.close_step(&self.open)?;
            match &mut self.streams {
                Streams::Total(stream) => {
                    let release = stream.tick()?;
                    self.emitter.step(self.setup, &[release], &self.open)?;
                }
                Streams::Groups(streams) => self.emitter.step(self.setup, streams.tick()?, &self.open)?,
            }
            self.open.fill(0);
        }
        Ok(())
    }
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

impl Streams {
    fn step(&self) -> u64 {
        match self {
            Self::Total(stream) => stream.step(),
            Self::Groups(streams) => streams.step(),
        }
    }

    fn add(&mut self, group: usize, value: i64) -> evertally::Result<()> {
        match self {
            Self::Total(stream) => stream.add(value),
            Self::Groups(streams) => streams.add(group, value),
        }
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
