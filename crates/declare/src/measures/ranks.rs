//! Quantiles from counts of blocks of values.
//!
//! The range of values is cut into cells, cells are grouped into blocks of `k`, these into blocks again, up to `k`
//! blocks that cover the range. An event counts once on each level. For a value `v` inside a cell with a share `f` of
//! the cell below it, the number of events below `v`, minus the share `p` of all events, is
//!
//! ```text
//! D(v) = (1 − p) Σ blocks left of the path to the cell − p Σ blocks right of it + (f − p) · the cell,
//! ```
//!
//! a combination of independent noisy counts with known weights. If values are spread evenly inside cells, `D` has mean
//! 0 at the quantile of `p`. The interval consists of whole cells, from the first to the last cell with a value at
//! which `D` is within its own quantile. It contains the quantile for any distribution of values inside the cells.

use evertally::number::power;
use evertally::plan::{NoiseKind, NoiseMoments, RatioIntervals};
use std::fmt;

/// Cells of a range of whole numbers, in blocks of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankTree {
    lower: i64,
    upper: i64,
    arity: u64,
    levels: u32,
}

/// An estimate of a quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileEstimate {
    /// The quantile, in multiples of the grid; `None` if it may be any value.
    pub value: Option<f64>,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
}

/// The number of cells of a large range. More cells cost more noise and time.
const RANK_CELLS: u64 = 256;

impl RankTree {
    /// The tree for values from `lower` to `upper` and noise of this kind: cells as fine as the values, or slightly
    /// more than 256 cells, in the blocks with the least noise in a rank.
    pub fn new(lower: i64, upper: i64, noise: NoiseKind) -> Self {
        let values = upper.abs_diff(lower).saturating_add(1);
        let cells = values.clamp(2, RANK_CELLS);
        let tree = |arity: u64| {
            let levels = (1..).find(|levels| arity.saturating_pow(*levels) >= cells).expect("a power is large enough");
            Self { lower, upper, arity, levels }
        };
        // About half of the blocks next to the path count; each level takes its share of the budget.
        let cost = |tree: &Self| {
            let (levels, siblings) = (f64::from(tree.levels), (tree.arity - 1) as f64);
            match noise {
                NoiseKind::Gaussian => levels * levels * siblings,
                NoiseKind::Laplace => power(levels, 3) * siblings,
            }
        };
        (2..=32).map(tree).min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("there are some")
    }

    /// The number of running sums to which one event is added.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// The number of counts; those of the top level come first.
    pub fn nodes(&self) -> usize {
        (1..=self.levels).map(|level| self.width(level)).sum()
    }

    fn width(&self, level: u32) -> usize {
        self.arity.pow(level) as usize // fits: below 256 · 32
    }

    fn cells(&self) -> usize {
        self.width(self.levels)
    }

    /// The cell of a value within the bounds.
    fn cell_of(&self, value: i64) -> usize {
        let (place, values) = (value.abs_diff(self.lower), self.upper.abs_diff(self.lower));
        // fits: below the number of cells
        (u128::from(place) * self.cells() as u128 / (u128::from(values) + 1)) as usize
    }

    /// The counts to which a value is added.
    pub fn nodes_of(self, value: i64) -> impl Iterator<Item = usize> {
        let (mut first, cell, tree) = (0, self.cell_of(value), self);
        (1..=self.levels).map(move |level| {
            let node = first + cell / tree.width(tree.levels - level).max(1);
            first += tree.width(level);
            node
        })
    }

    /// The beginning of a cell, in multiples of the grid: half a step before its least value, if it has one.
    fn beginning(&self, cell: usize) -> f64 {
        let values = self.upper.abs_diff(self.lower) as f64 + 1.0;
        self.lower as f64 - 0.5 + values * cell as f64 / self.cells() as f64
    }

    /// The least and the greatest value of a cell; for an empty cell, the nearest values.
    fn values_of(&self, cell: usize) -> (f64, f64) {
        let clamp = |value: f64| value.clamp(self.lower as f64, self.upper as f64);
        // Adding 0 turns a negative zero into a positive one.
        (clamp((self.beginning(cell) + 0.5).ceil()) + 0.0, clamp((self.beginning(cell + 1) + 0.5).ceil() - 1.0) + 0.0)
    }

