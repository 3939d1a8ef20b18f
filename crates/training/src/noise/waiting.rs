//! Noise that was drawn [ahead](crate::VectorNoise::draw_ahead), and the writes that the buffers lack.

use crate::Real;
use crate::buffer::Buffer;
use crate::program::Op;

/// The writes that the buffers lack, and whether noise waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stand {
    /// The buffers are as after the last step.
    #[default]
    Settled,
    /// The noise of the next step waits. The buffers are as after the last step, or, if no state holds them, as after
    /// the next.
    Waiting,
    /// The last step was returned from the waiting vector: the buffers lack its writes.
    Behind,
}

/// A vector that waits: zeros when it is dropped.
pub(super) struct Waiting<F: Real> {
    pub(super) vector: Buffer<F>,
    /// The operations that make the noise from it.
    pub(super) given: Vec<Op>,
    /// The step's writes, once it is returned: with the vector in the accumulator, or, if that does not matter, by
    /// themselves.
    pub(super) owed: Vec<Op>,
    /// Whether the writes follow from the vector.
    pub(super) apart: bool,
}

impl<F: Real> Waiting<F> {
    pub(super) fn new(len: usize) -> Self {
        let vector = Buffer::zeros(usize::MAX, len); // after all other buffers
        Self { vector, given: vec![], owed: vec![], apart: false }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.vector[..])
    }

    /// The program of the missing writes, with the vector in a buffer.
    pub(super) fn owed(&self, slot: usize) -> Vec<Op> {
        let load = self.apart.then_some(Op::Load(slot));
        load.into_iter().chain(self.owed.iter().cloned()).collect()
    }
}

impl<F: Real> Drop for Waiting<F> {
    fn drop(&mut self) {
        self.vector.fill(F::default());
        std::hint::black_box(&mut self.vector[..]); // otherwise the compiler may omit it
    }
}
