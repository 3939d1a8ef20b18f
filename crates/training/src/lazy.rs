//! The noise of a large table, drawn per row when the row is used.
//!
//! An embedding has one row for each of very many words, users or items, and a batch uses few of them. The gradient of
//! all other rows is 0, but their noise is not: the table that is finally seen must have the noise of every step in
//! every row. As long as nobody sees a row, its noise can wait. LazyDP (arXiv 2404.08847) does this for independent
//! noise; this module does it for the correlated noise of any mechanism with few buffers. The noise that a row has
//! missed is drawn at once, together with the mechanism's kept vectors, **from the law that it has when it is drawn
//! step by step**, see [`gap`]. So the joint law of everything that is ever seen is that of
//! [`VectorNoise`](super::VectorNoise), whichever rows are used when.
//!
//! - `vector/recurrence.rs`: a mechanism's steps as linear maps of its kept vectors
//! - `gap`: many steps in one
//! - `touched`: the kept vectors of the rows that were used

mod gap;
mod touched;

#[cfg(test)]
mod tests;

use self::gap::{GapWeights, gaps};
use self::touched::{Found, Touched};
use super::recurrence::Recurrence;
use super::schedule::schedule;
use super::scheme::Scheme;
use super::sums::check_sum;
use super::{Memory, Real, Series, Tuning, VectorPlan};
use evertally::noise::{GuardedKey, Purpose, SecretKey, StreamName, subkey};
use evertally::number::threads::{asked, share};
use evertally::state::{Layout, StateId, damaged};
use evertally::{Error, ErrorKind, Result};
use evertally_kernels::{BlockName, Normals};
use serde::{Deserialize, Serialize};

/// Coordinates are numbered below this bound.
const MAX_COORDINATES: u64 = 1 << 56;
/// Rows whose noise is drawn in one pass: the working memory of a pass stays small.
const PASS: usize = 1 << 12;
/// A thread processes this many of them at a time.
const SHARE: usize = 64;

/// A table of parameters whose rows get their noise when they are used.
///
/// The caller owns the table: `rows · width` numbers, row after row. A step is that of gradient descent,
/// `table -= rate · (gradient + noise)`, where the gradient is 0 except in some rows:
///
/// 1. [`catch_up`](Self::catch_up) on the rows that the batch uses, **before** they are read: they get the noise of the
///    steps so far.
/// 2. [`descend`](Self::descend) with the sum of the clipped gradients of some of these rows, which also get the noise
///    of the step. In all other rows this noise is pending.
/// 3. At the end, and before anybody sees the table, call [`catch_up_all`](Self::catch_up_all).
///
/// After 3 the table has the law that it would have if every step had added `VectorNoise` to the gradient of all rows;
/// the guarantee is that of the plan, for the joint vector of all coordinates under one norm.
///
/// **Time and memory.** For each coordinate, a used row takes one normal variable more than the mechanism keeps
/// vectors, however many steps it has missed, and `O(vectors²)` multiplications. Used rows keep the mechanism's vectors
/// (`input`: nothing) until the last step; unused rows keep nothing. A call iterates over the steps that its longest
/// unused row has missed.
///
/// **Secrecy.** The table is secret between 1 and 3: a row with pending noise shows that it has had no gradient since.
/// This object and its saved states are as secret as the data, too: they reveal which rows were used.
///
/// ```
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally::privacy::{Budget, Rho};
/// use evertally_training::{RowNoise, Series, Tuning, VectorRequest};
/// let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0).with_series(Series::Increments);
/// let plan = request.with_mechanism("normalized-blt(buffers=2)".parse()?).plan()?;
/// let key = GuardedKey::published_nothing(SecretKey::generate()?);
/// let (rows, width) = (100_000, 8);
/// let mut noise = RowNoise::<f32>::new(plan, &key, "words".parse()?, (rows, width), &[0.1], Tuning::default())?;
/// let mut table = vec![0.0; (rows * width) as usize];
/// for word in [17, 4711] {
///     noise.catch_up(&mut table, &[word])?;
///     noise.descend(&mut table, &[word], &[0.25; 8])?; // of a clipped gradient
/// }
/// assert_eq!(noise.touched(), 2);
/// noise.catch_up_all(&mut table)?;
/// assert!(table.iter().all(|number| *number != 0.0));
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct RowNoise<F> {
    recurrence: Recurrence,
    rates: Vec<f64>,
    normals: Normals,
    state: StateId,
    threads: usize,
    rows: u64,
    width: u64,
    step: u64,
    calls: u64,
    touched: Touched<F>,
}

