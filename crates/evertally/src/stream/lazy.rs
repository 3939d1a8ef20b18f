//! A vector of very many running sums, or sums of windows, of which only some are read.

#[expect(clippy::float_arithmetic, reason = "noise in doubles, then rounded to units")]
mod buffers;
mod cells;
mod forward;
mod history;
mod path;
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "error and scale of the noise: public")]
mod plan;
mod recent;
mod stateless;

pub use plan::{LazyPlan, LazySampling};
pub use stateless::StatelessVector;

use super::Release;
use super::series::{check_step, check_value};
use crate::noise::{ALL, GuardedKey, NoiseClaim, SecretKey, StepData, StepGuard, StreamName};
use crate::state::{Layout, StateId};
use crate::{Error, Result};
use cells::VectorCells;
use hashbrown::HashMap;
use history::{History, SavedHistory};
use recent::Recent;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Up to 2^40 running sums under continual observation, with noise only for the sums that are read.
///
/// Noise has exactly the joint law it would have if every sum had its noise drawn at every step; time and memory grow
/// with the events and reads alone. A step is open while events are added to it; [`tick`](Self::tick) closes it, and
/// [`read`](Self::read) gives the release of any sum at the last closed step, the same value on every call.
///
/// The budget of the plan covers all sums at all steps. Anyone may choose the reads, also adaptively from earlier
/// releases. An event may be added to as many sums as
/// [`PlanRequest::sums_per_event`](crate::plan::PlanRequest::sums_per_event) says.
///
/// **Windows.** Under [`LazySampling::Keyed`] the plan's [workload](crate::plan::PlanRequest::with_workload) may be a
/// window: a read is then the sum of the last steps, whose noise depends only on the coordinate and the step.
///
/// **Earlier steps.** Under [`LazySampling::Keyed`] a vector can remember the sums of all closed steps
/// ([`LazyPlan::with_history`]); then [`read_at`](Self::read_at) reads them in any order.
///
/// **State.** Under [`LazySampling::Keyed`] the state holds only sums of data. Under the others it also holds the noise
/// drawn so far: save it before publishing the reads since the last save, and keep it as safe as the data. If a state
/// is lost or restored from an older copy, do not read from it any more: keep the number of [`reads`](Self::reads)
/// elsewhere, and compare. See `docs/threat-model.md`.
///
/// **The choice of reads is public.** Choose them from public lists or earlier releases. Reading or publishing exactly
/// the sums with events reveals where events are.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally::plan::PlanRequest;
/// use evertally::stream::{LazyPlan, LazyVector, LazySampling};
///
/// let request = PlanRequest::count(1 << 20, Budget::Zcdp(Rho::new(0.5)?));
/// let plan = LazyPlan::best(request, 1_000_000_000, LazySampling::Float)?;
/// let mut visits = LazyVector::new(plan, &GuardedKey::published_nothing(SecretKey::generate()?), "visits".parse()?)?;
///
/// visits.add(123_456_789, 1)?; // an event of the open step
/// visits.tick()?;
/// visits.tick_through(5000)?; // quiet hours
/// let release = visits.read(123_456_789)?;
/// println!("{release} ± {:.1}", visits.plan().std_error(release.step()));
/// assert_eq!(visits.read(123_456_789)?, release);
/// assert_eq!(visits.touched(), 1);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct LazyVector {
    plan: LazyPlan,
    id: StateId,
    cells: Box<dyn VectorCells>,
    /// Sums of the closed steps; empty if windows are read.
    sums: HashMap<u64, i64>,
    /// Recent totals, for windows.
    recent: Option<Recent>,
    /// The sums of all closed steps, if earlier steps are read.
    history: Option<History>,
    /// The open step's addition to each; no sum leaves 64 bits with it.
    open: HashMap<u64, i64>,
    step: u64,
    reads: u64,
    /// Claims each read, if the record of the key knows steps.
    guard: StepGuard,
}

/// The changing part of a state.
#[derive(Serialize, Deserialize)]
struct SavedLazy {
    step: u64,
    reads: u64,
    sums: Vec<(u64, i64)>,
    open: Vec<(u64, i64)>,
    cells: Vec<u8>,
}

/// The same if windows are read.
#[derive(Serialize, Deserialize)]
struct SavedWindows {
    saved: SavedLazy,
    recent: recent::SavedRecent,
}

/// The same if earlier steps are read.
#[derive(Serialize, Deserialize)]
struct SavedWithHistory {
    saved: SavedLazy,
    history: SavedHistory,
}

/// The claim of a vector on its noise.
fn claim<'a>(plan: &LazyPlan, name: &'a StreamName, plan_digest: &'a [u8; 32], is_resumed: bool) -> NoiseClaim<'a> {
    NoiseClaim { name, plan_digest, purpose: plan.purpose(), part: ALL, is_resumed }
}

