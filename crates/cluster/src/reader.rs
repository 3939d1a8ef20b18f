//! Turns events into sums, or into blocks for shards of persons.

use super::ClusterJob;
use super::block::{self, BlockWriter};
use super::labels::LabelNumbers;
use super::order::{PersonEvent, PersonOrder, Prefilter};
use super::row::ShuffleRow;
use super::sums::{Sums, overflow, record_refusal};
use evertally_declare::error::{Result, usage};
use evertally_declare::event::{ColumnRole, Event, Field};
use evertally_declare::measures::MeasuredEvent;
use evertally_declare::policy::Refusable;
use evertally_declare::problem::Wording;
use evertally_declare::steps::Instant;
use evertally_declare::stream::Stream;
use evertally_publish::session::{GroupAssigner, Placer, no_value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of events that a reader keeps before its output must be taken.
const MAX_BUFFERED_EVENTS: usize = 1 << 20;
/// The number of names that a reader keeps before its output must be taken.
const MAX_BUFFERED_NAMES: u32 = 1 << 20;

/// The output of a reader.
#[doc(alias = "Taken")]
#[derive(Debug, PartialEq, Eq)]
pub enum ReaderOutput {
    /// Sums, and refused events.
    Sums(Vec<ShuffleRow>),
    /// Blocks with the number of their shard.
    Blocks(Vec<ShardBlock>),
}

/// A block on its way to a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardBlock {
    /// The number of the shard.
    pub shard: u32,
    /// The first step of its events, or an earlier one; 0 if events were refused.
    pub step: u64,
    /// The block.
    pub block: Vec<u8>,
}

/// Reads the events that come to one process, in any selection.
pub struct Reader {
    stream: Arc<Stream>,
    placer: Placer<GroupAssigner>,
    labels: LabelNumbers,
    into: Into,
    wording: Wording,
    refused: Option<String>,
    /// The latest time that was read, in microseconds since 1970.
    latest: i64,
}

enum Into {
    Sums(Sums),
    /// Sums on their way to shards, where they wait for the end of their step.
    Waiting(Sums, u32),
    Shards {
        events: Vec<PersonEvent>,
        order: PersonOrder,
        thinning: Prefilter,
        shards: u32,
    },
}

impl ClusterJob {
    /// A reader of events; events of persons are divided among this many shards. `wording` says how refusals name
    /// parameters.
    ///
    /// # Errors
    /// If there is no shard, or the bounds keep no event of a person.
    pub fn reader(&self, shards: u32, wording: Wording) -> Result<Reader> {
        let into = if self.has_persons() {
            if shards == 0 {
                return Err(usage("there must be at least one shard"));
            }
            let (order, thinning) = (PersonOrder::new(self), Prefilter::new(&self.stream)?);
            Into::Shards { events: Vec::new(), order, thinning, shards }
        } else {
            Into::Sums(Sums::new())
        };
        Ok(self.reader_into(Arc::clone(&self.stream), into, wording))
    }

    /// A reader of events whose steps end later: all events go to shards, where they wait.
    ///
    /// # Errors
    /// As [`reader`](Self::reader).
    pub fn waiting_reader(&self, shards: u32, wording: Wording) -> Result<Reader> {
        if self.has_persons() {
            let mut reader = self.reader(shards, wording)?;
            if let Into::Shards { thinning, .. } = &mut reader.into {
                // Late events are dropped later; they must not displace other events now.
                thinning.restrict_to_same_cell();
            }
            return Ok(reader);
        }
        if shards == 0 {
            return Err(usage("there must be at least one shard"));
        }
        Ok(self.reader_into(Arc::clone(&self.stream), Into::Waiting(Sums::new(), shards), wording))
    }

    /// A reader of counts or sums that an engine has computed: a row stands for many events of one time and group, and
    /// its value is their sum.
    ///
    /// # Errors
    /// If persons are protected: their events must be bounded before they are counted.
    pub fn reader_of_counts(&self, wording: Wording) -> Result<Reader> {
        if self.has_persons() {
            return Err(usage("events of persons are read one by one"));
        }
        if self.cells.is_some() {
            return Err(usage("events of several measures are read one by one"));
        }
        if self.stream.filter.is_some() {
            return Err(usage("events that are filtered are read one by one"));
        }
        let mut stream = (*self.stream).clone();
        stream.columns.value = None;
        Ok(self.reader_into(Arc::new(stream), Into::Sums(Sums::new()), wording))
    }

    fn reader_into(&self, stream: Arc<Stream>, into: Into, wording: Wording) -> Reader {
        let labels = match self.discovers() {
            true => GroupAssigner::discovered(&stream, &self.key),
            false => GroupAssigner::from_declared(self.groups.as_deref().cloned()),
        };
        let placer = Placer::new(Arc::clone(&stream), labels, &self.key);
        Reader { stream, placer, labels: LabelNumbers::new(self), into, wording, refused: None, latest: i64::MIN }
    }
}

impl Reader {
    /// Reads an event.
    pub fn read(&mut self, event: &Event<'_>) {
        let read = self.place(event, 1);
        self.note(read);
    }

