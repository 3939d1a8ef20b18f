//! The integer matrix of nested hats, entry by entry: no list grows with the horizon.

use crate::mechanism::name::nested_levels::{NestedLevels, SHARE_UNITS};
use crate::{Error, Result};

/// The smallest part of a step's budget that its own weight may be.
const MIN_SINGLE_SHARE: f64 = 1.0 / 256.0;
/// Minimum slope of a hat of the coarsest level, in units per step, for a share of 1 and before rounding.
const RESOLUTION_BITS: u32 = 8;
/// Minimum column sum.
const MIN_TOTAL: u64 = 1 << 12;
/// Maximum number of hats of the coarsest level: every release reads all of them.
const MAX_COARSEST: u64 = 64;

/// The matrix `R`: the weights of single steps and of hats, all integers, every column with the sum `total`.
#[derive(Clone, Debug)]
pub(super) struct NestedHatShape {
    pub(super) horizon: u64,
    pub(super) levels: NestedLevels,
    /// The sum of every column, a power of two, at most 2^47.
    pub(super) total: u64,
    grids: Vec<KnotGrid>,
}

/// The knots of one level. They are `spacing` apart and end with `T + 1`, which has no hat: the last hat falls to 0
/// there. The first hat is constant up to its knot.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnotGrid {
    /// The logarithm of the spacing to base 2.
    pub(super) exponent: u32,
    pub(super) first_knot: u64,
    /// Number of hats.
    pub(super) count: u64,
}

impl KnotGrid {
    /// The single steps of a horizon as a level.
    fn steps(horizon: u64) -> Self {
        Self { exponent: 0, first_knot: 1, count: horizon }
    }

    /// As many hats as there is room for, with the first knot at least a fifth of a spacing after step 1. So the first
    /// knot of a grid is not before that of a grid that is 8 times finer, and its knots are among those of the latter.
    fn new(horizon: u64, exponent: u32) -> Self {
        let spacing = 1 << exponent;
        let count = ((5 * horizon - spacing) / (5 * spacing)).max(1); // fits: horizons are below 2^41
        Self { exponent, first_knot: horizon + 1 - count * spacing, count }
    }

    pub(super) fn spacing(&self) -> u64 {
        1 << self.exponent
    }

    pub(super) fn knot(&self, hat: u64) -> u64 {
        self.first_knot + hat * self.spacing()
    }

    /// The last hat whose knot is not after a step, and the step's distance from it; `None` before the first knot.
    pub(super) fn place(&self, step: u64) -> Option<(u64, u64)> {
        let since = step.checked_sub(self.first_knot)?;
        Some((since >> self.exponent, since & (self.spacing() - 1)))
    }

    /// The hats over a step with their distances from the top of the hat, as (number, entry for a slope of 1).
    fn over(&self, step: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (count, spacing) = (self.count, self.spacing());
        let hats = match self.place(step) {
            None => [(0, spacing), (1, 0)],
            Some((hat, offset)) => [(hat, spacing - offset), (hat + 1, offset)],
        };
        hats.into_iter().filter(move |(hat, entry)| *hat < count && *entry > 0)
    }
}

impl NestedHatShape {
    /// # Errors
    /// If the widest spacing does not suit the horizon, or the levels leave a step less than 1/256 of its budget.
    pub(super) fn new(horizon: u64, levels: NestedLevels) -> Result<Self> {
        let Some(coarsest) = levels.spacings().last().copied() else {
            return Self::without_hats(horizon);
        };
        // Six fifths of the coarsest spacing: only then does a first knot follow step 1 by a fifth of its spacing.
        if 5 * horizon < 6 * coarsest || horizon > MAX_COARSEST * coarsest {
            return Err(Error::invalid(format!(
                "nested hats up to {coarsest} steps apart do not fit a horizon of {horizon} steps; the widest spacing \
                 is between 1/{MAX_COARSEST} and 5/6 of the horizon"
            )));
        }
        let grids: Vec<KnotGrid> =
            levels.exponents().iter().map(|exponent| KnotGrid::new(horizon, (*exponent).into())).collect();
        let total = (coarsest << RESOLUTION_BITS).max(MIN_TOTAL);
        let shape = Self { horizon, levels, total, grids };
        shape.check()?;
        Ok(shape)
    }

