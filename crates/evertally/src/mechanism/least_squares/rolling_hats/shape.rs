//! The integer matrix of rolling hats: single steps, and hats on every multiple of a spacing, without end.

use crate::mechanism::name::rolling_levels::{RollingLevels, SHARE_UNITS};

/// Minimum slope of a hat of the coarsest level, in units per step, for a share of 1 and before rounding.
const RESOLUTION_BITS: u32 = 8;
/// Minimum column sum.
const MIN_TOTAL: u64 = 1 << 12;

/// The matrix `R`, every column of which has the sum `total`. Positions are counted from 0: step `t` has position
/// `t - 1`.
#[derive(Clone, Debug)]
pub(super) struct RollingHatShape {
    pub(super) levels: RollingLevels,
    /// The sum of every column, a power of two, at most 2^23.
    pub(super) total: u64,
    /// The weight of a single step: at least a hundredth of the total.
    pub(super) single: u64,
    /// Slopes of the hats of each level.
    slopes: Vec<u64>,
}

impl RollingHatShape {
    pub(super) fn new(levels: RollingLevels) -> Self {
        let total = (levels.period().next_power_of_two() << RESOLUTION_BITS).max(MIN_TOTAL);
        let slope = |(spacing, share): (&u32, &u16)| {
            // fits: 1000 · 2^23
            (u64::from(*share) * total / (u64::from(SHARE_UNITS) * u64::from(*spacing))).max(1)
        };
        let slopes: Vec<u64> = levels.spacings().iter().zip(levels.shares()).map(slope).collect();
        // A slope of 1 takes at most a share of 1/256, and if the share is smaller than that, no more is available.
        let taken: u64 = slopes.iter().zip(levels.spacings()).map(|(slope, spacing)| slope * u64::from(*spacing)).sum();
        Self { levels, total, single: total - taken, slopes }
    }

    pub(super) fn period(&self) -> u64 {
        self.levels.period()
    }

    pub(super) fn spacing(&self, level: usize) -> u64 {
        self.levels.spacings()[level].into()
    }

    pub(super) fn level_count(&self) -> usize {
        self.slopes.len()
    }

    /// The largest entry of a hat.
    pub(super) fn height(&self, level: usize) -> u64 {
        self.slopes[level] * self.spacing(level)
    }

    /// The entry of a hat at this distance from its knot.
    pub(super) fn entry(&self, level: usize, distance: u64) -> u64 {
        self.slopes[level] * self.spacing(level).saturating_sub(distance)
    }

    /// The hats over a position, as (level, number, entry): two per level, and one on a knot. Hat `m` has its knot at
    /// the position `m · spacing`.
    pub(super) fn over(&self, position: u64) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        (0..self.level_count()).flat_map(move |level| {
            let (hat, offset) = (position / self.spacing(level), position % self.spacing(level));
            let falling = (level, hat, self.entry(level, offset));
            let rising = (level, hat + 1, self.entry(level, self.spacing(level) - offset));
            [falling, rising].into_iter().take(if offset == 0 { 1 } else { 2 })
        })
    }

    /// The largest sum of squares of a column, exact.
    pub(super) fn column_squares(&self) -> u128 {
        let square = |x: u64| u128::from(x) * u128::from(x);
        let of = |position| square(self.single) + self.over(position).map(|hat| square(hat.2)).sum::<u128>();
        (0..self.period()).map(of).max().expect("a period is not empty")
    }
}
