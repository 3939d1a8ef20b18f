//! One cell for every touched running sum.

use super::forward::Forward;
use crate::noise::{KeyedNoise, RandomBits};
use crate::plan::Plan;
use crate::{Error, Result};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

/// Draws the noise of a running sum from one read to the next.
pub(super) trait Sampler: Send + Sync {
    /// Whether the distribution is exact: then ChaCha20 draws, else ChaCha12.
    const EXACT: bool;

    /// The remembered noise of one running sum.
    type State: Default + Clone + Serialize + for<'de> Deserialize<'de> + Send;

    /// The noise at a step, not before that of the last read, in whole units of a release. Calls `bits` only if
    /// something is to be drawn.
    fn noise<R: RandomBits>(&self, state: &mut Self::State, step: u64, bits: impl FnOnce() -> R) -> i128;

    /// Heap bytes of a state.
    fn spilled_bytes(_state: &Self::State) -> usize {
        0
    }

    /// Whether a state read from a file is possible for a vector with this horizon.
    fn is_sound(&self, state: &Self::State, horizon: u64) -> bool;
}

/// The noise of all running sums of a vector.
pub(super) trait VectorCells: Send {
    /// The noise of a running sum at a step, not before that of its last read, in whole units of a release.
    fn noise(&mut self, coordinate: u64, step: u64) -> i128;

    /// The same for many, in ascending order.
    fn noises(&mut self, coordinates: &[u64], step: u64) -> Vec<i128> {
        coordinates.iter().map(|coordinate| self.noise(*coordinate, step)).collect()
    }

    /// The number of running sums with remembered noise.
    fn touched(&self) -> usize;

    /// Bytes of memory for the remembered noise.
    fn memory_bytes(&self) -> usize;

    /// The remembered noise, sorted by coordinate.
    fn save(&self) -> Vec<u8>;

    /// Restores bytes that were saved at a step.
    fn restore(&mut self, saved: &[u8], step: u64) -> Result<()>;
}

/// Cells with a state each.
pub(super) struct StateCells<S: Sampler> {
    sampler: S,
    keyed: KeyedNoise,
    states: HashMap<u64, S::State>,
}

impl<S: Sampler> StateCells<S> {
    pub(super) fn new(sampler: S, keyed: KeyedNoise) -> Self {
        Self { sampler, keyed, states: HashMap::new() }
    }
}

impl<S: Sampler> VectorCells for StateCells<S> {
    fn noise(&mut self, coordinate: u64, step: u64) -> i128 {
        let state = self.states.entry(coordinate).or_default();
        self.sampler.noise(state, step, || {
            if S::EXACT {
                self.keyed.bits_of_read(coordinate, step)
            } else {
                self.keyed.quick_bits_of_read(coordinate, step)
            }
        })
    }

    fn touched(&self) -> usize {
        self.states.len()
    }

    fn memory_bytes(&self) -> usize {
        let spilled: usize = self.states.values().map(S::spilled_bytes).sum();
        self.states.allocation_size() + spilled
    }

    fn save(&self) -> Vec<u8> {
        let mut states: Vec<(&u64, &S::State)> = self.states.iter().collect();
        states.sort_unstable_by_key(|(coordinate, _)| **coordinate);
        postcard::to_allocvec(&states).expect("a state is plain data")
    }

    fn restore(&mut self, saved: &[u8], step: u64) -> Result<()> {
        let damaged = || Error::state("the saved state is damaged; restore an undamaged copy");
        let states: Vec<(u64, S::State)> = postcard::from_bytes(saved).map_err(|_| damaged())?;
        if !states.iter().all(|(_, state)| self.sampler.is_sound(state, step)) {
            return Err(damaged());
        }
        self.states = states.into_iter().collect();
        Ok(())
    }
}

/// Cells without a state: every read draws the noise again from its nodes, at any step, except for the part that batch
/// reads share with the previous one.
pub(super) struct KeyedCells {
    plan: Plan,
    keyed: KeyedNoise,
    forward: Option<Forward>,
}

impl KeyedCells {
    pub(super) fn new(plan: Plan, keyed: KeyedNoise) -> Self {
        let forward = Forward::new(&plan);
        Self { plan, keyed, forward }
    }

    /// The noise of a running sum at any step, in whole units of a release.
    pub(super) fn at(&self, coordinate: u64, step: u64) -> i128 {
        let own = self.keyed.of_sum(coordinate);
        let noise = self.plan.mechanism().cursor().seek(step, &mut |node| self.plan.law().sample(&mut own.bits(node)));
        self.plan.rounded_noise(noise)
    }
}

impl VectorCells for KeyedCells {
    fn noise(&mut self, coordinate: u64, step: u64) -> i128 {
        self.at(coordinate, step)
    }

    fn noises(&mut self, coordinates: &[u64], step: u64) -> Vec<i128> {
        let mut noises = Vec::with_capacity(coordinates.len());
        if let Some(forward) = &mut self.forward {
            forward.read(&self.plan, &self.keyed, coordinates, step, &mut noises);
        }
        let rest = &coordinates[noises.len()..];
        noises.extend(rest.iter().map(|coordinate| self.at(*coordinate, step)));
        noises
    }

    fn touched(&self) -> usize {
        self.forward.as_ref().map_or(0, Forward::len)
    }

    fn memory_bytes(&self) -> usize {
        self.forward.as_ref().map_or(0, Forward::memory_bytes)
    }

    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, saved: &[u8], _step: u64) -> Result<()> {
        if saved.is_empty() { Ok(()) } else { Err(Error::state("the saved state belongs to another sampling")) }
    }
}
