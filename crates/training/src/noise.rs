//! The noise of a vector, step by step.

mod ahead;
mod prefetched;

use super::blocks::{self, Blocks, ResponseFilter};
use super::buffer::Buffer;
use super::execute::{self, Emit, ProgramPass, Sources};
use super::program::Op;
use super::schedule::{Schedule, schedule};
use super::scheme::Scheme;
use super::sums::check_sum;
use super::{Real, Tuning, VectorPlan};
use evertally::noise::{GuardedKey, Node, NoiseClaim, Purpose, SecretKey, StepData, StepGuard, StreamName, subkey};
use evertally::number::threads;
use evertally::state::{Layout, StateId, damaged};
use evertally::{Error, ErrorKind, Result};
use evertally_kernels::Normals;
use prefetched::{BufferState, Prefetched};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Coordinates are numbered below this bound: tails of normal variables count them in 56 bits.
pub(super) const MAX_COORDINATES: u64 = 1 << 56;

/// The noise of a range of a vector's coordinates, one step after another.
///
/// A step writes `σ (L z)_t`, or its increment, see [`Series`](super::Series), into a slice with one element per
/// coordinate. Coordinates are numbered in the whole vector: a worker that owns `a .. b` gets exactly the elements
/// `a .. b` that a single worker for all coordinates would get.
///
/// **Secrecy.** The noise, this object and its [saved states](Self::save) are as secret as the key: anyone who knows
/// the noise can compute the data from the release.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally_training::{Series, Tuning, VectorNoise, VectorRequest};
///
/// // A hundred steps of training, gradients clipped to norm 1; every step's sum gets its own noise.
/// let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
/// let plan = request.with_series(Series::Increments).plan()?;
/// // Two ways to the same release, in one program: nothing else may issue the same noise twice.
/// let key = GuardedKey::allow_noise_reuse(SecretKey::generate()?);
/// let mut noise = VectorNoise::<f32>::new(plan.clone(), &key, "run 17".parse()?, 0..1000, Tuning::default())?;
/// let mut gradient = vec![0.25; 1000];
/// noise.add_next(&mut gradient)?;
///
/// // A worker for some of the coordinates has the same noise.
/// let mut worker = VectorNoise::<f32>::new(plan.clone(), &key, "run 17".parse()?, 300..400, Tuning::default())?;
/// let mut part = vec![0.25; 100];
/// worker.add_next(&mut part)?;
/// assert_eq!(part, gradient[300..400]);
/// # Ok::<(), evertally::Error>(())
/// ```
///
/// **Cost.** Trees and `input` take one or two normal variables per coordinate and step, and one pass over a buffer or
/// two; the longer the vector, the more they are bound by memory bandwidth. `sqrt` and `normalized-sqrt` compute many
/// steps at once, for which the first of these steps waits, and hold the noise of all of them
/// ([`Memory`](super::Memory) states how many): at least `O(√T)` numbers per coordinate.
pub struct VectorNoise<F: Real> {
    schedule: Box<dyn Schedule>,
    normals: Normals,
    state: StateId,
    threads: usize,
    horizon: u64,
    step: u64,
    first: u64,
    len: usize,
    buffers: Vec<Buffer<F>>,
    /// Noise of the steps that are computed at once, if the mechanism does so.
    rows: Option<Blocks<F>>,
    /// The program of the last step; its memory is used again.
    ops: Vec<Op>,
    /// The noise of the next step, if it was drawn ahead.
    prefetched: Option<Prefetched<F>>,
    buffer_state: BufferState,
    /// Claims each step with its data, if the record of the key knows steps.
    guard: StepGuard,
}

/// The state that changes from step to step, except for the vectors.
#[derive(Serialize, Deserialize)]
struct SavedNoise {
    step: u64,
    /// The number of vectors that follow.
    vectors: u64,
}