#[derive(Serialize, Deserialize)]
struct SavedRows {
    step: u64,
    calls: u64,
    floor: u64,
    /// Used rows, ascending, with the step up to which each has its noise.
    rows: Vec<(u64, u64)>,
}

impl<F: Real> RowNoise<F> {
    /// The noise of a table with this many rows and coordinates per row, before the first step. Each step multiplies
    /// the sum of a gradient and its noise by its rate in `rates`: the learning rate, divided by the expected batch
    /// size if gradients are sums. Give one rate for all steps or one for each.
    ///
    /// # Errors
    /// If the plan's series is not increments, its mechanism is a square root without bands or has too many bands
    /// for its horizon, the table is empty or has more than 2^56 coordinates, or a rate is not finite, or the
    /// number of rates is neither 1 nor the number of steps.
    pub fn new(
        plan: VectorPlan,
        key: &GuardedKey,
        name: StreamName,
        (rows, width): (u64, u64),
        rates: &[f64],
        tuning: Tuning,
    ) -> Result<Self> {
        let noise = Self::from_scheme(&Scheme::from(&plan), key, name.clone(), (rows, width), rates, tuning)?;
        key.begin(&name, noise.state.plan_digest(), Purpose::Rows(F::BITS as u8))?;
        Ok(noise)
    }

    fn from_scheme(
        scheme: &Scheme,
        key: &SecretKey,
        name: StreamName,
        (rows, width): (u64, u64),
        rates: &[f64],
        tuning: Tuning,
    ) -> Result<Self> {
        if scheme.series != Series::Increments {
            return Err(Error::invalid(
                "rows get the noise of each step's gradient: plan for the series of increments",
            ));
        }
        let fits = rows.checked_mul(width).is_some_and(|all| (1..=MAX_COORDINATES).contains(&all));
        if !fits || usize::try_from(width).is_err() {
            return Err(Error::invalid(format!(
                "a table has at least one row and one coordinate, and 2^56 coordinates at most, got {rows} rows of \
                 {width}"
            )));
        }
        let horizon = scheme.mechanism.horizon();
        // Before the list of rates is made: this refuses too many steps.
        let recurrence = Recurrence::new(&mut *schedule(scheme, Memory::Keep)?, horizon)?;
        let rates = rates_of(rates, horizon)?;
        let digest = digest(scheme, (rows, width), &rates);
        let state = StateId::from_digest(digest, key, name.clone(), Layout::Rows { rows, width, bits: F::BITS });
        let subkey = subkey(key, &name, &digest, Purpose::Rows(F::BITS as u8));
        let normals = Normals::new(scheme.cipher, &subkey, tuning.instructions);
        let kept = recurrence.width() * width as usize; // fits: checked; memory is allocated as rows are used
        let touched = Touched::new(kept);
        Ok(Self { recurrence, rates, normals, state, threads: tuning.threads, rows, width, step: 0, calls: 0, touched })
    }

    /// Steps taken.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The number of calls so far that have changed anything, or could have: noise is a function of them all, in their
    /// order.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Number of steps.
    pub fn horizon(&self) -> u64 {
        self.rates.len() as u64
    }

    /// Rows and coordinates of each.
    pub fn shape(&self) -> (u64, u64) {
        (self.rows, self.width)
    }

    /// Number of rows with kept vectors.
    pub fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Bytes of the kept vectors.
    pub fn memory_bytes(&self) -> usize {
        self.touched.memory_bytes()
    }

    /// Identifies everything that the noise depends on besides key and name: plan, shape and rates.
    pub fn digest(&self) -> [u8; 32] {
        *self.state.plan_digest()
    }

