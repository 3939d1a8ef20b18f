//! Items that are asked for together, and again and again.

use super::cells::Cells;
use super::error_law::ErrorLaw;
use super::estimate::median;
use super::{Estimate, Hashing, Table};
use crate::noise::{KeyId, StreamName};
use crate::{Error, Result};
use smallvec::SmallVec;

/// Cells that show the law of errors: at least so many, or all that there are.
const FEWEST: u64 = 1 << 11;
/// So many are enough: of intervals at 95 % from five rows, 95 ± 0.3 % hold in a given table, and 95 % on average.
const ENOUGH: u64 = 1 << 14;
/// All steps of a horizon read so many of them, as long as these are not too few.
const IN_ALL: u64 = 1 << 27;

/// Items of a [`CountSketch`](super::CountSketch) that are asked for together: where they lie in the table, looked up
/// once, and every cell read once, however many items share it. See
/// [`CountSketch::roster`](super::CountSketch::roster).
#[derive(Clone, Debug)]
pub struct Roster {
    functions: Functions,
    /// All cells that are read, in rising order.
    cells: Vec<u64>,
    /// Row after row of every item: twice the place among the cells, and 1 more where the sign is negative.
    places: Vec<u32>,
    /// How many of the first cells of every row show the law of errors.
    shown: u64,
}

/// What decides where items lie.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Functions {
    pub(super) table: Table,
    pub(super) key: KeyId,
    pub(super) name: StreamName,
}

/// The answers of a [`CountSketch`](super::CountSketch) to all items of a [`Roster`] at a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// The closed step they are of.
    pub step: u64,
    /// The estimates, in the order of the items.
    pub values: Vec<f64>,
    /// Standard error that the noise causes in each.
    pub noise_std_error: f64,
    /// What noise and collisions together do.
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
        functions: Functions,
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
            return Err(Error::invalid("these are too many items to be asked for together; ask for fewer at once"));
        }
        let place = |(cell, negative): (u64, bool)| {
            let place = cells.binary_search(&cell).expect("every cell is among all");
            (place as u32) << 1 | u32::from(negative) // fits: just checked
        };
        let places = found.into_iter().map(place).collect();
        Ok(Self { functions, cells, places, shown })
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.places.len() / self.functions.table.rows() as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many cells are read for all of them, and for the law of the errors.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// The estimates at the last closed step, and the law of their errors.
    pub(super) fn read(&self, cells: &mut Cells, functions: &Functions) -> Result<(Vec<f64>, ErrorLaw)> {
        if self.functions != *functions {
            return Err(Error::invalid(
                "the roster was made by a sketch with other hash functions; make it by the sketch that is asked",
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

/// How many cells of a row show the law of errors. A function of the plan alone: intervals must not depend on what else
/// is asked.
fn cells_shown(table: Table, horizon: u64) -> u64 {
    let cells = (IN_ALL / horizon).clamp(FEWEST, ENOUGH);
    cells.div_ceil(table.rows().into()).min(table.width())
}
