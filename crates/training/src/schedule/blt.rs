//! BLTs, plain and normalized: one node per step, and the recurrence of the inverse in one pass over its
//! buffers.

use super::{Apart, Schedule, ScheduleData};
use crate::program::Op;
use evertally::mechanism::BufferSteps;
use std::sync::Arc;

/// See the [module](self). Slots: the buffers of the BLT, then the running sum.
pub(super) struct BltSchedule {
    pub(super) frame: ScheduleData,
    pub(super) steps: Arc<BufferSteps>,
}

impl Schedule for BltSchedule {
    fn program(&mut self, step: u64, ops: &mut Vec<Op>) {
        let undo = Op::UndoBuffers { steps: self.steps.clone(), factor: self.steps.scale(step) };
        ops.extend([self.frame.innovation(step, 1.0), undo]);
        ops.extend(self.frame.sums().then_some(Op::Accumulate(self.steps.gaps.len())));
    }

    fn rebuild(&mut self, step: u64, given: bool, _ops: &mut Vec<Op>) -> bool {
        given || step == 0
    }

    /// The operations of [`Op::UndoBuffers`] one by one, in its order.
    fn apart(&self, step: u64) -> Option<Apart> {
        if self.frame.sums() {
            return None;
        }
        let known = self.steps.echoes.iter().enumerate().map(|(slot, echo)| Op::Add { slot, weight: *echo });
        let mut vector = vec![self.frame.innovation(step, 1.0), Op::Save(0), Op::Clear];
        vector.extend(known.chain([Op::Save(1), Op::Restore(0), Op::Subtract(1)]));
        let into = |(slot, gap): (usize, &f64)| [Op::Restore(0), Op::Add { slot, weight: -gap }, Op::Accumulate(slot)];
        let owed = [Op::Save(0)].into_iter().chain(self.steps.gaps.iter().enumerate().flat_map(into)).collect();
        Some(Apart { vector, given: vec![Op::Scale(self.steps.scale(step))], owed })
    }

    fn kept(&self) -> usize {
        self.steps.gaps.len() + usize::from(self.frame.sums())
    }
}
