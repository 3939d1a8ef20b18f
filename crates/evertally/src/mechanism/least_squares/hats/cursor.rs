//! The noise of all releases, from one solution of the normal equations.

use super::normal::Elimination;
use super::shape::{HatShape, LinearPiece, SLOTS};
use crate::mechanism::least_squares::at_once::Solve;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::noise::Node;
use crate::number::power;

/// The single steps' estimates are rounded to `2^-20` of the grid: 2^22 of them are together off by less than the
/// rounding of a release.
const STEP_BITS: u32 = 20;

/// The node of a single step, counted from 1.
pub(super) fn step_node(step: u64) -> Node {
    Node { level: 0, index: step - 1 }
}

/// The node of a hat.
pub(super) fn hat_node(level: usize, hat: usize) -> Node {
    Node { level: level as u32 + 1, index: hat as u64 }
}

/// The estimate of a step's noise from its own measurement, in units of `2^-STEP_BITS`: the `k`-th step of a piece.
pub(super) fn estimate(piece: &LinearPiece, k: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
    let weight = i128::from(piece.identity.0 + k as i64 * piece.identity.1);
    rounded_quotient(draw(step_node(piece.first + k)) << STEP_BITS, weight)
}

/// The parts of the estimates in the open hats, by slots.
#[derive(Clone, Default)]
pub(super) struct Covered([i128; SLOTS]);

impl Covered {
    /// Moves along a piece: emits the estimates of its steps, then the discrepancies of the hats that end with it, in
    /// the order in which hats end.
    ///
    /// Both are functions of the protected sums `y = R x + z` alone, up to the whole number `x` that is added to an
    /// estimate (see the mechanism's documentation), in integers and therefore also modulo 2^128. No number leaves 128
    /// bits while noise is below 2^74: an estimate is below 2^(74 + 20) / W_j, and the entries of a hat over `W_j ≥ s1
    /// / 256` add to at most 256 · 2^22 · 2.
    pub(super) fn pass(
        &mut self,
        shape: &HatShape,
        index: usize,
        draw: &mut dyn FnMut(Node) -> i128,
        mut estimated: impl FnMut(i128),
        mut found: impl FnMut(i128),
    ) {
        let piece = shape.piece(index);
        let (mut sum, mut moment) = (0i128, 0i128);
        for k in 0..piece.length {
            let estimate = estimate(&piece, k, draw);
            sum = sum.wrapping_add(estimate);
            moment = moment.wrapping_add(estimate.wrapping_mul(k.into()));
            estimated(estimate);
        }
        for (open, (value, slope)) in self.0.iter_mut().zip(&piece.hats) {
            let covered = sum.wrapping_mul((*value).into()).wrapping_add(moment.wrapping_mul((*slope).into()));
            *open = open.wrapping_add(covered);
        }
        for (level, hat) in shape.closing(index) {
            let covered = std::mem::take(&mut self.0[2 * level + hat % 2]);
            found((draw(hat_node(level, hat)) << STEP_BITS).wrapping_sub(covered));
        }
    }
}

/// The estimates of all steps, and the discrepancies of all hats.
pub(super) fn discrepancies(shape: &HatShape, draw: &mut dyn FnMut(Node) -> i128) -> (Vec<i128>, Vec<i128>) {
    let mut estimates = Vec::with_capacity(shape.horizon as usize);
    let mut found = Vec::with_capacity(shape.hat_count());
    let mut covered = Covered::default();
    for index in 0..shape.pieces() {
        covered.pass(shape, index, draw, |estimate| estimates.push(estimate), |d| found.push(d));
    }
    (estimates, found)
}

/// A discrepancy in units of the grid.
pub(super) fn in_grid_units(discrepancy: i128) -> f64 {
    discrepancy as f64 * (1.0 / f64::from(1 << STEP_BITS))
}

/// The running sums of estimates and of corrections.
#[derive(Clone, Default)]
pub(super) struct RunningEstimates {
    sum: i128,
    correction: f64,
}

impl RunningEstimates {
    /// The release of the `k`-th step of a piece, after that of the step before.
    pub(super) fn release(&mut self, piece: &LinearPiece, k: u64, (value, slope): (f64, f64), estimate: i128) -> i128 {
        let weight = (piece.identity.0 + k as i64 * piece.identity.1) as f64;
        self.correction += (value + k as f64 * slope) / (weight * weight);
        self.sum = self.sum.wrapping_add(estimate);
        let uncorrected = rounded_quotient(self.sum, 1 << (STEP_BITS - FRACTION_BITS));
        uncorrected + (self.correction * f64::from(1 << FRACTION_BITS)).round() as i128
    }
}

/// The quotient rounded to the nearest whole number, halves up.
fn rounded_quotient(numerator: i128, denominator: i128) -> i128 {
    (numerator + denominator / 2).div_euclid(denominator)
}

impl Solve for HatShape {
    /// In units of `2^-FRACTION_BITS`; `O(T + n l²)`.
    fn releases(&self, draw: &mut dyn FnMut(Node) -> i128) -> Vec<i128> {
        releases(self, draw)
    }
}

fn releases(shape: &HatShape, draw: &mut dyn FnMut(Node) -> i128) -> Vec<i128> {
    let (estimates, discrepancies) = discrepancies(shape, draw);
    let right: Vec<f64> = discrepancies.into_iter().map(in_grid_units).collect();
    let (_, lines) = Elimination::new(shape).solve(&right);
    let mut running = RunningEstimates::default();
    let mut releases = Vec::with_capacity(estimates.len());
    let mut estimates = estimates.into_iter();
    for (index, line) in lines.into_iter().enumerate() {
        let piece = shape.piece(index);
        for (k, estimate) in (0..piece.length).zip(estimates.by_ref()) {
            releases.push(running.release(&piece, k, line, estimate));
        }
    }
    releases
}

/// The same in floating point, for any values of nodes. `O(T + n l²)`.
pub(super) fn path(shape: &HatShape, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
    let weight = |piece: &LinearPiece, k: u64| (piece.identity.0 + k as i64 * piece.identity.1) as f64;
    let mut path: Vec<f64> = Vec::with_capacity(shape.horizon as usize);
    let (mut right, mut open) = (Vec::with_capacity(shape.hat_count()), [0.0; SLOTS]);
    for index in 0..shape.pieces() {
        let piece = shape.piece(index);
        let (mut sum, mut moment) = (0.0, 0.0);
        for k in 0..piece.length {
            let estimate = draw(step_node(piece.first + k)) / weight(&piece, k);
            (sum, moment) = (sum + estimate, moment + estimate * k as f64);
            path.push(estimate);
        }
        for (open, (value, slope)) in open.iter_mut().zip(&piece.hats) {
            *open += sum * *value as f64 + moment * *slope as f64;
        }
        for (level, hat) in shape.closing(index) {
            right.push(draw(hat_node(level, hat)) - std::mem::take(&mut open[2 * level + hat % 2]));
        }
    }
    let (_, lines) = Elimination::new(shape).solve(&right);
    let mut noise = 0.0;
    for (index, (value, slope)) in lines.into_iter().enumerate() {
        let piece = shape.piece(index);
        for (k, estimate) in (0..piece.length).zip(&mut path[piece.first as usize - 1..]) {
            noise += *estimate + (value + k as f64 * slope) / power(weight(&piece, k), 2);
            *estimate = noise;
        }
    }
    path
}
