//! The banded square roots: recurrences over a ring of the last vectors.
//!
//! `banded-sqrt`, `epoch-bands`: `v_t = z_t - Σ_j c_j v_{t-j}`, over the last increments (`epoch-bands`: before
//! scaling). `banded-inverse-sqrt`: `u_t = Σ_j r_j z_{t-j}`, over the last innovations, which may be drawn again. Every
//! sum begins with the most recent term.

use super::{Schedule, ScheduleData, SplitProgram};
use crate::program::{Op, Slot};
use std::sync::Arc;

/// The recurrence over the last increments.
pub(super) struct Outputs {
    pub(super) frame: ScheduleData,
    /// `c_1, c_2, …`
    pub(super) past: Arc<[f64]>,
    /// The factor of every step's increment, if it is not 1. The ring holds increments without it.
    pub(super) scales: Option<Arc<[f64]>>,
}

/// The place of a step (from 1) in a ring of `length` vectors, which follows the running sum, if there is one.
pub(super) fn ring(frame: &ScheduleData, step: u64, length: usize) -> Slot {
    ((step - 1) % length as u64) as usize + usize::from(frame.sums())
}

/// The number of steps before this one, at most `length`.
fn known(step: u64, length: usize) -> u64 {
    (length as u64).min(step - 1)
}

impl Outputs {
    /// The increment, as the ring holds it.
    fn vector(&self, step: u64, ops: &mut Vec<Op>) {
        let length = self.past.len();
        ops.push(self.frame.innovation(step, 1.0));
        let past = (1..=known(step, length)).zip(&*self.past);
        ops.extend(past.map(|(ago, c)| Op::Add { slot: ring(&self.frame, step - ago, length), weight: -c }));
    }

    fn stored(&self, step: u64) -> Option<Op> {
        let length = self.past.len();
        (length > 0).then(|| Op::Store(ring(&self.frame, step, length)))
    }

    fn scaled(&self, step: u64) -> Option<Op> {
        // fits: a step within the horizon
        self.scales.as_ref().map(|scales| Op::Scale(scales[step as usize - 1]))
    }
}

impl Schedule for Outputs {
    fn program(&mut self, step: u64, ops: &mut Vec<Op>) {
        self.vector(step, ops);
        ops.extend(self.stored(step));
        ops.extend(self.scaled(step));
        ops.extend(self.frame.sums().then_some(Op::Accumulate(0)));
    }

    fn split_program(&self, step: u64) -> Option<SplitProgram> {
        let mut vector = vec![];
        self.vector(step, &mut vector);
        let (noise, writes) = (self.scaled(step).into_iter().collect(), self.stored(step).into_iter().collect());
        (!self.frame.sums()).then_some(SplitProgram { vector, noise, writes })
    }

    fn rebuild(&mut self, step: u64, given: bool, _ops: &mut Vec<Op>) -> bool {
        given || step == 0
    }

    fn kept(&self) -> usize {
        self.past.len() + usize::from(self.frame.sums())
    }
}

/// The sum over the last innovations.
pub(super) struct Innovations {
    pub(super) frame: ScheduleData,
    /// `r_0, r_1, …`
    pub(super) weights: Arc<[f64]>,
}

impl Innovations {
    /// Innovations are kept as they are drawn, and weighted by `σ r_j` in one multiplication, like those that are drawn
    /// again.
    fn raw(step: u64) -> Op {
        Op::Draw { node: evertally::noise::Node { level: 0, index: step - 1 }, scale: 1.0 }
    }

    fn length(&self) -> usize {
        self.weights.len() - 1
    }
}

impl Schedule for Innovations {
    fn program(&mut self, step: u64, ops: &mut Vec<Op>) {
        let keeps = self.frame.keeps() && self.length() > 0;
        if keeps {
            // The ring still holds the oldest innovation: the new one replaces it at the end.
            ops.extend([Self::raw(step), Op::Save(0), Op::Scale(self.frame.sigma * self.weights[0])]);
        } else {
            ops.push(self.frame.innovation(step, self.weights[0]));
        }
        for (ago, r) in (1..=known(step, self.length())).zip(&self.weights[1..]) {
            ops.push(if keeps {
                Op::Add { slot: ring(&self.frame, step - ago, self.length()), weight: self.frame.sigma * r }
            } else {
                self.frame.innovation(step - ago, *r)
            });
        }
        if keeps {
            ops.extend([
                Op::Save(1),
                Op::Restore(0),
                Op::Store(ring(&self.frame, step, self.length())),
                Op::Restore(1),
            ]);
        }
        ops.extend(self.frame.sums().then_some(Op::Accumulate(0)));
    }

    fn rebuild(&mut self, step: u64, given: bool, ops: &mut Vec<Op>) -> bool {
        if self.frame.keeps() && self.length() > 0 {
            for step in (1..=step).rev().take(self.length()) {
                ops.extend([Op::Clear, Self::raw(step), Op::Store(ring(&self.frame, step, self.length()))]);
            }
        }
        given || step == 0 || !self.frame.sums()
    }

    fn kept(&self) -> usize {
        self.frame.sums().into()
    }
}
