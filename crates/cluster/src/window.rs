//! A shard of a stream whose events keep arriving: they wait for the end of their step, and are then bounded.

use super::ClusterJob;
use super::block::{BlockContents, BlockWriter, PersonBlock, push_sums};
use super::digest::Digest;
use super::labels::LabelNumbers;
use super::memory::{MeasureMemory, SavedMemory, damaged};
use super::order::{PersonEvent, PersonOrder};
use super::row::ShuffleRow;
use super::sums::Sums;
use evertally::privacy::contribution::{Offer, Pseudonym};
use evertally_declare::error::{Result, failure, usage};
use evertally_declare::measures::MeasuredEvent;
use evertally_declare::steps::Instant;
use evertally_publish::session::{GroupNumbers, Persons, bound_of_persons};
use std::collections::BTreeMap;

/// The state of a shard after some of its steps were closed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ShardState {
    /// Contributions of its persons in the current period, and the persons whom measures remember; `None` if single
    /// events are protected. **Not private.**
    pub persons: Option<Vec<u8>>,
    /// Events of open steps.
    pub waiting: Vec<Vec<u8>>,
    /// The first step of these events, or the first to which remembered persons add; `None` if there is none.
    pub next: Option<u64>,
    /// The sums of the closed steps, and digests of the events in them: a recount that keeps other persons' events with
    /// the same sums is detected.
    pub rows: Vec<ShuffleRow>,
}

impl ClusterJob {
    /// The last step that has ended by a time, in microseconds since 1970; 0 before the end of the first.
    pub fn ended_by(&self, micros: i64) -> u64 {
        let calendar = &self.stream.calendar;
        let instant = Instant::from_micros(micros);
        let ended = if instant >= calendar.end() {
            calendar.steps()
        } else {
            calendar.step_of(instant).map_or(0, |step| step - 1)
        };
        ended.min(self.stream.last_step)
    }

    /// The end of a step, in microseconds since 1970.
    ///
    /// # Errors
    /// If there is no such step.
    pub fn end_of(&self, step: u64) -> Result<i64> {
        let calendar = &self.stream.calendar;
        if step == 0 || step > calendar.steps() {
            return Err(usage(format!("there is no step {step}")));
        }
        Ok(calendar.end_of(step).micros())
    }

    /// Closes the steps of a shard after `from` through `through`: counts the kept events among those that wait for
    /// these steps. Events of steps through `from` are late, and are dropped.
    ///
    /// Persons are bounded step by step, and within a step in the [order](super) of their events, so the result does
    /// not depend on which events arrived first or together.
    ///
    /// # Errors
    /// If the shard's state is damaged, or a sum exceeds 64 bits.
    pub fn close_shard(
        &self,
        from: u64,
        through: u64,
        persons: Option<&[u8]>,
        waiting: Vec<Vec<u8>>,
    ) -> Result<ShardState> {
        let start = self.stream.calendar.start().micros();
        let (mut labels, mut events) = (LabelNumbers::new(self), Vec::new());
        let (mut sums, mut later) = (Sums::new(), Vec::new());
        for block in waiting {
            match PersonBlock::open(block, &mut labels)? {
                BlockContents::Persons(mut block) => {
                    while block.person().is_some() {
                        block.read(start, &mut events)?;
                    }
                }
                BlockContents::Sums(rows) => {
                    for (step, label, sum) in rows {
                        match step {
                            _ if step <= from => {}
                            _ if step <= through => sums.add(step, label, sum)?,
                            _ => later.push((step, label, sum)),
                        }
                    }
                }
                BlockContents::Refused(why) => return Err(usage(why)),
            }
        }
        let step_of = |event: &PersonEvent| event.step(&self.stream).unwrap_or(0);
        events.retain(|event| step_of(event) > from);
        let (mut due, mut open): (Vec<PersonEvent>, Vec<PersonEvent>) =
            events.into_iter().partition(|event| step_of(event) <= through);
        let mut kept = BTreeMap::new();
        let (persons, remembered) = match self.has_persons() {
            false => (None, None),
            true => self.keep_due(from, through, persons, &mut due, &labels, (&mut sums, &mut kept))?,
        };
        let next = open.iter().map(step_of).chain(later.iter().map(|(step, ..)| *step)).chain(remembered).min();
        let mut waiting = self.written(&mut open, &labels);
        if !later.is_empty() {
            waiting.push(push_sums(&later, &labels));
        }
        let mut rows = sums.take(&labels);
        rows.extend(kept.into_iter().flat_map(|(step, digest)| digest.rows(step)));
        Ok(ShardState { persons, waiting, next, rows })
    }

