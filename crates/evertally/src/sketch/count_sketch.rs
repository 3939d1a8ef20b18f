//! The count sketch (Charikar, Chen, Farach-Colton 2002) with private cells.
//!
//! An event of value `v` of item `i` adds `s_j(i) v` to the cell `h_j(i)` of every row `j`. `s_j(i)` times that cell is
//! the count of `i`, plus the counts of the items that share the cell with random signs (mean 0, variance at most
//! `F2/w` for the second moment `F2` of the counts), plus the cell's noise. The estimate is the median of the rows.
//!
//! **Second moment and products.** In each row, the sum over the cells of the product of two noiseless tables has mean
//! `Σ_i a_i b_i`: every item pairs with itself in one cell, and different items in a cell have independent signs. With
//! noise `Z` of variance `σ²`, `E (S+Z)² = S² + σ²`, so `w σ²` is subtracted from a square, and nothing from a product
//! of two tables whose noise is independent. The mean of the rows keeps this unbiased; a median would not. Given `S`,
//! with `F = Σ S²` of a row and `κ` the fourth moment of a cell's noise over `σ⁴` (3, or 3 + 3/n for sums of n Laplace
//! variables), the noise of a row's square has variance `4 σ² F + w (κ-1) σ⁴`, and that of a product
//! `σ_b² F_a + σ_a² F_b + w σ_a² σ_b²`.

use super::cells::{SketchCells, clock_and_state, item};
use super::estimate::{largest_first, median};
use super::median::{MedianNoise, terms};
use super::roster::HashFunctions;
use super::{Answers, Estimate, Hashing, HeavyHitter, Item, Roster, SketchPlan, Table};
use crate::noise::{GuardedKey, SecretKey, StreamName};
use crate::plan::NoiseKind;
use crate::{Error, Result};

/// Counts of items of any kind, in a table of few cells, under continual observation.
///
/// An estimate reads one cell per row. Its error comes from noise, as the [`Estimate`] states, and from collisions,
/// which the [`ErrorLaw`](super::ErrorLaw) of [`answer`](Self::answer) also covers. It is unbiased, for counts of any
/// sign.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally::plan::PlanRequest;
/// use evertally::sketch::{CountSketch, SketchPlan};
/// use evertally::stream::LazySampling;
///
/// let request = PlanRequest::count(1 << 20, Budget::Zcdp(Rho::new(0.5)?));
/// let plan = SketchPlan::new(request, "count-sketch(rows=5,width=1000000)".parse()?, LazySampling::Float)?;
/// let key = GuardedKey::published_nothing(SecretKey::generate()?);
/// let mut queries = CountSketch::new(plan, &key, "queries".parse()?)?;
///
/// for _ in 0..500 {
///     queries.add("zebra", 1)?; // an event of the open step
/// }
/// queries.tick()?;
/// queries.tick_through(5000)?; // quiet hours
/// let zebras = queries.estimate("zebra")?;
/// println!("{:.1} ± {:.1}", zebras.value, zebras.noise_std_error);
/// assert!((zebras.value - 500.0).abs() < 10.0 * zebras.noise_std_error);
/// assert_eq!(queries.touched(), 5);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct CountSketch {
    pub(super) cells: SketchCells,
    hashing: Hashing,
    median: MedianNoise,
    key_id: crate::noise::KeyId,
}

clock_and_state!(CountSketch);

impl CountSketch {
    /// A sketch before its first step. Use each name for one sketch only: noise is a function of key, name and plan.
    ///
    /// # Errors
    /// If the plan is not that of a count sketch, or does not support its sampling.
    pub fn new(plan: SketchPlan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        let table = plan.count_sketch_table()?;
        Ok(Self::of(SketchCells::new(plan, key, name)?, table, key))
    }

    /// Restores a saved sketch.
    ///
    /// # Errors
    /// If the bytes are damaged, of an unknown version, or belong to another plan, sketch or key.
    pub fn restore(plan: SketchPlan, key: &GuardedKey, name: StreamName, state: &[u8]) -> Result<Self> {
        let table = plan.count_sketch_table()?;
        Ok(Self::of(SketchCells::restore(plan, key, name, state)?, table, key))
    }

