//! Sessions of a service: an event is accepted only while its step is open, and steps are closed one by one, on
//! request.
//!
//! A service stores events of later steps until their step is open, so no events wait in memory here. The session's
//! memory between two starts is its [state](Session::live_state), which can be saved in the middle of a step. Events
//! that are not counted yet are stored [as bytes](Placed::write) that name nobody.

use super::intake;
use super::sums::GroupNumbers;
use super::{Accumulator, ClosedStep, GroupRef, Placed, Placer, RunningSums, Session};
use evertally::noise::SecretKey;
use evertally::privacy::contribution::Pseudonym;
use evertally_declare::error::{PipelineError, Result, failure, usage};
use evertally_declare::groups::GroupTable;
use evertally_declare::parameter::Parameter::{Measure, Publish, Workload};
use evertally_declare::policy::SortLimit;
use evertally_declare::problem::sentence;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::Ledger;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const VERSION: u32 = 2;

/// The saved state of a live session.
#[derive(Serialize, Deserialize)]
struct SavedLive {
    version: u32,
    step: u64,
    chain: [u8; 32],
    /// The number of declared groups; 1 without groups, 0 if groups are discovered.
    groups: u64,
    sums: Vec<u8>,
    /// The open step's additions to declared sums so far; zeros if persons are bounded.
    open: Vec<i64>,
    persons: Option<Vec<u8>>,
    /// The open step's events that may be kept, as [bytes](Placed::write), if persons are bounded.
    events: Vec<u8>,
}

impl Session<RunningSums> {
    /// A session that starts at the first step of a stream and closes steps [on request](Self::close_open).
    ///
    /// # Errors
    /// If the ledger has the stream's name under another plan, or if several measures are released and only some steps
    /// are published: the data that they keep inside a publication cannot be saved.
    pub fn live(stream: Stream, groups: Option<GroupTable>, key: &SecretKey, ledger: &Ledger) -> Result<Self> {
        let stream = into_live(stream)?;
        let digest = ledger.digest_of(key, &stream, stream.last_step)?;
        let (sums, last_step) = (RunningSums::new(&stream, groups, &digest.guarded(key)?)?, stream.last_step);
        Self::new(stream, sums, key, digest, last_step)
    }

    /// Restores a session from [`live_state`](Self::live_state), for the same stream, with the same groups or more.
    ///
    /// The state is trusted to name the steps that were closed: the caller must protect it.
    ///
    /// # Errors
    /// If the state is damaged, or belongs to another stream.
    pub fn restore_live(
        stream: Stream,
        groups: Option<GroupTable>,
        key: &SecretKey,
        ledger: &Ledger,
        state: &[u8],
    ) -> Result<Self> {
        let saved: SavedLive = postcard::from_bytes(state).map_err(|_| damaged())?;
        if saved.version != VERSION {
            return Err(usage("the saved state of the stream was written by another version of this program"));
        }
        let stream = into_live(stream)?;
        let mut digest = ledger.digest_of(key, &stream, stream.last_step)?;
        digest.resume_after(saved.step, saved.chain);
        let count = usize::try_from(saved.groups).map_err(|_| damaged())?;
        let present = match &groups {
            Some(table) if count <= table.tuples().len() => Some(table.first(count)),
            Some(_) => return Err(damaged()),
            None => None,
        };
        let mut sums = RunningSums::restore(&stream, present, &digest.guarded(key)?, (saved.step, &saved.sums))?;
        sums.restore_open(saved.open).ok_or_else(damaged)?;
        let last_step = stream.last_step;
        let mut session = Self::new(stream, sums, key, digest, last_step)?;
        session.due = saved.step;
        let stream = Arc::clone(&session.stream);
        intake::restore_persons(&mut session.open, &stream, saved.step + 1, saved.persons.as_deref())?;
        session.restore_events(saved.step + 1, &saved.events).ok_or_else(damaged)?;
        if groups.as_ref().is_some_and(|table| table.tuples().len() > count) {
            session.join(key, groups)?;
        }
        Ok(session)
    }

