//! Sessions that continue from one run to the next.
//!
//! A session remembers little: the exact running sums and the memory of the mechanism, the number of kept events of
//! each person, the digest of the steps, and events of steps that are not closed yet. This state is
//! [saved](Session::record_continued) with the ledger, in one piece, and a later run [resumes](Session::resume) from it
//! without the raw data of closed steps.
//!
//! A run may have several [legs](Leg), one after the other: the stretches of earlier runs, repeated if their state is
//! lost.

use super::intake::{self, PendingEvent};
use super::{Accumulator, GroupRef, Placed, Placer, RunningSums, Session};
use evertally::noise::SecretKey;
use evertally::privacy::contribution::Pseudonym;
use evertally_declare::error::{Result, failure, usage};
use evertally_declare::event::Event;
use evertally_declare::follows::{CarriedSum, Follows};
use evertally_declare::groups::GroupTable;
use evertally_declare::groups::Joined;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::{Ledger, Left, OutputBytes, SeenFile, TableMark};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::sync::Arc;

const VERSION: u32 = 2;
const DAMAGED: &str = "the total carried over in the ledger is not a number";

/// A stretch of steps that are closed under the same policies and groups.
#[derive(Clone)]
pub struct Leg {
    /// The last step that it closes.
    pub last_step: u64,
    /// The stream, with the policies of this leg.
    pub stream: Stream,
    /// The current groups: the earlier ones, followed by those that join.
    pub groups: Option<GroupTable>,
}

/// A late event, whose step was already closed, in the columns that the stream uses, and **not private**.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateEvent {
    /// Its texts in the [order of the columns](evertally_declare::event::Columns::in_order). Missing ones are empty.
    pub texts: Vec<String>,
}

impl LateEvent {
    /// The cells of an event.
    pub fn new(event: &Event<'_>) -> Self {
        let mut texts = vec![event.time().to_string()];
        texts.extend(event.time_of_day().map(|clock| clock.to_string()));
        texts.extend(event.labels().map(|label| label.to_string()));
        texts.extend(event.has_person().then(|| event.person().to_string()));
        texts.extend(event.has_value().then(|| event.value().to_string()));
        Self { texts }
    }
}

/// The saved state of a session between runs.
#[derive(Serialize, Deserialize)]
struct SessionState {
    version: u32,
    step: u64,
    chain: [u8; 32],
    /// The number of declared groups; 1 without groups, 0 if groups are discovered.
    groups: u64,
    sums: Vec<u8>,
    persons: Option<Vec<u8>>,
    /// Events of steps that are not closed yet.
    later: Vec<LaterEvent>,
    /// The names of discovered groups that these events refer to.
    names: Vec<Box<[u8]>>,
}

/// Step, time in microseconds since 1970, group or number of its name, value and person of an event.
type LaterEvent = (u64, i64, u64, i64, [u8; 16]);

/// The records of a run in addition to the state of its session.
#[derive(Default)]
pub struct RunRecord<'a> {
    /// The files that the run has read.
    pub files: Vec<SeenFile>,
    /// Groups that joined with this run.
    pub joined: Option<Joined>,
    /// Bytes to write to outputs.
    pub outputs: Vec<OutputBytes<'a>>,
    /// The table after this run.
    pub table: Option<TableMark>,
}

impl Session<RunningSums> {
    /// Resumes from the state of an earlier run, up to the last step of a first leg.
    ///
    /// # Errors
    /// If the state is damaged, older than the published steps, or belongs to another stream.
    pub fn resume(leg: Leg, key: &SecretKey, ledger: &Ledger, state: &[u8]) -> Result<Self> {
        let damaged = || usage("the saved state of the stream is damaged; rebuild it from the raw data");
        let (version, _) = postcard::take_from_bytes::<u32>(state).map_err(|_| damaged())?;
        if version != VERSION {
            return Err(usage("the saved state of the stream was written by another version of this program"));
        }
        let (saved, rest) = postcard::take_from_bytes::<SessionState>(state).map_err(|_| damaged())?;
        let stream = &leg.stream;
        let discovers = stream.plan.threshold().is_some();
        if !rest.is_empty() || !(discovers || saved.names.is_empty()) {
            return Err(damaged());
        }
        let mut digest = ledger.digest_of(key, stream, leg.last_step.max(saved.step))?;
        digest.resume(saved.step, saved.chain)?;
        let count =
            usize::try_from(saved.groups).ok().filter(|count| (*count == 0) == discovers).ok_or_else(damaged)?;
        let present = match &leg.groups {
            Some(table) if count <= table.tuples().len() => Some(table.first(count)),
            Some(_) => return Err(damaged()),
            None => None,
        };
        let sums = RunningSums::restore(stream, present, &digest.guarded(key)?, (saved.step, &saved.sums))?;
        let mut session = Self::new(stream.clone(), sums, key, digest, saved.step)?;
        session.due = saved.step;
        intake::restore_persons(&mut session.open, stream, saved.step + 1, saved.persons.as_deref())?;
        let names = &saved.names;
        let place = |(step, time, group, value, person): LaterEvent| {
            let group = usize::try_from(group).ok()?;
            let label = match discovers {
                true => session.tally.label_of(names.get(group)?),
                false => (group < count).then_some(GroupRef::Place(group))?,
            };
            let person = Pseudonym::from_bytes(person);
            (step > saved.step).then_some(Placed { step, time, value, person, label, mark: 0 })
        };
        session.later = Some(saved.later.into_iter().map(place).collect::<Option<_>>().ok_or_else(damaged)?);
        session.begin(leg, key)?;
        Ok(session)
    }

