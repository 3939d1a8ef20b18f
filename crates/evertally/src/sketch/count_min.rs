//! The count-min sketch (Cormode, Muthukrishnan 2005) with private cells.
//!
//! An event of item `i` adds its value to the cell `h_j(i)` of every row `j`, and to the total. Without noise a cell
//! holds at least the count `f` of an item in it (values not below 0), and the smallest cell is the best estimate. With
//! noise the smallest of `r` cells is pulled down by the smallest of `r` noises, about `1.16 σ` for five rows, so there
//! are two useful answers:
//!
//! * **An estimate.** A cell has mean `f + (N - f)/w` over the hash functions, for the total `N` of all values. So
//!   `(w cell - N)/(w - 1)` has mean `f`, also with a private total of mean `N`. The estimate is the median of the
//!   rows. The total is one more running sum of every event, `r + 1` sums in total; adding up a row would cost `w`
//!   reads and have `w` times the variance. The error of the total is common to the rows: it shifts the median by
//!   `1/(w-1)` of its size. (Collisions are not symmetric: if counts are skewed, the median of a row lies below its
//!   mean, and so the median of the rows is somewhat too low. A [`CountSketch`](super::CountSketch) has no such bias.)
//! * **An upper end.** Let `j` be the row of the smallest cell: `f ≤ S_j = cell_j - Z_j ≤ min cell + max_k (-Z_k)`.
//!   Each of `r` noises stays above `-q` with probability `c^(1/r)`, independently: at confidence `c`,
//!   `f ≤ min cell + q`.

use super::cells::{SketchCells, clock_and_state, item};
use super::estimate::median;
use super::median::MedianNoise;
use super::{Estimate, Hashing, Item, Shape, SketchPlan, Table};
use crate::noise::{GuardedKey, SecretKey, StreamName};
use crate::{Error, Result};

/// Counts of items that only grow, with upper bounds, under continual observation.
///
/// For most purposes a [`CountSketch`](super::CountSketch) is better: its collisions cancel. This one gives an upper
/// bound for every count, whatever the other counts are, and the total.
///
/// ```
/// use evertally::privacy::{Budget, Epsilon};
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally::plan::PlanRequest;
/// use evertally::sketch::{CountMin, SketchPlan};
/// use evertally::stream::LazySampling;
///
/// let request = PlanRequest::count(1000, Budget::Pure(Epsilon::new(1.0)?));
/// let plan = SketchPlan::new(request, "count-min(rows=3,width=5000)".parse()?, LazySampling::Keyed)?;
/// let mut queries = CountMin::new(plan, &GuardedKey::published_nothing(SecretKey::generate()?), "queries".parse()?)?;
/// for _ in 0..3000 {
///     queries.add(7, 1)?;
/// }
/// queries.tick()?;
/// let upper = queries.upper_end(7, 0.999)?;
/// println!("{:.1}, at most {:.1}", queries.estimate(7)?.value, upper.value());
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct CountMin {
    pub(super) cells: SketchCells,
    hashing: Hashing,
    median: MedianNoise,
}

/// The upper bound of a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpperEnd {
    /// The closed step that it refers to.
    pub step: u64,
    /// The smallest cell of the item, in units of the data.
    pub least: f64,
    /// The allowance that is added for the noise.
    pub allowance: f64,
}

impl UpperEnd {
    /// The count is at most this, at the requested confidence.
    pub fn value(&self) -> f64 {
        self.least + self.allowance
    }
}

clock_and_state!(CountMin);

impl CountMin {
    /// A sketch before its first step. Use each name for one sketch only: noise is a function of key, name and plan.
    ///
    /// # Errors
    /// If the plan is not that of a count-min sketch, or does not support its sampling.
    pub fn new(plan: SketchPlan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        let table = table_of(&plan)?;
        Ok(Self::of(SketchCells::new(plan, key, name)?, table, key))
    }