    /// Restores the events of the open step.
    #[must_use]
    fn restore_events(&mut self, step: u64, mut events: &[u8]) -> Option<()> {
        let Some(open) = &mut self.open else { return events.is_empty().then_some(()) };
        let numbers = self.stream.plan.threshold().is_some().then(|| self.tally.numbers());
        let groups = self.tally.group_count();
        while !events.is_empty() {
            let placed = Placed::read(step, true, numbers.as_ref(), &mut events)?;
            if matches!(placed.label, GroupRef::Place(place) if place >= groups) {
                return None;
            }
            open.push(placed, &self.stream);
        }
        Some(())
    }

    /// The state that [`restore_live`](Self::restore_live) needs; `None` in the middle of a step in which single events
    /// have been added to several measures, which can be saved only between two steps.
    ///
    /// # Errors
    /// If the session is over.
    pub fn live_state(&mut self) -> Result<Option<Vec<u8>>> {
        self.check_not_ended()?;
        let Some(open) = self.tally.open() else { return Ok(None) };
        let (next, periods, mut events) = (self.step() + 1, &self.stream.periods, Vec::new());
        let persons = self.open.as_mut().map(|open| {
            if !open.is_empty() {
                let step = (next, periods.of(next).start);
                open.for_each(step, |label, value, who| write_event(label, value, Some(who), &mut events));
            }
            open.save_persons(next, periods)
        });
        let saved = SavedLive {
            version: VERSION,
            step: self.step(),
            chain: self.digest.chain(),
            groups: self.tally.group_count() as u64,
            sums: self.tally.save(),
            open,
            persons,
            events,
        };
        postcard::to_allocvec(&saved).map(Some).map_err(failure)
    }

    /// The open step; one after the horizon once all are closed.
    pub fn open_step(&self) -> u64 {
        self.step() + 1
    }

    /// Adds an event of the open step.
    ///
    /// # Errors
    /// If a sum overflows: that ends the session, and every later call fails.
    ///
    /// # Panics
    /// If the event is of another step.
    pub fn take(&mut self, placed: Placed<GroupRef>) -> Result<()> {
        self.check_not_ended()?;
        assert_eq!(placed.step, self.open_step(), "an event is accepted only while its step is open");
        let taken = self.turn(placed);
        self.end_on_error(taken)
    }

    /// Adds to the open step a group's sum of events that were counted and bounded elsewhere.
    ///
    /// # Errors
    /// If a sum overflows: that ends the session, and every later call fails.
    ///
    /// # Panics
    /// If the sum is of another step.
    pub fn take_sum(&mut self, sum: &Placed<GroupRef>) -> Result<()> {
        self.check_not_ended()?;
        assert_eq!(sum.step, self.open_step(), "a sum is accepted only while its step is open");
        let taken = self.tally.add_sum(&sum.label, sum.value);
        self.end_on_error(taken)
    }

    /// Removes all events of a person from the open step, as though they had never been taken: nothing of an open step
    /// has entered a sum, and the other persons' events do not depend on them. The contributions to closed steps stay
    /// spent. Returns the pseudonym, to [find](Placed::person) events that were not taken yet; `None` if single events
    /// are protected.
    ///
    /// `identity` is [canonical](evertally_declare::identity).
    pub fn erase(&mut self, identity: &str) -> Option<Pseudonym> {
        let person = self.placer.pseudonym_of(identity)?;
        self.open.as_mut()?.erase(person);
        Some(person)
    }

    /// Closes the open step, and returns its releases.
    ///
    /// # Errors
    /// If a sum overflows, or all steps are closed. The first ends the session.
    pub fn close_open(&mut self) -> Result<ClosedStep<'_>> {
        let step = self.open_step();
        if step > self.last_step {
            return Err(usage(format!("all {} steps of stream `{}` are closed", self.last_step, self.stream.name)));
        }
        self.close_through(step)?;
        Ok(self.next_step()?.expect("the step is due"))
    }

    /// The digest of all closed steps under the key.
    pub fn chain(&self) -> [u8; 32] {
        self.digest.chain()
    }

    /// Records in the key's ledger that the stream has begun, before any step is closed.
    ///
    /// # Errors
    /// If the ledger cannot be written, the budget of its source is too small, or the name has another plan.
    pub fn record_begun(&mut self, ledger: &mut Ledger) -> Result<()> {
        ledger.record(self.complete_digest()?)
    }

    /// Adds groups after the present ones, between two steps or before the first event of a step.
    ///
    /// # Errors
    /// If the present groups are not the first of the new ones.
    pub fn join(&mut self, key: &SecretKey, groups: Option<GroupTable>) -> Result<()> {
        let stream = Arc::clone(&self.stream);
        self.tally.join(key, &stream, groups)?;
        self.placer = Placer::new(stream, self.tally.labels(), key).with_times_of(&self.placer);
        Ok(())
    }

    /// The numbering of discovered groups, to [read](Placed::read) their events.
    pub fn numbers(&self) -> GroupNumbers {
        self.tally.numbers()
    }
}

