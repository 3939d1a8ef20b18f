//! Inner products of the columns of `R̃`, rounded up.
//!
//! The products of a column with the others fall with the distance: in `R` exactly, because `RᵀR` is a sum of inverse
//! conductance matrices of ladders, whose potentials fall on either side of the node where the current enters. So the
//! largest ones are those of near columns, which are computed one by one; columns farther away share a bound, the
//! product with the largest entries of a block. Should a far product be among the largest, its bound is used: the
//! result is never too small, whatever the matrix.

use crate::mechanism::toeplitz::filter::packed;
use crate::privacy::Spread;

/// Entries are rounded up to multiples of `2^COARSE`, so that products and their sums fit 64 bits: (2^16)² · 2^12.
const COARSE: u32 = 14;

/// Rows that are processed together: they stay in the cache.
const TOGETHER: usize = 8;

/// Columns of a block. A block's bound is above its products by about as many entries of the near diagonal.
const BLOCK: usize = 8;
/// The number of near columns, in addition to twice those that a unit can reach: far enough that no bound of a block is
/// among the largest products.
const ALSO_NEAR: usize = 64;

/// `max_i Σ_j u_j G_ij` over the counts `u` that a spread allows, with `G = R̃ᵀR̃` rounded up; the bound is for entries
/// of `R̃` at most 2^30 and at most 2^12 steps. `O(T² k + T³ / 8)` for units with events in `k` steps.
pub(super) fn largest_sum(matrix: &[u32], steps: usize, spread: Spread) -> u128 {
    let reached = spread.total.div_ceil(spread.per_step).min(steps as u64) as usize; // fits: at most `steps`
    let products = NearProducts::new(matrix, steps, (2 * reached + ALSO_NEAR).min(steps));
    let largest = (0..steps).map(|column| {
        let mut others = products.of_column(column);
        others.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = spread.total;
        let mut sum = 0u128;
        for (product, columns) in others {
            let here = left.min(spread.per_step.saturating_mul(columns));
            sum += u128::from(here) * u128::from(product);
            left -= here;
        }
        sum
    });
    // saturates only if the caller's simpler bound is smaller: totals near 2^64
    largest.max().unwrap_or(0).saturating_mul(1 << (2 * COARSE))
}

/// Products of columns with near columns, and bounds of those with blocks of columns.
struct NearProducts {
    steps: usize,
    /// Columns less than this apart are near.
    near: usize,
    /// For every column, the products with `near` columns: its own is the last.
    own: Vec<u64>,
    /// For every column, the bound for each block that is not near on one side at least.
    blocks: Vec<u64>,
}

impl NearProducts {
    fn new(matrix: &[u32], steps: usize, near: usize) -> Self {
        let count = steps.div_ceil(BLOCK);
        let mut all = Self { steps, near, own: vec![0; steps * near], blocks: vec![0; steps * count] };
        for first in (0..steps).step_by(TOGETHER) {
            let last = (first + TOGETHER).min(steps);
            let rows: Vec<Vec<u32>> = (first..last).map(|t| coarse_row(matrix, t, last)).collect();
            let largest = |block: &[u32]| block.iter().copied().max().unwrap_or(0);
            let tops: Vec<Vec<u32>> = rows.iter().map(|row| row.chunks(BLOCK).map(largest).collect()).collect();
            for i in 0..last {
                let from = (i + 1).saturating_sub(near);
                let line = &mut all.own[(i + 1) * near - (i + 1 - from)..(i + 1) * near];
                rows.iter().for_each(|row| add_products(line, row[i], &row[from..=i]));
                if near < steps {
                    let line = &mut all.blocks[i * count..(i + 1) * count];
                    rows.iter().zip(&tops).for_each(|(row, tops)| add_products(line, row[i], tops));
                }
            }
        }
        all
    }