/// The claim of an object on some coordinates of a stream.
fn claim<'a, F: Real>(
    name: &'a StreamName,
    plan_digest: &'a [u8; 32],
    part: Range<u64>,
    is_resumed: bool,
) -> NoiseClaim<'a> {
    NoiseClaim { name, plan_digest, purpose: Purpose::Vector(F::BITS as u8), part, is_resumed }
}

impl<F: Real> VectorNoise<F> {
    /// The noise of the coordinates in a range, before the first step.
    ///
    /// # Errors
    /// If the range is empty or ends above 2^56, the mechanism cannot be drawn step by step, or a square root's noise
    /// is too large for the type or for memory.
    ///
    /// ```
    /// # use evertally::noise::{GuardedKey, SecretKey};
    /// # use evertally::privacy::{Budget, Rho};
    /// # use evertally_training::{Tuning, VectorNoise, VectorRequest};
    /// # let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    /// # let plan = request.with_mechanism("binary".parse()?).plan()?;
    /// # let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let noise = VectorNoise::<f64>::new(plan.clone(), &key, "run 17".parse()?, 0..10, Tuning::default())?;
    /// assert_eq!((noise.step(), noise.horizon(), noise.len(), noise.coordinates()), (0, 100, 10, 0..10));
    /// assert!(VectorNoise::<f64>::new(plan.clone(), &key, "run 17".parse()?, 5..5, Tuning::default()).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(
        plan: VectorPlan,
        key: &GuardedKey,
        name: StreamName,
        coordinates: Range<u64>,
        tuning: Tuning,
    ) -> Result<Self> {
        let noise = Self::from_scheme(&Scheme::from(&plan), key, &name, coordinates.clone(), tuning)?;
        let (_, guard) = key.claim_by_steps(claim::<F>(&name, &plan.digest(), coordinates, false))?;
        Ok(Self { guard, ..noise })
    }

    pub(super) fn from_scheme(
        scheme: &Scheme,
        key: &SecretKey,
        name: &StreamName,
        coordinates: Range<u64>,
        tuning: Tuning,
    ) -> Result<Self> {
        let Range { start: first, end } = coordinates;
        if first >= end || end > MAX_COORDINATES {
            return Err(Error::invalid(format!(
                "a range of coordinates must not be empty and must end at 2^56 at most, got {first} .. {end}"
            )));
        }
        let len = usize::try_from(end - first).map_err(|_| {
            Error::invalid(format!("{} coordinates do not fit into this machine's memory", end - first))
        })?;
        let schedule = schedule(scheme, tuning.memory)?;
        let layout = Layout::Noise { first, end, bits: F::BITS, series: scheme.series.code() };
        let state = StateId::from_digest(scheme.digest, key, name.clone(), layout);
        let subkey = subkey(key, name, &scheme.digest, Purpose::Vector(F::BITS as u8));
        let normals = Normals::new(scheme.cipher, &subkey, tuning.instructions);
        let rows = schedule.response().map(|response| {
            let filter = Arc::new(ResponseFilter::new(response, tuning.instructions)?);
            Blocks::new(filter, first..end, blocks::at_once::<F>(tuning.memory, end - first), tuning.instructions)
        });
        let rows = rows.transpose()?;
        Ok(Self {
            schedule,
            normals,
            state,
            threads: tuning.threads,
            horizon: scheme.mechanism.horizon(),
            step: 0,
            first,
            len,
            buffers: vec![],
            rows,
            ops: vec![],
            prefetched: None,
            buffer_state: BufferState::default(),
            guard: StepGuard::default(),
        })
    }

    /// The last returned step, 0 before the first.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Number of steps.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Number of coordinates.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// The coordinates.
    pub fn coordinates(&self) -> Range<u64> {
        self.first..self.first + self.len as u64
    }

    /// Bytes of the vectors kept between steps.
    pub fn memory_bytes(&self) -> usize {
        let buffers: usize = self.buffers.iter().map(|buffer| size_of_val(&buffer[..])).sum();
        buffers
            + self.prefetched.as_ref().map_or(0, Prefetched::bytes)
            + self.rows.as_ref().map_or(0, Blocks::memory_bytes)
    }

    /// Moves to the next step and writes its noise over `out`. If the record of the key knows steps, the step is never
    /// issued again, because nothing shows which data the noise is for: [`add_next`](Self::add_next) does.
    ///
    /// # Errors
    /// If `out` does not have one element per coordinate, the last step was already returned, or the record of the key
    /// shows that this step was issued. Nothing changes then.
    ///
    /// ```
    /// # use evertally::noise::{GuardedKey, SecretKey};
    /// # use evertally::privacy::{Budget, Rho};
    /// # use evertally_training::{Tuning, VectorNoise, VectorRequest};
    /// # let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    /// # let plan = request.with_mechanism("binary".parse()?).plan()?;
    /// # let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let mut noise = VectorNoise::<f64>::new(plan.clone(), &key, "run 17".parse()?, 0..10, Tuning::default())?;
    /// let mut out = [0.0; 10];
    /// noise.next_into(&mut out)?;
    /// assert!(out.iter().all(|x| *x != 0.0) && noise.step() == 1);
    /// assert!(noise.next_into(&mut [0.0; 9]).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn next_into(&mut self, out: &mut [F]) -> Result<()> {
        self.check_next(out)?;
        self.guard.claim(self.step + 1..=self.step + 1, StepData::Unknown)?;
        self.next(out, Emit::Set);
        Ok(())
    }

    /// Moves to the next step and adds its noise to `out`, in one pass, after one that checks the sum.
    ///
    /// # Errors
    /// As [`next_into`](Self::next_into), except that a step may be issued again for the same numbers; or if a number
    /// of `out` is NaN or infinite. If the number of examples in the sum is known, call
    /// [`check_sum`](super::check_sum) first, which refuses sums that are too long.
    ///
    /// ```
    /// # use evertally::noise::{GuardedKey, SecretKey};
    /// # use evertally::privacy::{Budget, Rho};
    /// # use evertally_training::{Tuning, VectorNoise, VectorRequest};
    /// # let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    /// # let plan = request.with_mechanism("binary".parse()?).plan()?;
    /// # let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let mut noise = VectorNoise::<f64>::new(plan.clone(), &key, "run 17".parse()?, 0..10, Tuning::default())?;
    /// let mut sums = [1000.0; 10];
    /// noise.add_next(&mut sums)?;
    /// assert!(sums.iter().all(|x| *x != 1000.0));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn add_next(&mut self, out: &mut [F]) -> Result<()> {
        check_sum(out, f64::INFINITY, None, self.threads)?;
        self.add_next_to_checked(out)
    }

    /// As [`add_next`](Self::add_next), without its first pass, for a sum that [`check_sum`](super::check_sum) or
    /// [`check_squares`](super::check_squares) has accepted.
    ///
    /// # Errors
    /// As [`add_next`](Self::add_next), except for NaN and infinite numbers, which are not looked for.
    pub fn add_next_to_checked(&mut self, out: &mut [F]) -> Result<()> {
        self.check_next(out)?;
        let data = StepData::Vector { numbers: F::numbers(out), threads: self.threads };
        self.guard.claim(self.step + 1..=self.step + 1, data)?;
        self.next(out, Emit::Add);
        Ok(())
    }

    /// Refuses a slice of another length, and a step beyond the last.
    fn check_next(&self, out: &[F]) -> Result<()> {
        if out.len() != self.len {
            return Err(Error::invalid(format!(
                "the noise has {} coordinates, but the slice has {}",
                self.len,
                out.len()
            )));
        }
        if self.step == self.horizon {
            return Err(Error::new(
                ErrorKind::HorizonExhausted,
                format!("all {} steps of the plan have been returned", self.horizon),
            ));
        }
        Ok(())
    }

    /// Issues the next step, which was checked and claimed.
    fn next(&mut self, out: &mut [F], emit: Emit) {
        if self.take_prefetched(out, emit) {
            return;
        }
        self.settle();
        self.step += 1;
        let mut ops = std::mem::take(&mut self.ops);
        ops.clear();
        self.schedule.program(self.step, &mut ops);
        self.run(&[ProgramPass { ops: &ops, writes: true }], Some((out, emit)));
        self.ops = ops;
    }

    /// Moves to any step, forwards or backwards, so that the next returned step is the one after it. Draws the path of
    /// one step (`input`: all steps before).
    ///
    /// # Errors
    /// If the step is beyond the horizon, or the mechanism's noise depends on all earlier steps, like that of BLTs.
    ///
    /// ```
    /// # use evertally::noise::{GuardedKey, SecretKey};
    /// # use evertally::privacy::{Budget, Rho};
    /// # use evertally_training::{Tuning, VectorNoise, VectorRequest};
    /// # let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    /// # let plan = request.with_mechanism("binary".parse()?).plan()?;
    /// # let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let mut noise = VectorNoise::<f64>::new(plan.clone(), &key, "run 17".parse()?, 0..10, Tuning::default())?;
    /// let (mut late, mut again) = ([0.0; 10], [0.0; 10]);
    /// noise.seek(99)?;
    /// noise.next_into(&mut late)?;
    /// noise.seek(99)?;
    /// noise.next_into(&mut again)?;
    /// assert_eq!(late, again);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn seek(&mut self, step: u64) -> Result<()> {
        self.check_step(step)?;
        self.move_to(step, vec![]).then_some(()).ok_or_else(|| {
            Error::invalid("this mechanism's noise can be reached only step by step or from a checkpoint")
        })
    }

    fn check_step(&self, step: u64) -> Result<()> {
        if step > self.horizon {
            return Err(Error::invalid(format!("step {step} is beyond the horizon of {} steps", self.horizon)));
        }
        Ok(())
    }

    /// Moves to after a step, with the vectors of a saved state, if any; false if they are needed but missing.
    fn move_to(&mut self, step: u64, vectors: Vec<Buffer<F>>) -> bool {
        let mut ops = vec![];
        let given = vectors.len() == self.schedule.kept();
        if !self.schedule.rebuild(step, given, &mut ops) {
            return false;
        }
        // If nothing is kept, a step writes everything it reads, and old buffers can stay.
        if self.schedule.kept() > 0 {
            self.buffers = if given { vectors } else { vec![] };
        }
        self.step = step;
        self.abandon();
        self.run(&[ProgramPass { ops: &ops, writes: true }], None);
        self.ops = ops;
        true
    }

    /// Runs programs.
    fn run(&mut self, passes: &[ProgramPass<'_>], out: Option<(&mut [F], Emit)>) {
        let all = || passes.iter().flat_map(|pass| pass.ops);
        self.reserve(all());
        if let Some(rows) = &mut self.rows {
            let draw = |step, first, out: &mut [F]| {
                F::draw(&self.normals, execute::name(Node { level: 0, index: step }), first, out);
            };
            let steps = all().filter_map(|op| if let Op::Row(step) = op { Some(*step) } else { None });
            steps.for_each(|step| rows.prepare(step, &draw, threads::asked(self.threads)));
        }
        let mut buffers = std::mem::take(&mut self.buffers);
        self.run_on(&mut buffers, passes, out);
        self.buffers = buffers;
    }

    /// Allocates the buffers that some operations need.
    fn reserve<'a>(&mut self, ops: impl Iterator<Item = &'a Op>) {
        let needed = ops.map(Op::buffers).max().unwrap_or(0);
        (self.buffers.len()..needed).for_each(|slot| self.buffers.push(Buffer::zeros(slot, self.len)));
    }

    fn run_on(&self, buffers: &mut [Buffer<F>], passes: &[ProgramPass<'_>], out: Option<(&mut [F], Emit)>) {
        let sources = Sources { normals: &self.normals, rows: self.rows.as_ref() };
        execute::run(passes, &sources, self.threads, (self.first, self.len), buffers, out);
    }

    /// The bytes from which [`restore`](Self::restore) continues. For trees a few hundred bytes; for other mechanisms
    /// also the vectors of noise that they keep. **Keep them as secret as the key.**
    ///
    /// ```
    /// # use evertally::noise::{GuardedKey, SecretKey};
    /// # use evertally::privacy::{Budget, Rho};
    /// # use evertally_training::{Tuning, VectorNoise, VectorRequest};
    /// # let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    /// # let plan = request.with_mechanism("binary".parse()?).plan()?;
    /// # let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let noise = VectorNoise::<f64>::new(plan.clone(), &key, "run 17".parse()?, 0..10, Tuning::default())?;
    /// assert!(noise.save().len() < 200);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn save(&self) -> Vec<u8> {
        let kept = if self.step == 0 { 0 } else { self.schedule.kept() };
        let saved = SavedNoise { step: self.step, vectors: kept as u64 };
        let settled = self.settled();
        let buffers = settled.as_ref().unwrap_or(&self.buffers);
        self.state.seal_with(&saved, |bytes| {
            bytes.reserve(kept * self.len * size_of::<F>() + blake3::OUT_LEN);
            for place in 0..kept {
                match buffers.get(place) {
                    Some(buffer) => F::append_all(buffer, bytes),
                    None => bytes.resize(bytes.len() + self.len * size_of::<F>(), 0), // no step has used it
                }
            }
        })
    }

    /// Continues from a saved state of the same plan, key, name and coordinates, whatever its tuning was: the following
    /// steps are those that would have followed.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if the bytes are damaged or belong to something else.
    ///
    /// ```
    /// # use evertally::noise::{GuardedKey, SecretKey};
    /// # use evertally::privacy::{Budget, Rho};
    /// # use evertally_training::{Tuning, VectorNoise, VectorRequest};
    /// # let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    /// # let plan = request.with_mechanism("binary".parse()?).plan()?;
    /// # let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let mut noise = VectorNoise::<f64>::new(plan.clone(), &key, "run 17".parse()?, 0..10, Tuning::default())?;
    /// noise.next_into(&mut [0.0; 10])?;
    /// let saved = noise.save();
    /// let (name, tuning) = ("run 17".parse()?, Tuning::default());
    /// let mut restored = VectorNoise::<f64>::restore(plan, &key, name, 0..10, tuning, &saved)?;
    /// let (mut once, mut again) = ([0.0; 10], [0.0; 10]);
    /// noise.next_into(&mut once)?;
    /// restored.next_into(&mut again)?;
    /// assert_eq!(once, again);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn restore(
        plan: VectorPlan,
        key: &GuardedKey,
        name: StreamName,
        coordinates: Range<u64>,
        tuning: Tuning,
        state: &[u8],
    ) -> Result<Self> {
        let noise = Self::from_scheme(&Scheme::from(&plan), key, &name, coordinates.clone(), tuning)?;
        let (_, guard) = key.claim_by_steps(claim::<F>(&name, &plan.digest(), coordinates, true))?;
        let noise = noise.with_state(state)?;
        Ok(Self { guard: guard.resumed_from(noise.step), ..noise })
    }

    pub(super) fn with_state(mut self, state: &[u8]) -> Result<Self> {
        let (SavedNoise { step, vectors }, bytes) = self.state.open_with(state)?;
        let expected = vectors.checked_mul(self.len as u64).and_then(|n| n.checked_mul(size_of::<F>() as u64));
        if step > self.horizon || expected != Some(bytes.len() as u64) {
            return Err(damaged());
        }
        let read = |(slot, bytes)| {
            let mut buffer = Buffer::zeros(slot, self.len);
            F::read_into(bytes, &mut buffer);
            buffer
        };
        let vectors = bytes.chunks_exact(self.len * size_of::<F>()).enumerate().map(read).collect();
        if !self.move_to(step, vectors) {
            return Err(damaged());
        }
        Ok(self)
    }
}

impl<F: Real> std::fmt::Debug for VectorNoise<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VectorNoise")
            .field("step", &self.step)
            .field("horizon", &self.horizon)
            .field("first", &self.first)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
