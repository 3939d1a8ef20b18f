//! The noise of a release, from the measurements around its step.

use super::estimate::{LevelWeights, weights};
use super::shape::NestedHatShape;
use crate::mechanism::Cursor;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::noise::Node;
use std::collections::VecDeque;
use std::sync::Arc;

/// Measured noise is rounded to this power of 1/2, over the spacing: hundreds of terms are together off by less than
/// the rounding of a release.
const STEP_BITS: u32 = 20;

/// The node of a single step, counted from 1.
pub(super) fn step_node(step: u64) -> Node {
    Node { level: 0, index: step - 1 }
}

/// The node of a hat.
pub(super) fn hat_node(level: usize, hat: u64) -> Node {
    Node { level: level as u32 + 1, index: hat }
}

/// A measurement by its level (0 for single steps) and number.
pub(super) fn node(level: usize, number: u64) -> Node {
    level.checked_sub(1).map_or_else(|| step_node(number + 1), |level| hat_node(level, number))
}

/// The divisor of a measurement's noise: the weight of a single step, or the slope of a hat.
pub(super) fn divisor(shape: &NestedHatShape, level: usize, number: u64) -> u64 {
    level.checked_sub(1).map_or_else(|| shape.single(number + 1), |level| shape.slope(level, number))
}

/// Noise of consecutive measurements of a level, over their divisors.
#[derive(Clone, Debug, Default)]
struct KnownNoise {
    first: u64,
    noise: VecDeque<i128>,
}

/// A cursor that reaches any step with the draws of the measurements around it, and keeps those for the next step.
pub(super) struct NestedCursor {
    shape: Arc<NestedHatShape>,
    step: u64,
    measured: Vec<KnownNoise>,
}

impl KnownNoise {
    /// Keeps the measurements from `first` to `end`, and draws those that are missing.
    fn move_to(&mut self, first: u64, end: u64, mut draw: impl FnMut(u64) -> i128) {
        let known = self.first + self.noise.len() as u64;
        if first < self.first || first > known {
            (self.first, self.noise) = (first, VecDeque::new());
        }
        self.noise.drain(..(first - self.first) as usize);
        self.first = first;
        while first + (self.noise.len() as u64) < end {
            self.noise.push_back(draw(first + self.noise.len() as u64));
        }
    }
}

impl NestedCursor {
    pub(super) fn new(shape: Arc<NestedHatShape>) -> Self {
        let measured = vec![KnownNoise::default(); shape.level_count() + 1];
        Self { shape, step: 0, measured }
    }

    /// Words of the measurements that are kept.
    #[cfg(test)]
    pub(super) fn words(&self) -> u64 {
        self.measured.iter().map(|measured| 2 * measured.noise.len() as u64).sum()
    }

    /// The noise of the present step, in units of `2^-FRACTION_BITS`.
    ///
    /// No number leaves 128 bits while noise is below 2^74. The weights of a level over `2^bits`, less the spacing,
    /// add to at most 2^8 in size, and a hat's height is at least a 256th of `total ≥ 2^8` spacings. So all terms are
    /// below `2^(8 + 74 + 8 - 8 - e)` together, for the widest spacing `2^e`, and there are at most `12 + max(26, e)`
    /// bits below the point.
    fn release(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let levels = weights(&self.shape, self.step);
        let extra = |level: usize| STEP_BITS.saturating_sub(exponent(&self.shape, level));
        let bits = |(level, weights): (usize, &LevelWeights)| weights.bits + extra(level);
        let finest = levels.iter().enumerate().map(bits).max().expect("there are single steps");
        let mut sum = 0i128;
        for (level, weights) in levels.iter().enumerate() {
            let (shape, extra) = (&self.shape, extra(level));
            let measured = &mut self.measured[level];
            measured.move_to(weights.first, weights.first + weights.weights.len() as u64, |number| {
                rounded_quotient(draw(node(level, number)) << extra, divisor(shape, level, number).into())
            });
            let terms = weights.weights.iter().zip(&measured.noise);
            let own = terms.map(|(weight, noise)| i128::from(*weight).wrapping_mul(*noise));
            let own = own.fold(0i128, i128::wrapping_add);
            sum = sum.wrapping_add(own << (finest - bits((level, weights))));
        }
        rounded_quotient(sum, 1 << (finest - FRACTION_BITS))
    }
}

/// The logarithm of the spacing of a level, 0 for single steps.
fn exponent(shape: &NestedHatShape, level: usize) -> u32 {
    level.checked_sub(1).map_or(0, |level| shape.grid(level).exponent)
}

/// The quotient rounded to the nearest whole number, halves up.
fn rounded_quotient(numerator: i128, denominator: i128) -> i128 {
    (numerator + denominator / 2).div_euclid(denominator)
}

impl Cursor for NestedCursor {
    fn step(&self) -> u64 {
        self.step
    }

    /// About one draw, amortized.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.seek(self.step + 1, draw)
    }

    fn can_seek_forward(&self, step: u64) -> bool {
        step > self.step
    }

    /// The draws of the measurements around the step that are not known.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.step = step;
        if step == 0 { 0 } else { self.release(draw) }
    }
}
