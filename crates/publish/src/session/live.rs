//! Sessions of a service: an event is taken in only while its step is open, and steps are closed one after the other
//! when they are told to be.
//!
//! A service keeps events of later steps in its store until their step is open, so that nothing waits in memory here.
//! What it must remember between two starts is the [state](Session::live_state), which may be taken in the middle of a
//! step; and events that it has not counted yet are kept [as bytes](Placed::write) that name nobody.

use super::sums::GroupNumbers;
use super::{ClosedStep, GroupLabel, Placed, Placer, RunningSums, Session, Tally};
use evertally::noise::SecretKey;
use evertally::privacy::contribution::Pseudonym;
use evertally_declare::error::{Error, Result, failure, usage};
use evertally_declare::groups::GroupTable;
use evertally_declare::parameter::Parameter::{Measure, Publish, Workload};
use evertally_declare::problem::sentence;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::Ledger;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const VERSION: u32 = 1;

/// Bytes of a pseudonym.
const NAME: usize = 16;

/// What a live session remembers.
#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    step: u64,
    chain: [u8; 32],
    /// How many groups are declared; 1 without groups, 0 where they are discovered.
    groups: u64,
    sums: Vec<u8>,
    /// What the open step adds to declared sums so far.
    open: Vec<i64>,
    persons: Option<Vec<u8>>,
}

impl Session<RunningSums> {
    /// A session from the first step of a stream on, which closes steps [when it is told](Self::close_open).
    ///
    /// # Errors
    /// If the ledger has the stream's name under another plan, or several figures of each publication are asked for of
    /// which only some steps are published: what they keep inside a publication has no form in which it can be put by.
    pub fn live(stream: Stream, groups: Option<GroupTable>, key: &SecretKey, ledger: &Ledger) -> Result<Self> {
        let stream = as_live(stream)?;
        let digest = ledger.digest_of(key, &stream, stream.last_step)?;
        let (sums, last_step) = (RunningSums::new(&stream, groups, &digest.guarded(key)?)?, stream.last_step);
        Self::new(stream, sums, key, digest, last_step)
    }

    /// The session that [`live_state`](Self::live_state) put by, for the same stream, with the groups that it had or more.
    ///
    /// What the state says was closed is believed: whoever keeps it vouches for it.
    ///
    /// # Errors
    /// If the state is damaged, or of another stream.
    pub fn live_again(
        stream: Stream,
        groups: Option<GroupTable>,
        key: &SecretKey,
        ledger: &Ledger,
        state: &[u8],
    ) -> Result<Self> {
        let saved: Saved = postcard::from_bytes(state).map_err(|_| damaged())?;
        if saved.version != VERSION {
            return Err(usage("the state of the stream is of another version of this program"));
        }
        let stream = as_live(stream)?;
        let mut digest = ledger.digest_of(key, &stream, stream.last_step)?;
        digest.go_on_behind(saved.step, saved.chain);
        let count = usize::try_from(saved.groups).map_err(|_| damaged())?;
        let present = match &groups {
            Some(table) if count <= table.tuples().len() => Some(table.first(count)),
            Some(_) => return Err(damaged()),
            None => None,
        };
        let mut sums = RunningSums::restore(&stream, present, &digest.guarded(key)?, (saved.step, &saved.sums))?;
        sums.put_open(saved.open).ok_or_else(damaged)?;
        let last_step = stream.last_step;
        let mut session = Self::new(stream, sums, key, digest, last_step)?;
        session.due = saved.step;
        let stream = Arc::clone(&session.stream);
        session.intake.restore(&stream, saved.step + 1, saved.persons.as_deref())?;
        if groups.as_ref().is_some_and(|table| table.tuples().len() > count) {
            session.join(key, groups)?;
        }
        Ok(session)
    }

    /// All that [`live_again`](Self::live_again) needs; `None` in the middle of a step of several figures, whose
    /// memories of people are put by between two steps alone.
    ///
    /// # Errors
    /// If the session is over.
    pub fn live_state(&self) -> Result<Option<Vec<u8>>> {
        self.check_goes_on()?;
        let Some(open) = self.tally.open() else { return Ok(None) };
        let saved = Saved {
            version: VERSION,
            step: self.step(),
            chain: self.digest.chain(),
            groups: self.tally.group_count() as u64,
            sums: self.tally.save(),
            open,
            persons: self.intake.save(self.step() + 1, &self.stream.periods),
        };
        postcard::to_allocvec(&saved).map(Some).map_err(failure)
    }

    /// The step that is open; one behind the horizon once all are closed.
    pub fn open_step(&self) -> u64 {
        self.step() + 1
    }

