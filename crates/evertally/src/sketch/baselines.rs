//! The methods before lazy noise, for comparison: the same plan, hash functions and estimator, with another way to draw
//! the noise.
//!
//! Neither type is meant for use. [`EagerSketch`] has the releases of a [`CountSketch`](super::CountSketch) under
//! [`LazySampling::Keyed`](crate::stream::LazySampling::Keyed), at the cost of the whole table per step;
//! [`BufferedSketch`] pays for the whole table once per batch and answers from the last batch.

use super::cells::{SketchCells, item};
use super::estimate::median;
use super::{Hashing, Item, SketchPlan, Table};
use crate::mechanism::Cursor;
use crate::noise::{GuardedKey, KeyedNoise, Purpose, SecretKey, StreamName};
use crate::{Error, Result};

/// The largest number of cells that these baselines hold.
const MAX_CELLS: u64 = 1 << 24;

fn table_of(plan: &SketchPlan) -> Result<Table> {
    let table = plan.count_sketch_table()?;
    if table.cells() <= MAX_CELLS {
        return Ok(table);
    }
    Err(Error::invalid(format!("a baseline holds at most {MAX_CELLS} cells")))
}

fn hashing_of(plan: &SketchPlan, key: &SecretKey, name: &StreamName, table: Table) -> Hashing {
    Hashing::new(key, plan.hash_name().unwrap_or(name), table)
}

/// A baseline: a count sketch that draws the noise of every cell at every step (Epasto, Mao, Medina, Mirrokni,
/// Vassilvitskii, Zhong 2023), using the sequential sampler of the plan's mechanism in each cell.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally::plan::PlanRequest;
/// use evertally::sketch::{CountSketch, SketchPlan, baselines::EagerSketch};
/// use evertally::stream::LazySampling;
/// let request = PlanRequest::count(100, Budget::Zcdp(Rho::new(0.5)?));
/// let plan = SketchPlan::new(request, "count-sketch(rows=3,width=50)".parse()?, LazySampling::Keyed)?;
/// // Two ways to the same release, in one program: nothing else may issue the same noise twice.
/// let key = GuardedKey::allow_noise_reuse(SecretKey::generate()?);
/// let mut eager = EagerSketch::new(plan.clone(), &key, "queries".parse()?)?;
/// let mut lazy = CountSketch::new(plan, &key, "queries".parse()?)?;
/// eager.add("zebra", 1)?;
/// lazy.add("zebra", 1)?;
/// (eager.tick()?, lazy.tick()?);
/// // Releases are shown with four more digits than the grid.
/// assert!((eager.estimate("zebra")? - lazy.estimate("zebra")?.value).abs() < 1e-4);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct EagerSketch {
    plan: SketchPlan,
    hashing: Hashing,
    cells: Vec<EagerCell>,
    step: u64,
}

struct EagerCell {
    noise: KeyedNoise,
    cursor: Box<dyn Cursor>,
    /// Data, the open step included, in multiples of the grid.
    sum: i64,
    /// Noise at the last closed step.
    last: i128,
    /// Data at the last closed step.
    closed: i64,
}

impl EagerSketch {
    /// A sketch before its first step.
    ///
    /// # Errors
    /// If the plan is not that of a count sketch of at most 2^24 cells.
    pub fn new(plan: SketchPlan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        let table = table_of(&plan)?;
        let digest = plan.plan().digest();
        let sums = KeyedNoise::unrecorded(key.begin(&name, &digest, Purpose::Sums)?, &name, &digest, Purpose::Sums);
        let cell = |cell| {
            let cursor = plan.plan().mechanism().cursor();
            EagerCell { noise: sums.of_sum(cell), cursor, sum: 0, last: 0, closed: 0 }
        };
        let cells = (0..table.cells()).map(cell).collect();
        Ok(Self { hashing: hashing_of(&plan, key, &name, table), plan, cells, step: 0 })
    }

    /// Adds an event to the open step.
    ///
    /// # Errors
    /// If the value is out of bounds, or a cell leaves the range of 64 bits. Nothing is added then.
    pub fn add<'a>(&mut self, item: impl Into<Item<'a>>, value: i64) -> Result<()> {
        self.plan.check_size(value)?;
        let (table, mut places) = (self.hashing.table(), vec![]);
        self.hashing.each_place(self::item(item).as_bytes(), |row, bucket, sign| {
            places.push((table.cell(row, bucket) as usize, sign * value));
        });
        if places.iter().any(|(cell, value)| self.cells[*cell].sum.checked_add(*value).is_none()) {
            return Err(Error::overflow("a running sum leaves the range of 64-bit multiples of the grid"));
        }
        places.into_iter().for_each(|(cell, value)| self.cells[cell].sum += value);
        Ok(())
    }

    /// Closes the open step: draws the noise of every cell.
    ///
    /// # Errors
    /// If the horizon is used up.
    pub fn tick(&mut self) -> Result<u64> {
        let plan = self.plan.plan();
        if self.step == plan.horizon() {
            return Err(Error::new(crate::ErrorKind::HorizonExhausted, "the horizon of the sketch is used up"));
        }
        for cell in &mut self.cells {
            let noise = &cell.noise;
            cell.last = cell.cursor.advance(&mut |node| plan.law().sample(&mut noise.bits(node)));
            cell.closed = cell.sum;
        }
        self.step += 1;
        Ok(self.step)
    }

    /// The count of an item at the last closed step.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn estimate<'a>(&self, item: impl Into<Item<'a>>) -> Result<f64> {
        if self.step == 0 {
            return Err(Error::invalid("nothing can be read before the first step is closed"));
        }
        let (plan, table, mut values) = (self.plan.plan(), self.hashing.table(), vec![]);
        let unit = plan.request().grid().to_f64(1) * libm::exp2(-f64::from(plan.fraction_bits()));
        self.hashing.each_place(self::item(item).as_bytes(), |row, bucket, sign| {
            let cell = &self.cells[table.cell(row, bucket) as usize];
            // fits: as in a lazy vector.
            let units = (i128::from(cell.closed) << plan.fraction_bits()) + plan.rounded_noise(cell.last);
            values.push((i128::from(sign) * units) as f64 * unit);
        });
        Ok(median(&mut values))
    }
}

