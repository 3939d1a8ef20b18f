//! The noise of all bins at once: normal vectors with the Gram matrix as their covariance.

use super::coins::{Coins, NormalCoins};
use evertally::number::lanes::dot;
use evertally::number::threads;
use evertally_kernels::InstructionSet;
use evertally_kernels::interleaved::{InterleavedRow, WIDTH, weighted_sum};
use std::sync::{Mutex, PoisonError};

/// Number of vectors made at once: the factor is read once for all of them.
pub(super) const LANES: usize = WIDTH;

/// Pivots more negative than this, relative to the diagonal, are not rounding errors that the headroom covers.
const RAISED: f64 = 1e-11;

/// Interleaved vectors: entry `i` of each belongs to bin `i`.
pub(super) type Block = Vec<InterleavedRow>;

/// Kept vectors are drawn in this many parts.
const KEPT_PARTS: u64 = 16;

/// The largest error of the factor times its direction that the headroom of the common move covers.
const MISSED: f64 = 1e-10;
/// Common moves whose square is a smaller part of the largest bin's are neglected.
const MIN_COMMON_SHARE: f64 = 1e-4;

/// The lower triangular factor of a positive matrix, each row from its first entry that is not 0.
#[derive(Debug)]
pub(super) struct Factor {
    rows: Vec<Row>,
    common: Common,
    /// Those that compute the products.
    instructions: InstructionSet,
}

/// What all bins have in common: see "The common move" in the header of `random_allocation.rs`.
#[derive(Debug, Default)]
struct Common {
    /// `κ`, the square of the common move.
    square: f64,
    /// `d` with `L d = 1`; empty if there is no common move.
    direction: Vec<f64>,
}

impl Common {
    fn of(rows: &[Row]) -> Self {
        let mut direction: Vec<f64> = vec![];
        let mut missed = 0.0f64;
        for Row { first, values } in rows {
            let (pivot, before) = values.split_last().expect("a row ends with its pivot");
            let own = (1.0 - dot(before, &direction[*first..])) / pivot;
            let terms = before.iter().zip(&direction[*first..]).map(|(value, other)| (value * other).abs());
            let size = terms.sum::<f64>() + (own * pivot).abs();
            direction.push(own);
            missed = missed.max((before.len() + 4) as f64 * f64::EPSILON * size);
        }
        let square = 1.0 / dot(&direction, &direction);
        let largest = rows.iter().map(|row| dot(&row.values, &row.values)).fold(f64::MIN_POSITIVE, f64::max);
        // Not if one of them is not a number.
        let is_precise = square >= MIN_COMMON_SHARE * largest && missed <= MISSED;
        if is_precise { Self { square, direction } } else { Self::default() }
    }

    /// Takes the common move out of independent normal variables.
    fn project(&self, normals: &mut Block, instructions: InstructionSet) {
        if self.direction.is_empty() {
            return;
        }
        let sums = weighted_sum(instructions, &self.direction, normals).map(|sum| self.square * sum);
        for (own, normal) in self.direction.iter().zip(normals) {
            for (one, sum) in normal.iter_mut().zip(&sums) {
                *one -= own * sum;
            }
        }
    }
}

#[derive(Debug)]
struct Row {
    first: usize,
    values: Vec<f64>,
}

impl Factor {
    /// By Cholesky. A pivot that vanishes up to rounding belongs to a bin whose vector depends linearly on others; a
    /// negative pivot means that this is not a Gram matrix. If it is only slightly negative, the diagonal is raised
    /// to that of the factor.
    pub(super) fn new(bins: usize, matrix: &mut [f64]) -> Option<Self> {
        let mut rows: Vec<Row> = vec![];
        for i in 0..bins {
            let given = matrix[i * bins..][..=i].to_vec();
            let first = given.iter().position(|value| *value != 0.0).unwrap_or(i);
            let mut values: Vec<f64> = vec![];
            for (j, other) in rows.iter().enumerate().skip(first) {
                let from = first.max(other.first);
                let sum = dot(
                    &values[from.min(j) - first..],
                    &other.values[from.min(j) - other.first.min(j)..j - other.first],
                );
                values.push((given[j] - sum) / other.values[j - other.first]);
            }
            let left = given[i] - values.iter().map(|value| value * value).sum::<f64>();
            if left < -1e-6 * given[i] {
                return None;
            }
            if left < -RAISED * given[i] {
                matrix[i * bins + i] -= left;
            }
            // Never less than the true variance, and a non-zero pivot to divide by.
            values.push((left.max(0.0) + 1e-13 * given[i].max(f64::MIN_POSITIVE)).sqrt());
            rows.push(Row { first, values });
        }
        let common = Common::of(&rows);
        Some(Self { rows, common, instructions: InstructionSet::best() })
    }

