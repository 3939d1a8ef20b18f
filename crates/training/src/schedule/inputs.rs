//! Noise on every input: one node per step, and its running sum in one buffer.

use super::{Schedule, ScheduleData};
use crate::program::Op;

/// See the [module](self).
pub(super) struct Inputs(pub(super) ScheduleData);

impl Inputs {
    fn has_sum(&self) -> bool {
        self.0.sums() && self.0.keeps()
    }

    fn draw_through(&self, step: u64) -> Op {
        Op::DrawThrough { steps: step, scale: self.0.sigma }
    }
}

impl Schedule for Inputs {
    fn program(&mut self, step: u64, ops: &mut Vec<Op>) {
        if self.0.sums() && !self.0.keeps() {
            return ops.push(self.draw_through(step));
        }
        if self.has_sum() && step > 1 {
            ops.push(Op::Load(0));
        }
        ops.push(self.0.innovation(step, 1.0));
        ops.extend(self.has_sum().then_some(Op::Store(0)));
    }

    fn rebuild(&mut self, step: u64, given: bool, ops: &mut Vec<Op>) -> bool {
        if self.has_sum() && !given {
            ops.extend([self.draw_through(step), Op::Store(0)]);
        }
        true
    }

    fn kept(&self) -> usize {
        self.has_sum().into()
    }
}