    /// Gives the rows of the table the noise of the steps that they have missed. Rows may be in any order and repeated;
    /// a row that has all its noise stays unchanged.
    ///
    /// # Errors
    /// If the table has another size, or there is no such row. Nothing changes then.
    pub fn catch_up(&mut self, table: &mut [F], rows: &[u64]) -> Result<()> {
        self.check_catch_up(table.len(), rows)?;
        self.calls += 1;
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows.dedup();
        rows.chunks(PASS).for_each(|rows| self.pass(table, rows.iter().copied(), None));
        Ok(())
    }

    /// Refuses what [`catch_up`](Self::catch_up) would refuse.
    ///
    /// # Errors
    /// As `catch_up`.
    pub fn check_catch_up(&self, table: usize, rows: &[u64]) -> Result<()> {
        self.check_table(table)?;
        match rows.iter().find(|row| **row >= self.rows) {
            Some(row) => {
                Err(Error::invalid(format!("there is no row {row}: rows are numbered 0 to {}", self.rows - 1)))
            }
            None => Ok(()),
        }
    }

    /// Gives every row of the table the noise that it has missed: after that the table may be published.
    ///
    /// # Errors
    /// If the table has another size. Nothing changes then.
    pub fn catch_up_all(&mut self, table: &mut [F]) -> Result<()> {
        self.check_table(table.len())?;
        self.calls += 1;
        for first in (0..self.rows).step_by(PASS) {
            self.pass(table, first..self.rows.min(first + PASS as u64), None);
        }
        self.touched.settle(self.step, self.step == self.horizon());
        Ok(())
    }

    /// Takes a step: `table -= rate · (gradient + noise)` in these rows, where `gradient` has a row for each of them;
    /// in all others the noise of the step is pending. Returns the number of the step.
    ///
    /// Gradient and noise are added before the result is rounded to the table's numbers, so that only published values
    /// are rounded. (A gradient that is first rounded to the table's digits could move by far more than its norm.)
    ///
    /// # Errors
    /// If the table or the gradient has another size, a number of the gradient is not finite, a row does not exist or
    /// is named twice, a row with a gradient has not [caught up](Self::catch_up) with the previous step, or all steps
    /// were taken. Nothing changes then. (Gradients computed from rows without their noise depend on exact sums, for
    /// which there is no guarantee.)
    pub fn descend(&mut self, table: &mut [F], rows: &[u64], gradient: &[F]) -> Result<u64> {
        self.check_descend(table.len(), rows, gradient)?;
        let rate = self.rates[self.step as usize]; // fits: below the horizon
        (self.step, self.calls) = (self.step + 1, self.calls + 1);
        let each = PASS * self.width as usize;
        for (rows, gradient) in rows.chunks(PASS).zip(gradient.chunks(each.max(1))) {
            self.pass(table, rows.iter().copied(), Some((rate, gradient)));
        }
        Ok(self.step)
    }

