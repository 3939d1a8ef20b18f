//! A session: events are pushed in, steps are closed, rows are taken out.
//!
//! ```text
//! event ──placer──▶ (step, label, value, person) ──push──▶ sort buffer ──▶ turn ──keep──▶ open step
//!                                                                       │
//!                          close_through(t) ──────────────▶ steps due ──┴─ next_step() ──▶ releases of one closed step
//! ```
//!
//! A front pushes events as they come, one at a time, and whenever steps are due it takes them, one after the other,
//! with [`Session::next_step`]. What comes in need not be at hand all at once, and of what goes out one step is in
//! memory. Steps are due before the step of an event whose turn has come, since nothing earlier can follow it, and
//! those that the front closes by [`Session::close_through`], as it does at the end of the input.
//!
//! What an event is, a [`Placer`] tells from the event alone: threads may each have one ([`Session::placer`]) and hand
//! over what they have read with [`Session::push_placed`]. [`Session::push`] does both. All that depends on other
//! events (order, bounds of persons, sums) is decided here, in the order of the input, by one thread.
//!
//! Nothing that was taken may be shown before [`Session::record`] has put it into the ledger: *commit, then publish*.

mod intake;
mod items;
mod keys;
mod live;
mod measured;
mod persons;
mod placer;
mod resume;
mod sums;

pub use intake::bound_of_persons;
pub use items::{ItemCounts, ItemLabels};
pub use keys::{KeyCounts, KeyLabels};
pub use persons::Persons;
pub use placer::no_value;
pub use placer::{Batch, Labels, Placed, Placer};
pub use resume::{LateEvent, Leaving, Leg};
pub use sums::tuple_of;
pub use sums::{ClosedStep, GroupLabel, GroupLabels, GroupNumbers, RunningSums};

use crate::views::Viewed;
use evertally::noise::SecretKey;
use evertally::privacy::contribution::Pseudonym;
use evertally_declare::error::{Error, Result, usage};
use evertally_declare::event::{Event, Role};
use evertally_declare::groups::GroupTable;
use evertally_declare::parameter::Parameter::{Late as LatePolicy, SortBuffer};
use evertally_declare::policy::Late;
use evertally_declare::problem::sentence;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::{Ledger, StreamDigest};
use intake::{Intake, Waiting};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// What a session counts: running sums of groups, items in a sketch, or keys in a tree.
pub trait Tally {
    /// What labels an event: its group or its item.
    type Label: Send;

    /// How events get their labels.
    type Labels: Labels<Label = Self::Label>;

    /// What closed steps are shown as.
    type Closed<'a>
    where
        Self: 'a;

    /// How events get their labels, for one thread.
    fn labels(&self) -> Self::Labels;

    /// A number that stands for the group of a label, where persons have bounds on groups.
    fn group_of(label: &Self::Label) -> u64;

    /// The last closed step, 0 before the first.
    fn step(&self) -> u64;

    /// Adds what is kept of an event to the open step.
    fn add(&mut self, label: Self::Label, kept: KeptEvent) -> Result<()>;

    /// Closes the open step, and perhaps empty ones behind it, at most through `through`; what they add goes into the
    /// digest first, which refuses data other than those that were published before.
    fn close<'a>(&'a mut self, stream: &'a Stream, through: u64, digest: &mut StreamDigest)
    -> Result<Self::Closed<'a>>;
}

/// What is kept of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptEvent {
    /// Its value, or the part of it that fits its person's bounds, in multiples of the grid.
    pub value: i64,
    /// Whose event it is; the same for all where single events are protected.
    pub person: Pseudonym,
    /// The first step of the period that it belongs to.
    pub since: u64,
}

/// What became of the events of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// All were taken in.
    All,
    /// Those before the first that are left were taken in, and steps are due: take them, then go on.
    StepsDue,
    /// The event with this mark belongs to a step that is due already, and was left out; those before it were taken in.
    /// Show the event to [`Session::late`], then go on.
    Late(u32),
}

/// Events whose persons are looked up at once.
const LOOKED_AHEAD: usize = 32;

/// One run over a stream: events in, closed steps out.
pub struct Session<T: Tally> {
    stream: Arc<Stream>,
    placer: Placer<T::Labels>,
    intake: Intake,
    /// Events that wait for earlier ones: the sort buffer.
    waiting: BinaryHeap<Reverse<Waiting<T::Label>>>,
    /// Events whose turn has come, of steps that are not open yet because steps before them are not taken, by step.
    ahead: BTreeMap<u64, Vec<Placed<T::Label>>>,
    /// Events of steps behind the last, for a session that goes on later; by step, then as they came.
    later: Option<Vec<Placed<T::Label>>>,
    /// Steps through here were closed before this run.
    closed: u64,
    /// Events of those steps, as they came.
    late: Vec<LateEvent>,
    /// Steps through here are final: whatever comes is of a later one.
    due: u64,
    /// Events of later steps are for a later session.
    last_step: u64,
    tally: T,
    digest: StreamDigest,
    /// Whether a step or a sum was refused. What was done until then cannot be undone, so nothing may follow.
    is_over: bool,
}

