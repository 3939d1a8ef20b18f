//! The two passes, in fixed point with certain rounding, and in floating point for single rows.

use super::Shape;
use crate::mechanism::least_squares::at_once::Solve;
use crate::mechanism::rounding::{FRACTION_BITS, Rounding};
use crate::noise::Node;
use num_bigint::BigInt;

/// Bits behind the grid at the first attempt: the error is then below 2^-96 of the grid.
const DIGITS: u32 = 256;
/// Bound of the error of a prefix, as a power of two of units.
const ERROR_BITS: u32 = 160;

impl Solve for Shape {
    /// `O(T)`, with ever more digits until every rounding is certain.
    fn releases(&self, draw: &mut dyn FnMut(Node) -> i128) -> Vec<i128> {
        let noise: Vec<Vec<i128>> = (0..self.weights.as_slice().len())
            .map(|level| {
                let node = |index| Node { level: level as u32, index };
                (0..self.blocks[level]).map(|index| draw(node(index))).collect()
            })
            .collect();
        let mut digits = DIGITS;
        loop {
            if let Some(releases) = (Passes { shape: self, digits }).round_all(&noise) {
                break releases;
            }
            digits *= 2;
        }
    }
}

/// The estimation in fixed point.
///
/// Fixed point with `digits` bits behind the grid, coefficients too. A coefficient is off by at most 2^33 units: a
/// share of an own measurement is a variance, off by one, times a squared weight below 2^32. Values stay below 2^96
/// (noise below 2^74, of which a sum has at most 2^21 terms of weight at most 1), so one operation errs by less than
/// 2^130 units, and a prefix, which passes through at most 42 operations for each of at most 2^21 blocks, by less than
/// 2^(130 + 6 + 21).
struct Passes<'a> {
    shape: &'a Shape,
    digits: u32,
}

impl Passes<'_> {
    /// Every prefix, rounded, or `None` if so many digits do not decide one of them.
    fn round_all(&self, noise: &[Vec<i128>]) -> Option<Vec<i128>> {
        let rounding = Rounding::new(BigInt::from(1) << ERROR_BITS, self.digits - FRACTION_BITS);
        let mut prefix = BigInt::ZERO;
        let leaves = self.leaves(noise);
        let round = |leaf| {
            prefix += leaf;
            rounding.rounded(&prefix)
        };
        leaves.into_iter().map(round).collect()
    }

    /// Variances and their shares are the same for all complete blocks of a level; only the last block of a level
    /// differs.
    fn variance_levels(&self) -> Vec<[BigInt; 2]> {
        let one = BigInt::from(1) << self.digits;
        let precision = |level| BigInt::from(self.shape.weight_squared(level));
        let first = &one / precision(0);
        let mut levels = vec![[first.clone(), first]];
        for level in 1..self.shape.levels() {
            let below: &[BigInt; 2] = &levels[level - 1];
            let of = |children: u64, last_cut: bool| {
                let full = children - u64::from(last_cut);
                let total = &below[0] * full + if last_cut { below[1].clone() } else { BigInt::ZERO };
                // V / (1 + V W²)
                (&total << self.digits) / (&one + &total * precision(level))
            };
            let last = self.shape.children(level, self.shape.blocks[level] - 1);
            let complete = of(self.shape.arity, false);
            let cut = of(last.end - last.start, true);
            levels.push([complete, cut]);
        }
        levels
    }

    fn is_last(&self, level: usize, index: u64) -> usize {
        usize::from(index + 1 == self.shape.blocks[level])
    }

    /// Final estimates of the leaves' noise, in units of `2^-digits`.
    fn leaves(&self, noise: &[Vec<i128>]) -> Vec<BigInt> {
        let shape = self.shape;
        let variances = self.variance_levels();
        let measured = |level: usize, index: usize| {
            (BigInt::from(noise[level][index]) << self.digits) / BigInt::from(shape.weight(level).unwrap_or(1))
        };
        // Upwards: the estimate of every block from what is inside it, and for inner blocks the sum of its children's.
        let mut inside: Vec<Vec<BigInt>> = vec![(0..noise[0].len()).map(|i| measured(0, i)).collect()];
        let mut sums: Vec<Vec<BigInt>> = vec![vec![]];
        for level in 1..shape.levels() {
            let count = shape.blocks[level];
            let sum = |index| shape.children(level, index).map(|c| &inside[level - 1][c as usize]).sum::<BigInt>();
            let level_sums: Vec<BigInt> = (0..count).map(sum).collect();
            let combine = |index: u64| {
                let sum = &level_sums[index as usize];
                if shape.weight(level).is_none() {
                    return sum.clone();
                }
                // The share of the own measurement is its precision times the variance that results.
                let share = &variances[level][self.is_last(level, index)] * shape.weight_squared(level);
                sum + (((measured(level, index as usize) - sum) * share) >> self.digits)
            };
            inside.push((0..count).map(combine).collect());
            sums.push(level_sums);
        }
        // Downwards: every child takes its share of what its parent's final estimate differs from the sum.
        let mut last = inside.pop().expect("at least the leaves");
        for level in (1..shape.levels()).rev() {
            let mut below = inside.pop().expect("one level for each");
            for (index, total) in last.iter().enumerate() {
                let difference = total - &sums[level][index];
                let children = shape.children(level, index as u64);
                let variance = |child: u64| &variances[level - 1][self.is_last(level - 1, child)];
                let all: BigInt = children.clone().map(variance).sum();
                for child in children {
                    below[child as usize] += &difference * variance(child) / &all;
                }
            }
            last = below;
        }
        last
    }
}