/// The stream as a live session uses it: through the end of its horizon, and with events in the order in which they are
/// pushed.
fn into_live(mut stream: Stream) -> Result<Stream> {
    if stream.measures.is_some() && !stream.publishes_all() {
        let several = stream.measures.as_ref().is_some_and(|bundle| bundle.contains_workloads());
        let parameter = if several { Workload } else { Measure };
        let why = ": parts of an unfinished publication are not saved; publish every step";
        return Err(usage(sentence![parameter, " and ", Publish, " cannot be combined in a service", why]));
    }
    stream.sort_buffer = SortLimit::Events(0);
    Ok(stream.through_horizon())
}

fn damaged() -> PipelineError {
    usage("the saved state of the stream is damaged; restore the folder from a backup")
}

impl Placed<GroupRef> {
    /// A step's addition to a group, as counted elsewhere.
    pub fn from_sum(step: u64, label: GroupRef, sum: i64) -> Self {
        Self { step, time: 0, value: sum, person: Pseudonym::default(), label, mark: 0 }
    }

    /// Group and value.
    pub fn into_sum(self) -> (GroupRef, i64) {
        (self.label, self.value)
    }

    /// Appends everything but the step: group, value, and time and pseudonym if persons are protected. About 3 bytes,
    /// or 27.
    ///
    /// A declared group is written as its place, any other as the length of its name and the name, both
    /// numbers as LEB128; the value in zigzag; the time in 8 bytes, little endian.
    pub fn write(&self, with_person: bool, bytes: &mut Vec<u8>) {
        write_event(&self.label, self.value, with_person.then_some((self.time, self.person)), bytes);
    }

    /// Reads one event of a step from the front of the bytes of [`write`](Self::write), for a stream whose groups are
    /// declared, or discovered with this numbering. `None` for bytes that it has not written.
    pub fn read(step: u64, with_person: bool, discovered: Option<&GroupNumbers>, bytes: &mut &[u8]) -> Option<Self> {
        let number = pull(bytes)?;
        let label = match discovered {
            None => GroupRef::Place(usize::try_from(number).ok()?),
            Some(numbers) => {
                let (name, rest) = bytes.split_at_checked(usize::try_from(number).ok()?)?;
                *bytes = rest;
                numbers.label(name)
            }
        };
        let code = pull(bytes)?;
        let value = (code >> 1) as i64 ^ -((code & 1) as i64);
        let (mut time, mut person) = (0, Pseudonym::default());
        if with_person {
            let (micros, rest) = bytes.split_first_chunk()?;
            let (name, rest) = rest.split_first_chunk()?;
            *bytes = rest;
            (time, person) = (i64::from_le_bytes(*micros), Pseudonym::from_bytes(*name));
        }
        Some(Self { step, time, value, person, label, mark: 0 })
    }
}

/// The bytes of [`Placed::write`].
fn write_event(label: &GroupRef, value: i64, who: Option<(i64, Pseudonym)>, bytes: &mut Vec<u8>) {
    match label {
        GroupRef::Place(place) => push(bytes, *place as u64),
        GroupRef::Name(name, _) => {
            push(bytes, name.len() as u64);
            bytes.extend_from_slice(name);
        }
    }
    push(bytes, ((value << 1) ^ (value >> 63)) as u64);
    if let Some((time, person)) = who {
        bytes.extend_from_slice(&time.to_le_bytes());
        bytes.extend_from_slice(&person.to_bytes());
    }
}

fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn pull(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests;
