//! The eigenvalues of a large symmetric matrix: Householder's tridiagonal form, and implicit QL steps (Golub and Van
//! Loan, *Matrix Computations*, section 8.3).

use crate::number::lanes::dot;

/// Steps for each eigenvalue; two or three suffice.
const MAX_STEPS: usize = 60;

/// Eigenvalues, none of them off by more than an error.
pub(super) struct Eigenvalues {
    pub(super) values: Vec<f64>,
    pub(super) error: f64,
}

/// The place of a row in a packed triangle.
pub(super) fn row_start(row: usize) -> usize {
    row * (row + 1) / 2
}

impl Eigenvalues {
    /// Of a matrix that is packed by its lower triangle. `O(n³)`.
    ///
    /// **Error.** Each of `n` reflections changes the matrix by at most some `n u` of its Frobenius norm (Higham,
    /// *Accuracy and Stability of Numerical Algorithms*, theorem 19.4), and a QL step by some `u`: together below
    /// `16 n² u`, and by Weyl's inequality no eigenvalue moves by more. Off-diagonal numbers that are left over count
    /// twice.
    pub(super) fn new(matrix: Vec<f64>, size: usize) -> Self {
        let (mut values, mut off_diagonal) = tridiagonal(matrix, size);
        diagonalise(&mut values, &mut off_diagonal);
        let norm = libm::sqrt(dot(&values, &values));
        let left = off_diagonal.iter().map(|number| number.abs()).fold(0.0, f64::max);
        let error = 8.0 * (size * size) as f64 * f64::EPSILON * norm + 2.0 * left;
        Self { values, error }
    }
}

/// `y += factor · x`.
fn add(y: &mut [f64], factor: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}

/// The diagonal, and the numbers off it with a 0 at the end.
fn tridiagonal(mut matrix: Vec<f64>, size: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut diagonal, mut off_diagonal) = (vec![0.0; size], vec![0.0; size]);
    for k in (1..size).rev() {
        let (rest, own) = matrix.split_at_mut(row_start(k));
        diagonal[k] = own[k];
        let u = &mut own[..k];
        let last = u[k - 1];
        let others = dot(&u[..k - 1], &u[..k - 1]);
        if others == 0.0 {
            off_diagonal[k - 1] = last;
            continue;
        }
        // The reflection that leaves only the last number of the row.
        let length = libm::sqrt(others + last * last);
        let image = if last > 0.0 { -length } else { length };
        off_diagonal[k - 1] = image;
        u[k - 1] -= image;
        let half = length * length - image * last;
        let mut product = vec![0.0; k];
        for i in 0..k {
            let row = &rest[row_start(i)..=row_start(i) + i];
            product[i] += dot(row, &u[..=i]);
            add(&mut product[..i], u[i], &row[..i]);
        }
        product.iter_mut().for_each(|p| *p /= half);
        let along = dot(u, &product) / (2.0 * half);
        add(&mut product, -along, u);
        for i in 0..k {
            let row = &mut rest[row_start(i)..=row_start(i) + i];
            let (a, b) = (u[i], product[i]);
            row.iter_mut().zip(&product).zip(&*u).for_each(|((x, p), u)| *x -= a * p + b * u);
        }
    }
    if size > 0 {
        diagonal[0] = matrix[0];
    }
    (diagonal, off_diagonal)
}

/// Turns the diagonal into eigenvalues; the numbers off it become negligible.
fn diagonalise(diagonal: &mut [f64], off_diagonal: &mut [f64]) {
    let size = diagonal.len();
    for first in 0..size {
        for _ in 0..MAX_STEPS {
            let is_small =
                |m: &usize| off_diagonal[*m].abs() <= f64::EPSILON * (diagonal[*m].abs() + diagonal[m + 1].abs());
            let last = (first..size - 1).find(is_small).unwrap_or(size - 1);
            if last == first {
                break;
            }
            ql_step(diagonal, off_diagonal, first, last);
        }
    }
}

/// An implicit QL step with Wilkinson's shift on the rows from `first` to `last`.
fn ql_step(diagonal: &mut [f64], off_diagonal: &mut [f64], first: usize, last: usize) {
    let g = (diagonal[first + 1] - diagonal[first]) / (2.0 * off_diagonal[first]);
    let root = libm::sqrt(g * g + 1.0);
    let mut g = diagonal[last] - diagonal[first] + off_diagonal[first] / (g + if g < 0.0 { -root } else { root });
    let (mut sine, mut cosine, mut shift) = (1.0, 1.0, 0.0);
    for i in (first..last).rev() {
        let (f, b) = (sine * off_diagonal[i], cosine * off_diagonal[i]);
        let r = libm::sqrt(f * f + g * g);
        off_diagonal[i + 1] = r;
        if r == 0.0 {
            diagonal[i + 1] -= shift;
            off_diagonal[last] = 0.0;
            return;
        }
        (sine, cosine) = (f / r, g / r);
        g = diagonal[i + 1] - shift;
        let r = (diagonal[i] - g) * sine + 2.0 * cosine * b;
        shift = sine * r;
        diagonal[i + 1] = g + shift;
        g = cosine * r - b;
    }
    diagonal[first] -= shift;
    off_diagonal[first] = g;
    off_diagonal[last] = 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::DMatrix;

    #[test]
    fn eigenvalues_are_those_of_another_library() {
        let wave = |i: usize, j: usize| 1.0 / (1.0 + i as f64 + j as f64) - if i == j { 0.3 } else { 0.0 };
        let blocks = |i: usize, j: usize| if i / 3 == j / 3 { ((i * j) % 7) as f64 } else { 0.0 };
        let cases: [(usize, &dyn Fn(usize, usize) -> f64); 5] =
            [(1, &wave), (2, &wave), (40, &wave), (30, &blocks), (5, &|_, _| 0.0)];
        for (size, entry) in cases {
            let packed = (0..size).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect();
            let mut found = Eigenvalues::new(packed, size);
            let eigenvalues = DMatrix::from_fn(size, size, entry).symmetric_eigenvalues();
            let mut want: Vec<f64> = eigenvalues.iter().copied().collect();
            want.sort_by(f64::total_cmp);
            found.values.sort_by(f64::total_cmp);
            let worst = found.values.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= 1e-13 + found.error && found.error < 1e-9, "{size}: {worst} {}", found.error);
        }
    }
}
