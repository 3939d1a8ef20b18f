//! Sums of steps and groups, and what is found on the way to them.

use super::digest::Digest;
use super::labels::Labels;
use evertally_declare::error::{Error, Result, usage};
use hashbrown::HashMap;

/// So many sums are kept before they are handed on.
const MANY: usize = 1 << 20;

/// What rows between processes are about: the first byte of their label.
const PLACE: u8 = b'g';
const NAME: u8 = b'n';
const CELL: u8 = b'm';
const REFUSED: u8 = b'!';
const SHARD: u8 = b's';
const KEPT: u8 = b'k';

/// A row between processes. Those of one step and label add up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// The step, from 1; 0 of what is no sum.
    pub step: u64,
    /// What it is about: a declared group by its place, another by its name, a refused event, a shard that was seen.
    pub label: Box<[u8]>,
    /// What the step adds, in multiples of the group's grid; else how often.
    pub sum: i64,
}

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows<'a> {
    /// The sum of a declared group, by its place.
    Place(u32),
    /// The sum of a group that nobody declared, by the library's name.
    Name(&'a [u8]),
    /// The sum of a declared group, by its place, and of which of its measures' parts.
    Cell(u32, u32),
    /// Events were refused: why.
    Refused(&'a str),
    /// A shard was bounded.
    Shard(u32),
    /// One of the numbers that stand for whose events were kept in a step; they add up, and count modulo 2^32.
    Kept(u8),
}

impl Row {
    pub(super) fn of_place(step: u64, place: u32, sum: i64) -> Self {
        Self { step, label: tagged(PLACE, &place.to_be_bytes()), sum }
    }

    pub(super) fn of_name(step: u64, name: &[u8], sum: i64) -> Self {
        Self { step, label: tagged(NAME, name), sum }
    }

    pub(super) fn of_cell(step: u64, (place, cell): (u32, u32), sum: i64) -> Self {
        Self { step, label: tagged(CELL, &[place.to_be_bytes(), cell.to_be_bytes()].concat()), sum }
    }

    pub(super) fn refused(why: &str) -> Self {
        Self { step: 0, label: tagged(REFUSED, why.as_bytes()), sum: 1 }
    }

    pub(super) fn of_shard(shard: u32) -> Self {
        Self { step: 0, label: tagged(SHARD, &shard.to_be_bytes()), sum: 1 }
    }

    /// What stands for whose events were kept in a step.
    pub(super) fn of_kept(step: u64, digest: Digest) -> impl Iterator<Item = Self> {
        let row = move |(number, lane): (u8, u32)| Self { step, label: tagged(KEPT, &[number]), sum: lane.into() };
        (0..).zip(digest.lanes()).map(row)
    }

    /// What it says.
    ///
    /// # Errors
    /// If it was not made here.
    pub fn says(label: &[u8]) -> Result<Rows<'_>> {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_be_bytes);
        let says = match label.split_first() {
            Some((&PLACE, place)) => number(place).map(Rows::Place),
            Some((&NAME, name)) => Some(Rows::Name(name)),
            Some((&CELL, both)) => both.split_at_checked(4).and_then(|(place, cell)| {
                Some(Rows::Cell(number(place)?, number(cell)?)) // the place first, as it is of others
            }),
            Some((&REFUSED, why)) => std::str::from_utf8(why).ok().map(Rows::Refused),
            Some((&SHARD, shard)) => number(shard).map(Rows::Shard),
            Some((&KEPT, [lane])) => Some(Rows::Kept(*lane)),
            _ => None,
        };
        says.ok_or_else(|| usage("a row between processes is damaged"))
    }
}

fn tagged(tag: u8, bytes: &[u8]) -> Box<[u8]> {
    [&[tag], bytes].concat().into()
}

pub(super) fn overflow() -> Error {
    let why = "the sum of a step leaves the range of 64-bit multiples of the grid; use a coarser grid";
    evertally::Error::overflow(why).into()
}

/// Of all that is refused the first by its text is told, so that it does not depend on who reads what.
pub(super) fn refused_too(first: &mut Option<String>, why: String) {
    if first.as_ref().is_none_or(|first| why < *first) {
        *first = Some(why);
    }
}

/// Sums of one process.
pub(super) struct Sums {
    sums: HashMap<(u64, u32), i64>,
}

impl Sums {
    pub(super) fn new() -> Self {
        Self { sums: HashMap::new() }
    }

    pub(super) fn add(&mut self, step: u64, label: u32, value: i64) -> Result<()> {
        let sum = self.sums.entry((step, label)).or_default();
        *sum = sum.checked_add(value).ok_or_else(overflow)?;
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.sums.len() >= MANY
    }

    /// All of them with the numbers of their groups, in the order of steps.
    pub(super) fn take_numbers(&mut self) -> Vec<(u64, u32, i64)> {
        let sums = std::mem::take(&mut self.sums).into_iter().filter(|(_, sum)| *sum != 0);
        let mut sums: Vec<(u64, u32, i64)> = sums.map(|((step, label), sum)| (step, label, sum)).collect();
        sums.sort_unstable();
        sums
    }

    /// All of them, in the order of steps and labels: the same sums give the same rows.
    pub(super) fn take(&mut self, labels: &Labels) -> Vec<Row> {
        let sums = std::mem::take(&mut self.sums).into_iter().filter(|(_, sum)| *sum != 0);
        let mut rows: Vec<Row> = sums.map(|((step, label), sum)| labels.row(step, label, sum)).collect();
        rows.sort_unstable();
        rows
    }
}