impl Session<RunningSums> {
    /// A session from the first step of a stream through the last that it publishes; without groups, of the one sum of
    /// all events.
    ///
    /// # Errors
    /// If the ledger has the stream's name under another plan, or a longer release that this one cannot be compared
    /// with.
    pub fn of_sums(stream: Stream, groups: Option<GroupTable>, key: &SecretKey, ledger: &Ledger) -> Result<Self> {
        let last_step = stream.last_step;
        let digest = ledger.digest_of(key, &stream, last_step)?;
        let sums = RunningSums::new(&stream, groups, &digest.guarded(key)?)?;
        Self::new(stream, sums, key, digest, last_step)
    }

    /// What an earlier run has shown last of a group, for [views](crate::views) that look back.
    pub fn recall_view(&mut self, group: Vec<String>, shown: Viewed) {
        self.tally.recall_view(group, shown);
    }
}

impl<T: Tally> Session<T> {
    /// A session from the first step of a stream through `last_step`, under the digest that the ledger of the key began
    /// for it.
    ///
    /// # Errors
    /// If the plan's unit keeps no event.
    pub fn new(stream: Stream, tally: T, key: &SecretKey, digest: StreamDigest, last_step: u64) -> Result<Self> {
        let (intake, stream) = (Intake::new(&stream)?, Arc::new(stream));
        let placer = Placer::new(Arc::clone(&stream), tally.labels(), key);
        Ok(Self {
            stream,
            placer,
            intake,
            waiting: BinaryHeap::new(),
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

    /// A reader of events for another thread; what it places goes into [`push_placed`](Self::push_placed).
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

    /// Takes in one event. Steps before its own may become due; see [`next_step`](Self::next_step).
    ///
    /// Events of a person are kept in the order in which they are pushed, as long as there is room for them; with a
    /// sort buffer in order of their steps, and in that of arrival within one. `O(1)` without a sort buffer of n
    /// events, `O(log n)` with it.
    ///
    /// # Errors
    /// If a cell cannot be read or the event fits no step, group or bounds and the stream refuses such events, or if it
    /// belongs to a step that is due already. The error names the row, and the event leaves no trace. Also if a sum
    /// overflows: that ends the session, and every later call fails.
    pub fn push(&mut self, event: &Event<'_>) -> Result<()> {
        self.check_goes_on()?;
        let Some(placed) = self.placer.place(event)? else { return Ok(()) };
        if placed.step <= self.due {
            return self.late(event);
        }
        self.arrive(placed)
    }

    /// Takes in events that a [`Placer`] of this session has read, in the order of the input, as many as go without
    /// steps being taken in between; those that are left stay in the batch. Until it says [`Pushed::All`], call it
    /// again.
    ///
    /// One event after the other this does what [`push`](Self::push) does.
    ///
    /// # Errors
    /// If a sum overflows: that ends the session, and every later call fails.
    pub fn push_placed(&mut self, batch: &mut Batch<T::Label>) -> Result<Pushed> {
        self.check_goes_on()?;
        loop {
            self.intake.look_ahead(batch.events.iter().take(LOOKED_AHEAD));
            for _ in 0..LOOKED_AHEAD {
                if self.is_due() {
                    return Ok(Pushed::StepsDue);
                }
                let Some(placed) = batch.events.pop_front() else { return Ok(Pushed::All) };
                if placed.step <= self.due {
                    return Ok(Pushed::Late(placed.mark));
                }
                self.arrive(placed)?;
            }
        }
    }

    /// What is to be done with an event of a step that is due already.
    ///
    /// One of a step that was closed before this run is late, and treated as the stream declares: refused, counted in
    /// the first step that this run closes, or [put aside](Self::take_late). Which step that is does not depend on
    /// other events: where they have closed it already, the event is refused like any other that is out of order.
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
                self.late.push(LateEvent::of(event));
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

    /// Late events that were put aside since this was last called. They are **not private**.
    pub fn take_late(&mut self) -> Vec<LateEvent> {
        std::mem::take(&mut self.late)
    }

    /// Takes in an event of a step that is not due.
    #[inline]
    fn arrive(&mut self, placed: Placed<T::Label>) -> Result<()> {
        let first = if self.stream.sort_buffer == 0 {
            // Without a buffer the event's own step makes all before it due, so that the next one out of order is seen.
            placed
        } else {
            self.waiting.push(Reverse(self.intake.arrive(placed)));
            if self.waiting.len() <= self.stream.sort_buffer {
                return Ok(());
            }
            self.waiting.pop().expect("just pushed").0.placed
        };
        let turned = self.turn(first);
        self.or_over(turned)
    }

    /// Says that no event of a step up to `step` will follow: all those steps are due. A step beyond the last of the
    /// session is as good as the last.
    ///
    /// # Errors
    /// If a sum overflows, which ends the session, or the session is over.
    pub fn close_through(&mut self, step: u64) -> Result<()> {
        self.check_goes_on()?;
        let step = step.min(self.last_step);
        while self.waiting.peek().is_some_and(|Reverse(first)| first.placed.step <= step) {
            let Reverse(first) = self.waiting.pop().expect("just seen");
            let turned = self.turn(first.placed);
            self.or_over(turned)?;
        }
        self.due = self.due.max(step);
        Ok(())
    }

    /// Whether a step is due that has not been taken.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.tally.step() < self.due
    }

    /// Closes the next step that is due, and lends what it releases; `None` once all that are due are taken.
    ///
    /// Take all of them before much more is pushed: what is pushed meanwhile waits in memory.
    ///
    /// # Errors
    /// If the events differ from those of an earlier release of the stream, or a sum overflows. Either ends the session: a
    /// refused step is never handed out, however often it is asked for.
    pub fn next_step(&mut self) -> Result<Option<T::Closed<'_>>> {
        self.check_goes_on()?;
        let caught_up = self.catch_up();
        self.or_over(caught_up)?;
        if !self.is_due() {
            return Ok(None);
        }
        let first = self.ahead.first_key_value().map_or(u64::MAX, |(step, _)| *step);
        let through = self.due.min(first - 1); // fits: steps count from 1
        match self.tally.close(&self.stream, through, &mut self.digest) {
            Ok(closed) => Ok(Some(closed)),
            Err(error) => {
                self.is_over = true;
                Err(error)
            }
        }
    }

    /// Records durably what was taken. Call this before anyone can see it.
    ///
    /// # Errors
    /// If the ledger cannot be written, a release that went further cannot be compared with this one, the stream has been
    /// released otherwise since this session began, or the session is over.
    ///
    /// # Panics
    /// If steps are due that were not taken.
    pub fn record(&mut self, ledger: &mut Ledger) -> Result<()> {
        ledger.record(self.digest_of_all()?)
    }

    /// The digest of the steps, for a ledger, once all that are due are taken.
    ///
    /// # Panics
    /// If steps are due that were not taken.
    fn digest_of_all(&mut self) -> Result<&mut StreamDigest> {
        self.check_goes_on()?;
        assert!(!self.is_due(), "steps through {} are due and not taken", self.due);
        Ok(&mut self.digest)
    }

    /// Ends the session where something failed half way.
    fn or_over(&mut self, result: Result<()>) -> Result<()> {
        self.is_over |= result.is_err();
        result
    }

    /// Whether the session is not over.
    fn check_goes_on(&self) -> Result<()> {
        if self.is_over { Err(usage("this run was refused before; begin it again")) } else { Ok(()) }
    }

    /// An event whose turn has come: steps before its own are due, and it is added as soon as its step is open.
    fn turn(&mut self, placed: Placed<T::Label>) -> Result<()> {
        if placed.step > self.last_step {
            // Published later: from the same data, or from what is kept of them.
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

    /// Adds what waited for the step that is open now.
    #[inline]
    fn catch_up(&mut self) -> Result<()> {
        if self.ahead.is_empty() {
            return Ok(());
        }
        let open = self.ahead.remove(&(self.tally.step() + 1)).unwrap_or_default();
        open.into_iter().try_for_each(|placed| self.add(placed))
    }

    /// Adds to the open step what is kept of an event.
    fn add(&mut self, placed: Placed<T::Label>) -> Result<()> {
        match self.intake.keep(&placed, T::group_of(&placed.label), &self.stream.periods) {
            Some(value) => {
                let kept = KeptEvent { value, person: placed.person, since: self.intake.period_since() };
                self.tally.add(placed.label, kept)
            }
            None => Ok(()),
        }
    }

    fn refused_as_late(&self, event: &Event<'_>) -> Error {
        let closed = self.stream.calendar.format(self.stream.calendar.end_of(self.closed));
        if self.closed == self.stream.calendar.steps() {
            let remedy = sentence!["leave them out, or put them into a file with ", (LatePolicy, "side-file")];
            let problem = "belongs to a step that an earlier run has closed, and no step is open any more";
            return event.bad_cell(Role::Time, problem).remedy(remedy).into();
        }
        let remedy = sentence![
            "count such events in the first open step with ",
            (LatePolicy, "next-step"),
            ", or put them into a file for themselves with ",
            (LatePolicy, "side-file")
        ];
        let problem = format!("belongs to a step that an earlier run has closed, with all steps until {closed}");
        event.bad_cell(Role::Time, problem).remedy(remedy).into()
    }

    fn out_of_order(&self, event: &Event<'_>) -> Error {
        let remedy = match self.stream.sort_buffer {
            0 => sentence!["sort the file by time, or let ", (SortBuffer, "N"), " put events in order while reading"],
            n => {
                let of = format!(" of {n} events; raise it, or sort the file");
                sentence!["it is further out of order than the ", SortBuffer, of]
            }
        };
        event.bad_cell(Role::Time, "belongs to a step that a later event has closed").remedy(remedy).into()
    }
}

#[cfg(test)]
mod tests;
