//! The rows that carry sums between processes.

use evertally_declare::error::{Result, usage};

/// The kind of a row between processes: the first byte of its label.
const PLACE: u8 = b'g';
const NAME: u8 = b'n';
const CELL: u8 = b'm';
const REFUSED: u8 = b'!';
const SHARD: u8 = b's';
const KEPT: u8 = b'k';

/// A row between processes. Rows of one step and label are added up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShuffleRow {
    /// The step, from 1; 0 if the row is not a sum.
    pub step: u64,
    /// The subject: a declared group by its place, another by its name, a refused event, or a shard that was read.
    pub label: Box<[u8]>,
    /// The sum that the step adds, in multiples of the group's grid; for other rows, how often they occur.
    pub sum: i64,
}

/// The meaning of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind<'a> {
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

impl ShuffleRow {
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

    /// One of the numbers of the digest of the events that were kept in a step.
    pub(super) fn of_kept(step: u64, number: u8, lane: u32) -> Self {
        Self { step, label: tagged(KEPT, &[number]), sum: lane.into() }
    }

    /// The meaning of a label.
    ///
    /// # Errors
    /// If this program did not write it.
    pub fn says(label: &[u8]) -> Result<RowKind<'_>> {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_be_bytes);
        let says = match label.split_first() {
            Some((&PLACE, place)) => number(place).map(RowKind::Place),
            Some((&NAME, name)) => Some(RowKind::Name(name)),
            Some((&CELL, both)) => both.split_at_checked(4).and_then(|(place, cell)| {
                Some(RowKind::Cell(number(place)?, number(cell)?)) // the place comes first, as in other rows
            }),
            Some((&REFUSED, why)) => std::str::from_utf8(why).ok().map(RowKind::Refused),
            Some((&SHARD, shard)) => number(shard).map(RowKind::Shard),
            Some((&KEPT, [lane])) => Some(RowKind::Kept(*lane)),
            _ => None,
        };
        says.ok_or_else(|| usage("a row passed between processes is damaged"))
    }
}

fn tagged(tag: u8, bytes: &[u8]) -> Box<[u8]> {
    [&[tag], bytes].concat().into()
}
