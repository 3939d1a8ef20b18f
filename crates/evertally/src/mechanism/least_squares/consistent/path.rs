//! The noise of one release after another, in fixed point with certain rounding, along the blocks around the step.

use super::ConsistentShape;
use crate::mechanism::Cursor;
use crate::mechanism::rounding::{FRACTION_BITS, RoundingOffset};
use crate::noise::Node;
use num_bigint::BigInt;
use std::sync::Arc;

/// Bits below the grid at the first attempt: the error is then below 2^-96 of the grid.
const DIGITS: u32 = 320;
/// Bound of the error of a prefix, as a power of two of units of `2^-digits`.
///
/// A variance errs by at most 2^22 units: division rounds by one, and on the way up errors grow at most as the number
/// of blocks. A gain is a variance times a squared weight below 2^32; its error, and that of derived values, is less
/// than 2^60. Noise is below 2^74, so values are below 2^96, one operation errs by less than 2^157, and a prefix passes
/// through fewer than 2^27 of them.
const ERROR_BITS: u32 = 224;
/// Words of a number.
pub(super) const WORDS: u64 = 10;

/// The variances and weights of the estimation by level, in units of `2^-digits`.
struct LevelGains {
    digits: u32,
    /// Variance of the inside estimate of a complete block and of the last one, by level.
    variances: Vec<[BigInt; 2]>,
    /// `inside[m][l]`: the weight of the measurements of level `l` in the inside estimate of a complete block of level
    /// `m`.
    inside: Vec<Vec<BigInt>>,
}

impl LevelGains {
    fn new(shape: &ConsistentShape, digits: u32) -> Self {
        let one = BigInt::from(1) << digits;
        let precision = |level| BigInt::from(shape.weight_squared(level));
        let first = &one / precision(0);
        let mut variances = vec![[first.clone(), first]];
        let mut inside = vec![vec![&one / BigInt::from(shape.weight(0).unwrap_or(1))]];
        for level in 1..shape.levels() {
            let below: &[BigInt; 2] = &variances[level - 1];
            let of = |total: BigInt| (&total << digits) / (&one + total * precision(level));
            let last = shape.children(level, shape.blocks[level] - 1);
            let complete = of(&below[0] * shape.arity);
            let cut = of(&below[0] * (last.end - last.start - 1) + &below[1]);
            let gain = &complete * precision(level);
            let kept = &one - &gain;
            let mut weights: Vec<BigInt> = inside[level - 1].iter().map(|weight| (weight * &kept) >> digits).collect();
            weights.push(shape.weight(level).map_or(BigInt::ZERO, |weight| gain / BigInt::from(weight)));
            variances.push([complete, cut]);
            inside.push(weights);
        }
        Self { digits, variances, inside }
    }
}

/// The children of a block around the step.
struct ChildFrame {
    /// Level of the block and its index there.
    level: usize,
    index: u64,
    /// Noise of the prefix before each child, and after the last.
    prefixes: Vec<BigInt>,
}

/// Stands at any step with the estimates of the blocks around it.
pub(super) struct PathCursor {
    shape: Arc<ConsistentShape>,
    gains: LevelGains,
    rounding: RoundingOffset,
    step: u64,
    /// From the root down.
    frames: Vec<ChildFrame>,
}

impl PathCursor {
    pub(super) fn new(shape: Arc<ConsistentShape>) -> Self {
        Self::with_digits(shape, DIGITS)
    }

    fn with_digits(shape: Arc<ConsistentShape>, digits: u32) -> Self {
        let rounding = RoundingOffset::new(BigInt::from(1) << ERROR_BITS, digits - FRACTION_BITS);
        Self { gains: LevelGains::new(&shape, digits), rounding, step: 0, frames: vec![], shape }
    }

    /// Kept numbers, in words.
    #[cfg(test)]
    pub(super) fn words(&self) -> u64 {
        self.frames.iter().flat_map(|frame| &frame.prefixes).map(|prefix| 3 + prefix.bits().div_ceil(64)).sum()
    }

    /// The measured noise of a block, over its weight.
    fn measured(&self, level: usize, index: u64, draw: &mut dyn FnMut(Node) -> i128) -> Option<BigInt> {
        let weight = self.shape.weight(level)?;
        Some((BigInt::from(draw(Node { level: level as u32, index })) << self.gains.digits) / BigInt::from(weight))
    }

