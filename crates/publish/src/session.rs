//! A session: pushes events, closes steps, returns rows.
//!
//! ```text
//! event ──placer──▶ (step, time, label, value, person) ──push──▶ sort buffer ──▶ turn ──▶ open step
//!                                                                             │            │ bounds of persons
//!                          close_through(t) ────────────────────▶ steps due ──┴─ next_step() ──▶ releases of one step
//! ```
//!
//! A front end pushes events one at a time, as they arrive, and takes due steps one by one with [`Session::next_step`].
//! The input need not be available all at once, and only one step of output is in memory. When an event's turn comes,
//! all steps before its own become due, because nothing earlier can follow; [`Session::close_through`] also makes steps
//! due, for example at the end of the input.
//!
//! A [`Placer`] reads an event without regard to other events: each thread may have one ([`Session::placer`]) and pass
//! its events to [`Session::push_placed`]. [`Session::push`] does both. Everything that depends on other events (order,
//! bounds of persons, sums) is decided here, by one thread.
//!
//! The order of events within a step changes nothing. Single events are added up at once. Where persons are bounded, a
//! step gathers its events until it closes, and then keeps each person's first ones by time and a keyed hash: see
//! `open_step`.
//!
//! No row may be shown before [`Session::record`] has recorded it in the ledger: *commit, then publish*.

#![cfg_attr(not(test), deny(clippy::cast_precision_loss, clippy::float_arithmetic))] // none between data and noise

mod event_check;
mod intake;
mod items;
mod keys;
mod live;
mod measured;
mod open_step;
mod persons;
mod placer;
mod places_by_person;
mod resume;
mod sorting;
mod step_finder;
mod sums;

pub use event_check::{CheckedEvent, EventCheck, EventRefusal, EventRefusalReason};
pub use intake::bound_of_persons;
pub use items::{ItemCounts, ItemLabels};
pub use keys::{KeyCounts, KeyLabels};
pub use open_step::{Accumulator, KeptEvent};
pub use persons::Persons;
pub use placer::no_value;
pub use placer::{Batch, LabelAssigner, Placed, Placer};
pub use resume::{LateEvent, Leg, RunRecord};
pub use sums::tuple_of;
pub use sums::{ClosedStep, GroupAssigner, GroupNumbers, GroupRef, RunningSums};

use crate::views::ViewValue;
use evertally::noise::SecretKey;
use evertally_declare::error::{PipelineError, Result, usage};
use evertally_declare::event::{ColumnRole, Event, WholeRow};
use evertally_declare::groups::GroupTable;
use evertally_declare::parameter::Parameter::{Late as LatePolicy, SortBuffer};
use evertally_declare::policy::{Late, SortLimit};
use evertally_declare::problem::sentence;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::{Ledger, StreamDigest};
use intake::PendingEvent;
use open_step::OpenStep;
use sorting::ExternalSort;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// The outcome of pushing a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushResult {
    /// All events were accepted.
    All,
    /// The events before the remaining ones were accepted, and steps are due: take the steps, then continue.
    StepsDue,
    /// The event with this mark belongs to a step that is already due, and was skipped; those before it were accepted.
    /// Pass the event to [`Session::late`], then continue.
    Late(u32),
}

/// One run over a stream: events in, closed steps out.
pub struct Session<T: Accumulator> {
    stream: Arc<Stream>,
    placer: Placer<T::Labels>,
    /// The events of the open step if persons are bounded; `None` if events are added to the sums at once.
    open: Option<OpenStep<T>>,
    /// The sort buffer: events that wait for earlier ones.
    waiting: BinaryHeap<Reverse<PendingEvent<T::Label>>>,
    /// All events that wait for their step, if all are sorted.
    sorted: Option<ExternalSort<T>>,
    /// Events whose turn has come, by step, for steps that cannot open yet because earlier steps have not been taken.
    ahead: BTreeMap<u64, Vec<Placed<T::Label>>>,
    /// Events of steps after the last, for a session that is continued later; by step.
    later: Option<Vec<Placed<T::Label>>>,
    /// The last step closed before this run.
    closed: u64,
    /// Events of those steps, in order of arrival.
    late: Vec<WholeRow>,
    /// The last final step: all further events belong to later ones.
    due: u64,
    /// Events of later steps are for a later session.
    last_step: u64,
    tally: T,
    digest: StreamDigest,
    /// Whether a step or a sum was refused. The work so far cannot be undone, so nothing may follow.
    is_over: bool,
}

