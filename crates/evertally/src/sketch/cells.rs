//! The part that all sketches share: cells, clock and state.

use super::{Hashing, Item, SketchPlan};
use crate::Result;
use crate::noise::{GuardedKey, StreamName};
use crate::stream::{LazyVector, Release};
use smallvec::SmallVec;

/// One value per row.
pub(super) type RowValues = SmallVec<[f64; 8]>;

/// The cells of a sketch.
pub(super) struct SketchCells {
    pub(super) plan: SketchPlan,
    pub(super) vector: LazyVector,
    /// The name of the sketch, which distinguishes its noise.
    pub(super) name: StreamName,
    /// The cells of the event that is being added.
    parts: Vec<(u64, i64)>,
    /// Variance of a cell at a step.
    variance: (u64, f64),
}

impl SketchCells {
    pub(super) fn new(plan: SketchPlan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        let vector = LazyVector::new(plan.lazy().clone(), key, name.clone())?;
        Ok(Self::of(plan, name, vector))
    }

    pub(super) fn restore(plan: SketchPlan, key: &GuardedKey, name: StreamName, state: &[u8]) -> Result<Self> {
        let vector = LazyVector::restore(plan.lazy().clone(), key, name.clone(), state)?;
        Ok(Self::of(plan, name, vector))
    }

    fn of(plan: SketchPlan, name: StreamName, vector: LazyVector) -> Self {
        Self { plan, vector, name, parts: vec![], variance: (0, 0.0) }
    }

    /// The hash name.
    pub(super) fn hash_name(&self) -> &StreamName {
        self.plan.hash_name().unwrap_or(&self.name)
    }

    /// Adds an event to the named cells.
    pub(super) fn add_event(&mut self, fill: impl FnOnce(&mut Vec<(u64, i64)>)) -> Result<()> {
        self.parts.clear();
        fill(&mut self.parts);
        self.vector.add_event(&self.parts)
    }

    /// The release of a cell at the last closed step.
    pub(super) fn read(&mut self, cell: u64) -> Result<f64> {
        Ok(self.vector.read(cell)?.value())
    }

    /// The releases of many cells, in ascending order.
    pub(super) fn read_many(&mut self, cells: &[u64]) -> Result<Vec<f64>> {
        Ok(self.vector.read_many(cells)?.iter().map(Release::value).collect())
    }

    /// The cells of an item in the rows of a table that begins at the cell `first`, multiplied by the signs, if any.
    pub(super) fn read_rows(&mut self, hashing: &Hashing, first: u64, item: &[u8], signed: bool) -> Result<RowValues> {
        let table = hashing.table();
        let mut places = SmallVec::<[(u64, i64); 8]>::new();
        hashing.each_place(item, |row, bucket, sign| places.push((first + table.cell(row, bucket), sign)));
        places.into_iter().map(|(cell, sign)| Ok(self.read(cell)? * if signed { sign as f64 } else { 1.0 })).collect()
    }

    /// Variance of a cell's noise at the last closed step; 0 before the first.
    pub(super) fn variance(&mut self) -> f64 {
        let step = self.vector.step();
        if self.variance.0 != step {
            let std_error = self.plan.lazy().std_error(step);
            self.variance = (step, std_error * std_error);
        }
        self.variance.1
    }
}

/// The bytes of an item.
pub(super) fn item<'a>(item: impl Into<Item<'a>>) -> Item<'a> {
    item.into()
}

/// Clock and state of a sketch that has its [`SketchCells`] in `self.cells`.
macro_rules! clock_and_state {
    ($sketch:ident) => {
        impl $sketch {
            /// The plan.
            pub fn plan(&self) -> &SketchPlan {
                &self.cells.plan
            }

            /// The last closed step, 0 before the first.
            pub fn step(&self) -> u64 {
                self.cells.vector.step()
            }

            /// Closes the open step and returns it.
            ///
            /// # Errors
            /// As [`tick_through`](Self::tick_through).
            pub fn tick(&mut self) -> Result<u64> {
                self.cells.vector.tick()
            }

            /// Closes the open step and the empty ones after it through `step`, and returns it.
            ///
            /// # Errors
            /// If the step is closed already or beyond the horizon. Nothing is closed then.
            pub fn tick_through(&mut self, step: u64) -> Result<u64> {
                self.cells.vector.tick_through(step)
            }

            /// The number of cells whose noise is remembered.
            pub fn touched(&self) -> usize {
                self.cells.vector.touched()
            }

            /// The number of cell reads so far, repeated ones included. It is saved with the state: a restored sketch
            /// with fewer reads than were published is out of date.
            pub fn reads(&self) -> u64 {
                self.cells.vector.reads()
            }

            /// Bytes of memory for remembered noise and sums. It depends on the data: do not publish it.
            pub fn memory_bytes(&self) -> usize {
                self.cells.vector.memory_bytes()
            }

            /// The whole state, to restore it bit for bit. It holds data and, except under
            /// [`LazySampling::Keyed`](crate::stream::LazySampling::Keyed), noise: see
            /// [`LazyVector`](crate::stream::LazyVector).
            pub fn save(&self) -> Vec<u8> {
                self.cells.vector.save()
            }
        }

        impl std::fmt::Debug for $sketch {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // Neither sums nor noise.
                f.debug_struct(stringify!($sketch)).field("cells", &self.cells.vector).finish_non_exhaustive()
            }
        }
    };
}
pub(super) use clock_and_state;