    fn variance(&self, level: usize, index: u64) -> &BigInt {
        &self.gains.variances[level][usize::from(self.is_last(level, index))]
    }

    fn is_last(&self, level: usize, index: u64) -> bool {
        index + 1 == self.shape.blocks[level]
    }

    /// The estimate of a block's noise from the measurements inside it.
    fn inside(&self, level: usize, index: u64, draw: &mut dyn FnMut(Node) -> i128) -> BigInt {
        if level > 0 && self.is_last(level, index) {
            let sum = self.shape.children(level, index).map(|child| self.inside(level - 1, child, draw)).sum();
            return self.with_own(level, index, sum, draw);
        }
        let mut total = BigInt::ZERO;
        let measured = self.shape.weights.as_slice().len();
        let mut width = 1; // of the block in blocks of the level
        for below in (0..=level).rev() {
            if below < measured {
                let nodes = index * width..(index + 1) * width;
                // fits: 2^20 values below 2^74
                let sum: i128 = nodes.map(|index| draw(Node { level: below as u32, index })).sum();
                total += &self.gains.inside[level][below] * sum;
            }
            width *= self.shape.arity;
        }
        total
    }

    /// The sum of a block's children, corrected by its own measurement.
    fn with_own(&self, level: usize, index: u64, sum: BigInt, draw: &mut dyn FnMut(Node) -> i128) -> BigInt {
        match self.measured(level, index, draw) {
            None => sum,
            Some(own) => {
                let gain = self.variance(level, index) * self.shape.weight_squared(level);
                &sum + (((own - &sum) * gain) >> self.gains.digits)
            }
        }
    }

    /// The estimates of a block's children: each takes its share of the difference between the block's estimate and
    /// their sum.
    fn enter(
        &self,
        level: usize,
        index: u64,
        known: Option<[BigInt; 2]>,
        draw: &mut dyn FnMut(Node) -> i128,
    ) -> ChildFrame {
        let children = self.shape.children(level, index);
        let inside: Vec<BigInt> = children.clone().map(|child| self.inside(level - 1, child, draw)).collect();
        let sum: BigInt = inside.iter().sum();
        let [mut prefix, total] =
            known.unwrap_or_else(|| [BigInt::ZERO, self.with_own(level, index, sum.clone(), draw)]);
        let variance: BigInt = children.clone().map(|child| self.variance(level - 1, child)).sum();
        let difference = total - sum;
        let [complete, cut] = self.gains.variances[level - 1].each_ref().map(|own| &difference * own / &variance);
        let mut prefixes = vec![prefix.clone()];
        for (child, inside) in children.zip(inside) {
            prefix += inside + if self.is_last(level - 1, child) { &cut } else { &complete };
            prefixes.push(prefix.clone());
        }
        ChildFrame { level, index, prefixes }
    }

    /// The rounded noise of a step (1 ..= T), or `None` if this many digits do not decide it.
    fn try_at(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> Option<i128> {
        let place = |level: usize| (step - 1) / self.shape.arity.saturating_pow(level as u32);
        while self.frames.last().is_some_and(|frame| frame.index != place(frame.level)) {
            self.frames.pop();
        }
        loop {
            let (level, known) = match self.frames.last() {
                None if self.shape.levels() == 1 => {
                    let only = self.measured(0, 0, draw).expect("leaves are measured");
                    return self.rounding.rounded(&only);
                }
                None => (self.shape.levels() - 1, None),
                Some(frame) => {
                    let child = (place(frame.level - 1) - self.shape.children(frame.level, frame.index).start) as usize;
                    if frame.level == 1 {
                        return self.rounding.rounded(&frame.prefixes[child + 1]);
                    }
                    let (start, end) = (&frame.prefixes[child], &frame.prefixes[child + 1]);
                    (frame.level - 1, Some([start.clone(), end - start]))
                }
            };
            let frame = self.enter(level, place(level), known, draw);
            self.frames.push(frame);
        }
    }
}

impl Cursor for PathCursor {
    fn step(&self) -> u64 {
        self.step
    }

    /// `O(log_k T)` draws, amortized.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.seek(self.step + 1, draw)
    }

    /// Draws everything below the first block that the old step and the new one share.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.step = step;
        if step == 0 {
            return 0;
        }
        loop {
            if let Some(noise) = self.try_at(step, draw) {
                return noise;
            }
            *self = Self { step, ..Self::with_digits(self.shape.clone(), 2 * self.gains.digits) };
        }
    }
}
