//! The largest and the mean variance: exact over short horizons, upper bounds over long ones.
//!
//! The variance of a step is a sum over levels, and far from both ends the weights of a level depend only on the place
//! of the step between two knots of the next coarser level; the divisors change slowly. So the horizon is divided into
//! intervals: short ones compared with the spacing of a level `c`, at least some spacings away from both ends. On such
//! an interval
//!
//! - a level up to `c` adds at most the largest sum of squares over the places there, found once ([`Places`]), over the
//!   square of the least divisor around it; the largest sum over these levels is built up from the finest one, part of
//!   a spacing by part of a spacing;
//! - a coarser level adds at most its larger value at the two ends of the interval, with a margin for the curvature of
//!   its weights.
//!
//! Intervals near the ends use a smaller `c`, and the steps next to them are evaluated one by one.
//!
//! **Curvature.** The free values of a ramp solve `G v = c(x)` with overlaps `G` of neighbouring hats, at time `x` in
//! units of the spacing. Every diagonal entry of `G` exceeds the sum of the others in its row by at least 1/3: by 2/3 -
//! 2/6, and for the first hat by `before + 1/3 - 1/6` with `before ≥ 1/5`. So `‖G⁻¹‖ ≤ 3`, in the Euclidean norm as `G`
//! is symmetric. `c'(x)` has the values of hats at `x`, of which two change, with slopes of at most 1. Hence
//! `‖v''‖ ≤ 3 √2`, and no entry of it is larger. Between knots a ramp is a mean of two of its values: at `n` places its
//! second derivative has a norm of at most `3 √(2n)`. On an interval of length `h` a vector differs from the straight
//! line between its ends by at most `h²/8` times that. A norm is convex, and so is its square: on the line the norm is
//! at most the larger of its ends', and the mean of its square at most theirs. Rounding a value moves it by at most
//! `2^-13`.

use super::NestedHats;
use super::estimate::{LevelWeights, RAMP_BITS};
use super::shape::NestedHatShape;
use crate::mechanism::Mechanism;

/// Longest horizon whose steps are all evaluated.
const MAX_COUNTED_HORIZON: u64 = 1 << 14;
/// An interval is this part of a spacing.
const PARTS: u64 = 32;
/// A spacing is small if the horizon has at least this many of it.
const MIN_SPACINGS: u64 = 64;
/// Spacings between an interval and the first and the last step: a ramp reaches 3 knots far, and the first knot is at
/// most six fifths of a spacing after step 1.
const MARGIN: u64 = 5;

/// More than all rounding of floating-point numbers.
const ROUNDING: f64 = 1.0 + 1e-10;

/// The largest and the mean squared row norm, or upper bounds.
pub(super) fn largest_and_mean(hats: &NestedHats) -> (f64, f64) {
    let shape = &*hats.shape;
    let small = |level: &usize| shape.grid(*level).spacing() * MIN_SPACINGS <= shape.horizon;
    match (0..shape.level_count()).rev().find(small) {
        Some(level) if shape.horizon > MAX_COUNTED_HORIZON => Bounds::new(hats, level).largest_and_mean(),
        _ => {
            let mut sums = VarianceSums::default();
            for norm in (1..=shape.horizon).map(|step| hats.row_norm_squared(step)) {
                sums.add(1, norm, norm);
            }
            sums.largest_and_mean()
        }
    }
}

/// The largest value so far, and the sum over steps.
#[derive(Default)]
struct VarianceSums {
    largest: f64,
    sum: f64,
    steps: u64,
}

impl VarianceSums {
    /// Steps with this bound on the variance of each, and on their mean.
    fn add(&mut self, steps: u64, largest: f64, mean: f64) {
        self.largest = self.largest.max(largest);
        self.sum += mean * steps as f64;
        self.steps += steps;
    }

    fn largest_and_mean(&self) -> (f64, f64) {
        (self.largest, self.sum / self.steps as f64)
    }
}

/// The sums of squares of a level's weights between two knots of the next coarser level, far from the ends of a
/// horizon.
struct Places {
    /// At most the sum in each part of the interval between the knots.
    largest: Vec<f64>,
    mean: f64,
}

impl Places {
    fn new(shape: &NestedHatShape, level: usize) -> Self {
        let coarser = shape.measured(level + 1);
        let (width, first) = (part_width(shape, level), coarser.knot(coarser.count / 2));
        let of_part = |part: u64| {
            Squares::of_interval(first + part * width, width, |step| {
                let weights = LevelWeights::new(shape, level, step);
                (weights.norm(), margin(shape, level, &weights, width))
            })
        };
        let parts: Vec<Squares> = (0..coarser.spacing() / width).map(of_part).collect();
        let mean = parts.iter().map(|part| part.mean).sum::<f64>() / parts.len() as f64;
        Self { largest: parts.iter().map(|part| part.largest).collect(), mean }
    }
}

/// Steps in a part of the spacing of a level.
fn part_width(shape: &NestedHatShape, level: usize) -> u64 {
    (shape.measured(level).spacing() / PARTS).max(1)
}

/// Bounds of a squared norm on an interval, and of its mean.
struct Squares {
    largest: f64,
    mean: f64,
}

