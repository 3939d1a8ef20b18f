//! The square roots: rows of noise that [`blocks`](crate::blocks) computes for many steps at once.
//!
//! If the noise of running sums is not a convolution, its increments are; they are added up in a buffer, the only
//! one.

use super::{Schedule, ScheduleData};
use crate::blocks::Response;
use crate::program::Op;
use evertally::mechanism::Convolution;

/// See the [module](self).
pub(super) struct RowsSchedule {
    response: Response,
    added_up: bool,
}

impl RowsSchedule {
    pub(super) fn new(frame: &ScheduleData, steps: Convolution) -> Self {
        let (response, added_up) = match steps.sums {
            Some(sums) if frame.sums() => (Response::new(sums, None), false),
            _ => (Response::new(steps.increments, steps.scales), frame.sums()),
        };
        Self { response: response.times(frame.sigma), added_up }
    }
}

impl Schedule for RowsSchedule {
    fn program(&mut self, step: u64, ops: &mut Vec<Op>) {
        ops.push(Op::Row(step - 1));
        ops.extend(self.added_up.then_some(Op::Accumulate(0)));
    }

    fn rebuild(&mut self, step: u64, given: bool, _ops: &mut Vec<Op>) -> bool {
        given || step == 0 || !self.added_up
    }

    fn kept(&self) -> usize {
        self.added_up.into()
    }

    fn response(&self) -> Option<&Response> {
        Some(&self.response)
    }
}
