//! Honaker's estimates from below: complete blocks are estimated from their halves as they close.
//!
//! With `z` of the block itself, the estimate of a block of height `j` is `b_j (left + right) + a_j z`,
//! `a_j = 2^j / (2^(j+1) - 1)`, `b_j = (2^j - 1) / (2^(j+1) - 1)`: weights between 0 and 1, because integer numerators
//! would overflow 32 bits. A step closes its leaf and every block that ends with it; its noise is the sum of the
//! estimates of the blocks of its binary digits, of which all but the last were added up earlier.
//!
//! The last block of step `t` has the height `h` of the lowest 1 bit of `t` and is a left half. Its estimate is needed
//! at step `t + 2^h`, where its parent closes. The noise of `t` is wanted as the sum of the blocks before that of step
//! `t + 1` if that one merges nothing, which is if `h > 0`, and stays so until the parent closes.

use super::{Schedule, ScheduleData};
use crate::program::{Op, Slot};
use evertally::noise::Node;

/// See the [module](self). Slots: the noise of the last step, if increments are returned; then for every height the sum
/// through its last left block (not for leaves, whose parents close at once) and that block's estimate.
pub(super) struct Estimates(pub(super) ScheduleData);

impl Estimates {
    fn estimate(&self, height: u32) -> Slot {
        usize::from(!self.0.sums()) + 2 * height as usize
    }

    fn through(&self, height: u32) -> Slot {
        self.estimate(height) - 1
    }
}

impl Schedule for Estimates {
    fn program(&mut self, step: u64, ops: &mut Vec<Op>) {
        let height = step.trailing_zeros();
        ops.push(self.0.innovation(step, 1.0));
        for merged in 1..=height {
            // exact: heights are at most 40
            let half = libm::exp2(f64::from(merged));
            let whole = 2.0 * half - 1.0;
            ops.extend([
                Op::Add { slot: self.estimate(merged - 1), weight: 1.0 },
                Op::Scale((half - 1.0) / whole),
                self.0.draw(Node { level: merged, index: (step >> merged) - 1 }, half / whole),
            ]);
        }
        // The block that closes last needs no estimate, and a sum that no later step uses need not be kept.
        if self.0.horizon - step >= 1 << height {
            ops.push(Op::Store(self.estimate(height)));
        }
        let before = step & (step - 1);
        if before > 0 {
            ops.push(Op::Add { slot: self.through(before.trailing_zeros()), weight: 1.0 });
        }
        if height > 0 && step < self.0.horizon {
            ops.push(Op::Store(self.through(height)));
        }
        if !self.0.sums() {
            ops.push(if step == 1 { Op::Store(0) } else { Op::Difference(0) });
        }
    }

    fn rebuild(&mut self, step: u64, given: bool, _ops: &mut Vec<Op>) -> bool {
        given || step == 0
    }

    fn kept(&self) -> usize {
        self.estimate(self.0.horizon.ilog2()) // the highest block has no parent
    }
}