    /// The products of a column with all columns, or their bounds, and the number of columns of each.
    fn of_column(&self, i: usize) -> Vec<(u64, u64)> {
        let (steps, near) = (self.steps, self.near);
        let (from, end) = ((i + 1).saturating_sub(near), (i + near).min(steps));
        let product = |a: usize, b: usize| self.own[(b + 1) * near - 1 - (b - a)]; // a ≤ b
        let own = (from..end).map(|j| (product(i.min(j), i.max(j)), 1));
        let count = steps.div_ceil(BLOCK);
        let far = |block: usize| {
            let (first, last) = (block * BLOCK, ((block + 1) * BLOCK).min(steps));
            let covered = last.min(end).saturating_sub(first.max(from));
            (self.blocks[i * count + block], (last - first - covered) as u64)
        };
        own.chain((0..count).map(far).filter(|(_, columns)| *columns > 0)).collect()
    }
}

/// Adds the products of an entry with some others.
fn add_products(sums: &mut [u64], entry: u32, others: &[u32]) {
    let entry = u64::from(entry);
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += entry * u64::from(*other));
}

/// Row `t` in multiples of `2^COARSE`, filled up with zeros.
fn coarse_row(matrix: &[u32], t: usize, length: usize) -> Vec<u32> {
    let mut row: Vec<u32> = matrix[packed(t)..packed(t + 1)].iter().map(|r| r.div_ceil(1 << COARSE)).collect();
    row.resize(length, 0);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition, in integers, for numbers of steps that fill no block of rows or columns.
    #[test]
    fn the_largest_sum_is_that_of_all_products() {
        for steps in [1usize, 3, 8, 13, 26] {
            let entry = |t: usize, i: usize| if i <= t { (1 << 30) / (1 + (t - i) * (i % 5 + 1)) as u32 } else { 0 };
            let matrix: Vec<u32> = (0..steps).flat_map(|t| (0..=t).map(move |i| entry(t, i))).collect();
            let coarse = |t: usize, i: usize| u128::from(entry(t, i).div_ceil(1 << COARSE));
            let spread = Spread::new(7, 2);
            let of_line = |i: usize| {
                let product = |j: usize| (0..steps).map(|t| coarse(t, i) * coarse(t, j)).sum::<u128>();
                let mut products: Vec<u128> = (0..steps).map(product).collect();
                products.sort_unstable_by(|a, b| b.cmp(a));
                products.into_iter().zip([2, 2, 2, 1]).map(|(product, events)| product * events).sum::<u128>()
            };
            let want = (0..steps).map(of_line).max().unwrap() << (2 * COARSE);
            assert_eq!(largest_sum(&matrix, steps, spread), want, "{steps} steps");
        }
    }

    /// Blocks of far columns: never less than by the definition, and the same for columns that fall with the distance.
    #[test]
    fn far_columns_only_add_to_the_sum() {
        for (steps, falls) in [(180usize, true), (97, false)] {
            let entry = |t: usize, i: usize| match (i <= t, falls) {
                (false, _) => 0,
                (true, true) => ((1u64 << 30) * 8 / (8 + (t - i) as u64)) as u32,
                (true, false) => (1 << 20) * (1 + (t * 7 + i * 13) % 1000) as u32,
            };
            let matrix: Vec<u32> = (0..steps).flat_map(|t| (0..=t).map(move |i| entry(t, i))).collect();
            let coarse = |t: usize, i: usize| u128::from(entry(t, i).div_ceil(1 << COARSE));
            for spread in [Spread::new(9, 2), Spread::new(30, 1), Spread::new(500, 1)] {
                let of_line = |i: usize| {
                    let product = |j: usize| (0..steps).map(|t| coarse(t, i) * coarse(t, j)).sum::<u128>();
                    let mut products: Vec<u128> = (0..steps).map(product).collect();
                    products.sort_unstable_by(|a, b| b.cmp(a));
                    let mut left = spread.total;
                    let of_product = |product: u128| {
                        let here = left.min(spread.per_step);
                        left -= here;
                        product * u128::from(here)
                    };
                    products.into_iter().map(of_product).sum::<u128>()
                };
                let want = (0..steps).map(of_line).max().unwrap() << (2 * COARSE);
                let found = largest_sum(&matrix, steps, spread);
                assert!(found >= want && (!falls || found == want), "{steps} {spread:?}: {found} {want}");
            }
        }
    }
}