    /// Reads a row of counts. Its value is the number of events, or their sum; it is missing if the events have no
    /// value, and the least 64-bit number if the sum exceeds 64 bits.
    pub fn read_count(&mut self, event: &Event<'_>) {
        let read = match event.value() {
            Field::Integer(i64::MIN) => Err(overflow()),
            Field::Integer(count) => self.place(event, count),
            Field::Missing if self.stream.missing == Refusable::Skip => Ok(()),
            Field::Missing => Err(no_value(event).into()),
            _ => Err(event.bad_cell(ColumnRole::Value, "is not a whole number").into()),
        };
        self.note(read);
    }

    fn note(&mut self, read: Result<()>) {
        if let Err(error) = read {
            let why = match error.input() {
                Some(error) => error.without_place().worded(self.wording),
                None => error.worded(self.wording),
            };
            record_refusal(&mut self.refused, why);
        }
    }

    fn place(&mut self, event: &Event<'_>, times: i64) -> Result<()> {
        let Some((time, placed)) = self.placer.place_with_time(event)? else { return Ok(()) };
        self.latest = self.latest.max(time.micros());
        if placed.step() > self.stream.last_step {
            return Ok(()); // for a later release
        }
        let label = self.labels.number(placed.label())?;
        match &mut self.into {
            Into::Sums(sums) | Into::Waiting(sums, _) if let Some(bundle) = &self.stream.measures => {
                let counted = MeasuredEvent { step: placed.step(), since: 0, group: label, value: placed.value() };
                bundle.for_each_addition(&[counted], self.stream.last_step, |step, group, cell, sum| {
                    sums.add(step, self.labels.of_cell(group, cell), sum)
                })
            }
            Into::Sums(sums) | Into::Waiting(sums, _) => {
                let value =
                    placed.value().checked_mul(times).ok_or_else(|| usage("a row stands for too many events"))?;
                sums.add(placed.step(), label, value)
            }
            Into::Shards { events, .. } => {
                let person = placed.person().to_bytes();
                events.push(PersonEvent { person, time: time.micros(), label, value: placed.value() });
                Ok(())
            }
        }
    }

    /// The latest time of an event that was read, in microseconds since 1970; `None` before the first.
    pub fn latest(&self) -> Option<i64> {
        Some(self.latest).filter(|latest| *latest > i64::MIN)
    }

    /// Whether the output should be [taken](Self::take) now.
    pub fn is_full(&self) -> bool {
        self.labels.count() >= MAX_BUFFERED_NAMES
            || match &self.into {
                Into::Sums(sums) | Into::Waiting(sums, _) => sums.is_full(),
                Into::Shards { events, .. } => events.len() >= MAX_BUFFERED_EVENTS,
            }
    }

    /// Takes the output since the last call, and refused events.
    pub fn take(&mut self) -> ReaderOutput {
        let taken = match &mut self.into {
            Into::Sums(sums) => {
                let mut rows = sums.take(&self.labels);
                rows.extend(self.refused.take().map(|why| ShuffleRow::refused(&why)));
                ReaderOutput::Sums(rows)
            }
            Into::Waiting(sums, shards) => {
                let mut by_shard: BTreeMap<u32, Vec<(u64, u32, i64)>> = BTreeMap::new();
                for (step, label, sum) in sums.take_numbers() {
                    // Any distribution is right: sums of one group may go to several shards.
                    let shard = (step.wrapping_mul(31).wrapping_add(label.into()) % u64::from(*shards)) as u32;
                    by_shard.entry(shard).or_default().push((step, label, sum));
                }
                let block = |(shard, sums): (u32, Vec<(u64, u32, i64)>)| {
                    let step = sums.first().map_or(0, |(step, ..)| *step);
                    ShardBlock { shard, step, block: block::push_sums(&sums, &self.labels) }
                };
                let mut blocks: Vec<ShardBlock> = by_shard.into_iter().map(block).collect();
                blocks.extend(self.refused.take().map(|why| ShardBlock::refused(&why)));
                ReaderOutput::Blocks(blocks)
            }
            Into::Shards { events, order, thinning, shards } => {
                events.sort_unstable_by_key(|event| event.person);
                let start = self.stream.calendar.start().micros();
                let mut blocks = Vec::new();
                for shard in events.chunk_by(|a, b| shard_of(a, *shards) == shard_of(b, *shards)) {
                    let mut writer = BlockWriter::new(start, &self.labels);
                    for person in shard.chunk_by(|a, b| a.person == b.person) {
                        let mut person = person.to_vec();
                        order.sort(&mut person, &self.labels);
                        thinning.thin(&self.stream, &mut person);
                        writer.push(&person);
                    }
                    let number = shard_of(&shard[0], *shards);
                    let first = shard.iter().map(|event| event.time).min().unwrap_or(0);
                    let step = self.stream.calendar.step_of(Instant::from_micros(first)).unwrap_or(0);
                    blocks.extend(writer.finish().into_iter().map(|block| ShardBlock { shard: number, step, block }));
                }
                events.clear();
                blocks.extend(self.refused.take().map(|why| ShardBlock::refused(&why)));
                ReaderOutput::Blocks(blocks)
            }
        };
        self.labels.clear();
        taken
    }
}

impl ShardBlock {
    fn refused(why: &str) -> Self {
        Self { shard: 0, step: 0, block: block::refused(why) }
    }
}

/// Pseudonyms are uniform to everyone without the key.
fn shard_of(event: &PersonEvent, shards: u32) -> u32 {
    let leading = u64::from_be_bytes(*event.person.first_chunk().expect("16 bytes"));
    ((u128::from(leading) * u128::from(shards)) >> 64) as u32 // fits: below `shards`
}
