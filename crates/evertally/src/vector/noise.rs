//! The noise of a vector, step by step.

use super::buffer::Buffer;
use super::execute::{self, Emit};
use super::program::Op;
use super::schedule::{Schedule, schedule};
use super::scheme::Scheme;
use super::{Real, Tuning, VectorPlan};
use crate::noise::{Purpose, SecretKey, StreamName, subkey};
use crate::state::{Layout, StateId, damaged};
use crate::{Error, ErrorKind, Result};
use evertally_kernels::Normals;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The coordinates are numbered below: tails of normal variables count them in 56 bits.
const MOST_COORDINATES: u64 = 1 << 56;

/// The noise of a range of a vector's coordinates, one step after the other.
///
/// A step writes `σ (L z)_t`, or its increment, see [`Series`](super::Series), into a slice with an element for each of the
/// coordinates. Coordinates are numbered in the whole vector: a worker that owns `a .. b` gets exactly the elements `a .. b` of
/// what one worker for all would get.
///
/// **Secrecy.** The noise, this object and its [checkpoints](Self::checkpoint) are as secret as the key: who knows the noise
/// knows the data from the release.
///
/// **Cost.** Trees and `input` take one or two normal variables a coordinate and step, and one pass over a buffer or two; the
/// longer the vector, the more they are bound by memory.
pub struct VectorNoise<F> {
    schedule: Box<dyn Schedule>,
    normals: Normals,
    state: StateId,
    threads: usize,
    horizon: u64,
    step: u64,
    first: u64,
    len: usize,
    buffers: Vec<Buffer<F>>,
    /// The program of the last step; its memory is used again.
    ops: Vec<Op>,
}

/// What changes from step to step, but for the vectors.
#[derive(Serialize, Deserialize)]
struct Saved {
    step: u64,
    /// How many vectors follow.
    vectors: u64,
}

impl<F: Real> VectorNoise<F> {
    /// The noise of the coordinates in a range, before the first step.
    ///
    /// # Errors
    /// If the range is empty or ends above 2^56, or the mechanism cannot be drawn step by step.
    pub fn new(
        plan: &VectorPlan,
        key: &SecretKey,
        name: &StreamName,
        coordinates: Range<u64>,
        tuning: Tuning,
    ) -> Result<Self> {
        Self::of(&plan.into(), key, name, coordinates, tuning)
    }

    pub(super) fn of(
        scheme: &Scheme,
        key: &SecretKey,
        name: &StreamName,
        coordinates: Range<u64>,
        tuning: Tuning,
    ) -> Result<Self> {
        let Range { start: first, end } = coordinates;
        if first >= end || end > MOST_COORDINATES {
            return Err(Error::invalid(format!(
                "a range of coordinates is not empty and ends at 2^56 at most, got {first} .. {end}"
            )));
        }
        let len = usize::try_from(end - first)
            .map_err(|_| Error::invalid(format!("{} coordinates do not fit this machine's memory", end - first)))?;
        let schedule = schedule(scheme, tuning.memory)?;
        let layout = Layout::Noise { first, end, bits: F::BITS, series: scheme.series };
        let state = StateId::of_digest(scheme.digest, key, name.clone(), layout);
        let subkey = subkey(key, name, &scheme.digest, Purpose::Vector(scheme.tag()));
        let normals = Normals::new(scheme.cipher(), &subkey, tuning.path);
        let (threads, horizon) = (tuning.threads, scheme.mechanism.horizon());
        Ok(Self { schedule, normals, state, threads, horizon, step: 0, first, len, buffers: vec![], ops: vec![] })
    }

    /// The step last given out, 0 before the first.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Number of steps there are.
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

    /// Bytes of the vectors that are kept between steps.
    pub fn memory_bytes(&self) -> usize {
        self.buffers.iter().map(|buffer| size_of_val(&buffer[..])).sum()
    }

    /// Moves to the next step and writes its noise over `out`.
    ///
    /// # Errors
    /// If `out` has not one element for each coordinate, or the last step was given out before. Nothing changes then.
    pub fn next_into(&mut self, out: &mut [F]) -> Result<()> {
        self.next(out, Emit::Set)
    }

