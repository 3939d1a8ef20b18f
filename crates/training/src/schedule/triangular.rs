//! The dense optimum for units that return: `u_t = (z_t - Σ_j C_tj u_j) / C_tt`, over a ring of the last increments.
//! The sum begins with the most recent one.

use super::banded::ring;
use super::{Schedule, ScheduleData, SplitProgram};
use crate::program::Op;
use evertally::mechanism::TriangularSteps;

/// See the [module](self).
pub(super) struct Triangular {
    pub(super) frame: ScheduleData,
    pub(super) steps: TriangularSteps,
}

impl Triangular {
    /// The length of the ring.
    fn length(&self) -> usize {
        self.steps.bands() - 1
    }

    fn vector(&self, step: u64, ops: &mut Vec<Op>) {
        ops.push(self.frame.innovation(step, self.steps.fresh(step)));
        let past = (1..).zip(self.steps.past(step)).filter(|(_, weight)| *weight != 0.0);
        let slot = |ago: u64| ring(&self.frame, step - ago, self.length());
        ops.extend(past.map(|(ago, weight)| Op::Add { slot: slot(ago), weight: -weight }));
    }

    fn stored(&self, step: u64) -> Option<Op> {
        (self.length() > 0).then(|| Op::Store(ring(&self.frame, step, self.length())))
    }
}

impl Schedule for Triangular {
    fn program(&mut self, step: u64, ops: &mut Vec<Op>) {
        self.vector(step, ops);
        ops.extend(self.stored(step));
        ops.extend(self.frame.sums().then_some(Op::Accumulate(0)));
    }

    fn split_program(&self, step: u64) -> Option<SplitProgram> {
        let mut vector = vec![];
        self.vector(step, &mut vector);
        let writes = self.stored(step).into_iter().collect();
        (!self.frame.sums()).then_some(SplitProgram { vector, noise: vec![], writes })
    }

    fn rebuild(&mut self, step: u64, given: bool, _ops: &mut Vec<Op>) -> bool {
        given || step == 0
    }

    fn kept(&self) -> usize {
        self.length() + usize::from(self.frame.sums())
    }
}
