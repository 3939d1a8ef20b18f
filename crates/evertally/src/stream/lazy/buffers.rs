//! Noise of a BLT, drawn only when read: the state of its buffers at the last read.

use super::cells::Sampler;
use crate::mechanism::LazyBlt;
use crate::noise::{RandomBits, standard_normal, whole_units};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// Samples the state-space model of a BLT.
#[derive(Debug)]
pub(super) struct BufferSampler {
    pub(super) model: Arc<LazyBlt>,
    /// Whole units of a release in one standard deviation of a noise variable.
    pub(super) units: f64,
}

/// The known noise of one running sum.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct BufferNoise {
    /// The step of the last read, 0 before the first.
    last: u64,
    /// The state of the model at that step; none before the first.
    words: SmallVec<[f64; 6]>,
}

impl Sampler for BufferSampler {
    const EXACT: bool = false;

    type State = BufferNoise;

    fn noise<R: RandomBits>(&self, state: &mut BufferNoise, step: u64, bits: impl FnOnce() -> R) -> i128 {
        if state.last != step {
            let mut bits = bits();
            state.words.resize(self.model.state_words(), 0.0);
            self.model.skip(&mut state.words, state.last, step, || standard_normal(&mut bits));
            state.last = step;
        }
        whole_units(self.model.noise(&state.words) * self.units)
    }

    fn spilled_bytes(state: &BufferNoise) -> usize {
        if state.words.spilled() { state.words.capacity() * size_of::<f64>() } else { 0 }
    }

    fn is_sound(&self, state: &BufferNoise, horizon: u64) -> bool {
        let numbers = state.words.len() == self.model.state_words() && state.words.iter().all(|word| word.is_finite());
        (1..=horizon).contains(&state.last) && numbers
    }
}