    /// The squared length of the move that all bins have in common.
    pub(super) fn common(&self) -> f64 {
        self.common.square
    }

    /// Independent vectors, without the common move: their covariances are those of the bins, less its square.
    fn draw(&self, coins: &mut NormalCoins, normals: &mut Block, out: &mut Block) {
        normals.resize(self.rows.len(), [0.0; LANES]);
        coins.fill(normals.as_flattened_mut());
        self.common.project(normals, self.instructions);
        out.clear();
        let rows = self.rows.iter();
        out.extend(rows.map(|Row { first, values }| weighted_sum(self.instructions, values, &normals[*first..])));
    }
}

/// Computes this many parts with as many threads as processors, and returns them in order. Parts have separate coins,
/// so that nothing depends on the number of threads.
pub(crate) fn in_parts<T: Send>(parts: u64, make: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let made = Mutex::new(vec![]);
    let threads = usize::try_from(parts).map_or(threads::asked(0), |parts| threads::asked(0).min(parts.max(1)));
    threads::share(threads, 0..parts, |tasks| {
        for part in tasks {
            let own = make(part);
            made.lock().unwrap_or_else(PoisonError::into_inner).push((part, own));
        }
    });
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_by_key(|(part, _)| *part);
    made.into_iter().map(|(_, own)| own).collect()
}

/// Vectors that are kept for repeated use: at least this many of those that [`Paths::fresh`] draws first.
pub(super) fn kept(factor: &Factor, coins: impl Fn() -> Coins + Sync, count: u64) -> Vec<Block> {
    let blocks = count.div_ceil(LANES as u64);
    let parts = in_parts(KEPT_PARTS, |part| {
        let (first, end) = (part * blocks / KEPT_PARTS, (part + 1) * blocks / KEPT_PARTS);
        let mut coins = coins().into_normals();
        coins.skip(first);
        let mut paths = Paths::Fresh { factor, coins: Box::new(coins) };
        let mut kept = vec![];
        paths.visit((end - first) * LANES as u64, |block| kept.push(block.clone()));
        kept
    });
    parts.into_iter().flatten().collect()
}

/// The source of vectors.
pub(super) enum Paths<'a> {
    /// Drawn on request.
    Fresh { factor: &'a Factor, coins: Box<NormalCoins> },
    /// Drawn in advance, for repeated use.
    Kept(&'a [Block]),
}

impl<'a> Paths<'a> {
    pub(super) fn fresh(factor: &'a Factor, coins: Coins) -> Self {
        Self::Fresh { factor, coins: Box::new(coins.into_normals()) }
    }

    /// Visits one vector for each of several rounds, numbered from 0, at least this many times, or as often as
    /// vectors are kept.
    pub(super) fn visit_rounds(&mut self, count: u64, rounds: u64, mut visit: impl FnMut(u64, &Block)) {
        let (blocks, mut seen) = (count.div_ceil(LANES as u64), 0);
        self.visit(blocks * rounds * LANES as u64, |block| {
            visit(seen % rounds, block);
            seen += 1;
        });
    }

    /// Visits at least this many vectors, or all that are kept.
    pub(super) fn visit(&mut self, count: u64, mut visit: impl FnMut(&Block)) {
        let blocks = count.div_ceil(LANES as u64);
        match self {
            Self::Fresh { factor, coins } => {
                let (mut normals, mut block) = (vec![], vec![]);
                for _ in 0..blocks {
                    factor.draw(coins, &mut normals, &mut block);
                    visit(&block);
                }
            }
            Self::Kept(kept) => kept.iter().take(blocks as usize).for_each(visit),
        }
    }
}
