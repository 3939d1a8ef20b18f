//! The noise of windows, step by step, without end: the sum of the corrected noise of the last steps.

use super::local::{Local, REACH};
use super::shape::RollingHatShape;
use crate::mechanism::Cursor;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::noise::Node;
use std::collections::VecDeque;
use std::sync::Arc;

/// The noise of single steps is rounded to `2^-20` of the grid: that of 2^16 of them is together off by less than the
/// rounding of a release.
const STEP_BITS: u32 = 20;

/// The node of a single step.
pub(super) fn step_node(position: u64) -> Node {
    Node { level: 0, index: position }
}

/// The node of a hat.
pub(super) fn hat_node(level: usize, number: u64) -> Node {
    Node { level: level as u32 + 1, index: number }
}

/// The quotient rounded to the nearest whole number, halves up.
fn rounded_quotient(numerator: i128, denominator: i128) -> i128 {
    (numerator + denominator / 2).div_euclid(denominator)
}

/// The last steps, and the values that the estimates of a period need.
pub(super) struct RollingCursor {
    shape: Arc<RollingHatShape>,
    local: Arc<Local>,
    width: u64,
    step: u64,
    /// Measured noise of single steps, over their weight, by consecutive periods.
    measured: VecDeque<(u64, Vec<i128>)>,
    /// Corrected noise of the steps of the present period.
    period: Vec<i128>,
    /// The corrected noise of the window's steps, and its sum.
    window: VecDeque<i128>,
    sum: i128,
}

impl RollingCursor {
    pub(super) fn new(shape: Arc<RollingHatShape>, local: Arc<Local>, width: u64) -> Self {
        let (measured, period, window) = (VecDeque::new(), vec![], VecDeque::new());
        Self { shape, local, width, step: 0, measured, period, window, sum: 0 }
    }

    /// Draws the single steps around a period, except for those that are known.
    fn measure(&mut self, index: u64, draw: &mut dyn FnMut(Node) -> i128) {
        let wanted = index.saturating_sub(REACH)..index + REACH + 1;
        self.measured.retain(|(known, _)| wanted.contains(known));
        let weight = self.shape.single.into();
        for index in wanted {
            if self.measured.iter().all(|(known, _)| *known != index) {
                let positions = index * self.shape.period()..(index + 1) * self.shape.period();
                let of = |position| rounded_quotient(draw(step_node(position)) << STEP_BITS, weight);
                self.measured.push_back((index, positions.map(of).collect()));
            }
        }
    }

    /// The discrepancies of the hats around a period, in units of `2^-STEP_BITS` and in their order: functions of the
    /// protected sums alone (see the mechanism's documentation), in whole numbers and therefore also modulo 2^128.
    fn discrepancies(&self, index: u64, draw: &mut dyn FnMut(Node) -> i128) -> Vec<f64> {
        let period = self.shape.period();
        let mut found: Vec<Option<i128>> = self.local.hats().iter().map(|_| None).collect();
        for (found, hat) in found.iter_mut().zip(self.local.hats()) {
            let numbers = period / self.shape.spacing(hat.level);
            // Hats that end before step 1 have neither data nor noise.
            let number = (index * numbers + hat.number).checked_sub(REACH * numbers);
            *found = number.map(|number| draw(hat_node(hat.level, number)) << STEP_BITS);
        }
        let unit = 1.0 / f64::from(1 << STEP_BITS);
        let covered = self.covered(index);
        found
            .into_iter()
            .zip(covered)
            .map(|(own, covered)| own.map_or(0.0, |d| d.wrapping_sub(covered) as f64 * unit))
            .collect()
    }

    /// For every hat around a period, its share of the measured noise of single steps.
    fn covered(&self, index: u64) -> Vec<i128> {
        let mut covered = vec![0i128; self.local.hats().len()];
        for (known, values) in &self.measured {
            // fits: `known` is at most REACH below
            let first = (known + REACH - index) * self.shape.period();
            for (position, value) in (first..).zip(values) {
                for (place, entry) in self.local.over(&self.shape, position) {
                    covered[place] = covered[place].wrapping_add(value.wrapping_mul(entry.into()));
                }
            }
        }
        covered
    }

    /// The corrected noise of the steps of a period, in units of `2^-STEP_BITS`.
    fn solve(&mut self, index: u64, draw: &mut dyn FnMut(Node) -> i128) {
        self.measure(index, draw);
        let solution = self.local.solve(self.discrepancies(index, draw));
        let corrections = self.local.corrections(&self.shape, &solution);
        let known = self.measured.iter().find(|(known, _)| *known == index);
        let (_, values) = known.expect("it is among those around");
        let scale = f64::from(1 << STEP_BITS);
        let corrected = |(value, correction): (&i128, f64)| value.wrapping_add((correction * scale).round() as i128);
        self.period = values.iter().zip(corrections).map(corrected).collect();
    }

    /// Adds the next step to the window.
    fn take(&mut self, draw: &mut dyn FnMut(Node) -> i128) {
        let (index, place) = (self.step / self.shape.period(), self.step % self.shape.period());
        if place == 0 || self.period.is_empty() {
            self.solve(index, draw);
        }
        let noise = self.period[place as usize];
        self.sum = self.sum.wrapping_add(noise);
        self.window.push_back(noise);
        if self.window.len() as u64 > self.width {
            let oldest = self.window.pop_front().expect("it is not empty");
            self.sum = self.sum.wrapping_sub(oldest);
        }
        self.step += 1;
    }

    fn release(&self) -> i128 {
        rounded_quotient(self.sum, 1 << (STEP_BITS - FRACTION_BITS))
    }
}

impl Cursor for RollingCursor {
    fn step(&self) -> u64 {
        self.step
    }

    /// About one draw, amortized; a period is solved at its first step.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.take(draw);
        self.release()
    }

    fn can_seek_forward(&self, step: u64) -> bool {
        step > self.step + self.width
    }

    /// `O(w)` draws from any position: steps older than a window are not read.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        if step < self.step || step - self.step > self.width {
            *self = Self::new(self.shape.clone(), self.local.clone(), self.width);
            self.step = step.saturating_sub(self.width);
        }
        while self.step < step {
            self.take(draw);
        }
        if step == 0 { 0 } else { self.release() }
    }
}
