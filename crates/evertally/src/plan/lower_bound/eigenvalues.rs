//! The eigenvalues of a large symmetric matrix with a proven error: Householder's tridiagonal form, implicit QL steps,
//! and Sturm counts, which prove the result of the QL steps (Golub and Van Loan, *Matrix Computations*, sections 8.3
//! and 8.4).
//!
//! **The tridiagonal form** is similar to a matrix close to the given one. A step on `k` rows computes a vector `v`;
//! `w = ‖v‖`. Its errors, to first order, are in units of the roundoff `u = 2^-53` times the Frobenius norm of the
//! matrix; a sum of `m` products in any order is off by at most `m u Σ|a_i b_i|`.
//!
//! * `half`, the computed `w²/2`, is off by `2k + 12` units: by `k + 6` from the formula, whose `v` differs by `k + 6`.
//! * `p = A v / half` is off by `(6k + 28)/w`: `k + 2` from the sums, as `‖|A| |v|‖ ≤ ‖A‖_F w`, and `2k + 12` from
//!   `half`, both times `2/w`. The multiple of `v` that is subtracted is off by `(12k + 56)/w²`, and its rounding adds
//!   `8/w`: so `q = p - α v` is off by `(18k + 92)/w`.
//! * The update `A - v qᵀ - q vᵀ` is off by `2w` times that, and by 17 for its own rounding, as `‖q‖ ≤ 4 ‖A‖/w`.
//! * Numbers that are set to zero: `v` differs from the vector of the exact reflection by `η ‖a‖` in its last entry,
//!   `η = k/2 + 4`, for the reflected row `a`. As `w ≥ √2 ‖a‖`, the reflected row is off by `4 η ‖a‖` at most, and
//!   `√2 ‖a‖ ≤ ‖A‖_F` for a row and its column: `2k + 16`, both with the reflected row itself.
//!
//! From the exactly orthogonal reflection along the computed `v`, each step is off by `38k + 217` units, and all `n` by
//! `19 n² + 217 n`. Terms of second order, and the growth of the norm, are below a part in 10⁶ for `n ≤ 2^12`. By
//! Weyl's inequality no eigenvalue moves by more than
//!
//! ```text
//! (20 n² + 240 n) u ‖A‖_F = (10 n² + 120 n) ε ‖A‖_F,   ε = 2u
//! ```
//!
//! **The QL steps** need no analysis: for the values `λ_1 ≥ λ_2 ≥ …` that they find, Sturm counts show that at least
//! `j` eigenvalues of the tridiagonal matrix exceed `λ_j - e`. A computed count is the exact one of a matrix whose
//! numbers off the diagonal differ by `2.5 u` of their size (Demmel, *Applied Numerical Linear Algebra*, lemma 5.4),
//! which moves eigenvalues by at most `5 u ‖A‖_F`.

use crate::number::lanes::dot;

/// Steps for each eigenvalue; two or three suffice.
const MAX_STEPS: usize = 60;

/// Eigenvalues in decreasing order. The `j`-th one of the matrix is at least the `j`-th value less the error.
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
    pub(super) fn new(matrix: Vec<f64>, size: usize) -> Self {
        let diagonal_squared: f64 = (0..size).map(|row| matrix[row_start(row) + row]).map(|x| x * x).sum();
        // The sum of squares is off by a part in 10⁶ at most.
        let norm = libm::sqrt(2.0 * dot(&matrix, &matrix) - diagonal_squared) * (1.0 + 1e-6);
        let (diagonal, off_diagonal) = tridiagonal(matrix, size);
        let mut values = diagonal.clone();
        diagonalise(&mut values, &mut off_diagonal.clone());
        values.sort_by(|a, b| b.total_cmp(a));
        let form = Tridiagonal { diagonal, squares: off_diagonal.iter().map(|number| number * number).collect() };
        let units = f64::EPSILON * norm;
        let mut error = (size as f64 * units).max(f64::MIN_POSITIVE);
        while error.is_finite() && !form.reaches(&values, error) {
            error *= 2.0;
        }
        let proven = 10.0 * (size * size) as f64 + 120.0 * size as f64 + 8.0;
        Self { values, error: error + proven * units }
    }
}

/// A symmetric tridiagonal matrix, with the squares of the numbers off its diagonal.
struct Tridiagonal {
    diagonal: Vec<f64>,
    squares: Vec<f64>,
}

impl Tridiagonal {
    /// Whether, for every `j`, at least `j` eigenvalues exceed the `j`-th value less an error. Every matrix does with a
    /// large error.
    fn reaches(&self, values: &[f64], error: f64) -> bool {
        values.iter().enumerate().all(|(j, value)| self.above(value - error) > j)
    }

    /// The number of eigenvalues above a number: that of the positive pivots of the shifted matrix.
    fn above(&self, shift: f64) -> usize {
        let (mut count, mut pivot, mut square) = (0, 1.0, 0.0);
        for (diagonal, next) in self.diagonal.iter().zip(&self.squares) {
            pivot = diagonal - shift - square / pivot;
            if pivot == 0.0 {
                pivot = -f64::MIN_POSITIVE; // as for a slightly larger shift
            }
            count += usize::from(pivot > 0.0);
            square = *next;
        }
        count
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
            let found = Eigenvalues::new(packed, size);
            let eigenvalues = DMatrix::from_fn(size, size, entry).symmetric_eigenvalues();
            let mut want: Vec<f64> = eigenvalues.iter().copied().collect();
            want.sort_by(|a, b| b.total_cmp(a));
            let worst = found.values.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= 1e-13 + found.error && found.error < 1e-9, "{size}: {worst} {}", found.error);
        }
    }

    /// Of a matrix with known eigenvalues `2 - 2 cos(kπ/(n+1))`: numbers on either side of each of them.
    #[test]
    fn counts_are_those_of_known_eigenvalues() {
        let size = 50;
        let form = Tridiagonal { diagonal: vec![2.0; size], squares: vec![1.0; size] };
        let known = |k: usize| 2.0 - 2.0 * (k as f64 * std::f64::consts::PI / 51.0).cos();
        for k in 1..=size {
            assert_eq!((form.above(known(k) - 1e-13), form.above(known(k) + 1e-13)), (size + 1 - k, size - k), "{k}");
        }
        let values: Vec<f64> = (1..=size).rev().map(known).collect();
        assert!(form.reaches(&values, 1e-13) && !form.reaches(&values, -1e-13));
        let mut too_large = values;
        too_large[30] += 1e-6;
        assert!(!form.reaches(&too_large, 1e-7) && form.reaches(&too_large, 2e-6));
    }
}