    /// Refuses what [`descend`](Self::descend) would refuse.
    ///
    /// # Errors
    /// As `descend`.
    pub fn check_descend(&self, table: usize, rows: &[u64], gradient: &[F]) -> Result<()> {
        self.check_catch_up(table, rows)?;
        check_sum(gradient, f64::INFINITY, None, self.threads)?;
        if rows.len().checked_mul(self.width as usize) != Some(gradient.len()) {
            return Err(Error::invalid(format!(
                "the gradient has {} numbers for {} rows of {}",
                gradient.len(),
                rows.len(),
                self.width
            )));
        }
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        if let Some([row, _]) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid(format!("row {row} has two gradients: pass their sum")));
        }
        let mut found = rows.iter().map(|row| self.touched.find(*row));
        if let Some(Found { row, last, .. }) = found.find(|found| found.last < self.step) {
            return Err(Error::invalid(format!(
                "row {row} has a gradient, but not the noise of steps {} to {}: catch up the rows of a batch before \
                 they are used",
                last + 1,
                self.step
            )));
        }
        if self.step == self.horizon() {
            return Err(Error::new(
                ErrorKind::HorizonExhausted,
                format!("all {} steps of the plan have been taken", self.step),
            ));
        }
        Ok(())
    }

    fn check_table(&self, len: usize) -> Result<()> {
        if len as u64 == self.rows * self.width {
            return Ok(());
        }
        Err(Error::invalid(format!("the table has {len} numbers, not {} rows of {}", self.rows, self.width)))
    }

    /// Draws the missed noise of some rows, each named once. With a gradient (and its rate), all rows must have the
    /// same gap, so that they keep their order.
    fn pass(&mut self, table: &mut [F], rows: impl Iterator<Item = u64>, gradient: Option<(f64, &[F])>) {
        let mut rows: Vec<Found> =
            rows.map(|row| self.touched.find(row)).filter(|found| found.last < self.step).collect();
        // Rows with the same gap together, the shortest gap first.
        rows.sort_by_key(|found| std::cmp::Reverse(found.last));
        let mut from: Vec<u64> = rows.iter().map(|found| found.last).collect();
        from.dedup();
        let weights: Vec<GapWeights<F>> =
            gaps(&self.recurrence, &self.rates, &from, self.step).iter().map(GapWeights::from).collect();
        let width = self.width as usize;
        let (kept, all) = (self.recurrence.width() * width, (self.recurrence.width() + 1) * width);
        // The vectors to keep and then the pending noise, row by row.
        let mut results = vec![F::default(); rows.len() * all];
        let tasks = rows.chunks(SHARE).zip(results.chunks_mut(SHARE * all));
        share(asked(self.threads).min(rows.len().div_ceil(SHARE)).max(1), tasks, |tasks| {
            let mut drawn = vec![F::default(); width];
            for (rows, results) in tasks {
                for (found, results) in rows.iter().zip(results.chunks_exact_mut(all)) {
                    let gap = from.binary_search_by(|from| found.last.cmp(from)).expect("of the rows");
                    self.row(*found, &weights[gap], &mut drawn, results);
                }
            }
        });
        let instructions = self.normals.instructions();
        for (number, (found, results)) in rows.iter().zip(results.chunks_exact(all)).enumerate() {
            let place = found.row as usize * width; // fits: within the table
            let own = &mut table[place..place + width];
            match gradient {
                None => F::subtract(instructions, own, &results[kept..]),
                Some((rate, gradient)) => {
                    let gradient = &gradient[number * width..(number + 1) * width];
                    descend_row(own, rate, gradient, &results[kept..]);
                }
            }
            self.touched.put(*found, self.step, &results[..kept]);
        }
    }

    /// Writes the next kept vectors and the pending noise of a row, from its kept vectors.
    fn row(&self, found: Found, weights: &GapWeights<F>, drawn: &mut [F], results: &mut [F]) {
        let draw = |variable: usize, drawn: &mut [F]| {
            // fits: a mechanism keeps fewer than 128 vectors, as `Recurrence` says; steps are below 2^56
            let name = BlockName { level: variable as u8, index: self.step };
            F::draw(&self.normals, name, found.row * self.width, drawn);
        };
        let width = self.width as usize;
        advance(self.normals.instructions(), weights, self.touched.kept(found), (width, drawn), &draw, results);
    }

    /// The bytes from which [`restore`](Self::restore) continues: the used rows and their kept vectors. **Keep them as
    /// secret as key and data.** The table is not included.
    pub fn save(&self) -> Vec<u8> {
        let rows = self.touched.rows();
        let lasts = rows.iter().map(|found| (found.row, found.last)).collect();
        let saved = SavedRows { step: self.step, calls: self.calls, floor: self.touched.floor(), rows: lasts };
        self.state.seal_with(&saved, |bytes| {
            rows.iter().for_each(|found| F::append_all(self.touched.kept(*found), bytes));
        })
    }

    /// Continues from a saved state of the same plan, key, name, shape and rates.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if the bytes are damaged or belong to something else.
    pub fn restore(
        plan: VectorPlan,
        key: &GuardedKey,
        name: StreamName,
        shape: (u64, u64),
        rates: &[f64],
        tuning: Tuning,
        state: &[u8],
    ) -> Result<Self> {
        let noise = Self::from_scheme(&Scheme::from(&plan), key, name.clone(), shape, rates, tuning)?;
        key.resume(&name, noise.state.plan_digest(), Purpose::Rows(F::BITS as u8))?;
        noise.with_state(state)
    }

    fn with_state(mut self, state: &[u8]) -> Result<Self> {
        let (saved, bytes): (SavedRows, _) = self.state.open_with(state)?;
        let each = self.recurrence.width() * self.width as usize * size_of::<F>();
        let rising = saved.rows.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let known = saved.rows.iter().all(|(row, last)| *row < self.rows && (saved.floor..=saved.step).contains(last));
        let expected = if saved.floor == self.horizon() { 0 } else { saved.rows.len().checked_mul(each).unwrap_or(1) };
        if saved.step > self.horizon() || saved.floor > saved.step || !rising || !known || bytes.len() != expected {
            return Err(damaged());
        }
        self.touched.settle(saved.floor, true);
        let mut kept = vec![F::default(); each / size_of::<F>()];
        for (place, (row, last)) in saved.rows.iter().enumerate() {
            F::read_into(&bytes[place * each..(place + 1) * each], &mut kept);
            self.touched.put(self.touched.find(*row), *last, &kept);
        }
        (self.step, self.calls) = (saved.step, saved.calls);
        Ok(self)
    }
}