    fn without_hats(horizon: u64) -> Result<Self> {
        if horizon > MAX_COARSEST {
            return Err(Error::invalid(format!(
                "nested hats need a level over more than {MAX_COARSEST} steps; the horizon has {horizon}"
            )));
        }
        Ok(Self { horizon, levels: NestedLevels::NONE, total: MIN_TOTAL, grids: vec![] })
    }

    fn check(&self) -> Result<()> {
        // What all levels take is at most a function with straight pieces between step 1 and the first knots.
        let taken = |step: u64| -> f64 {
            (0..self.grids.len()).map(|level| self.share(level, step.max(self.grids[level].first_knot))).sum()
        };
        let mut corners = self.grids.iter().map(|grid| grid.first_knot).chain([1, self.horizon + 1]);
        match corners.find(|step| taken(*step) > 1.0 - MIN_SINGLE_SHARE) {
            None => Ok(()),
            Some(step) => Err(Error::invalid(format!(
                "the shares of hats `{}` leave step {step} less than 1/256 of its budget; lower them",
                self.levels
            ))),
        }
    }

    /// The share of a level at a step, between 0 and 1.
    fn share(&self, level: usize, step: u64) -> f64 {
        self.weighted_share(level, step) as f64 / (f64::from(SHARE_UNITS) * self.horizon as f64)
    }

    /// The same times `1000 T`.
    fn weighted_share(&self, level: usize, step: u64) -> u64 {
        let [first, last] = self.levels.shares().map(|shares| u64::from(shares[level]));
        // fits: shares are below 2^10, horizons below 2^41
        first * (self.horizon + 1 - step) + last * (step - 1)
    }

    pub(super) fn level_count(&self) -> usize {
        self.grids.len()
    }

    pub(super) fn grid(&self, level: usize) -> &KnotGrid {
        &self.grids[level]
    }

    /// The places of measurements: single steps for level 0, and the knots of hats one level coarser from there on.
    pub(super) fn measured(&self, level: usize) -> KnotGrid {
        level.checked_sub(1).map_or(KnotGrid::steps(self.horizon), |level| self.grids[level])
    }

    /// The entries of a hat are this many times the distance from where it falls to 0. At least 1: a share is 4/1000 or
    /// more, and the total is 2^8 or more for each step of a spacing.
    pub(super) fn slope(&self, level: usize, hat: u64) -> u64 {
        let grid = self.grids[level];
        let share = u128::from(self.weighted_share(level, grid.knot(hat)));
        let whole = (u128::from(SHARE_UNITS) * u128::from(self.horizon)) << grid.exponent;
        // fits: the share is at most the whole
        (u128::from(self.total) * share / whole) as u64
    }