impl Squares {
    /// From the norm and its margin at the first and the last step.
    fn of_interval(first: u64, width: u64, norm: impl Fn(u64) -> (f64, f64)) -> Self {
        let square = |step: u64| {
            let (norm, margin) = norm(step);
            (norm + margin) * (norm + margin)
        };
        let from = square(first);
        let to = if width == 1 { from } else { square(first + width - 1) };
        Self { largest: from.max(to), mean: (from + to) / 2.0 }
    }
}

/// How far the norm of a level's weights can be above the line between the ends of an interval of this many steps.
fn margin(shape: &NestedHatShape, level: usize, weights: &LevelWeights, width: u64) -> f64 {
    if width == 1 {
        return 0.0;
    }
    let read = (weights.weights.len() as f64).sqrt();
    let parts = |level: usize| width as f64 / shape.measured(level).spacing() as f64;
    let curvature = |level: usize| 3.0 * std::f64::consts::SQRT_2 * parts(level) * parts(level) / 8.0;
    let coarser = if level < shape.level_count() { curvature(level + 1) * read } else { 0.0 };
    let own = if level > 0 { curvature(level) } else { 0.0 };
    let rounding = libm::exp2(-f64::from(RAMP_BITS)) * 2.0 * read;
    (own + coarser + rounding) / shape.measured(level).spacing() as f64
}

struct Bounds<'a> {
    hats: &'a NestedHats,
    /// Of single steps and of the hats finer than the coarsest small spacing.
    places: Vec<Places>,
}

impl<'a> Bounds<'a> {
    fn new(hats: &'a NestedHats, coarsest_small: usize) -> Self {
        Self { hats, places: (0..=coarsest_small).map(|level| Places::new(&hats.shape, level)).collect() }
    }

    /// Distances are counted from the end of the horizon, `T + 1`: knots are at multiples of their spacing.
    fn largest_and_mean(&self) -> (f64, f64) {
        let (shape, mut sums) = (&*self.hats.shape, VarianceSums::default());
        let beyond = shape.horizon + 1;
        let middle = shape.grid(self.places.len() - 1).spacing() * (MIN_SPACINGS / 2);
        let (mut near, mut far) = (middle, middle);
        for level in (0..self.places.len()).rev() {
            let spacing = shape.grid(level).spacing();
            let (least, most) = (MARGIN * spacing, (beyond / spacing - MARGIN) * spacing);
            let knots = |from: u64, to: u64| (from..to).step_by(spacing as usize); // fits: below 2^34
            for distance in knots(least, near).chain(knots(far, most)) {
                self.add_cell(beyond - distance - spacing, level, &mut sums);
            }
            (near, far) = (least, most);
        }
        for distance in (1..=near).chain(far + 1..beyond) {
            let norm = self.hats.row_norm_squared(beyond - distance);
            sums.add(1, norm, norm);
        }
        let (largest, mean) = sums.largest_and_mean();
        (largest * ROUNDING, mean * ROUNDING)
    }

    /// Adds the steps from a knot of a level of hats to the next one.
    fn add_cell(&self, first: u64, level: usize, sums: &mut VarianceSums) {
        let width = part_width(&self.hats.shape, level + 1);
        let (fine, fine_mean) = self.fine(first, level);
        for (part, fine_largest) in (0..).zip(fine) {
            let coarse = self.coarse(first + part * width, width, level);
            sums.add(width, coarse.largest + fine_largest, coarse.mean + fine_mean);
        }
    }

    /// At most what single steps and finer levels add in each part of such an interval, and on average.
    fn fine(&self, first: u64, level: usize) -> (Vec<f64>, f64) {
        let shape = &*self.hats.shape;
        let end = first + shape.grid(level).spacing();
        let (mut largest, mut mean) = (vec![0.0], 0.0);
        for (fine, places) in self.places[..=level].iter().enumerate() {
            let around = 3 * shape.measured(fine + 1).spacing();
            let least = shape.least_divisor(fine, first - around, end + around);
            let factor = 1.0 / (least * least);
            let finer = largest.iter().cycle();
            let sums: Vec<f64> = places.largest.iter().zip(finer).map(|(own, finer)| own * factor + finer).collect();
            let joined = (sums.len() / PARTS as usize).max(1);
            largest = sums.chunks(joined).map(|parts| parts.iter().copied().fold(0.0, f64::max)).collect();
            mean += places.mean * factor;
        }
        (largest, mean)
    }

    /// At most what the coarser levels add in an interval between two neighbouring knots of a level of hats.
    fn coarse(&self, first: u64, width: u64, level: usize) -> Squares {
        let shape = &*self.hats.shape;
        let norm = |coarse: usize, step: u64| {
            let weights = LevelWeights::new(shape, coarse, step);
            let divisors = shape.divisors(coarse, weights.first, weights.weights.len());
            let squares = weights.weights.iter().zip(&divisors);
            let square = |(weight, divisor): (&i64, &u64)| {
                let value = weights.value(*weight) / *divisor as f64;
                value * value
            };
            let sum: f64 = squares.map(square).sum();
            let least = divisors.iter().copied().min().unwrap_or(1);
            (sum.sqrt(), margin(shape, coarse, &weights, width) / least as f64)
        };
        let of_level = |coarse: usize| Squares::of_interval(first, width, |step| norm(coarse, step));
        let add = |a: Squares, b: Squares| Squares { largest: a.largest + b.largest, mean: a.mean + b.mean };
        (level + 1..=shape.level_count()).map(of_level).fold(Squares { largest: 0.0, mean: 0.0 }, add)
    }
}