    fn of(cells: SketchCells, table: Table, key: &SecretKey) -> Self {
        let hashing = Hashing::new(key, cells.hash_name(), table);
        Self { cells, hashing, median: MedianNoise::new(table.rows()), key_id: key.id() }
    }

    /// Rows and width.
    pub fn table(&self) -> Table {
        self.hashing.table()
    }

    /// Adds an event of this item and value to the open step. The value is in multiples of the grid, and its absolute
    /// value within the plan's bounds.
    ///
    /// # Errors
    /// If the value is out of bounds, the horizon is used up, or a cell would leave the range of 64 bits. Nothing is
    /// added then.
    pub fn add<'a>(&mut self, item: impl Into<Item<'a>>, value: i64) -> Result<()> {
        self.cells.plan.check_size(value)?;
        let (hashing, table) = (&self.hashing, self.hashing.table());
        let item = self::item(item);
        self.cells.add_event(|parts| {
            hashing.each_place(item.as_bytes(), |row, bucket, sign| {
                // -2^63 has no negation, and exceeds the symmetric bounds with either sign.
                parts.push((table.cell(row, bucket), value.wrapping_mul(sign)));
            });
        })
    }

    /// The count of an item at the last closed step: the median of its cells.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn estimate<'a>(&mut self, item: impl Into<Item<'a>>) -> Result<Estimate> {
        let mut values = self.cells.read_rows(&self.hashing, 0, self::item(item).as_bytes(), true)?;
        let step = self.step();
        let factor = self.median.factor(self.cells.plan.plan(), step);
        let noise_std_error = (factor * self.cells.variance()).sqrt();
        Ok(Estimate { step, value: median(&mut values), noise_std_error })
    }

    /// The same for many items.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn estimate_many<'a, I: Into<Item<'a>>>(
        &mut self,
        items: impl IntoIterator<Item = I>,
    ) -> Result<Vec<Estimate>> {
        items.into_iter().map(|item| self.estimate(item)).collect()
    }

    /// Items to be queried together, perhaps at many steps: see [`answer`](Self::answer).
    ///
    /// # Errors
    /// If they lie in 2^31 cells or more.
    pub fn roster<'a, I: Into<Item<'a>>>(&self, items: impl IntoIterator<Item = I>) -> Result<Roster> {
        let horizon = self.plan().plan().horizon();
        Roster::new(&self.hashing, self.functions(), horizon, items.into_iter().map(Into::into))
    }

    /// The counts of all items of a roster at the last closed step: the estimates of [`estimate`](Self::estimate), with
    /// the law of their errors. Every cell is read once, on all processors, and the noise that a step shares with the
    /// previously queried step is cached: for long lists this is many times as fast as single estimates.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally::noise::{GuardedKey, SecretKey};
    /// use evertally::plan::PlanRequest;
    /// use evertally::sketch::{CountSketch, SketchPlan};
    /// use evertally::stream::LazySampling;
    ///
    /// let request = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?));
    /// let plan = SketchPlan::new(request, "count-sketch(rows=5,width=1000)".parse()?, LazySampling::Keyed)?;
    /// let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let mut pages = CountSketch::new(plan, &key, "pages".parse()?)?;
    /// let roster = pages.roster(["home", "shop"])?;
    /// for page in 0..20_000u64 {
    ///     pages.add(page, 1)?; // twenty in every cell
    /// }
    /// pages.tick()?;
    /// let answers = pages.answer(&roster)?;
    /// let half = answers.errors.half_width(0.95)?;
    /// println!("home: {:.1} ± {half:.1}", answers.values[0]);
    /// assert_eq!(answers.values[1], pages.estimate("shop")?.value);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the roster is that of a sketch with other hash functions, or no step is closed yet.
    pub fn answer(&mut self, roster: &Roster) -> Result<Answers> {
        let functions = self.functions();
        let (values, errors) = roster.read(&mut self.cells, &functions)?;
        let step = self.step();
        let factor = self.median.factor(self.cells.plan.plan(), step);
        let noise_std_error = (factor * self.cells.variance()).sqrt();
        Ok(Answers { step, values, noise_std_error, errors })
    }

    fn functions(&self) -> HashFunctions {
        HashFunctions { table: self.table(), key: self.key_id, name: self.cells.hash_name().clone() }
    }

    /// The candidates whose estimated counts reach a threshold, the largest first.
    ///
    /// Each standard error is that of a single item. Some of many candidates will be far above their counts by chance:
    /// about `n · P(noise ≥ threshold)` of `n` small ones are listed wrongly, and a list's largest estimates are too
    /// large on average. Under Gaussian noise, a threshold of `noise_std_error · √(2 ln n)` above the counts of
    /// interest lists a wrong item about one time in ten. Under Laplace noise, whose tails are heavier, use the
    /// half-width of [`intervals`](Self::intervals) at confidence `1 - 0.1/n`.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn heavy_hitters<'a, K: Clone + Into<Item<'a>>>(
        &mut self,
        candidates: impl IntoIterator<Item = K>,
        threshold: f64,
    ) -> Result<Vec<HeavyHitter<K>>> {
        if threshold.is_nan() {
            return Err(Error::invalid("the threshold of heavy hitters must be a number"));
        }
        let mut found = vec![];
        for key in candidates {
            let estimate = self.estimate(key.clone())?;
            if estimate.value >= threshold {
                found.push(HeavyHitter { key, estimate });
            }
        }
        largest_first(&mut found);
        Ok(found)
    }

    /// Standard error that collisions add to an estimate, for this second moment of the counts: `√(c F2/w)`, where `c`
    /// is the variance of the median of normal rows relative to one row. This is right if many items share a cell; if
    /// few items make up the moment, most estimates are better and a few are worse.
    pub fn collision_std_error(&self, second_moment: f64) -> f64 {
        (self.median.of_normal_rows() * second_moment.max(0.0) / self.table().width() as f64).sqrt()
    }

    /// The second moment of the counts, `Σ_i count_i²`, without bias. Reads the whole table; it may be negative if the
    /// noise is much larger than the counts. Its error from collisions is at most `F2 √(2/(w r))`.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn second_moment(&mut self) -> Result<Estimate> {
        let mut sum = 0.0;
        for cell in 0..self.table().cells() {
            let value = self.cells.read(cell)?;
            sum += value * value;
        }
        let (rows, width) = (f64::from(self.table().rows()), self.table().width() as f64);
        let (step, variance) = (self.step(), self.cells.variance());
        let value = sum / rows - width * variance;
        let law = self.plan().plan().mechanism().row_law(step);
        let kurtosis = match self.plan().plan().noise_kind() {
            NoiseKind::Gaussian => 3.0,
            NoiseKind::Laplace => 3.0 + 3.0 / terms(&law) as f64,
        };
        let row = 4.0 * variance * value.max(0.0) + width * (kurtosis - 1.0) * variance * variance;
        Ok(Estimate { step, value, noise_std_error: (row / rows).sqrt() })
    }

    /// `Σ_i a_i b_i` for the counts of two sketches, the size of a join, without bias. Reads both tables. Both need the
    /// same key, shape and hash name ([`SketchPlan::sharing_hashes`]), and different names. The step is that of this
    /// sketch.
    ///
    /// # Errors
    /// If the two have different hash functions or the same noise, or no step is closed yet.
    pub fn inner_product(&mut self, other: &mut CountSketch) -> Result<Estimate> {
        if self.functions() != other.functions() {
            return Err(Error::invalid(
                "the sketches have different hash functions; give both one key, one shape and one hash name",
            ));
        }
        let noise = |sketch: &Self| (sketch.cells.name.clone(), sketch.plan().plan().digest());
        if noise(self) == noise(other) {
            return Err(Error::invalid(
                "the sketches have the same noise; for the product of a sketch with itself, use its second moment",
            ));
        }
        let (mut product, mut ours, mut theirs) = (0.0, 0.0, 0.0);
        for cell in 0..self.table().cells() {
            let (a, b) = (self.cells.read(cell)?, other.cells.read(cell)?);
            product += a * b;
            ours += a * a;
            theirs += b * b;
        }
        let (rows, width) = (f64::from(self.table().rows()), self.table().width() as f64);
        let (a, b) = (self.cells.variance(), other.cells.variance());
        let moment = |sum: f64, variance: f64| (sum / rows - width * variance).max(0.0);
        let row = b * moment(ours, a) + a * moment(theirs, b) + width * a * b;
        Ok(Estimate { step: self.step(), value: product / rows, noise_std_error: (row / rows).sqrt() })
    }
}