    /// Moves to the next step and adds its noise to `out`, in one pass.
    ///
    /// # Errors
    /// As [`next_into`](Self::next_into).
    pub fn add_next(&mut self, out: &mut [F]) -> Result<()> {
        self.next(out, Emit::Add)
    }

    fn next(&mut self, out: &mut [F], emit: Emit) -> Result<()> {
        if out.len() != self.len {
            return Err(Error::invalid(format!(
                "the noise has {} coordinates, and the slice for it {}",
                self.len,
                out.len()
            )));
        }
        if self.step == self.horizon {
            return Err(Error::new(
                ErrorKind::HorizonExhausted,
                format!("all {} steps of the plan have been given out", self.horizon),
            ));
        }
        self.step += 1;
        self.ops.clear();
        self.schedule.program(self.step, &mut self.ops);
        self.run(Some((out, emit)));
        Ok(())
    }

    /// Moves to any step, forwards or backwards, so that the next one given out is that after it. Draws the path of one step
    /// (`input`: all steps before).
    ///
    /// # Errors
    /// If the step is beyond the horizon, or the mechanism's noise depends on all steps before, as that of BLTs.
    pub fn seek(&mut self, step: u64) -> Result<()> {
        self.check_step(step)?;
        self.stand(step, vec![]).then_some(()).ok_or_else(|| {
            Error::invalid("this mechanism's noise cannot be reached but step by step, or from a checkpoint")
        })
    }

    fn check_step(&self, step: u64) -> Result<()> {
        if step > self.horizon {
            return Err(Error::invalid(format!("step {step} is beyond the horizon of {} steps", self.horizon)));
        }
        Ok(())
    }

    /// Stands after a step with the vectors of a saved state, if there are any; false if they are needed.
    fn stand(&mut self, step: u64, vectors: Vec<Buffer<F>>) -> bool {
        let mut ops = vec![];
        let given = vectors.len() == self.schedule.kept();
        if !self.schedule.rebuild(step, given, &mut ops) {
            return false;
        }
        self.buffers = if given { vectors } else { vec![] };
        self.step = step;
        self.ops = ops;
        self.run(None);
        true
    }

    /// Runs the program at hand.
    fn run(&mut self, out: Option<(&mut [F], Emit)>) {
        let needed = self.ops.iter().map(Op::buffers).max().unwrap_or(0);
        (self.buffers.len()..needed).for_each(|slot| self.buffers.push(Buffer::zeros(slot, self.len)));
        execute::run(&self.ops, &self.normals, self.threads, (self.first, self.len), &mut self.buffers, out);
    }

    /// The bytes from which [`resume`](Self::resume) goes on. For trees some hundred bytes; for other mechanisms also the vectors
    /// of noise that they keep. **As secret as the key.**
    pub fn checkpoint(&self) -> Vec<u8> {
        let kept = if self.step == 0 { 0 } else { self.schedule.kept() };
        let saved = Saved { step: self.step, vectors: kept as u64 };
        self.state.seal_noise(&saved, |bytes| {
            bytes.reserve(kept * self.len * size_of::<F>() + blake3::OUT_LEN);
            for place in 0..kept {
                match self.buffers.get(place) {
                    Some(buffer) => F::append_all(buffer, bytes),
                    None => bytes.resize(bytes.len() + self.len * size_of::<F>(), 0), // no step has used it
                }
            }
        })
    }

    /// Goes on from a checkpoint of the same plan, key, name and coordinates, whatever its tuning was: the steps that follow are
    /// those that would have followed.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if the bytes are damaged or belong to something else.
    pub fn resume(
        plan: &VectorPlan,
        key: &SecretKey,
        name: &StreamName,
        coordinates: Range<u64>,
        checkpoint: &[u8],
        tuning: Tuning,
    ) -> Result<Self> {
        Self::new(plan, key, name, coordinates, tuning)?.standing_at(checkpoint)
    }

    pub(super) fn standing_at(mut self, checkpoint: &[u8]) -> Result<Self> {
        let (Saved { step, vectors }, bytes) = self.state.open_noise(checkpoint)?;
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
        if !self.stand(step, vectors) {
            return Err(damaged());
        }
        Ok(self)
    }
}

impl<F> std::fmt::Debug for VectorNoise<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VectorNoise")
            .field("step", &self.step)
            .field("horizon", &self.horizon)
            .field("first", &self.first)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
