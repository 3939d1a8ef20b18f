//! A mechanism's noise as a linear recurrence of a small state, found by running its programs on linear forms.

use crate::program::{Op, REGISTERS};
use crate::schedule::Schedule;
use evertally::{Error, Result};
use std::collections::HashSet;

/// Maximum number of values of the recurrence of all steps, 8 bytes each.
const MAX_VALUES: usize = 1 << 25;
/// Maximum number of kept vectors: there is one more fresh variable, and their names are below 128.
const MAX_KEPT_VECTORS: usize = 127;

/// `x_s = F_s x_{s-1} + G_s z_s`, `n_s = h_s x_{s-1} + e_s z_s`: how the increment `n_s` of a step's noise, and the
/// kept values, follow from the previous kept values, `x_{s-1}`, and the step's own standard normal variables `z_s`.
/// `x_0 = 0`.
pub(super) struct Recurrence {
    /// Number of kept values.
    width: usize,
    steps: Vec<Step>,
}

/// One step. Rows of `F_s` that are not listed are those of the identity.
pub(super) struct Step {
    /// The kept values that change, and how.
    pub(super) changed: Vec<(usize, Form)>,
    /// The increment.
    pub(super) noise: Form,
    /// Normal variables of the step.
    pub(super) draws: usize,
}

/// A linear form of the kept values and the step's own variables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Form {
    pub(super) kept: Vec<f64>,
    pub(super) drawn: Vec<f64>,
}

impl Recurrence {
    /// From a schedule of increments that keeps its buffers, over `horizon` steps.
    ///
    /// # Errors
    /// If steps draw a variable of other steps again, or all of them together have too many numbers.
    pub(super) fn new(schedule: &mut dyn Schedule, horizon: u64) -> Result<Self> {
        if schedule.response().is_some() {
            return Err(Error::invalid(
                "the noise of square roots depends on all earlier steps, so rows cannot be skipped; use epoch-bands, \
                 a BLT, a tree or input",
            ));
        }
        if horizon > MAX_VALUES as u64 {
            return Err(Error::invalid(format!("{horizon} steps are too many; use fewer steps")));
        }
        let mut width = 0;
        let mut programs = Vec::new();
        let mut seen = HashSet::new();
        for step in 1..=horizon {
            let mut ops = Vec::new();
            schedule.program(step, &mut ops);
            width = width.max(ops.iter().map(Op::buffers).max().unwrap_or(0));
            let fresh = ops.iter().all(|op| match op {
                Op::Draw { node, .. } => seen.insert(*node),
                Op::DrawThrough { .. } | Op::Row(_) => false,
                _ => true,
            });
            if !fresh {
                return Err(Error::invalid("this mechanism draws the noise of earlier steps again"));
            }
            programs.push(ops);
            let numbers = programs.len().saturating_mul((width + 1) * (width + 1).min(8));
            if numbers > MAX_VALUES || width > MAX_KEPT_VECTORS {
                return Err(Error::invalid(format!(
                    "{horizon} steps that keep {width} vectors are too many; use fewer \
                     steps or bands"
                )));
            }
        }
        let steps = programs.iter().map(|ops| Machine::new(width, ops).step(ops)).collect();
        Ok(Self { width, steps })
    }

    /// Number of values kept between steps, per coordinate.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// A step (from 1).
    pub(super) fn step(&self, step: u64) -> &Step {
        &self.steps[step as usize - 1] // fits: within the horizon, with one program per step
    }
}

impl Form {
    fn zero(kept: usize, drawn: usize) -> Self {
        Self { kept: vec![0.0; kept], drawn: vec![0.0; drawn] }
    }

    fn add(&mut self, weight: f64, other: &Form) {
        let pairs = |one: &mut Vec<f64>, other: &[f64]| {
            one.iter_mut().zip(other).for_each(|(one, other)| *one += weight * other);
        };
        pairs(&mut self.kept, &other.kept);
        pairs(&mut self.drawn, &other.drawn);
    }

    fn scale(&mut self, factor: f64) {
        self.kept.iter_mut().chain(&mut self.drawn).for_each(|value| *value *= factor);
    }
}

/// Runs one program on forms. A buffer initially holds its kept value.
struct Machine {
    buffers: Vec<Form>,
    acc: Form,
    registers: [Form; REGISTERS],
    drawn: usize,
}

impl Machine {
    fn new(width: usize, ops: &[Op]) -> Self {
        let draws = ops.iter().filter(|op| matches!(op, Op::Draw { .. })).count();
        let zero = Form::zero(width, draws);
        let buffer = |slot: usize| {
            let mut form = zero.clone();
            form.kept[slot] = 1.0;
            form
        };
        let registers = std::array::from_fn(|_| zero.clone());
        Self { buffers: (0..width).map(buffer).collect(), acc: zero, registers, drawn: 0 }
    }

    fn step(mut self, ops: &[Op]) -> Step {
        let before = self.buffers.clone();
        ops.iter().for_each(|op| self.apply(op));
        let changed = self.buffers.into_iter().enumerate().filter(|(slot, form)| *form != before[*slot]).collect();
        Step { changed, noise: self.acc, draws: self.drawn }
    }

    fn apply(&mut self, op: &Op) {
        let Self { buffers, acc, registers, drawn } = self;
        match op {
            Op::Clear => acc.scale(0.0),
            Op::Load(slot) => acc.clone_from(&buffers[*slot]),
            Op::Add { slot, weight } => acc.add(*weight, &buffers[*slot]),
            Op::Draw { scale, .. } => {
                acc.drawn[*drawn] += scale;
                *drawn += 1;
            }
            Op::Scale(factor) => acc.scale(*factor),
            Op::Store(slot) => buffers[*slot].clone_from(acc),
            Op::Accumulate(slot) => {
                buffers[*slot].add(1.0, acc);
                acc.clone_from(&buffers[*slot]);
            }
            Op::Difference(slot) => {
                let last = std::mem::replace(&mut buffers[*slot], acc.clone());
                acc.add(-1.0, &last);
            }
            Op::Save(register) => registers[*register].clone_from(acc),
            Op::Restore(register) => acc.clone_from(&registers[*register]),
            Op::Subtract(register) => acc.add(-1.0, &registers[*register]),
            Op::UndoBuffers { steps, factor } => {
                buffers.iter().zip(&steps.echoes).for_each(|(buffer, echo)| acc.add(-echo, buffer));
                for (buffer, gap) in buffers.iter_mut().zip(&steps.gaps) {
                    buffer.scale(1.0 - gap);
                    buffer.add(1.0, acc);
                }
                acc.scale(*factor);
            }
            Op::Row(_) | Op::DrawThrough { .. } => unreachable!("refused before"),
        }
    }
}