impl std::fmt::Debug for EagerSketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EagerSketch").field("step", &self.step).finish_non_exhaustive()
    }
}

/// A baseline: a count sketch whose events wait in a buffer and are applied in batches (Holland 2025). The noise of all
/// cells is drawn when a batch is applied, and queries are answered from the last batch: cheap on average, but up to
/// one batch out of date.
///
/// Batches end at fixed steps: the time to apply one must not depend on the number of events, which is secret. With one
/// event per step, the published rule is a batch of as many steps as cells.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally::plan::PlanRequest;
/// use evertally::sketch::{SketchPlan, baselines::BufferedSketch};
/// use evertally::stream::LazySampling;
/// let request = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.5)?));
/// let plan = SketchPlan::new(request, "count-sketch(rows=3,width=50)".parse()?, LazySampling::Keyed)?;
/// let key = GuardedKey::published_nothing(SecretKey::generate()?);
/// let mut sketch = BufferedSketch::new(plan, &key, "queries".parse()?, None)?;
/// for _ in 0..160 {
///     sketch.add("zebra", 1)?;
///     sketch.tick()?;
/// }
/// assert_eq!(sketch.applied(), 150);
/// assert!(sketch.estimate("zebra") < 160.0 + 100.0);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct BufferedSketch {
    cells: SketchCells,
    hashing: Hashing,
    /// Steps of a batch.
    batch: u64,
    step: u64,
    /// The table as of the last batch.
    released: Vec<f64>,
}

impl BufferedSketch {
    /// A sketch before its first step, with batches of this many steps, or as many steps as cells if `None`.
    ///
    /// # Errors
    /// If the plan is not that of a count sketch of at most 2^24 cells, or a batch has 0 steps.
    pub fn new(plan: SketchPlan, key: &GuardedKey, name: StreamName, batch: Option<u64>) -> Result<Self> {
        let table = table_of(&plan)?;
        let batch = batch.unwrap_or(table.cells());
        if batch == 0 {
            return Err(Error::invalid("a batch must have at least 1 step, got 0"));
        }
        let hashing = hashing_of(&plan, key, &name, table);
        let released = vec![0.0; table.cells() as usize];
        Ok(Self { cells: SketchCells::new(plan, key, name)?, hashing, batch, step: 0, released })
    }

    /// Adds an event to the open step.
    ///
    /// # Errors
    /// If the value is out of bounds or the horizon is used up.
    pub fn add<'a>(&mut self, item: impl Into<Item<'a>>, value: i64) -> Result<()> {
        let (hashing, table) = (&self.hashing, self.hashing.table());
        let item = self::item(item);
        self.cells.add_event(|parts| {
            hashing.each_place(item.as_bytes(), |row, bucket, sign| {
                parts.push((table.cell(row, bucket), value.wrapping_mul(sign)));
            });
        })
    }

    /// Closes the open step, and applies the buffer at the end of a batch.
    ///
    /// # Errors
    /// If the horizon is used up.
    pub fn tick(&mut self) -> Result<u64> {
        if self.step == self.cells.plan.plan().horizon() {
            return Err(Error::new(crate::ErrorKind::HorizonExhausted, "the horizon of the sketch is used up"));
        }
        self.step += 1;
        if self.step.is_multiple_of(self.batch) {
            self.cells.vector.tick_through(self.step)?;
            for cell in 0..self.released.len() {
                self.released[cell] = self.cells.read(cell as u64)?;
            }
        }
        Ok(self.step)
    }

    /// The step that answers refer to: the end of the last batch, 0 before the first.
    pub fn applied(&self) -> u64 {
        self.cells.vector.step()
    }

    /// The count of an item as of the last batch; 0 before the first.
    pub fn estimate<'a>(&self, item: impl Into<Item<'a>>) -> f64 {
        let (table, mut values) = (self.hashing.table(), vec![]);
        self.hashing.each_place(self::item(item).as_bytes(), |row, bucket, sign| {
            values.push(sign as f64 * self.released[table.cell(row, bucket) as usize]);
        });
        median(&mut values)
    }
}

impl std::fmt::Debug for BufferedSketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BufferedSketch").field("step", &self.step).finish_non_exhaustive()
    }
}
