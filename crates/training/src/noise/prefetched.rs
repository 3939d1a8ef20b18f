//! Noise that was drawn [ahead](crate::VectorNoise::draw_ahead), and the writes that the buffers lack.

use crate::Real;
use crate::buffer::Buffer;
use crate::program::Op;

/// Which writes the buffers lack, and whether the next step's noise has been drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BufferState {
    /// The buffers are as after the last step.
    #[default]
    Settled,
    /// The noise of the next step has been drawn. The buffers are as after the last step, or, if no state holds them,
    /// as after the next.
    Prefetched,
    /// The last step was returned from the prefetched vector: the buffers lack its writes.
    Behind,
}

/// The vector of a step that was drawn ahead: zeros when it is dropped.
pub(super) struct Prefetched<F: Real> {
    pub(super) vector: Buffer<F>,
    /// The operations that make the noise from it.
    pub(super) noise: Vec<Op>,
    /// The step's writes, once it is returned: with the vector in the accumulator, or, if that does not matter, by
    /// themselves.
    pub(super) writes: Vec<Op>,
    /// Whether the writes follow from the vector.
    pub(super) is_split: bool,
}

impl<F: Real> Prefetched<F> {
    pub(super) fn new(len: usize) -> Self {
        let vector = Buffer::zeros(usize::MAX, len); // after all other buffers
        Self { vector, noise: vec![], writes: vec![], is_split: false }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.vector[..])
    }

    /// The program of the missing writes, with the vector in a buffer.
    pub(super) fn pending_writes(&self, slot: usize) -> Vec<Op> {
        let load = self.is_split.then_some(Op::Load(slot));
        load.into_iter().chain(self.writes.iter().cloned()).collect()
    }
}

impl<F: Real> Drop for Prefetched<F> {
    fn drop(&mut self) {
        self.vector.fill(F::default());
        std::hint::black_box(&mut self.vector[..]); // otherwise the compiler may omit it
    }
}
