//! Inner products of the columns of `R̃`, rounded up.

use crate::mechanism::toeplitz::filter::packed;
use crate::privacy::Spread;

/// Entries are rounded up to multiples of `2^COARSE`, so that products and their sums fit 64 bits: (2^16)² · 2^12.
const COARSE: u32 = 14;

/// Rows that are processed together: they stay in the cache. And columns: an entry of a row is read once for them.
const ROWS: usize = 8;
const COLUMNS: usize = 4;

/// `max_i Σ_j u_j G_ij` over the counts `u` that a spread allows, with `G = R̃ᵀR̃` rounded up; the bound is for entries
/// of `R̃` at most 2^30 and at most 2^12 steps. `O(T³)`.
pub(super) fn largest_sum(matrix: &[u32], steps: usize, spread: Spread) -> u128 {
    // Integers below 2^53: sums of at most 2^12 products of numbers up to 2^16.
    let mut products = vec![0.0f64; steps * steps];
    for first in (0..steps).step_by(ROWS) {
        let last = (first + ROWS).min(steps);
        let rows: Vec<Vec<f64>> = (first..first + ROWS).map(|t| coarse_row(matrix, t.min(steps), last)).collect();
        let rows: [&[f64]; ROWS] = std::array::from_fn(|t| &rows[t][..last]);
        for (block, lines) in products[..last * steps].chunks_mut(COLUMNS * steps).enumerate() {
            add_products(&rows, block * COLUMNS, lines, steps);
        }
    }
    for i in 0..steps {
        (0..i).for_each(|j| products[j * steps + i] = products[i * steps + j]);
    }
    let largest = products.chunks_exact_mut(steps).map(|line| {
        line.sort_unstable_by(|a, b| b.total_cmp(a));
        let mut left = spread.total;
        let mut sum = 0u128;
        for g in line {
            let here = left.min(spread.per_step);
            sum += u128::from(here) * *g as u128;
            left -= here;
        }
        sum
    });
    // saturates only if the caller's simpler bound is smaller: totals near 2^64
    largest.max().unwrap_or(0).saturating_mul(1 << (2 * COARSE))
}

/// Adds the products of a few columns from `first` on, a line each, with the columns up to the last of them.
fn add_products(rows: &[&[f64]; ROWS], first: usize, lines: &mut [f64], steps: usize) {
    let mut lines: Vec<&mut [f64]> = lines.chunks_exact_mut(steps).collect();
    let length = (first + COLUMNS).min(rows[0].len());
    let own: [[f64; ROWS]; COLUMNS] =
        std::array::from_fn(|i| rows.map(|row| row.get(first + i).copied().unwrap_or(0.0)));
    let rows = rows.map(|row| &row[..length]);
    if let [a, b, c, d] = &mut lines[..] {
        let lines = a[..length].iter_mut().zip(&mut b[..length]).zip(&mut c[..length]).zip(&mut d[..length]);
        for (j, (((a, b), c), d)) in lines.enumerate() {
            let entries = rows.map(|row| row[j]);
            let sum = |own: &[f64; ROWS]| (0..ROWS).map(|t| own[t] * entries[t]).sum::<f64>();
            *a += sum(&own[0]);
            *b += sum(&own[1]);
            *c += sum(&own[2]);
            *d += sum(&own[3]);
        }
        return;
    }
    for (line, own) in lines.iter_mut().zip(&own) {
        for (j, g) in line[..length].iter_mut().enumerate() {
            *g += (0..ROWS).map(|t| own[t] * rows[t][j]).sum::<f64>();
        }
    }
}

/// Row `t` in multiples of `2^COARSE`, filled up with zeros; only zeros for a row after the last.
fn coarse_row(matrix: &[u32], t: usize, length: usize) -> Vec<f64> {
    let entries = matrix.get(packed(t)..packed(t + 1)).unwrap_or_default();
    let mut row: Vec<f64> = entries.iter().map(|r| f64::from(r.div_ceil(1 << COARSE))).collect();
    row.resize(length, 0.0);
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