impl Shape {
    /// The two passes in floating point, for any values of nodes. `O(T)`.
    pub(super) fn path(&self, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
        let precision = |level| f64::from(self.weight_squared(level));
        let mut measured = |level: usize| -> Vec<f64> {
            let weight = self.weight(level).map(f64::from);
            let of = |index| weight.map_or(0.0, |weight| draw(Node { level: level as u32, index }) / weight);
            (0..self.blocks[level]).map(of).collect()
        };
        // Of every level: what is known inside its blocks, its variance, and the sums over the children.
        let first = measured(0);
        let mut levels = vec![(first.clone(), vec![1.0 / precision(0); first.len()], first)];
        for level in 1..self.levels() {
            let (inside, variances, _) = &levels[level - 1];
            let over = |values: &[f64], index| -> f64 { self.children(level, index).map(|c| values[c as usize]).sum() };
            let sums: Vec<f64> = (0..self.blocks[level]).map(|index| over(inside, index)).collect();
            let of = |total: f64| total / (1.0 + total * precision(level));
            let variances: Vec<f64> = (0..self.blocks[level]).map(|index| of(over(variances, index))).collect();
            let own = measured(level).into_iter().zip(&sums).zip(&variances);
            let known = own.map(|((own, sum), variance)| sum + (own - sum) * variance * precision(level)).collect();
            levels.push((known, variances, sums));
        }
        for level in (1..self.levels()).rev() {
            let (below, above) = levels.split_at_mut(level);
            let ((totals, _, sums), (inside, variances, _)) = (&above[0], &mut below[level - 1]);
            for (index, (total, sum)) in (0..).zip(totals.iter().zip(sums)) {
                let children = self.children(level, index);
                let all: f64 = children.clone().map(|c| variances[c as usize]).sum();
                children.for_each(|c| inside[c as usize] += (total - sum) * variances[c as usize] / all);
            }
        }
        let mut noise = 0.0;
        levels[0]
            .0
            .iter()
            .map(|leaf| {
                noise += leaf;
                noise
            })
            .collect()
    }

    /// The weights of all measurements in the estimate of one prefix: the two passes run backwards, in floating point.
    ///
    /// Downwards the weight of a final estimate is handed on to the block's own inside estimate and to its parent's;
    /// upwards (here from the top) that of an inside estimate to the own measurement and the children's.
    pub(super) fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let precision = |level| f64::from(self.weight_squared(level));
        let levels = self.levels();
        let mut variances: Vec<Vec<f64>> = vec![vec![1.0 / precision(0); self.horizon as usize]];
        for level in 1..levels {
            let total = |index| self.children(level, index).map(|c| variances[level - 1][c as usize]).sum::<f64>();
            let of = |index| total(index) / (1.0 + total(index) * precision(level));
            let next = (0..self.blocks[level]).map(of).collect();
            variances.push(next);
        }
        // `outer[l][i]`: weight of the final estimate of a block; `inner[l][i]`: weight of its inside estimate.
        let mut outer: Vec<f64> = (1..=self.horizon).map(|t| f64::from(u8::from(t <= step))).collect();
        let mut inner: Vec<Vec<f64>> = vec![outer.clone()];
        for level in 1..levels {
            let mut next = Vec::new();
            for index in 0..self.blocks[level] {
                let children = self.children(level, index);
                let total: f64 = children.clone().map(|c| variances[level - 1][c as usize]).sum();
                let share: f64 =
                    children.clone().map(|c| outer[c as usize] * variances[level - 1][c as usize] / total).sum();
                children.for_each(|c| inner[level - 1][c as usize] -= share);
                next.push(share);
            }
            inner.push(next.clone());
            outer = next;
        }
        for level in (0..levels).rev() {
            for index in 0..self.blocks[level] {
                let weight = inner[level][index as usize];
                let own = if level == 0 { 1.0 } else { precision(level) * variances[level][index as usize] };
                if let Some(measured) = self.weight(level) {
                    visit(Node { level: level as u32, index }, weight * own / f64::from(measured));
                }
                if level > 0 {
                    self.children(level, index).for_each(|c| inner[level - 1][c as usize] += weight * (1.0 - own));
                }
            }
        }
    }
}
