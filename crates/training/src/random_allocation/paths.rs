//! The noise of all bins at once: normal vectors with the Gram matrix as their covariance.

use super::coins::Coins;
use evertally::noise::standard_normal;
use evertally::number::lanes::dot;
use evertally::number::threads;
use std::sync::{Mutex, PoisonError};

/// Number of vectors made at once: the factor is read once for all of them.
pub(super) const LANES: usize = 16;

/// Pivots more negative than this, relative to the diagonal, are not rounding errors that the headroom covers.
const RAISED: f64 = 1e-11;

/// Interleaved vectors: entry `i` of each belongs to bin `i`.
pub(super) type Block = Vec<[f64; LANES]>;

/// The lower triangular factor of a positive matrix, each row from its first entry that is not 0.
#[derive(Debug)]
pub(super) struct Factor {
    rows: Vec<Row>,
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
        Some(Self { rows })
    }

    /// Independent vectors.
    fn draw(&self, coins: &mut Coins, normals: &mut Block, out: &mut Block) {
        normals.clear();
        normals.extend(self.rows.iter().map(|_| std::array::from_fn(|_| standard_normal(coins))));
        out.clear();
        out.extend(self.rows.iter().map(|Row { first, values }| {
            let mut sums = [0.0; LANES];
            for (value, normal) in values.iter().zip(&normals[*first..]) {
                for (sum, one) in sums.iter_mut().zip(normal) {
                    *sum += value * one;
                }
            }
            sums
        }));
    }
}

/// Computes this many parts with as many threads as processors, and returns them in order. Parts have separate coins,
/// so that nothing depends on the number of threads.
pub(super) fn in_parts<T: Send>(parts: u64, make: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let made = Mutex::new(vec![]);
    threads::share(threads::asked(0), 0..parts, |tasks| {
        for part in tasks {
            let own = make(part);
            made.lock().unwrap_or_else(PoisonError::into_inner).push((part, own));
        }
    });
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_by_key(|(part, _)| *part);
    made.into_iter().map(|(_, own)| own).collect()
}

/// The source of vectors.
pub(super) enum Paths<'a> {
    /// Drawn on request.
    Fresh { factor: &'a Factor, coins: Coins },
    /// Drawn in advance, for repeated use.
    Kept(&'a [Block]),
}

impl<'a> Paths<'a> {
    pub(super) fn fresh(factor: &'a Factor, coins: Coins) -> Self {
        Self::Fresh { factor, coins }
    }

    /// This many vectors, kept for repeated use.
    pub(super) fn keep(mut self, count: u64) -> Vec<Block> {
        let mut kept = vec![];
        self.visit(count, |block| kept.push(block.clone()));
        kept
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
