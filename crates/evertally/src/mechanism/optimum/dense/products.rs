//! Inner products of the columns of `R̃`, rounded up.

use crate::mechanism::toeplitz::filter::packed;
use crate::privacy::Spread;

/// Entries are rounded up to multiples of `2^COARSE`, so that products and their sums fit 64 bits: (2^16)² · 2^12.
const COARSE: u32 = 14;

/// Rows that are processed together: they stay in the cache.
const TOGETHER: usize = 8;

/// `max_i Σ_j u_j G_ij` over the counts `u` that a spread allows, with `G = R̃ᵀR̃` rounded up; the bound is for entries
/// of `R̃` at most 2^30 and at most 2^12 steps. `O(T³)`.
pub(super) fn largest_sum(matrix: &[u32], steps: usize, spread: Spread) -> u128 {
    let mut products = vec![0u64; steps * steps];
    for first in (0..steps).step_by(TOGETHER) {
        let last = (first + TOGETHER).min(steps);
        let rows: Vec<Vec<u32>> = (first..last).map(|t| coarse_row(matrix, t, last)).collect();
        for i in 0..last {
            let line = &mut products[i * steps..=i * steps + i];
            for row in &rows {
                let a = u64::from(row[i]);
                line.iter_mut().zip(row).for_each(|(g, b)| *g += a * u64::from(*b));
            }
        }
    }
    for i in 0..steps {
        (0..i).for_each(|j| products[j * steps + i] = products[i * steps + j]);
    }
    let largest = products.chunks_exact_mut(steps).map(|line| {
        line.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = spread.total;
        let mut sum = 0u128;
        for g in line {
            let here = left.min(spread.per_step);
            sum += u128::from(here) * u128::from(*g);
            left -= here;
        }
        sum
    });
    // saturates only if the caller's simpler bound is smaller: totals near 2^64
    largest.max().unwrap_or(0).saturating_mul(1 << (2 * COARSE))
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
}
