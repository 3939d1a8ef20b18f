//! Inner products of the columns of a matrix without negative entries, for patterns of steps that are `b` apart.
//!
//! For a step `t` let `g_n(t)` be the largest sum of inner products of column `t` with the columns of `n` steps that
//! are at least `b` before it and at least `b` apart. In a [chain](crate::mechanism::accounting::chain) the `n`-th step
//! before `t` adds `g_n(t) - g_(n-1)(t)`. These increments do not grow with `n`: the steps that are `b` apart are the
//! corners of `{q ≥ 0 : Σ over any b steps ≤ 1, Σ q ≤ n}`, because its matrix has its ones in a row in every row
//! (totally unimodular), so `g_n` is the value of a linear program, which is concave in its right-hand side. With
//! `r < c` events in one of `n` steps and `c` in the others, the sum is `r` times one over `n` steps, plus `c - r`
//! times one over `n - 1` of them: at most `c g_(n-1) + r (g_n - g_(n-1))`, which is what a chain adds.

use crate::mechanism::accounting::chain::ColumnProducts;
use crate::mechanism::toeplitz::filter::packed;

/// The products of a symmetric matrix `X = RᵀR`, packed by its lower triangle, for patterns of one separation.
pub(super) struct SpacedColumns {
    separation: usize,
    squares: Vec<f64>,
    /// `g_n(t) - g_(n-1)(t)` for `n = 1, 2, …`, for every step.
    increments: Vec<Vec<f64>>,
}

impl SpacedColumns {
    /// For patterns of at most `most` steps. `O(T² k)`.
    pub(super) fn new(x: &[f64], separation: usize, most: usize) -> Self {
        let steps = rows_of(x);
        let squares = (0..steps).map(|t| x[packed(t) + t]).collect();
        let increments = (0..steps).map(|t| {
            let sums = largest_sums(&x[packed(t)..][..(t + 1).saturating_sub(separation)], separation, most - 1);
            let before = [0.0].into_iter().chain(sums.iter().copied());
            sums.iter().zip(before).map(|(sum, before)| (sum - before).max(0.0)).collect()
        });
        Self { separation, increments: increments.collect(), squares }
    }
}

/// The number of rows of a packed triangle.
pub(super) fn rows_of(x: &[f64]) -> usize {
    (0..).find(|rows| packed(*rows) >= x.len()).expect("triangles grow")
}

/// The largest sums of `1, 2, … most` of these numbers, which are not negative, at least `separation` apart; fewer if
/// no more fit.
fn largest_sums(numbers: &[f64], separation: usize, most: usize) -> Vec<f64> {
    let most = most.min(numbers.len().div_ceil(separation));
    let (mut sums, mut upto) = (Vec::with_capacity(most), vec![0.0; numbers.len()]);
    for count in 0..most {
        let mut best = f64::NEG_INFINITY;
        let mut next = vec![f64::NEG_INFINITY; numbers.len()];
        for (s, number) in numbers.iter().enumerate().skip(count * separation) {
            let before = if count == 0 { 0.0 } else { upto[s - separation] };
            best = best.max(before + number);
            next[s] = best;
        }
        sums.push(best);
        upto = next;
    }
    sums
}

impl ColumnProducts for SpacedColumns {
    fn steps(&self) -> usize {
        self.squares.len()
    }

    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        let number = distance / self.separation;
        for (t, into) in into.iter_mut().enumerate().skip(distance) {
            *into = match number {
                0 => self.squares[t],
                _ => self.increments[t].get(number - 1).copied().unwrap_or(0.0),
            };
        }
    }

    /// The largest inner product.
    fn between(&self, distance: usize, _earlier: (usize, usize), later: (usize, usize)) -> f64 {
        let largest = |t: usize| match distance {
            0 => self.squares[t],
            _ => self.increments[t].first().copied().unwrap_or(0.0),
        };
        (later.0 - 1..later.1).map(largest).fold(0.0, f64::max)
    }
}
