//! Encodes events of many persons as bytes, on their way to a shard.
//!
//! ```text
//! block  = 1 | number of names | (length | name)* | person*        names of discovered groups
//! person = 16 bytes | number of events | event*                     rising
//! event  = microseconds since the one before (of the first: since the start of the stream) | group | value, zigzag
//! ```
//!
//! sums   = + | number of names | (length | name)* | (step | group | sum, zigzag)*
//!
//! Numbers are LEB128. If the first byte is `!`, the rest is a text: why events were refused.

use super::labels::LabelNumbers;
use super::order::PersonEvent;
use evertally_declare::error::{PipelineError, Result, usage};
use evertally_publish::leb128::{push_number, read_number};

const VERSION: u8 = 1;
const SUMS: u8 = b'+';
const REFUSED: u8 = b'!';
/// A block of at least this many bytes takes no further person.
const MAX_BLOCK_BYTES: usize = 1 << 16;

/// Writes events of persons, in their order, as blocks.
pub(super) struct BlockWriter<'l> {
    start: i64,
    labels: &'l LabelNumbers,
    /// For each name, its number in this block.
    own: hashbrown::HashMap<u32, u32>,
    names: Vec<u8>,
    persons: Vec<u8>,
    blocks: Vec<Vec<u8>>,
}

impl<'l> BlockWriter<'l> {
    /// For a stream that starts at this microsecond.
    pub(super) fn new(start: i64, labels: &'l LabelNumbers) -> Self {
        let own = hashbrown::HashMap::new();
        Self { start, labels, own, names: Vec::new(), persons: Vec::new(), blocks: Vec::new() }
    }

    /// Appends all events of one person, who must come after the previous one.
    pub(super) fn push(&mut self, events: &[PersonEvent]) {
        let Some(first) = events.first() else { return };
        self.persons.extend_from_slice(&first.person);
        push_number(&mut self.persons, events.len() as u64);
        let mut last = self.start;
        for event in events {
            // fits: events are in the horizon, which begins with the start, and in order
            push_number(&mut self.persons, (event.time - last) as u64);
            last = event.time;
            let label = self.own_label(event.label);
            push_number(&mut self.persons, label.into());
            push_number(&mut self.persons, zigzag(event.value));
        }
        if self.persons.len() + self.names.len() >= MAX_BLOCK_BYTES {
            self.close();
        }
    }

    fn own_label(&mut self, label: u32) -> u32 {
        let Some(name) = self.labels.name(label) else { return label };
        let next = self.own.len() as u32; // fits: fewer than there are labels
        *self.own.entry(label).or_insert_with(|| {
            push_number(&mut self.names, name.len() as u64);
            self.names.extend_from_slice(name);
            next
        })
    }

    fn close(&mut self) {
        if self.persons.is_empty() {
            return;
        }
        let block = self.closed(VERSION);
        self.blocks.push(block);
    }

    fn closed(&mut self, kind: u8) -> Vec<u8> {
        let mut block = vec![kind];
        push_number(&mut block, self.own.len() as u64);
        block.append(&mut self.names);
        block.append(&mut self.persons);
        self.own.clear();
        block
    }

    pub(super) fn finish(mut self) -> Vec<Vec<u8>> {
        self.close();
        self.blocks
    }
}

/// Encodes sums of steps and groups as a block.
pub(super) fn push_sums(sums: &[(u64, u32, i64)], labels: &LabelNumbers) -> Vec<u8> {
    let mut writer = BlockWriter::new(0, labels);
    for (step, label, sum) in sums {
        push_number(&mut writer.persons, *step);
        let label = writer.own_label(*label);
        push_number(&mut writer.persons, label.into());
        push_number(&mut writer.persons, zigzag(*sum));
    }
    writer.closed(SUMS)
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// A block that carries the reason why events were refused.
pub(super) fn refused(why: &str) -> Vec<u8> {
    [&[REFUSED], why.as_bytes()].concat()
}

/// The contents of a block.
pub(super) enum BlockContents {
    /// Events of persons.
    Persons(PersonBlock),
    /// Sums: step, number of the group, sum.
    Sums(Vec<(u64, u32, i64)>),
    /// Why events were refused.
    Refused(String),
}

/// A block that is read person by person.
pub(super) struct PersonBlock {
    bytes: Vec<u8>,
    at: usize,
    /// The numbers that this process uses for the block's names.
    names: Vec<u32>,
}

impl PersonBlock {
    /// Opens a block.
    pub(super) fn open(bytes: Vec<u8>, labels: &mut LabelNumbers) -> Result<BlockContents> {
        let mut rest = bytes.get(1..).ok_or_else(damaged)?;
        match bytes[0] {
            REFUSED => return Ok(BlockContents::Refused(String::from_utf8(rest.to_vec()).map_err(|_| damaged())?)),
            VERSION | SUMS => {}
            _ => return Err(damaged()),
        }
        let count = read_number(&mut rest).ok_or_else(damaged)?;
        let mut names = Vec::new();
        for _ in 0..count {
            let length = read_number(&mut rest).and_then(|length| usize::try_from(length).ok()).ok_or_else(damaged)?;
            let (name, behind) = rest.split_at_checked(length).ok_or_else(damaged)?;
            names.push(labels.of_name(name)?);
            rest = behind;
        }
        if bytes[0] == SUMS {
            let mut sums = Vec::new();
            while !rest.is_empty() {
                let mut number = || read_number(&mut rest).ok_or_else(damaged);
                let (step, label, sum) = (number()?, own(&names, number()?)?, unzigzag(number()?));
                sums.push((step, label, sum));
            }
            return Ok(BlockContents::Sums(sums));
        }
        if !rest.is_empty() && rest.len() < 16 {
            return Err(damaged());
        }
        let at = bytes.len() - rest.len();
        Ok(BlockContents::Persons(Self { bytes, at, names }))
    }

    /// The person whose events come next; `None` at the end.
    pub(super) fn person(&self) -> Option<[u8; 16]> {
        self.bytes[self.at..].first_chunk().copied()
    }

    /// Appends the events of the next person.
    pub(super) fn read(&mut self, start: i64, events: &mut Vec<PersonEvent>) -> Result<()> {
        let person = self.person().ok_or_else(damaged)?;
        let mut rest = &self.bytes[self.at + person.len()..];
        let mut number = || read_number(&mut rest).ok_or_else(damaged);
        let (count, mut time) = (number()?, start);
        for _ in 0..count {
            time = i64::try_from(number()?).ok().and_then(|since| time.checked_add(since)).ok_or_else(damaged)?;
            let label = own(&self.names, number()?)?;
            let value = unzigzag(number()?);
            events.push(PersonEvent { person, time, label, value });
        }
        self.at = self.bytes.len() - rest.len();
        let is_whole = self.at == self.bytes.len() || self.person().is_some_and(|next| next > person);
        if is_whole { Ok(()) } else { Err(damaged()) }
    }
}

/// The number that this process uses for a label of the block.
fn own(names: &[u32], label: u64) -> Result<u32> {
    let label = u32::try_from(label).map_err(|_| damaged())?;
    if names.is_empty() { Ok(label) } else { names.get(label as usize).copied().ok_or_else(damaged) }
}

fn damaged() -> PipelineError {
    usage("a block of events passed between processes is damaged")
}
