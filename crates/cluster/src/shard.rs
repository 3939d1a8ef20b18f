//! Bounds some of the persons, from all of their events.

use super::ClusterJob;
use super::block::{BlockContents, PersonBlock};
use super::labels::LabelNumbers;
use super::order::{PersonEvent, PersonOrder};
use super::row::ShuffleRow;
use super::sums::{Sums, record_refusal};
use evertally::privacy::contribution::{ContributionBound, Details, Kept, Offer};
use evertally_declare::error::{Result, usage};
use evertally_declare::measures::MeasuredEvent;
use evertally_publish::session::{GroupNumbers, bound_of_persons};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Bounds the persons of a shard, once all of its blocks have been added. Memory: the blocks, and the events of one
/// person.
pub struct Shard {
    work: ClusterJob,
    bound: ContributionBound,
    order: PersonOrder,
    labels: LabelNumbers,
    numbers: GroupNumbers,
    blocks: Vec<PersonBlock>,
    seen: BTreeSet<u32>,
    refused: Option<String>,
}

impl ClusterJob {
    /// A shard without blocks. Several shards in one process may share one value.
    ///
    /// # Errors
    /// If the bounds keep no event of a person.
    pub fn shard(&self) -> Result<Shard> {
        Ok(Shard {
            bound: bound_of_persons(&self.stream)?,
            order: PersonOrder::new(self),
            labels: LabelNumbers::of(self),
            numbers: GroupNumbers::new(&self.stream, &self.key),
            blocks: Vec::new(),
            seen: BTreeSet::new(),
            refused: None,
            work: self.clone(),
        })
    }
}

impl Shard {
    /// Adds a block of a shard.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn add(&mut self, shard: u32, block: Vec<u8>) -> Result<()> {
        self.seen.insert(shard);
        match PersonBlock::open(block, &mut self.labels)? {
            BlockContents::Persons(block) => self.blocks.push(block),
            BlockContents::Sums(_) => return Err(usage("a shard of persons received sums")),
            BlockContents::Refused(why) => record_refusal(&mut self.refused, why),
        }
        Ok(())
    }

    /// Bounds every person and emits the sums, some at a time. The last rows name the shards, so that a process that
    /// adds up the sums can check that each shard occurs once.
    ///
    /// # Errors
    /// If a block is damaged, a sum exceeds 64 bits, or `emit` fails.
    pub fn finish<E: From<evertally_declare::error::PipelineError>>(
        mut self,
        mut emit: impl FnMut(Vec<ShuffleRow>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.work.stream.calendar.start().micros();
        let first = |(place, block): (usize, &PersonBlock)| block.person().map(|person| Reverse((person, place)));
        let mut turns: BinaryHeap<Reverse<([u8; 16], usize)>> =
            self.blocks.iter().enumerate().filter_map(first).collect();
        let (mut events, mut sums) = (Vec::new(), Sums::new());
        while let Some(Reverse((person, _))) = turns.peek().copied() {
            events.clear();
            while let Some(Reverse((next, place))) = turns.peek().copied()
                && next == person
            {
                turns.pop();
                let block = &mut self.blocks[place];
                block.read(start, &mut events)?;
                turns.extend(block.person().map(|person| Reverse((person, place))));
            }
            self.order.sort(&mut events, &self.labels);
            self.keep(&events, &mut sums)?;
            if sums.is_full() {
                emit(sums.take(&self.labels))?;
            }
        }
        let mut rows = sums.take(&self.labels);
        rows.extend(self.seen.iter().map(|shard| ShuffleRow::of_shard(*shard)));
        rows.extend(self.refused.as_ref().map(|why| ShuffleRow::refused(why)));
        emit(rows)
    }

    /// Adds the kept events of one person.
    fn keep(&self, events: &[PersonEvent], sums: &mut Sums) -> Result<()> {
        let stream = &self.work.stream;
        let (mut kept, mut details) = (Kept::default(), Details::default());
        let (mut period, mut counted) = (0..0, Vec::new());
        for event in events {
            let Some(step) = event.step(stream) else { continue };
            if !period.contains(&step) {
                period = stream.periods.of(step);
            }
            let group = self.labels.group_of(event.label, &self.numbers);
            let offer = Offer { step, since: period.start, group, value: event.value };
            match (self.bound.keep(&mut kept, &mut details, offer), &stream.measures) {
                (None, _) => {}
                (Some(value), None) => sums.add(step, event.label, value)?,
                (Some(value), Some(_)) => {
                    counted.push(MeasuredEvent { step, since: period.start, group: event.label, value });
                }
            }
        }
        let Some(bundle) = &stream.measures else { return Ok(()) };
        bundle.for_each_addition(&counted, stream.last_step, |step, group, cell, sum| {
            sums.add(step, self.labels.of_cell(group, cell), sum)
        })
    }
}