impl Session<RunningSums> {
    /// A session from the first step of a stream through the last that it publishes; without groups, for the one sum of
    /// all events.
    ///
    /// # Errors
    /// If the ledger has the stream's name under another plan, or a longer release that this one cannot be compared
    /// with.
    pub fn new_sums(stream: Stream, groups: Option<GroupTable>, key: &SecretKey, ledger: &Ledger) -> Result<Self> {
        let last_step = stream.last_step;
        let digest = ledger.digest_of(key, &stream, last_step)?;
        let sums = RunningSums::new(&stream, groups, &digest.guarded(key)?)?;
        Self::new(stream, sums, key, digest, last_step)
    }

    /// Restores the last view of a group that an earlier run has shown, for [views](crate::views) that depend on it.
    pub fn restore_view(&mut self, group: Vec<String>, shown: ViewValue) {
        self.tally.restore_view(group, shown);
    }
}

impl<T: Accumulator> Session<T> {
    /// A session from the first step of a stream through `last_step`, with the digest that the key's ledger began for
    /// it.
    ///
    /// # Errors
    /// If the plan's unit keeps no events.
    pub fn new(stream: Stream, tally: T, key: &SecretKey, digest: StreamDigest, last_step: u64) -> Result<Self> {
        let (open, stream) = (intake::open_step(&stream, key)?, Arc::new(stream));
        let placer = Placer::new(Arc::clone(&stream), tally.labels(), key);
        Ok(Self {
            stream,
            placer,
            open,
            waiting: BinaryHeap::new(),
            sorted: None,
            ahead: BTreeMap::new(),
            later: None,
            closed: 0,
            late: Vec::new(),
            due: 0,
            last_step,
            tally,
            digest,
            is_over: false,
        })
    }

