//! How a release depends on the measurements around it.
//!
//! On every level the ramp of a step `t` is a function that is straight between knots, 1 long before `t` and 0 long
//! after it: the one nearest to the indicator of the steps up to `t`, with the values of the knots near `t` free. A
//! prefix is the ramp of the coarsest level plus, from level to level, the difference of neighbouring ramps, down to
//! the indicator itself. Any values of the free knots give an exact prefix, so they are rounded to multiples of
//! `2^-12`.

use super::shape::{KnotGrid, NestedHatShape};

/// Values of ramps are multiples of this power of 1/2.
pub(super) const RAMP_BITS: u32 = 12;
const ONE: i64 = 1 << RAMP_BITS;
/// Free knots on each side of a step. With one more, variances fall by less than 1 %.
const FREE: u64 = 2;
/// Maximum number of free knots.
const MAX_FREE: usize = 2 * FREE as usize;

/// A ramp by its values at knots, in units of `2^-RAMP_BITS`.
#[derive(Clone, Copy, Debug)]
struct Ramp {
    /// The first free knot; those before have the value 1.
    first: u64,
    /// The end of the free knots; from here on the value is 0.
    end: u64,
    values: [i64; MAX_FREE],
}

impl Ramp {
    /// The least-squares approximation of the indicator of the steps up to `step`, in continuous time with half a step
    /// added. Its normal equations have the overlaps 1/6, 2/3, 1/6 of neighbouring hats.
    fn new(grid: &KnotGrid, step: u64) -> Self {
        let spacing = grid.spacing() as f64;
        let (first, end) = match grid.place(step) {
            None => (0, FREE.min(grid.count)),
            Some((hat, _)) => ((hat + 1).saturating_sub(FREE), (hat + 1 + FREE).min(grid.count)),
        };
        // Steps before the first knot, over the spacing.
        let before = (grid.first_knot - 1) as f64 / spacing;
        let (mut pivots, mut values) = ([0.0; MAX_FREE], [0.0; MAX_FREE]);
        for (index, hat) in (first..end).enumerate() {
            let after_knot = (step as i64 - grid.knot(hat) as i64) as f64 + 0.5; // fits: below 2^41
            let rising = if hat == 0 { before } else { 0.5 };
            let mut pivot = if hat == 0 { before + 1.0 / 3.0 } else { 2.0 / 3.0 };
            let mut value = covered(after_knot / spacing, hat == 0, rising);
            if index > 0 {
                let factor = 1.0 / (6.0 * pivots[index - 1]);
                pivot -= factor / 6.0;
                value -= factor * values[index - 1];
            } else if first > 0 {
                value -= 1.0 / 6.0;
            }
            (pivots[index], values[index]) = (pivot, value);
        }
        let (mut ramp, mut next) = (Self { first, end, values: [0; MAX_FREE] }, 0.0);
        for index in (0..(end - first) as usize).rev() {
            next = (values[index] - next / 6.0) / pivots[index];
            ramp.values[index] = (next * ONE as f64).round() as i64;
        }
        ramp
    }

    /// At a knot.
    fn at(&self, hat: u64) -> i64 {
        if hat < self.first {
            ONE
        } else if hat < self.end {
            self.values[(hat - self.first) as usize]
        } else {
            0
        }
    }

    /// At a step, in units of `2^-RAMP_BITS` over the spacing.
    fn over_spacing(&self, grid: &KnotGrid, step: u64) -> i64 {
        let spacing = grid.spacing() as i64;
        match grid.place(step) {
            None => self.at(0) * spacing,
            Some((hat, offset)) => self.at(hat) * (spacing - offset as i64) + self.at(hat + 1) * offset as i64,
        }
    }

    /// The knots around the values other than 1 and 0: the step up to which it is 1 (0 if it never is), and the first
    /// step from which on it is 0.
    fn changes(&self, grid: &KnotGrid) -> (u64, u64) {
        (self.first.checked_sub(1).map_or(0, |hat| grid.knot(hat)), grid.knot(self.end))
    }
}

/// The integral of a hat of width 1 up to a distance after its knot; the first hat is constant before its knot, for a
/// length `rising`; the integral of a rising side is 1/2.
fn covered(distance: f64, is_first: bool, rising: f64) -> f64 {
    if distance >= 1.0 {
        rising + 0.5
    } else if distance >= 0.0 {
        rising + distance - 0.5 * distance * distance
    } else if is_first {
        (rising + distance).max(0.0)
    } else if distance >= -1.0 {
        0.5 * (1.0 + distance) * (1.0 + distance)
    } else {
        0.0
    }
}

/// The measurements of one level that a release reads. Level 0 has the single steps, level `l + 1` the hats of `l`.
pub(super) struct LevelWeights {
    /// The number of the first measurement: a step less one, or a hat.
    pub(super) first: u64,
    /// The weight of every measurement from the first one on, in units of `2^-bits` of its noise over its slope.
    pub(super) weights: Vec<i64>,
    pub(super) bits: u32,
}

impl LevelWeights {
    /// The weights of a level in the release of a step: its own ramp (for single steps, the indicator) less the ramp of
    /// the next coarser level, if there is one. `O(k)` for the factor `k` between the spacings.
    pub(super) fn new(shape: &NestedHatShape, level: usize, step: u64) -> Self {
        let grid = shape.measured(level);
        let ramp = (level > 0).then(|| Ramp::new(&grid, step));
        let own = |number: u64| match &ramp {
            Some(ramp) => ramp.at(number),
            None if number < step => ONE,
            None => 0,
        };
        if level == shape.level_count() {
            let end = ramp.map_or(step, |ramp| ramp.end);
            return Self { first: 0, weights: (0..end).map(own).collect(), bits: RAMP_BITS + grid.exponent };
        }
        let coarser = shape.measured(level + 1);
        let coarser_ramp = Ramp::new(&coarser, step);
        let (one_until, end) = coarser_ramp.changes(&coarser);
        // Both are knots of this grid, as the coarser one is nested in it. At the first one all ramps are 1.
        let first = one_until.checked_sub(grid.first_knot).map_or(0, |since| (since >> grid.exponent) + 1);
        let numbers = first..((end - grid.first_knot) >> grid.exponent).min(grid.count);
        let factor = coarser.exponent - grid.exponent;
        let weight = |number: u64| {
            let subtracted = coarser_ramp.over_spacing(&coarser, grid.knot(number)) >> grid.exponent; // exact: a knot
            (own(number) << factor) - subtracted
        };
        Self { first, weights: numbers.map(weight).collect(), bits: RAMP_BITS + coarser.exponent }
    }

    /// A weight in units of the measurement's noise over its divisor.
    pub(super) fn value(&self, weight: i64) -> f64 {
        weight as f64 * libm::exp2(-f64::from(self.bits)) // exact: weights are below 2^52
    }

    /// The Euclidean norm of all weights.
    pub(super) fn norm(&self) -> f64 {
        let square = |weight: &i64| {
            let value = self.value(*weight);
            value * value
        };
        self.weights.iter().map(square).sum::<f64>().sqrt()
    }
}

/// The weights of the release of a step, finest level first. `O(k)` for factors `k` between spacings, and `O(1)` for
/// each weight.
pub(super) fn weights(shape: &NestedHatShape, step: u64) -> Vec<LevelWeights> {
    (0..=shape.level_count()).map(|level| LevelWeights::new(shape, level, step)).collect()
}
