//! BLTs, plain and normalized: one node a step, and the recurrence of the inverse in one pass over its buffers.

use super::{Frame, Schedule};
use crate::mechanism::BufferSteps;
use crate::vector::program::Op;
use std::sync::Arc;

/// See the [module](self). Slots: the buffers of the BLT, then the running sum.
pub(super) struct Buffers {
    pub(super) frame: Frame,
    pub(super) steps: Arc<BufferSteps>,
}

impl Schedule for Buffers {
    fn program(&mut self, step: u64, ops: &mut Vec<Op>) {
        let undo = Op::UndoBuffers { steps: self.steps.clone(), factor: self.steps.scale(step) };
        ops.extend([self.frame.innovation(step, 1.0), undo]);
        ops.extend(self.frame.sums().then_some(Op::Accumulate(self.steps.gaps.len())));
    }

    fn rebuild(&mut self, step: u64, given: bool, _ops: &mut Vec<Op>) -> bool {
        given || step == 0
    }

    fn kept(&self) -> usize {
        self.steps.gaps.len() + usize::from(self.frame.sums())
    }
}
