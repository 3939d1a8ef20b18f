//! Sums of steps and groups, and the rows that carry them between processes.

use super::digest::Digest;
use super::labels::Labels;
use evertally_declare::error::{Error, Result, usage};
use hashbrown::HashMap;

/// The number of sums that are kept before they must be taken.
const MANY: usize = 1 << 20;

/// The kind of a row between processes: the first byte of its label.
const PLACE: u8 = b'g';
const NAME: u8 = b'n';
const CELL: u8 = b'm';
const REFUSED: u8 = b'!';
const SHARD: u8 = b's';
const KEPT: u8 = b'k';

/// A row between processes. Rows of one step and label are added up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// The step, from 1; 0 if the row is not a sum.
    pub step: u64,
    /// The subject: a declared group by its place, another by its name, a refused event, or a shard that was read.
    pub label: Box<[u8]>,
    /// The sum that the step adds, in multiples of the group's grid; for other rows, how often they occur.
    pub sum: i64,
}

/// The meaning of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows<'a> {
    /// The sum of a declared group, by its place.
    Place(u32),
    /// The sum of a discovered group, by the library's name.
    Name(&'a [u8]),
    /// The sum of one measure's cell of a declared group: the group's place and the cell.
    Cell(u32, u32),
    /// Events were refused, for this reason.
    Refused(&'a str),
    /// A shard was bounded.
    Shard(u32),
    /// One of the numbers of the digest of the events that were kept in a step. They are added up modulo 2^32.
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

    /// The digest of the events that were kept in a step.
    pub(super) fn of_kept(step: u64, digest: Digest) -> impl Iterator<Item = Self> {
        let row = move |(number, lane): (u8, u32)| Self { step, label: tagged(KEPT, &[number]), sum: lane.into() };
        (0..).zip(digest.lanes()).map(row)
    }

    /// The meaning of a label.
    ///
    /// # Errors
    /// If this program did not write it.
    pub fn says(label: &[u8]) -> Result<Rows<'_>> {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_be_bytes);
        let says = match label.split_first() {
            Some((&PLACE, place)) => number(place).map(Rows::Place),
            Some((&NAME, name)) => Some(Rows::Name(name)),
            Some((&CELL, both)) => both.split_at_checked(4).and_then(|(place, cell)| {
                Some(Rows::Cell(number(place)?, number(cell)?)) // the place comes first, as in other rows
            }),
            Some((&REFUSED, why)) => std::str::from_utf8(why).ok().map(Rows::Refused),
            Some((&SHARD, shard)) => number(shard).map(Rows::Shard),
            Some((&KEPT, [lane])) => Some(Rows::Kept(*lane)),
            _ => None,
        };
        says.ok_or_else(|| usage("a row passed between processes is damaged"))
    }
}

fn tagged(tag: u8, bytes: &[u8]) -> Box<[u8]> {
    [&[tag], bytes].concat().into()
}

pub(super) fn overflow() -> Error {
    let why = "the sum of a step exceeds the range of 64-bit multiples of the grid; use a coarser grid";
    evertally::Error::overflow(why).into()
}

/// Of all refusals, the first in the order of their texts is reported, so that it does not depend on which process
/// reads what.
pub(super) fn refused_too(first: &mut Option<String>, why: String) {
    if first.as_ref().is_none_or(|first| why < *first) {
        *first = Some(why);
    }
}

/// The sums of one process.
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

    /// Takes all sums with the numbers of their groups, in the order of steps.
    pub(super) fn take_numbers(&mut self) -> Vec<(u64, u32, i64)> {
        let sums = std::mem::take(&mut self.sums).into_iter().filter(|(_, sum)| *sum != 0);
        let mut sums: Vec<(u64, u32, i64)> = sums.map(|((step, label), sum)| (step, label, sum)).collect();
        sums.sort_unstable();
        sums
    }

    /// Takes all sums in the order of steps and labels: the same sums give the same rows.
    pub(super) fn take(&mut self, labels: &Labels) -> Vec<Row> {
        let sums = std::mem::take(&mut self.sums).into_iter().filter(|(_, sum)| *sum != 0);
        let mut rows: Vec<Row> = sums.map(|((step, label), sum)| labels.row(step, label, sum)).collect();
        rows.sort_unstable();
        rows
    }
}
