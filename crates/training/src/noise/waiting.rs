//! Noise that was drawn [ahead](crate::VectorNoise::draw_ahead), and what the buffers lack.

use crate::Real;
use crate::buffer::Buffer;
use crate::program::Op;

/// What the buffers lack, and whether noise waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stand {
    /// Buffers are as they are after the last step.
    #[default]
    Settled,
    /// The noise of the next step waits. Buffers are as after the last step, or where no state holds them, the next.
    Waiting,
    /// The last step was given out of what had waited: buffers lack what it writes.
    Behind,
}

/// A vector that waits: zeros when it is dropped.
pub(super) struct Waiting<F: Real> {
    pub(super) vector: Buffer<F>,
    /// What makes the noise of it.
    pub(super) given: Vec<Op>,
    /// What the step writes, once it is given out: with the vector in the accumulator, or where that does not matter, by
    /// itself.
    pub(super) owed: Vec<Op>,
    /// Whether it is the vector that writes follow from.
    pub(super) apart: bool,
}

impl<F: Real> Waiting<F> {
    pub(super) fn new(len: usize) -> Self {
        let vector = Buffer::zeros(usize::MAX, len); // behind all other buffers
        Self { vector, given: vec![], owed: vec![], apart: false }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.vector[..])
    }

    /// The program of what is owed, with the vector in a buffer.
    pub(super) fn owed(&self, slot: usize) -> Vec<Op> {
        let load = self.apart.then_some(Op::Load(slot));
        load.into_iter().chain(self.owed.iter().cloned()).collect()
    }
}

impl<F: Real> Drop for Waiting<F> {
    fn drop(&mut self) {
        self.vector.fill(F::default());
        std::hint::black_box(&mut self.vector[..]); // or else the compiler may leave it out
    }
}