    /// A reader of events for another thread; pass its events to [`push_placed`](Self::push_placed).
    pub fn placer(&self) -> Placer<T::Labels> {
        self.placer.clone()
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The last step that this session closes.
    pub fn last_step(&self) -> u64 {
        self.last_step
    }

    /// The last step that was closed and taken; 0 before the first.
    pub fn step(&self) -> u64 {
        self.tally.step()
    }

    /// Pushes one event. Steps before its own may become due; see [`next_step`](Self::next_step).
    ///
    /// The order in which the events of a step are pushed changes nothing: of a person's events in it, the first by
    /// time are kept, up to the person's bounds. `O(1)` without a sort buffer, `O(log n)` with one of n events; with
    /// persons, closing a step sorts its events.
    ///
    /// # Errors
    /// If a cell cannot be read, if the event fits no step, group or bounds and the stream refuses such events, or if
    /// it belongs to a step that is already due. The error names the row, and the event leaves no trace. Also if a sum
    /// overflows: that ends the session, and every later call fails.
    pub fn push(&mut self, event: &Event<'_>) -> Result<()> {
        self.check_not_ended()?;
        let Some(placed) = self.placer.place(event)? else { return Ok(()) };
        if placed.step <= self.due {
            return self.late(event);
        }
        self.arrive(placed)
    }

    /// Pushes events that a [`Placer`] of this session has read, in the order of the input, until steps must be taken;
    /// the remaining events stay in the batch. Call it again until it returns [`PushResult::All`].
    ///
    /// The result is the same as pushing the events one by one with [`push`](Self::push).
    ///
    /// # Errors
    /// If a sum overflows: that ends the session, and every later call fails.
    pub fn push_placed(&mut self, batch: &mut Batch<T::Label>) -> Result<PushResult> {
        self.check_not_ended()?;
        loop {
            if self.is_due() {
                return Ok(PushResult::StepsDue);
            }
            self.push_open(batch)?;
            let Some(placed) = batch.events.pop_front() else { return Ok(PushResult::All) };
            if placed.step <= self.due {
                return Ok(PushResult::Late(placed.mark));
            }
            self.arrive(placed)?;
        }
    }

    /// Pushes the events at the front of a batch that belong to the open step, if nothing waits for them: the usual
    /// case, without the decisions that each event takes elsewhere. No step is due.
    fn push_open(&mut self, batch: &mut Batch<T::Label>) -> Result<()> {
        let open = self.tally.step() + 1;
        if self.stream.sort_buffer != SortLimit::Events(0) || !self.ahead.is_empty() || open > self.last_step {
            return Ok(());
        }
        let count = batch.events.iter().take_while(|placed| placed.step == open).count();
        let added = batch.events.drain(..count).try_for_each(|placed| self.add(placed));
        self.end_on_error(added)
    }

    /// Handles an event of a step that is already due.
    ///
    /// An event of a step that was closed before this run is late. It is treated as the stream declares: refused,
    /// counted in the first step that this run closes, or [set aside](Self::drain_late). That step does not depend on
    /// other events: if they have already closed it, the event is refused like any other that is out of order.
    ///
    /// # Errors
    /// If the event is refused: the error names the row, and the event leaves no trace.
    pub fn late(&mut self, event: &Event<'_>) -> Result<()> {
        let Some(placed) = self.placer.place(event)? else { return Ok(()) };
        if placed.step > self.closed {
            return Err(self.out_of_order(event));
        }
        match self.stream.late {
            Late::Refuse => Err(self.refused_as_late(event)),
            Late::SideFile => {
                self.late.push(event.whole());
                Ok(())
            }
            Late::NextStep => {
                let step = self.closed + 1;
                if step > self.stream.calendar.steps() {
                    return Err(self.refused_as_late(event));
                }
                if step <= self.due {
                    return Err(self.out_of_order(event));
                }
                self.arrive(Placed { step, ..placed })
            }
        }
    }

    /// Takes the late events that were set aside since the last call. They are **not private**.
    pub fn drain_late(&mut self) -> Vec<WholeRow> {
        std::mem::take(&mut self.late)
    }

    /// Whether rows were read, and the stream's filter left out all of them. **Not private.**
    pub fn is_all_left_out(&self) -> bool {
        self.placer.is_all_left_out()
    }

    /// Records that a row of the input could not be read and was set aside. A session that can read none of the rows
    /// cannot be [recorded](Self::record).
    pub fn note_unreadable(&self) {
        self.placer.note_unreadable();
    }

    /// Adds an event of a step that is not due.
    #[inline]
    fn arrive(&mut self, placed: Placed<T::Label>) -> Result<()> {
        let first = match self.stream.sort_buffer {
            // Without a buffer, the event's own step makes all earlier ones due, so the next event out of order is
            // detected.
            SortLimit::Events(0) => placed,
            SortLimit::Events(most) => {
                self.waiting.push(Reverse(PendingEvent(placed)));
                if self.waiting.len() <= most {
                    return Ok(());
                }
                self.waiting.pop().expect("just pushed").0.0
            }
            SortLimit::All => {
                let pushed = self.arrive_unsorted(placed);
                return self.end_on_error(pushed);
            }
        };
        let turned = self.turn(first);
        self.end_on_error(turned)
    }

    /// Adds an event to those that wait for their step, which [`close_through`](Self::close_through) makes due.
    fn arrive_unsorted(&mut self, placed: Placed<T::Label>) -> Result<()> {
        if placed.step > self.last_step && self.later.is_none() {
            return Ok(());
        }
        self.sorted.get_or_insert_with(ExternalSort::new).push(placed)
    }

    /// Declares that no more events of steps up to `step` will follow: all those steps become due. A step beyond the
    /// session's last one counts as the last.
    ///
    /// # Errors
    /// If a sum overflows, which ends the session, or the session is over.
    pub fn close_through(&mut self, step: u64) -> Result<()> {
        self.check_not_ended()?;
        let step = step.min(self.last_step);
        while self.waiting.peek().is_some_and(|Reverse(first)| first.0.step <= step) {
            let Reverse(PendingEvent(first)) = self.waiting.pop().expect("just seen");
            let turned = self.turn(first);
            self.end_on_error(turned)?;
        }
        self.due = self.due.max(step);
        Ok(())
    }

    /// Whether a due step has not been taken yet.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.tally.step() < self.due
    }