fn check_coordinate(plan: &LazyPlan, coordinate: u64) -> Result<()> {
    let coordinates = plan.coordinates();
    if coordinate < coordinates {
        return Ok(());
    }
    Err(Error::invalid(format!("there is no running sum {coordinate}: they are numbered 0 to {}", coordinates - 1)))
}

/// Refuses an event that names a sum twice. Events whose parts are in ascending order need no check.
fn check_different(parts: &[(u64, i64)]) -> Result<()> {
    let mut coordinates: SmallVec<[u64; 32]> = parts.iter().map(|(coordinate, _)| *coordinate).collect();
    coordinates.sort_unstable();
    match coordinates.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(Error::invalid(format!("the event is added twice to the running sum {}", pair[0]))),
    }
}

fn sorted(sums: &HashMap<u64, i64>) -> Vec<(u64, i64)> {
    let mut sums: Vec<(u64, i64)> = sums.iter().map(|(coordinate, sum)| (*coordinate, *sum)).collect();
    sums.sort_unstable();
    sums
}

impl LazyVector {
    /// A vector before its first step. Use each name for one vector only: noise is a function of key, name and plan.
    ///
    /// # Errors
    /// As [`RunningSum::new`](super::RunningSum::new).
    pub fn new(plan: LazyPlan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        let (key, guard) = key.claim_by_steps(claim(&plan, &name, &plan.plan().digest(), false))?;
        Ok(Self { guard, ..Self::with_key(plan, key, name) })
    }

    fn with_key(plan: LazyPlan, key: &SecretKey, name: StreamName) -> Self {
        let cells = plan.cells(key, &name);
        let layout = Layout::Vector {
            coordinates: plan.coordinates(),
            sampling: plan.sampling().code(),
            law: plan.law_digest(),
        };
        let id = StateId::new(plan.plan(), key, name, layout);
        let workload = plan.plan().mechanism().workload();
        let recent = (!workload.is_sum()).then(|| Recent::new(workload.reach(plan.plan().horizon())));
        let history = plan.has_history().then(History::default);
        let (sums, open, guard) = (HashMap::new(), HashMap::new(), StepGuard::default());
        Self { plan, id, cells, sums, recent, history, open, step: 0, reads: 0, guard }
    }

    /// The plan.
    pub fn plan(&self) -> &LazyPlan {
        &self.plan
    }

    /// The last closed step, 0 before the first.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Adds an event of this value to one running sum in the open step. The value is in multiples of the grid, within
    /// the plan's bounds.
    ///
    /// # Errors
    /// As [`add_event`](Self::add_event).
    pub fn add(&mut self, coordinate: u64, value: i64) -> Result<()> {
        self.add_event(&[(coordinate, value)])
    }

