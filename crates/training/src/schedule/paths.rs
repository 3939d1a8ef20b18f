//! Sums along the paths of a trie: `output`, `binary`, `kary`, `subtract`, `smooth`, `path-sum`.
//!
//! The noise of a step is the sum of the nodes of its path, added from the root down. A later path shares only its
//! beginning with this one, so the partial sum after a node is needed again only if some later path parts there.
//!
//! **Where paths part.** The number of nodes that steps `t < t'` share never rises with `t'`: steps that share a node
//! are consecutive. So a later path parts after `d` nodes exactly if the first `t'` that shares `d` or fewer shares
//! `d`.
//!
//! **A stack.** Let step `t` share `s` nodes with step `t-1`. A later path that parts from that of `t` after `d < s`
//! nodes parts there from that of `t-1`, and the other way round; so the partial sums held for `d < s` stay, those for
//! `d > s` are no longer needed, and that of `d = s` is held, because step `t` itself parts there. The buffer of a
//! partial sum is its place on the stack. A k-ary tree without subtraction holds one for every level at most, as paths
//! that part in one level part at the same place; a binary tree of height `h` holds `h / 2`, because a later path parts
//! after a 1 only if a 0 follows it.

use super::{Schedule, ScheduleData};
use crate::program::{Op, Slot};
use evertally::mechanism::Walk;

/// See the [module](self).
pub(super) struct PathsSchedule {
    frame: ScheduleData,
    walk: Box<dyn Walk>,
    /// The number of nodes after which each partial sum in the buffers was taken, ascending.
    held: Vec<u32>,
}

/// Registers of the partial sum that two paths share, and of the noise of the step before.
const SHARED: usize = 0;
const LAST: usize = 1;

impl PathsSchedule {
    pub(super) fn new(frame: ScheduleData, walk: Box<dyn Walk>) -> Self {
        Self { frame, walk, held: vec![] }
    }

    /// Whether a path after `step` parts from that of `step` after `depth` nodes. Gallops, because paths that share few
    /// nodes part soon.
    fn parts(&self, step: u64, depth: u32) -> bool {
        // Invariant: `before` shares more than `depth` nodes (or is the step itself).
        let (mut before, mut reach) = (step, 1);
        let mut after = loop {
            let next = (before + reach).min(self.frame.horizon);
            if next == before {
                return false;
            }
            let shared = self.walk.shared(step, next);
            if shared <= depth {
                if shared == depth {
                    return true;
                }
                break next;
            }
            (before, reach) = (next, reach.saturating_mul(2));
        };
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            match self.walk.shared(step, middle) {
                shared if shared == depth => return true,
                shared if shared > depth => before = middle,
                _ => after = middle,
            }
        }
        false
    }

    /// Number of nodes that a step (≥ 2) shares with the previous one.
    fn shared(&self, step: u64) -> u32 {
        if step > 1 { self.walk.shared(step - 1, step) } else { 0 }
    }

    /// The buffer of the noise of the last step, which increments need.
    fn last(&self) -> Option<Slot> {
        (!self.frame.sums()).then_some(0)
    }

    /// The buffer of a place on the stack.
    fn slot(&self, place: usize) -> Slot {
        place + usize::from(!self.frame.sums())
    }

    /// Draws the nodes of a path after the first `skipped`; `after` may append more operations after each node.
    fn draw(&self, step: u64, skipped: u32, ops: &mut Vec<Op>, mut after: impl FnMut(u32, &mut Vec<Op>)) {
        let mut depth = 0;
        self.walk.visit(step, &mut |node, weight| {
            depth += 1;
            if depth > skipped {
                ops.push(self.frame.draw(node, weight));
                after(depth, ops);
            }
        });
    }

    /// Draws the nodes of a path after the first `skipped` and stores the partial sums that later paths need.
    fn draw_and_store(&mut self, step: u64, skipped: u32, ops: &mut Vec<Op>) {
        let mut held = std::mem::take(&mut self.held);
        self.draw(step, skipped, ops, |depth, ops| {
            if self.parts(step, depth) {
                ops.push(Op::Store(self.slot(held.len())));
                held.push(depth);
            }
        });
        self.held = held;
    }

    fn keeping(&mut self, step: u64, ops: &mut Vec<Op>) {
        let shared = self.shared(step);
        while self.held.last().is_some_and(|depth| *depth > shared) {
            self.held.pop();
        }
        if shared > 0 {
            debug_assert_eq!(self.held.last(), Some(&shared), "a path parts from the one before where a sum is held");
            ops.push(Op::Load(self.slot(self.held.len() - 1)));
            if !self.parts(step, shared) {
                self.held.pop();
            }
        }
        self.draw_and_store(step, shared, ops);
        match self.last() {
            Some(last) if step == 1 => ops.push(Op::Store(last)),
            Some(last) => ops.push(Op::Difference(last)),
            None => {}
        }
    }

    fn recomputing(&self, step: u64, ops: &mut Vec<Op>) {
        if self.frame.sums() || step == 1 {
            return self.draw(step, 0, ops, |_, _| {});
        }
        let shared = self.shared(step);
        self.draw(step - 1, 0, ops, |depth, ops| {
            if depth == shared {
                ops.push(Op::Save(SHARED));
            }
        });
        ops.extend([Op::Save(LAST), if shared > 0 { Op::Restore(SHARED) } else { Op::Clear }]);
        self.draw(step, shared, ops, |_, _| {});
        ops.push(Op::Subtract(LAST));
    }
}

impl Schedule for PathsSchedule {
    fn program(&mut self, step: u64, ops: &mut Vec<Op>) {
        if self.frame.keeps() { self.keeping(step, ops) } else { self.recomputing(step, ops) }
    }

    fn rebuild(&mut self, step: u64, _given: bool, ops: &mut Vec<Op>) -> bool {
        self.held.clear();
        if step > 0 && self.frame.keeps() {
            self.draw_and_store(step, 0, ops);
            ops.extend(self.last().map(Op::Store));
        }
        true
    }

    fn kept(&self) -> usize {
        0
    }
}
