//! Noise on every input: one node a step, and its running sum in one buffer.

use super::{Frame, Schedule};
use crate::vector::program::Op;

/// See the [module](self).
pub(super) struct Inputs(pub(super) Frame);

impl Inputs {
    fn has_sum(&self) -> bool {
        self.0.sums() && self.0.keeps()
    }

    fn draw_through(&self, step: u64, ops: &mut Vec<Op>) {
        ops.extend((1..=step).map(|step| self.0.innovation(step, 1.0)));
    }
}

impl Schedule for Inputs {
    fn program(&mut self, step: u64, ops: &mut Vec<Op>) {
        if self.0.sums() && !self.0.keeps() {
            return self.draw_through(step, ops);
        }
        if self.has_sum() && step > 1 {
            ops.push(Op::Load(0));
        }
        ops.push(self.0.innovation(step, 1.0));
        ops.extend(self.has_sum().then_some(Op::Store(0)));
    }

    fn rebuild(&mut self, step: u64, given: bool, ops: &mut Vec<Op>) -> bool {
        if self.has_sum() && !given {
            self.draw_through(step, ops);
            ops.push(Op::Store(0));
        }
        true
    }

    fn kept(&self) -> usize {
        self.has_sum().into()
    }
}