    /// Adds the kept events, and returns the state of their persons, and the first step to which these add later.
    fn keep_due(
        &self,
        from: u64,
        through: u64,
        persons: Option<&[u8]>,
        due: &mut [PersonEvent],
        labels: &LabelNumbers,
        (sums, whose): (&mut Sums, &mut BTreeMap<u64, Digest>),
    ) -> Result<(Option<Vec<u8>>, Option<u64>)> {
        let stream = &self.stream;
        let (mut order, mut digesting, mut group_bytes) = (PersonOrder::new(self), self.digesting(), Vec::new());
        let numbers = GroupNumbers::new(stream, &self.key);
        let (mut table, mut memory) = self.restored(from, persons)?;
        let mut ended = from;
        let step_of = |event: &PersonEvent| event.step(stream).unwrap_or(0);
        due.sort_unstable_by_key(|event| (step_of(event), event.person));
        for alike in due.chunk_by_mut(|a, b| (step_of(a), a.person) == (step_of(b), b.person)) {
            let step = step_of(&alike[0]);
            let since = stream.periods.of(step).start;
            if let Some(memory) = &mut memory {
                memory.end_steps(ended + 1..step, labels, sums)?;
                ended = step - 1;
            }
            order.sort(alike, labels);
            for event in &*alike {
                let group = labels.group_of(event.label, &numbers);
                let offer = Offer { step, since, group, value: event.value };
                let person = Pseudonym::from_bytes(event.person);
                if let Some(value) = table.keep(person, offer) {
                    match &mut memory {
                        None => sums.add(step, event.label, value)?,
                        Some(memory) => {
                            let event = MeasuredEvent { step, since, group: event.label, value };
                            memory.add(person, event, labels, sums)?;
                        }
                    }
                    group_bytes.clear();
                    labels.push_bytes(event.label, &mut group_bytes);
                    let digest = digesting.of_kept(&event.person, event.time, &group_bytes, value);
                    whose.entry(step).or_default().add(digest);
                }
            }
        }
        let since = stream.periods.of(through + 1).start;
        let persons = table.save(since);
        let Some(mut memory) = memory else { return Ok((Some(persons), None)) };
        memory.end_steps(ended + 1..through + 1, labels, sums)?;
        let state = postcard::to_allocvec(&(persons, memory.save(since))).map_err(failure)?;
        Ok((Some(state), memory.next(through)))
    }

    /// The persons of a shard after step `from`, and those whom measures remember.
    fn restored(&self, from: u64, persons: Option<&[u8]>) -> Result<(Persons, Option<MeasureMemory<'_>>)> {
        let bound = bound_of_persons(&self.stream)?;
        let first = self.stream.periods.of(from + 1).start;
        let groups = self.groups().map_or(1, |table| table.tuples().len());
        match (persons, &self.stream.measures) {
            (None, bundle) => {
                Ok((Persons::new(bound), bundle.as_deref().map(|bundle| MeasureMemory::new(bundle, groups))))
            }
            (Some(bytes), None) => Ok((Persons::restore(bound, first, bytes)?, None)),
            (Some(bytes), Some(bundle)) => {
                let saved = postcard::from_bytes::<(Vec<u8>, Vec<SavedMemory>)>(bytes);
                let (persons, memory) = saved.map_err(|_| damaged())?;
                let memory = MeasureMemory::restore(bundle, groups, from, memory)?;
                Ok((Persons::restore(bound, first, &persons)?, Some(memory)))
            }
        }
    }

    /// Encodes events as blocks.
    fn written(&self, events: &mut [PersonEvent], labels: &LabelNumbers) -> Vec<Vec<u8>> {
        let mut writer = BlockWriter::new(self.stream.calendar.start().micros(), labels);
        events.sort_unstable_by_key(|event| (event.person, event.time, event.label, event.value));
        events.chunk_by(|a, b| a.person == b.person).for_each(|person| writer.push(person));
        writer.finish()
    }
}