/// `results = carry · kept + fresh · normals` for one row; `draw` writes one variable for all its coordinates.
fn advance<F: Real>(
    instructions: evertally_kernels::InstructionSet,
    weights: &GapWeights<F>,
    kept: &[F],
    (width, drawn): (usize, &mut [F]),
    draw: &dyn Fn(usize, &mut [F]),
    results: &mut [F],
) {
    results.fill(F::default());
    // A row that was never used has no kept vectors, which stands for 0.
    for (slot, kept) in kept.chunks_exact(width).enumerate() {
        for (weights, result) in weights.carry.iter().zip(results.chunks_exact_mut(width)) {
            if weights[slot] != F::default() {
                F::add_scaled(instructions, result, weights[slot], kept);
            }
        }
    }
    for (variable, weights) in weights.fresh.iter().enumerate().filter(|(_, weights)| !weights.is_empty()) {
        draw(variable, drawn);
        for (weight, result) in weights.iter().zip(results.chunks_exact_mut(width).skip(variable)) {
            if *weight != F::default() {
                F::add_scaled(instructions, result, *weight, drawn);
            }
        }
    }
}

/// `own -= rate · gradient + due`, in double precision: a gradient in single precision is not rounded before its noise
/// is added.
fn descend_row<F: Real>(own: &mut [F], rate: f64, gradient: &[F], due: &[F]) {
    for ((own, gradient), due) in own.iter_mut().zip(gradient).zip(due) {
        *own = F::of(own.double() - (rate * gradient.double() + due.double()));
    }
}

/// One rate for each step.
fn rates_of(rates: &[f64], horizon: u64) -> Result<Vec<f64>> {
    if let Some(rate) = rates.iter().find(|rate| !rate.is_finite()) {
        return Err(Error::invalid(format!("a rate must be a finite number, got {rate}")));
    }
    match *rates {
        [rate] => Ok(vec![rate; horizon as usize]), // fits: there is a program for each step
        _ if rates.len() as u64 == horizon => Ok(rates.to_vec()),
        _ => Err(Error::invalid(format!(
            "there are {} rates for {horizon} steps: pass one, or one for each step",
            rates.len()
        ))),
    }
}

/// Another shape or other rates must have independent noise: the same variables with other weights would reveal both.
fn digest(scheme: &Scheme, (rows, width): (u64, u64), rates: &[f64]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"evertally 1 rows").update(&scheme.digest);
    hasher.update(&rows.to_le_bytes()).update(&width.to_le_bytes());
    rates.iter().for_each(|rate| {
        hasher.update(&rate.to_bits().to_le_bytes());
    });
    *hasher.finalize().as_bytes()
}

impl<F> std::fmt::Debug for RowNoise<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowNoise")
            .field("step", &self.step)
            .field("horizon", &self.rates.len())
            .field("rows", &self.rows)
            .field("width", &self.width)
            .finish_non_exhaustive()
    }
}