    /// The hats over a step with their entries, as (level, number, entry).
    pub(super) fn over(&self, step: u64) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        self.grids.iter().enumerate().flat_map(move |(level, grid)| {
            grid.over(step).map(move |(hat, distance)| (level, hat, self.slope(level, hat) * distance))
        })
    }

    /// The weight of a single step.
    pub(super) fn single(&self, step: u64) -> u64 {
        self.total - self.over(step).map(|hat| hat.2).sum::<u64>()
    }

    /// The divisors of consecutive measurements of a level: slopes of hats, or weights of single steps.
    pub(super) fn divisors(&self, level: usize, first: u64, count: usize) -> Vec<u64> {
        match level.checked_sub(1) {
            None => self.singles(first + 1, count),
            Some(level) => self.slopes(level, first, count),
        }
    }

    /// The slopes of consecutive hats, with two divisions for all of them.
    fn slopes(&self, level: usize, first: u64, count: usize) -> Vec<u64> {
        let grid = self.grids[level];
        let [from, to] = self.levels.shares().map(|shares| i128::from(shares[level]));
        let whole = (i128::from(SHARE_UNITS) * i128::from(self.horizon)) << grid.exponent;
        // fits: at most 2^47 · 2^10 · 2^41
        let numerator = i128::from(self.total) * i128::from(self.weighted_share(level, grid.knot(first)));
        let by = (i128::from(self.total) * (to - from)) << grid.exponent;
        let (mut slope, mut rest) = (numerator / whole, numerator % whole);
        let (change, rest_change) = (by.div_euclid(whole), by.rem_euclid(whole));
        let mut next = || {
            let now = slope as u64; // fits: at most the total
            (slope, rest) = (slope + change, rest + rest_change);
            if rest >= whole {
                (slope, rest) = (slope + 1, rest - whole);
            }
            now
        };
        (0..count).map(|_| next()).collect()
    }

    /// The weights of consecutive single steps: hats are straight between knots.
    fn singles(&self, first: u64, count: usize) -> Vec<u64> {
        let mut singles = vec![self.total as i64; count];
        for (level, grid) in self.grids.iter().enumerate() {
            let mut rest = &mut singles[..];
            let mut step = first;
            while !rest.is_empty() {
                let slope = |hat: u64| if hat < grid.count { self.slope(level, hat) as i64 } else { 0 };
                let (entry, change, until_knot) = match grid.place(step) {
                    None => (slope(0) << grid.exponent, 0, grid.first_knot - step),
                    Some((hat, offset)) => {
                        let (falling, rising) = (slope(hat), slope(hat + 1));
                        let left = grid.spacing() - offset;
                        (falling * left as i64 + rising * offset as i64, rising - falling, left)
                    }
                };
                let length = rest.len().min(until_knot as usize);
                let (own, others) = rest.split_at_mut(length);
                own.iter_mut().zip(0..).for_each(|(single, place)| *single -= entry + place * change);
                (rest, step) = (others, step + length as u64);
            }
        }
        singles.into_iter().map(|single| single as u64).collect() // fits: at least a 256th of the total
    }

    /// At most every divisor of a level's measurements between two steps: slopes of hats, or weights of single steps.
    pub(super) fn least_divisor(&self, level: usize, from: u64, to: u64) -> f64 {
        let Some(level) = level.checked_sub(1) else { return self.least_single(from, to) };
        let grid = self.grids[level];
        let at = |step: u64| self.slope(level, grid.place(step).map_or(0, |place| place.0).min(grid.count - 1));
        at(from).min(at(to)) as f64 // slopes are straight in time
    }

    /// At most the weight of any single step between two.
    fn least_single(&self, from: u64, to: u64) -> f64 {
        let taken = |level: usize| {
            let grid = self.grids[level];
            let place = |step: u64| grid.place(step).map(|place| place.0);
            if place(from) == place(to) {
                // Straight between two knots.
                let of = |step: u64| grid.over(step).map(|(hat, distance)| self.slope(level, hat) * distance).sum();
                return u64::max(of(from), of(to)) as f64;
            }
            let share = |step: u64| self.share(level, step.max(grid.first_knot));
            self.total as f64 * share(from).max(share(to))
        };
        self.total as f64 - (0..self.grids.len()).map(taken).sum::<f64>()
    }

    /// The largest entry of a hat.
    pub(super) fn height(&self, level: usize, hat: u64) -> u64 {
        self.slope(level, hat) << self.grids[level].exponent
    }

    /// The steps over which a hat is not 0.
    pub(super) fn support(&self, level: usize, hat: u64) -> (u64, u64) {
        let grid = self.grids[level];
        let first = if hat == 0 { 1 } else { grid.knot(hat - 1) + 1 };
        (first, grid.knot(hat + 1) - 1)
    }

    /// At least the largest entry of any hat of a level, and the largest sum of one over its steps.
    pub(super) fn bounds(&self, level: usize) -> (u128, u128) {
        let grid = self.grids[level];
        let height = self.height(level, 0).max(self.height(level, grid.count - 1)); // slopes are straight in time
        (height.into(), u128::from(height) * u128::from(grid.spacing() + grid.first_knot))
    }
}
