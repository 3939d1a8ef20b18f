//! The noise of all releases, from one solution of the normal equations.

use super::normal::Elimination;
use super::shape::{Piece, SLOTS, Shape};
use crate::mechanism::least_squares::at_once::Solve;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::noise::Node;

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

/// The estimates of the single steps in units of `2^-STEP_BITS`, and the discrepancies of all hats in the same units,
/// in the order in which hats end.
///
/// Both are functions of the protected sums `y = R x + z` alone, up to the whole number `x` that is added to an
/// estimate (see the mechanism's documentation), in integers and therefore also modulo 2^128. No number leaves 128 bits
/// while noise is below 2^74: an estimate is below 2^(74 + 20) / W_j, and the entries of a hat over `W_j ≥ s1 / 256`
/// add to at most 256 · 2^22 · 2.
pub(super) fn discrepancies(shape: &Shape, draw: &mut dyn FnMut(Node) -> i128) -> (Vec<i128>, Vec<i128>) {
    let mut estimates = Vec::with_capacity(shape.horizon as usize);
    let mut found = Vec::with_capacity(shape.hat_count());
    let mut open = [0i128; SLOTS];
    for index in 0..shape.pieces() {
        let piece = shape.piece(index);
        let (mut sum, mut moment) = (0i128, 0i128);
        for k in 0..piece.length {
            let weight = i128::from(piece.identity.0 + k as i64 * piece.identity.1);
            let estimate = rounded_quotient(draw(step_node(piece.first + k)) << STEP_BITS, weight);
            sum = sum.wrapping_add(estimate);
            moment = moment.wrapping_add(estimate.wrapping_mul(k.into()));
            estimates.push(estimate);
        }
        for (open, (value, slope)) in open.iter_mut().zip(&piece.hats) {
            let covered = sum.wrapping_mul((*value).into()).wrapping_add(moment.wrapping_mul((*slope).into()));
            *open = open.wrapping_add(covered);
        }
        for (level, hat) in shape.closing(index) {
            let covered = std::mem::take(&mut open[2 * level + hat % 2]);
            found.push((draw(hat_node(level, hat)) << STEP_BITS).wrapping_sub(covered));
        }
    }
    (estimates, found)
}

/// The quotient rounded to the nearest whole number, halves up.
fn rounded_quotient(numerator: i128, denominator: i128) -> i128 {
    (numerator + denominator / 2).div_euclid(denominator)
}

impl Solve for Shape {
    /// In units of `2^-FRACTION_BITS`; `O(T + n l²)`.
    fn releases(&self, draw: &mut dyn FnMut(Node) -> i128) -> Vec<i128> {
        releases(self, draw)
    }
}

fn releases(shape: &Shape, draw: &mut dyn FnMut(Node) -> i128) -> Vec<i128> {
    let (estimates, discrepancies) = discrepancies(shape, draw);
    let unit = 1.0 / f64::from(1 << STEP_BITS);
    let right: Vec<f64> = discrepancies.into_iter().map(|d| d as f64 * unit).collect();
    let (_, lines) = Elimination::new(shape).solve(&right);
    let (mut sum, mut correction) = (0i128, 0.0);
    let mut releases = Vec::with_capacity(estimates.len());
    let mut estimates = estimates.into_iter();
    for (index, (value, slope)) in lines.into_iter().enumerate() {
        let piece = shape.piece(index);
        for (k, estimate) in estimates.by_ref().take(piece.length as usize).enumerate() {
            let weight = (piece.identity.0 + k as i64 * piece.identity.1) as f64;
            correction += (value + k as f64 * slope) / (weight * weight);
            sum = sum.wrapping_add(estimate);
            let uncorrected = rounded_quotient(sum, 1 << (STEP_BITS - FRACTION_BITS));
            releases.push(uncorrected + (correction * f64::from(1 << FRACTION_BITS)).round() as i128);
        }
    }
    releases
}

/// The same in floating point, for any values of nodes. `O(T + n l²)`.
pub(super) fn path(shape: &Shape, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
    let weight = |piece: &Piece, k: u64| (piece.identity.0 + k as i64 * piece.identity.1) as f64;
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
            noise += *estimate + (value + k as f64 * slope) / weight(&piece, k).powi(2);
            *estimate = noise;
        }
    }
    path
}