    /// `D` at the beginning of a cell, the count of the cell, and the numbers of blocks left and right of the path to
    /// it.
    fn off_path(&self, counts: &[f64], share: f64, cell: usize) -> OffPath {
        let (mut first, mut off_path) = (0, OffPath::default());
        for level in 1..=self.levels {
            let on_way = cell / self.width(self.levels - level).max(1);
            let siblings = on_way - on_way % self.arity as usize;
            for place in siblings..siblings + self.arity as usize {
                let count = counts[first + place];
                if place < on_way {
                    (off_path.sum, off_path.left) = (off_path.sum + (1.0 - share) * count, off_path.left + 1.0);
                } else if place > on_way {
                    (off_path.sum, off_path.right) = (off_path.sum - share * count, off_path.right + 1.0);
                }
            }
            first += self.width(level);
            off_path.cell = counts[first - self.width(level) + on_way];
        }
        off_path
    }

    /// The mean variance of a rank, in units of the variance of one count, for shares near the middle. It measures the
    /// precision of quantiles.
    pub fn rank_variance(&self, share: f64) -> f64 {
        let blocks = f64::from(self.levels) * (self.arity - 1) as f64 / 2.0;
        blocks * (power(share, 2) + power(1.0 - share, 2))
    }

    /// The quantile of a share from all counts, each with independent noise of this law. `O(cells · levels · arity)`.
    pub fn quantile(
        &self,
        counts: &[f64],
        share: f64,
        noise: NoiseMoments,
        intervals: &mut RatioIntervals,
    ) -> QuantileEstimate {
        let cells: Vec<OffPath> = (0..self.cells()).map(|cell| self.off_path(counts, share, cell)).collect();
        let mut width = |off_path: &OffPath, f: f64| intervals.half_width(off_path.noise(share, f, noise));
        // Both ends rise with the cell.
        let first = cells.iter().position(|cell| cell.at(share, 1.0) >= -width(cell, 1.0));
        let last = cells.iter().rposition(|cell| cell.at(share, 0.0) <= width(cell, 0.0));
        let (first, last) = (first.unwrap_or(self.cells() - 1), last.unwrap_or(0));
        let (first, last) = (first.min(last), last.max(first));
        let (lower, upper) = (self.values_of(first).0, self.values_of(last).1);
        if first == 0 && last + 1 == self.cells() {
            return QuantileEstimate { value: None, lower, upper };
        }
        let value = self.crossing(&cells, share).clamp(self.lower as f64, self.upper as f64);
        QuantileEstimate { value: Some(value), lower: lower.min(value), upper: upper.max(value) }
    }

    /// The place where the monotone curve nearest to `D` crosses 0: pools of cells with falling values are averaged.
    fn crossing(&self, cells: &[OffPath], share: f64) -> f64 {
        let middles = cells.iter().map(|cell| cell.at(share, 0.5));
        let mut pools: Vec<(f64, f64)> = Vec::new();
        for middle in middles {
            pools.push((middle, 1.0));
            while let [.., (before, many), (last, few)] = pools[..] {
                if before <= last {
                    break;
                }
                pools.truncate(pools.len() - 2);
                pools.push(((before * many + last * few) / (many + few), many + few));
            }
        }
        // The last pool below 0 and the first other one are neighbours: interpolate linearly between their middles.
        let (mut from, mut below) = (0.0, None);
        for (value, many) in pools {
            if value >= 0.0 {
                return self.place(below.map_or(from, |below: f64| from - 0.5 - below / (value - below)));
            }
            below = Some(value);
            from += many;
        }
        self.upper as f64
    }

    /// A place among cells, in multiples of the grid.
    fn place(&self, cells: f64) -> f64 {
        let (begin, end) = (self.beginning(0), self.beginning(self.cells()));
        begin + (end - begin) * cells / self.cells() as f64
    }
}

/// The blocks next to the path to a cell.
#[derive(Clone, Copy, Debug, Default)]
struct OffPath {
    sum: f64,
    left: f64,
    right: f64,
    cell: f64,
}

impl OffPath {
    fn at(&self, share: f64, f: f64) -> f64 {
        self.sum + (f - share) * self.cell
    }

    fn noise(&self, share: f64, f: f64, of_one: NoiseMoments) -> NoiseMoments {
        let sum = |exponent: i32| {
            let [left, right, own] = [1.0 - share, share, f - share].map(|weight| power(weight, exponent));
            self.left * left + self.right * right + own
        };
        NoiseMoments { variance: of_one.variance * sum(2), fourth: of_one.fourth * sum(4) }
    }
}

impl fmt::Display for RankTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lower, upper, arity, levels } = self;
        write!(f, "ranks({lower},{upper},{arity}^{levels})")
    }
}