    /// Adds one event to several different running sums in the open step: (coordinate, value) pairs, at most as many as
    /// the plan allows.
    ///
    /// # Errors
    /// If there are too many pairs, a coordinate is beyond the vector or named twice, or a value is out of bounds; if
    /// the horizon is used up, or a sum would leave the range of 64 bits. Nothing is added then.
    pub fn add_event(&mut self, parts: &[(u64, i64)]) -> Result<()> {
        let plan = self.plan.plan();
        check_step(plan, self.step)?;
        let most = plan.request().sums_per_event();
        if parts.len() as u64 > most {
            return Err(Error::invalid(format!(
                "the plan allows an event in {most} running sums, and this one is in {}",
                parts.len()
            )));
        }
        if !parts.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            check_different(parts)?;
        }
        for (coordinate, value) in parts {
            check_coordinate(&self.plan, *coordinate)?;
            check_value(plan, *value)?;
            self.check_room(*coordinate, *value)?;
        }
        for (coordinate, value) in parts {
            *self.open.entry(*coordinate).or_default() += value; // fits: just checked
        }
        Ok(())
    }

    /// The sum including its open step must fit 64 bits, so that closing cannot fail; for a window, the sum of the
    /// absolute values of all its steps.
    fn check_room(&self, coordinate: u64, value: i64) -> Result<()> {
        let of = |sums: &HashMap<u64, i64>| sums.get(&coordinate).copied().unwrap_or(0);
        let open = of(&self.open).checked_add(value);
        let fits = open.is_some_and(|open| match &self.recent {
            None => open.checked_add(of(&self.sums)).is_some(),
            Some(recent) => i64::try_from(recent.size(coordinate).saturating_add(open.unsigned_abs())).is_ok(),
        });
        fits.then_some(()).ok_or_else(|| {
            Error::overflow(format!(
                "the running sum {coordinate} leaves the range of 64-bit multiples of the grid; use a coarser grid"
            ))
        })
    }

    /// Closes the open step.
    ///
    /// # Errors
    /// As [`tick_through`](Self::tick_through).
    pub fn tick(&mut self) -> Result<u64> {
        self.tick_through(self.step + 1)
    }

    /// Closes the open step and the empty ones after it through `step`, and returns it. The time depends on the events
    /// of the open step alone, not on the number of closed steps.
    ///
    /// # Errors
    /// If the step is closed already or beyond the horizon. Nothing is closed then.
    pub fn tick_through(&mut self, step: u64) -> Result<u64> {
        if step <= self.step {
            return Err(Error::invalid(format!("step {step} is closed already; the open one is {}", self.step + 1)));
        }
        check_step(self.plan.plan(), step - 1)?;
        let closing = self.step + 1; // fits: within the horizon
        for (coordinate, value) in self.open.drain() {
            match &mut self.recent {
                None => {
                    let sum = self.sums.entry(coordinate).or_default();
                    *sum += value; // fits: see `check_room`
                    if let Some(history) = &mut self.history {
                        history.close(coordinate, closing, *sum);
                    }
                }
                Some(recent) => recent.close(coordinate, closing, value),
            }
        }
        self.step = step;
        if let Some(recent) = &mut self.recent {
            recent.sweep(step);
        }
        Ok(step)
    }

    /// The release of a running sum at the last closed step.
    ///
    /// # Errors
    /// If the coordinate is beyond the vector, or no step is closed yet; or if the record of the key shows that another
    /// object of this name has made reads from the same state. Nothing is read then.
    pub fn read(&mut self, coordinate: u64) -> Result<Release> {
        check_coordinate(&self.plan, coordinate)?;
        if self.step == 0 {
            return Err(Error::invalid("nothing can be read before the first step is closed"));
        }
        self.claim_reads(1)?;
        let noise = self.cells.noise(coordinate, self.step);
        Ok(self.plan.release(self.step, self.exact(coordinate), noise))
    }

    /// The release of a running sum at a closed step, in any order of steps, in `O(log T)` draws. Reading a step again
    /// gives the same value. Steps before the last closed one need a plan [with a history](LazyPlan::with_history).
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally::noise::{GuardedKey, SecretKey};
    /// use evertally::plan::PlanRequest;
    /// use evertally::stream::{LazyPlan, LazyVector, LazySampling};
    ///
    /// let request = PlanRequest::count(1 << 20, Budget::Zcdp(Rho::new(0.5)?));
    /// let plan = LazyPlan::best(request, 1_000_000_000, LazySampling::Keyed)?.with_history()?;
    /// let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let mut visits = LazyVector::new(plan, &key, "visits".parse()?)?;
    /// visits.tick_through(5000)?;
    /// let now = visits.read(77)?;
    /// visits.add(77, 1)?;
    /// visits.tick_through(9000)?;
    /// assert_eq!(visits.read_at(77, 5000)?, now);
    /// assert_eq!(visits.read_at(77, 3000)?.step(), 3000);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read); if the step is not closed yet, or if it is not the last closed one and the plan has no
    /// history.
    pub fn read_at(&mut self, coordinate: u64, step: u64) -> Result<Release> {
        if step == self.step {
            return self.read(coordinate);
        }
        check_coordinate(&self.plan, coordinate)?;
        if step == 0 || step > self.step {
            return Err(Error::invalid(format!("step {step} is not closed: the closed ones are 1 to {}", self.step)));
        }
        let Some(history) = &self.history else {
            return Err(Error::invalid(format!(
                "step {step} is before the last closed one, {}: reading it needs a plan with a history",
                self.step
            )));
        };
        let sum = history.sum(coordinate, step);
        self.claim_reads(1)?;
        Ok(self.plan.release(step, sum, self.cells.noise(coordinate, step)))
    }

    /// Counts reads, and claims them: their noise depends on all earlier reads, so they are made only once.
    fn claim_reads(&mut self, count: u64) -> Result<()> {
        if count > 0 {
            self.guard.claim(self.reads + 1..=self.reads + count, StepData::Unknown)?;
            self.reads += count;
        }
        Ok(())
    }

    /// The exact value that the release of a sum reads.
    fn exact(&self, coordinate: u64) -> i64 {
        match &self.recent {
            None => self.sums.get(&coordinate).copied().unwrap_or(0),
            Some(recent) => recent.sum(coordinate, self.step),
        }
    }

    /// The releases of many running sums (in ascending order, without duplicates) at the last closed step. The values
    /// are those of [`read`](Self::read), computed on all processors. Under [`LazySampling::Keyed`] this is several
    /// times as fast if the same sums are read step after step: the noise that a step shares with the last call is
    /// cached, in up to 100 MB. (The cache is not part of the state.)
    ///
    /// ```
    /// # use evertally::privacy::{Budget, Rho};
    /// # use evertally::noise::{GuardedKey, SecretKey};
    /// # use evertally::plan::PlanRequest;
    /// # use evertally::stream::{LazyPlan, LazyVector, LazySampling};
    /// let request = PlanRequest::count(1 << 20, Budget::Zcdp(Rho::new(0.5)?));
    /// let plan = LazyPlan::best(request, 1_000_000_000, LazySampling::Keyed)?;
    /// let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let mut visits = LazyVector::new(plan, &key, "visits".parse()?)?;
    /// visits.tick_through(77)?;
    /// assert_eq!(visits.read_many(&[5, 123_456_789])?[1], visits.read(123_456_789)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a coordinate is beyond the vector, they are not in ascending order, or no step is closed yet, and as
    /// [`read`](Self::read). Nothing is read then.
    pub fn read_many(&mut self, coordinates: &[u64]) -> Result<Vec<Release>> {
        if let Some(pair) = coordinates.windows(2).find(|pair| pair[0] >= pair[1]) {
            let (first, second) = (pair[0], pair[1]);
            return Err(Error::invalid(format!("read running sums in ascending order, not {second} after {first}")));
        }
        if let Some(last) = coordinates.last() {
            check_coordinate(&self.plan, *last)?;
        }
        if self.step == 0 {
            return Err(Error::invalid("nothing can be read before the first step is closed"));
        }
        self.claim_reads(coordinates.len() as u64)?;
        let noises = self.cells.noises(coordinates, self.step);
        let release = |(coordinate, noise): (&u64, i128)| self.plan.release(self.step, self.exact(*coordinate), noise);
        Ok(coordinates.iter().zip(noises).map(release).collect())
    }

    /// The number of reads so far. It is saved with the state: a restored vector with fewer reads than were published
    /// is out of date.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// The number of running sums whose noise is remembered.
    pub fn touched(&self) -> usize {
        self.cells.touched()
    }

    /// Bytes of memory for remembered noise and sums. It depends on the data, like the length of a saved state: do not
    /// publish it.
    pub fn memory_bytes(&self) -> usize {
        let recent = self.recent.as_ref().map_or(0, Recent::memory_bytes);
        let history = self.history.as_ref().map_or(0, History::memory_bytes);
        self.cells.memory_bytes() + self.sums.allocation_size() + recent + history + self.open.allocation_size()
    }

    /// The whole state, which [`restore`](Self::restore) restores bit for bit. It holds data and, except under
    /// [`LazySampling::Keyed`], noise.
    pub fn save(&self) -> Vec<u8> {
        let (sums, open) = (sorted(&self.sums), sorted(&self.open));
        let saved = SavedLazy { step: self.step, reads: self.reads, sums, open, cells: self.cells.save() };
        match (&self.recent, &self.history) {
            (None, None) => self.id.seal(&saved),
            (Some(recent), _) => self.id.seal(&SavedWindows { saved, recent: recent.save(self.step) }),
            (None, Some(history)) => self.id.seal(&SavedWithHistory { saved, history: history.save() }),
        }
    }

    /// Restores a saved vector.
    ///
    /// # Errors
    /// If the bytes are damaged, of an unknown version, or belong to another plan, vector or key.
    pub fn restore(plan: LazyPlan, key: &GuardedKey, name: StreamName, state: &[u8]) -> Result<Self> {
        let (key, guard) = key.claim_by_steps(claim(&plan, &name, &plan.plan().digest(), true))?;
        let mut vector = Self::with_key(plan, key, name);
        let (saved, recent, history) = match (&vector.recent, &vector.history) {
            (None, None) => (vector.id.open::<SavedLazy>(state)?, vec![], vec![]),
            (Some(_), _) => {
                let SavedWindows { saved, recent } = vector.id.open(state)?;
                (saved, recent, vec![])
            }
            (None, Some(_)) => {
                let SavedWithHistory { saved, history } = vector.id.open(state)?;
                (saved, vec![], history)
            }
        };
        if saved.step > vector.plan.plan().horizon() {
            return Err(Error::state("the saved state is damaged; restore an undamaged copy"));
        }
        vector.cells.restore(&saved.cells, saved.step)?;
        if let Some(own) = &mut vector.recent {
            own.restore(recent, saved.step, vector.plan.coordinates())?;
        }
        (vector.step, vector.reads) = (saved.step, saved.reads);
        vector.guard = guard.resumed_from(saved.reads);
        (vector.sums, vector.open) = (saved.sums.into_iter().collect(), saved.open.into_iter().collect());
        if vector.history.is_some() {
            vector.history = Some(History::restored(history, vector.step, &vector.sums)?);
        }
        Ok(vector)
    }
}

impl std::fmt::Debug for LazyVector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither sums nor noise.
        f.debug_struct("LazyVector").field("plan", &self.plan).field("step", &self.step).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod frozen;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod windows;
