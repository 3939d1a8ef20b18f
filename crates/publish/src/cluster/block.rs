//! Events of many persons as bytes, on their way to their shard.
//!
//! ```text
//! block  = 1 | number of names | (length | name)* | person*        names of groups that nobody declared
//! person = 16 bytes | number of events | event*                     rising
//! event  = microseconds since the one before (of the first: since the start of the stream) | group | value, zigzag
//! ```
//!
//! Numbers are LEB128. In the place of the first byte, `!` says that the rest is a text: why events were refused.

use super::labels::Labels;
use super::order::Personal;
use crate::error::{Error, Result, usage};
use crate::leb128::{push_number, take_number};

const VERSION: u8 = 1;
const REFUSED: u8 = b'!';
/// A block that has so many bytes takes no further person.
const FULL: usize = 1 << 16;

/// Writes events of persons, in their order, as blocks.
pub(super) struct BlockWriter<'l> {
    start: i64,
    labels: &'l Labels,
    /// Numbers of names in this block, and the names.
    own: hashbrown::HashMap<u32, u32>,
    names: Vec<u8>,
    persons: Vec<u8>,
    blocks: Vec<Vec<u8>>,
}

impl<'l> BlockWriter<'l> {
    /// Of a stream that starts with this microsecond.
    pub(super) fn new(start: i64, labels: &'l Labels) -> Self {
        let own = hashbrown::HashMap::new();
        Self { start, labels, own, names: Vec::new(), persons: Vec::new(), blocks: Vec::new() }
    }

    /// Appends the events of one person, of whom all come after those before.
    pub(super) fn push(&mut self, events: &[Personal]) {
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
            push_number(&mut self.persons, (event.value << 1 ^ event.value >> 63) as u64);
        }
        if self.persons.len() + self.names.len() >= FULL {
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
        let mut block = vec![VERSION];
        push_number(&mut block, self.own.len() as u64);
        block.append(&mut self.names);
        block.append(&mut self.persons);
        self.own.clear();
        self.blocks.push(block);
    }

    pub(super) fn finish(mut self) -> Vec<Vec<u8>> {
        self.close();
        self.blocks
    }
}

/// A block that says why events were refused.
pub(super) fn refused(why: &str) -> Vec<u8> {
    [&[REFUSED], why.as_bytes()].concat()
}

/// A block that is read person by person.
pub(super) struct Block {
    bytes: Vec<u8>,
    at: usize,
    /// The numbers of its names in this process.
    names: Vec<u32>,
}

impl Block {
    /// What a block holds: events, or why some were refused.
    pub(super) fn open(bytes: Vec<u8>, labels: &mut Labels) -> Result<std::result::Result<Self, String>> {
        let mut rest = bytes.get(1..).ok_or_else(damaged)?;
        match bytes[0] {
            REFUSED => return Ok(Err(String::from_utf8(rest.to_vec()).map_err(|_| damaged())?)),
            VERSION => {}
            _ => return Err(damaged()),
        }
        let count = take_number(&mut rest).ok_or_else(damaged)?;
        let mut names = Vec::new();
        for _ in 0..count {
            let length = take_number(&mut rest).and_then(|length| usize::try_from(length).ok()).ok_or_else(damaged)?;
            let (name, behind) = rest.split_at_checked(length).ok_or_else(damaged)?;
            names.push(labels.of_name(name)?);
            rest = behind;
        }
        if !rest.is_empty() && rest.len() < 16 {
            return Err(damaged());
        }
        let at = bytes.len() - rest.len();
        Ok(Ok(Self { bytes, at, names }))
    }

    /// The person whose events come next; `None` at the end.
    pub(super) fn person(&self) -> Option<[u8; 16]> {
        self.bytes[self.at..].first_chunk().copied()
    }

    /// Appends the events of the next person.
    pub(super) fn read(&mut self, start: i64, events: &mut Vec<Personal>) -> Result<()> {
        let person = self.person().ok_or_else(damaged)?;
        let mut rest = &self.bytes[self.at + person.len()..];
        let mut number = || take_number(&mut rest).ok_or_else(damaged);
        let (count, mut time) = (number()?, start);
        for _ in 0..count {
            time = i64::try_from(number()?).ok().and_then(|since| time.checked_add(since)).ok_or_else(damaged)?;
            let label = u32::try_from(number()?).map_err(|_| damaged())?;
            let label = match self.names.is_empty() {
                true => label,
                false => *self.names.get(label as usize).ok_or_else(damaged)?,
            };
            let value = number()?;
            let value = (value >> 1) as i64 ^ -((value & 1) as i64);
            events.push(Personal { person, time, label, value });
        }
        self.at = self.bytes.len() - rest.len();
        let is_whole = self.at == self.bytes.len() || self.person().is_some_and(|next| next > person);
        if is_whole { Ok(()) } else { Err(damaged()) }
    }
}

fn damaged() -> Error {
    usage("a block of events between processes is damaged")
}