    /// Closes the next due step, and returns its releases; `None` once all due steps are taken.
    ///
    /// Take all due steps before pushing many more events: those events wait in memory.
    ///
    /// # Errors
    /// If the events differ from those of an earlier release of the stream, or a sum overflows. Either ends the
    /// session: a refused step is never returned, even if it is requested again.
    pub fn next_step(&mut self) -> Result<Option<T::Closed<'_>>> {
        self.check_not_ended()?;
        let caught_up = self.catch_up();
        self.end_on_error(caught_up)?;
        if !self.is_due() {
            return Ok(None);
        }
        let counted = self.count_open();
        self.end_on_error(counted)?;
        let sorted = self.sorted.as_mut().and_then(ExternalSort::first_step);
        let first = self.ahead.first_key_value().map(|(step, _)| *step);
        let first = first.into_iter().chain(sorted).min().unwrap_or(u64::MAX);
        let through = self.due.min(first - 1); // fits: steps count from 1
        match self.tally.close(&self.stream, through, &mut self.digest) {
            Ok(closed) => Ok(Some(closed)),
            Err(error) => {
                self.is_over = true;
                Err(error)
            }
        }
    }

    /// Records the taken steps durably. Call this before anyone can see them.
    ///
    /// # Errors
    /// If events were read and none is inside the horizon, unless any may be
    /// [skipped](evertally_declare::policy::Outside::SkipAny). If the ledger cannot be written, a longer release cannot
    /// be compared with this one, the stream has been released differently since this session began, or the session is
    /// over.
    ///
    /// # Panics
    /// If due steps have not been taken.
    pub fn record(&mut self, ledger: &mut Ledger) -> Result<()> {
        self.placer.check_times()?;
        ledger.record(self.complete_digest()?)
    }

    /// The digest of the steps, for a ledger, once all due steps are taken.
    ///
    /// # Panics
    /// If due steps have not been taken.
    fn complete_digest(&mut self) -> Result<&mut StreamDigest> {
        self.check_not_ended()?;
        assert!(!self.is_due(), "steps through {} are due but were not taken", self.due);
        Ok(&mut self.digest)
    }

    /// Ends the session if something failed half-way.
    fn end_on_error(&mut self, result: Result<()>) -> Result<()> {
        self.is_over |= result.is_err();
        result
    }

    /// Whether the session is not over.
    fn check_not_ended(&self) -> Result<()> {
        if self.is_over { Err(usage("this run was refused earlier; start it again")) } else { Ok(()) }
    }

    /// Handles an event whose turn has come: steps before its own become due, and it is added once its step is open.
    fn turn(&mut self, placed: Placed<T::Label>) -> Result<()> {
        if placed.step > self.last_step {
            // It is published later: from the same data, or from the kept events.
            if let Some(later) = &mut self.later {
                later.push(placed);
            }
            return Ok(());
        }
        self.due = self.due.max(placed.step - 1);
        self.catch_up()?;
        if self.tally.step() + 1 == placed.step {
            self.add(placed)
        } else {
            self.ahead.entry(placed.step).or_default().push(placed);
            Ok(())
        }
    }

    /// Adds the events that waited for the step that is now open.
    #[inline]
    fn catch_up(&mut self) -> Result<()> {
        let open = self.tally.step() + 1;
        if !self.ahead.is_empty() {
            let of_step = self.ahead.remove(&open).unwrap_or_default();
            of_step.into_iter().try_for_each(|placed| self.add(placed))?;
        }
        if open > self.due {
            return Ok(());
        }
        while let Some(sorted) = &mut self.sorted
            && let Some(placed) = sorted.pop(open, &self.tally)?
        {
            self.add(placed)?;
        }
        Ok(())
    }

    /// Adds an event to the open step: at once if single events are protected.
    #[inline]
    fn add(&mut self, placed: Placed<T::Label>) -> Result<()> {
        match &mut self.open {
            None => {
                let Placed { value, person, label, .. } = placed;
                self.tally.add(&label, KeptEvent { value, person, since: 1 })
            }
            Some(open) => {
                open.push(placed, &self.stream);
                Ok(())
            }
        }
    }

    /// Adds the kept events of the open step, which is about to close.
    fn count_open(&mut self) -> Result<()> {
        let Self { open, tally, stream, .. } = self;
        let Some(open) = open.as_mut().filter(|open| !open.is_empty()) else { return Ok(()) };
        let step = tally.step() + 1;
        tally.add_kept(open, step, stream.periods.of(step).start)
    }

    fn refused_as_late(&self, event: &Event<'_>) -> PipelineError {
        let closed = self.stream.calendar.format(self.stream.calendar.end_of(self.closed));
        if self.closed == self.stream.calendar.steps() {
            let remedy = sentence!["leave out such events, or write them to a file with ", (LatePolicy, "side-file")];
            let problem = "belongs to a step that an earlier run has closed, and no step is open any longer";
            return event.bad_cell(ColumnRole::Time, problem).remedy(remedy).into();
        }
        let remedy = sentence![
            "count such events in the first open step with ",
            (LatePolicy, "next-step"),
            ", or write them to a separate file with ",
            (LatePolicy, "side-file")
        ];
        let problem = format!("belongs to a step that an earlier run has closed, along with all steps until {closed}");
        event.bad_cell(ColumnRole::Time, problem).remedy(remedy).into()
    }

    fn out_of_order(&self, event: &Event<'_>) -> PipelineError {
        let remedy = match self.stream.sort_buffer {
            SortLimit::Events(0) => {
                sentence!["sort the file by time, or let ", (SortBuffer, "all"), " sort its events while reading"]
            }
            SortLimit::Events(n) => {
                let of = format!(" of {n} events; raise it, or sort all events with ");
                sentence!["it is further out of order than the ", SortBuffer, of, (SortBuffer, "all")]
            }
            SortLimit::All => sentence!["read it before the step is closed"],
        };
        event.bad_cell(ColumnRole::Time, "belongs to a step that a later event has closed").remedy(remedy).into()
    }
}

#[cfg(test)]
mod tests;