    /// Takes in an event of the open step.
    ///
    /// # Errors
    /// If a sum overflows: that ends the session, and every later call fails.
    ///
    /// # Panics
    /// If the event is of another step.
    pub fn take(&mut self, placed: Placed<GroupLabel>) -> Result<()> {
        self.check_goes_on()?;
        assert_eq!(placed.step, self.open_step(), "an event is taken in while its step is open");
        let taken = self.turn(placed);
        self.or_over(taken)
    }

    /// Adds to the open step what its events, which were counted and bounded elsewhere, add to a group.
    ///
    /// # Errors
    /// If a sum overflows: that ends the session, and every later call fails.
    ///
    /// # Panics
    /// If the sum is of another step.
    pub fn take_sum(&mut self, sum: &Placed<GroupLabel>) -> Result<()> {
        self.check_goes_on()?;
        assert_eq!(sum.step, self.open_step(), "a sum is taken in while its step is open");
        let taken = self.tally.add_sum(&sum.label, sum.value);
        self.or_over(taken)
    }

    /// Closes the open step, and lends what it releases.
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

    /// Records with the key's ledger that the stream has begun, before anything of it is closed.
    ///
    /// # Errors
    /// If the ledger cannot be written, the budget of its source has no room, or the name has another plan.
    pub fn record_begun(&mut self, ledger: &mut Ledger) -> Result<()> {
        ledger.record(self.digest_of_all()?)
    }

    /// Lets groups join behind the present ones, between two steps or before the first event of one.
    ///
    /// # Errors
    /// If the present ones are not the first of them.
    pub fn join(&mut self, key: &SecretKey, groups: Option<GroupTable>) -> Result<()> {
        let stream = Arc::clone(&self.stream);
        self.tally.join(key, &stream, groups)?;
        self.placer = Placer::new(stream, self.tally.labels(), key);
        Ok(())
    }

    /// How groups that nobody declared are numbered, to [read](Placed::read) events of theirs.
    pub fn numbers(&self) -> GroupNumbers {
        self.tally.numbers()
    }
}

/// The stream as a live session sees it: through the end of its horizon, and in the order in which it is given events.
fn as_live(mut stream: Stream) -> Result<Stream> {
    if stream.measures.is_some() && !stream.publishes_all() {
        let several = stream.measures.as_ref().is_some_and(|bundle| bundle.is_of_workloads());
        let said = if several { Workload } else { Measure };
        let why = ": the parts of a publication that has not ended are not kept; publish every step";
        return Err(usage(sentence![said, " and ", Publish, " do not go together in a service", why]));
    }
    stream.sort_buffer = 0;
    Ok(stream.through_horizon())
}

fn damaged() -> Error {
    usage("the state of the stream is damaged; restore the folder from a backup")
}

impl Placed<GroupLabel> {
    /// What a step adds to a group, as it was counted elsewhere.
    pub fn of_sum(step: u64, label: GroupLabel, sum: i64) -> Self {
        Self { step, value: sum, person: Pseudonym::default(), label, mark: 0 }
    }

    /// Group and value.
    pub fn into_sum(self) -> (GroupLabel, i64) {
        (self.label, self.value)
    }

    /// Appends all but the step: group, value, and where persons are protected the pseudonym. Some 3 bytes, or 19.
    ///
    /// A declared group goes in as its place, any other as the length of its name plus one and the name, both numbers as
    /// LEB128; the value in zigzag.
    pub fn write(&self, with_person: bool, bytes: &mut Vec<u8>) {
        match &self.label {
            GroupLabel::Place(place) => push(bytes, *place as u64),
            GroupLabel::Name(name, _) => {
                push(bytes, name.len() as u64);
                bytes.extend_from_slice(name);
            }
        }
        push(bytes, ((self.value << 1) ^ (self.value >> 63)) as u64);
        if with_person {
            bytes.extend_from_slice(&self.person.to_bytes());
        }
    }

    /// Takes one event of a step off the front of what [`write`](Self::write) has written, for a stream whose groups are
    /// declared, or discovered and numbered so. `None` for bytes that it has not written.
    pub fn read(step: u64, with_person: bool, discovered: Option<&GroupNumbers>, bytes: &mut &[u8]) -> Option<Self> {
        let number = pull(bytes)?;
        let label = match discovered {
            None => GroupLabel::Place(usize::try_from(number).ok()?),
            Some(numbers) => {
                let (name, rest) = bytes.split_at_checked(usize::try_from(number).ok()?)?;
                *bytes = rest;
                numbers.label(name)
            }
        };
        let code = pull(bytes)?;
        let value = (code >> 1) as i64 ^ -((code & 1) as i64);
        let person = if with_person {
            let (name, rest) = bytes.split_first_chunk::<NAME>()?;
            *bytes = rest;
            Pseudonym::from_bytes(*name)
        } else {
            Pseudonym::default()
        };
        Some(Self { step, value, person, label, mark: 0 })
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
