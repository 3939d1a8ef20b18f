//! Items that are queried together, repeatedly.

use super::cells::SketchCells;
use super::error_law::ErrorLaw;
use super::estimate::median;
use super::{Estimate, Hashing, Table};
use crate::noise::{KeyId, StreamName};
use crate::{Error, Result};
use smallvec::SmallVec;

/// Minimum number of cells that estimate the law of errors (or all cells, if there are fewer).
const MIN_CELLS: u64 = 1 << 11;
/// A sufficient number of cells: of intervals at 95 % from five rows, 95 ± 0.3 % hold in a given table, and 95 % on
/// average.
const SUFFICIENT_CELLS: u64 = 1 << 14;
/// Total number of cells read over all steps of a horizon, unless that leaves fewer than `MIN_CELLS` per step.
const TOTAL_CELLS: u64 = 1 << 27;

/// Items of a [`CountSketch`](super::CountSketch) that are queried together: their places in the table are looked up
/// once, and every cell is read once, however many items share it. See
/// [`CountSketch::roster`](super::CountSketch::roster).
#[derive(Clone, Debug)]
pub struct Roster {
    functions: HashFunctions,
    /// All cells that are read, in ascending order.
    cells: Vec<u64>,
    /// For each item, row by row: twice the place among the cells, plus 1 if the sign is negative.
    places: Vec<u32>,
    /// The number of first cells of every row that estimate the law of errors.
    shown: u64,
}

/// The hash functions, which determine the places of items.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HashFunctions {
    pub(super) table: Table,
    pub(super) key: KeyId,
    pub(super) name: StreamName,
}

/// The answers of a [`CountSketch`](super::CountSketch) to all items of a [`Roster`] at a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// The closed step that they refer to.
    pub step: u64,
    /// The estimates, in the order of the items.
    pub values: Vec<f64>,
    /// Standard error that the noise causes in each.
    pub noise_std_error: f64,
    /// The law of the errors due to noise and collisions.
    pub errors: ErrorLaw,
}

impl Answers {
    /// The estimate of an item, by its place.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn estimate(&self, item: usize) -> Estimate {
        Estimate { step: self.step, value: self.values[item], noise_std_error: self.noise_std_error }
    }
}

impl Roster {
    pub(super) fn new<'a>(
        hashing: &Hashing,
        functions: HashFunctions,
        horizon: u64,
        items: impl Iterator<Item = super::Item<'a>>,
    ) -> Result<Self> {
        let (table, mut found) = (functions.table, Vec::new());
        for item in items {
            let place = |row, bucket, sign| found.push((table.cell(row, bucket), sign < 0));
            hashing.each_place(item.as_bytes(), place);
        }
        let shown = cells_shown(table, horizon);
        let shown_cells = (0..table.rows()).flat_map(|row| (0..shown).map(move |bucket| table.cell(row, bucket)));
        let mut cells: Vec<u64> = found.iter().map(|(cell, _)| *cell).chain(shown_cells).collect();
        cells.sort_unstable();
        cells.dedup();
        if cells.len() >= 1 << 31 {
            return Err(Error::invalid("too many items for one query; query fewer at once"));
        }
        let place = |(cell, negative): (u64, bool)| {
            let place = cells.binary_search(&cell).expect("every cell is among all");
            (place as u32) << 1 | u32::from(negative) // fits: just checked
        };
        let places = found.into_iter().map(place).collect();
        Ok(Self { functions, cells, places, shown })
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.places.len() / self.functions.table.rows() as usize
    }

    /// Whether the roster is empty.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number of cells read for all items and for the law of the errors.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// The estimates at the last closed step, and the law of their errors.
    pub(super) fn read(&self, cells: &mut SketchCells, functions: &HashFunctions) -> Result<(Vec<f64>, ErrorLaw)> {
        if self.functions != *functions {
            return Err(Error::invalid(
                "the roster was made by a sketch with other hash functions; make it with the sketch that is queried",
            ));
        }
        let values = cells.read_many(&self.cells)?;
        let table = self.functions.table;
        let mut rows = SmallVec::<[f64; 8]>::new();
        let estimates = self.places.chunks_exact(table.rows() as usize).map(|places| {
            rows.clear();
            let value = |place: &u32| values[(place >> 1) as usize] * if place & 1 == 0 { 1.0 } else { -1.0 };
            rows.extend(places.iter().map(value));
            median(&mut rows)
        });
        let estimates = estimates.collect();
        let shown = self.cells.iter().zip(&values).filter(|(cell, _)| *cell % table.width() < self.shown);
        Ok((estimates, ErrorLaw::of_cells(shown.map(|(_, value)| *value), table.rows())))
    }
}

/// The number of cells of a row that estimate the law of errors. A function of the plan alone: intervals must not
/// depend on other queries.
fn cells_shown(table: Table, horizon: u64) -> u64 {
    let cells = (TOTAL_CELLS / horizon).clamp(MIN_CELLS, SUFFICIENT_CELLS);
    cells.div_ceil(table.rows().into()).min(table.width())
}