    /// The starting point for a stream that continues this one, after all of its steps are closed.
    ///
    /// # Errors
    /// If a step is still open.
    pub fn followed(&self) -> Result<Follows> {
        let (stream, steps) = (&self.stream, self.stream.calendar.steps());
        if stream.published.is_some() {
            return Err(usage("a stream that publishes only some steps cannot continue in another stream"));
        }
        if stream.measures.is_some() {
            return Err(usage("measures cannot continue in another stream; declare a longer horizon"));
        }
        let Some(releases) = self.tally.releases().filter(|_| self.step() == steps) else {
            return Err(usage(format!("stream `{}` is not at the end of its horizon", stream.name)));
        };
        if stream.plan.threshold().is_some() {
            return Err(usage("discovered groups cannot continue in another stream"));
        }
        let before = stream.follows.as_ref();
        let carried = |(group, release): (&Vec<String>, evertally::stream::Release)| {
            let before = before.and_then(|before| before.carried.iter().find(|carried| carried.group == *group));
            let exact =
                release.exact() + before.map_or(Ok(0), |carried| carried.exact().ok_or_else(|| failure(DAMAGED)))?;
            let streams = 1 + before.map_or(0, |carried| carried.streams);
            Ok(CarriedSum { group: group.clone(), exact: exact.to_string(), streams })
        };
        let carried = self.tally.tuples().iter().zip(releases).map(carried).collect::<Result<_>>()?;
        let steps = steps + before.map_or(0, |before| before.steps);
        Ok(Follows { stream: stream.name.to_string(), since: stream.start_in_words(), steps, carried })
    }

    /// Makes the session keep the state that a later run needs.
    #[must_use]
    pub fn that_goes_on(mut self) -> Self {
        self.later.get_or_insert_default();
        self
    }

    /// Begins the next leg, once all steps of the previous one are taken.
    ///
    /// # Errors
    /// If earlier groups are missing.
    ///
    /// # Panics
    /// If due steps have not been taken.
    pub fn begin(&mut self, leg: Leg, key: &SecretKey) -> Result<()> {
        self.complete_digest()?;
        self.tally.join(key, &leg.stream, leg.groups)?;
        self.stream = Arc::new(leg.stream);
        let placer = Placer::new(Arc::clone(&self.stream), self.tally.labels(), key);
        self.placer = placer.with_times_of(&self.placer);
        self.last_step = leg.last_step.max(self.step());
        self.closed = self.step();
        self.put_by()?;
        let later = std::mem::take(self.later.get_or_insert_default());
        for placed in later {
            let of_step = if placed.step <= self.last_step {
                self.ahead.entry(placed.step).or_default()
            } else {
                self.later.get_or_insert_default()
            };
            of_step.push(placed);
        }
        Ok(())
    }

    /// Moves events that still wait for their turn to those of later steps: their turn comes in a later run.
    fn put_by(&mut self) -> Result<()> {
        let Some(later) = &mut self.later else { return Ok(()) };
        while let Some(sorted) = &mut self.sorted
            && let Some(placed) = sorted.pop(u64::MAX, &self.tally)?
        {
            later.push(placed);
        }
        later.extend(self.waiting.drain().map(|Reverse(PendingEvent(placed))| placed));
        later.extend(self.open.iter_mut().flat_map(|open| open.drain(self.tally.step() + 1)));
        later.sort_by_key(|placed| placed.step);
        Ok(())
    }

    /// Records durably the taken steps, and the state that a later run needs. Call this before anyone can see the
    /// steps.
    ///
    /// # Errors
    /// As for [`record`](Session::record).
    ///
    /// # Panics
    /// If due steps have not been taken, or the session was not made [resumable](Self::that_goes_on).
    pub fn record_continued(&mut self, ledger: &mut Ledger, leaving: RunRecord<'_>) -> Result<()> {
        self.placer.check_times()?;
        let (state, policies) = (self.save()?, self.stream.policies());
        let RunRecord { files, joined, outputs, table } = leaving;
        let follows = self.stream.follows.clone();
        let left = Left { files, joined, follows, policies, state, outputs, table };
        ledger.record_continued(self.complete_digest()?, left)
    }

    fn save(&mut self) -> Result<Vec<u8>> {
        let (step, chain) = (self.step(), self.complete_digest()?.chain());
        self.put_by()?;
        assert!(self.ahead.is_empty(), "all steps through {step} are taken");
        let later = self.later.as_ref().expect("a resumable session");
        let mut names: Vec<Box<[u8]>> = Vec::new();
        let mut number_of = |label: &'_ GroupRef| match label {
            GroupRef::Place(place) => *place as u64,
            GroupRef::Name(name, _) => {
                names.push(name.clone());
                names.len() as u64 - 1
            }
        };
        let later: Vec<_> = later
            .iter()
            .map(|placed| (placed.step, placed.time, number_of(&placed.label), placed.value, placed.person.to_bytes()))
            .collect();
        let saved = SessionState {
            version: VERSION,
            step,
            chain,
            groups: self.tally.group_count() as u64,
            sums: self.tally.save(),
            persons: self.open.as_ref().map(|open| open.save_persons(step + 1, &self.stream.periods)),
            later,
            names,
        };
        postcard::to_allocvec(&saved).map_err(failure)
    }
}

#[cfg(test)]
mod tests;