    /// Restores a saved sketch.
    ///
    /// # Errors
    /// If the bytes are damaged, of an unknown version, or belong to another plan, sketch or key.
    pub fn restore(plan: SketchPlan, key: &GuardedKey, name: StreamName, state: &[u8]) -> Result<Self> {
        let table = table_of(&plan)?;
        Ok(Self::of(SketchCells::restore(plan, key, name, state)?, table, key))
    }

    fn of(cells: SketchCells, table: Table, key: &SecretKey) -> Self {
        let hashing = Hashing::new(key, cells.hash_name(), table);
        Self { cells, hashing, median: MedianNoise::new(table.rows()) }
    }

    /// Rows and width.
    pub fn table(&self) -> Table {
        self.hashing.table()
    }

    /// Adds an event of this item and value to the open step. The value is in multiples of the grid, within the plan's
    /// bounds.
    ///
    /// # Errors
    /// If the value is out of bounds, the horizon is used up, or a cell would leave the range of 64 bits. Nothing is
    /// added then.
    pub fn add<'a>(&mut self, item: impl Into<Item<'a>>, value: i64) -> Result<()> {
        let (hashing, table, item) = (&self.hashing, self.hashing.table(), self::item(item));
        self.cells.add_event(|parts| {
            hashing.each_place(item.as_bytes(), |row, bucket, _| parts.push((table.cell(row, bucket), value)));
            parts.push((table.cells(), value));
        })
    }

    /// The sum of all values at the last closed step.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn total(&mut self) -> Result<Estimate> {
        let value = self.cells.read(self.table().cells())?;
        Ok(Estimate { step: self.step(), value, noise_std_error: self.cells.variance().sqrt() })
    }

    /// The count of an item at the last closed step: the median of its cells, minus the mean share of other items.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn estimate<'a>(&mut self, item: impl Into<Item<'a>>) -> Result<Estimate> {
        let total = self.total()?;
        let mut values = self.cells.read_rows(&self.hashing, 0, self::item(item).as_bytes(), false)?;
        let others = self.table().width() as f64 - 1.0;
        // (w cell - N)/(w - 1) rises with the cell: so does the median.
        let value = median(&mut values);
        let value = value + (value - total.value) / others;
        let (step, variance) = (self.step(), self.cells.variance());
        let factor = self.median.factor(self.cells.plan.plan(), step);
        let share = 1.0 + 1.0 / others;
        let noise_std_error = (variance * (factor * share * share + 1.0 / (others * others))).sqrt();
        Ok(Estimate { step, value, noise_std_error })
    }

    /// An upper bound of the count of an item at the last closed step. For values that are not below 0.
    ///
    /// # Errors
    /// If the plan allows negative values, the confidence is not strictly between 0 and 1, or no step is closed yet.
    pub fn upper_end<'a>(&mut self, item: impl Into<Item<'a>>, confidence: f64) -> Result<UpperEnd> {
        let request = self.plan().plan().request();
        let grid = request.grid();
        if request.values().bounds().0 < 0 {
            return Err(Error::invalid("counts have no upper bound if values may be negative; use the estimate"));
        }
        if !(confidence > 0.0 && confidence < 1.0) {
            return Err(Error::invalid(format!("the confidence must be strictly between 0 and 1, got {confidence}")));
        }
        // One side of every row: a symmetric law has half of its outside mass on each side.
        let row = libm::exp(libm::log(confidence) / f64::from(self.table().rows()));
        let two_sided = (2.0 * row - 1.0).max(1e-9);
        let least = self
            .cells
            .read_rows(&self.hashing, 0, self::item(item).as_bytes(), false)?
            .into_iter()
            .fold(f64::INFINITY, f64::min);
        let step = self.step();
        let half_width = self.plan().plan().intervals(two_sided)?.half_width(step);
        Ok(UpperEnd { step, least, allowance: grid.to_f64(i128::try_from(half_width).unwrap_or(i128::MAX)) })
    }
}

fn table_of(plan: &SketchPlan) -> Result<Table> {
    match plan.shape() {
        Shape::CountMin(table) => Ok(table),
        other => Err(Error::invalid(format!("the plan is for a {other}, not for a count-min sketch"))),
    }
}
