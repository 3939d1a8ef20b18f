//! Dense twins: the matrices themselves, for tests and small horizons.

use super::column_norms::ColumnNorms;
use crate::noise::Node;

/// A dense matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    entries: Vec<f64>,
}

impl Matrix {
    /// A matrix of zeros.
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self { rows, columns, entries: vec![0.0; rows * columns] }
    }

    /// Number of rows and of columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// One row.
    ///
    /// # Panics
    /// If `row` is out of range.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.entries[row * self.columns..(row + 1) * self.columns]
    }

    /// Sets one entry.
    ///
    /// # Panics
    /// If the place is out of range.
    pub fn set(&mut self, row: usize, column: usize, value: f64) {
        self.row_mut(row)[column] = value;
    }

    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.entries[row * self.columns..(row + 1) * self.columns]
    }

    /// The matrix product `self · other`.
    ///
    /// # Panics
    /// If the inner dimensions differ.
    pub fn times(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.columns, other.rows, "inner dimensions differ");
        let mut product = Matrix::zeros(self.rows, other.columns);
        for i in 0..self.rows {
            for (k, &a) in self.row(i).iter().enumerate().filter(|(_, a)| **a != 0.0) {
                for (out, b) in product.row_mut(i).iter_mut().zip(other.row(k)) {
                    *out += a * b;
                }
            }
        }
        product
    }

    /// The transpose.
    pub fn transpose(&self) -> Matrix {
        let mut out = Matrix::zeros(self.columns, self.rows);
        for i in 0..self.rows {
            for j in 0..self.columns {
                out.entries[j * self.rows + i] = self.entries[i * self.columns + j];
            }
        }
        out
    }
}

/// `L` and `R` of a mechanism, with exactly the nodes that some step uses.
#[derive(Clone, Debug)]
pub struct DensePair {
    /// `T × n`: how releases combine nodes.
    pub l: Matrix,
    /// `n × T`: which steps each node sums.
    pub r: Matrix,
    /// The node of each column of `L` and row of `R`.
    pub nodes: Vec<Node>,
}

impl DensePair {
    /// The same `L` with the right factor of least norm, `R = Lᵀ (L Lᵀ)⁻¹ A`. `O(T³)`.
    ///
    /// # Panics
    /// If `L Lᵀ` is singular.
    pub(super) fn with_least_right_factor(mut self) -> Self {
        let factor = cholesky(&self.l.times(&self.l.transpose())).expect("releases are linearly independent");
        let steps = factor.shape().0;
        // Column i of A is a_i; solve K Kᵀ x = a_i.
        let mut solved = Matrix::zeros(steps, steps);
        for cut in 0..steps {
            let mut x = vec![0.0; steps];
            for i in cut..steps {
                let known: f64 = factor.row(i)[..i].iter().zip(&x).map(|(k, x)| k * x).sum();
                x[i] = (1.0 - known) / factor.row(i)[i];
            }
            for i in (0..steps).rev() {
                let known: f64 = (i + 1..steps).map(|j| factor.row(j)[i] * x[j]).sum();
                x[i] = (x[i] - known) / factor.row(i)[i];
            }
            (0..steps).for_each(|i| solved.set(i, cut, x[i]));
        }
        self.r = self.l.transpose().times(&solved);
        self
    }

    /// The largest deviation of an entry of `L R` from the prefix-sum matrix.
    pub fn prefix_sum_error(&self) -> f64 {
        let product = self.l.times(&self.r);
        let (rows, columns) = product.shape();
        let target = |i, j| if j <= i { 1.0 } else { 0.0 };
        (0..rows)
            .flat_map(|i| (0..columns).map(move |j| (i, j)))
            .map(|(i, j)| (product.row(i)[j] - f64::from(target(i, j) as u8)).abs())
            .fold(0.0, f64::max)
    }

    /// The largest column norms of `R`.
    pub fn column_norms(&self) -> ColumnNorms {
        let columns = self.r.transpose();
        let largest = |norm: fn(&f64) -> f64| {
            (0..columns.shape().0).map(|j| columns.row(j).iter().map(norm).sum::<f64>()).fold(0.0, f64::max)
        };
        ColumnNorms { l1: largest(|x| x.abs()), l2_squared: largest(|x| x * x) }
    }

    /// The exact squared sensitivity under Gaussian noise, `max_i a_iᵀ (L Lᵀ)⁻¹ a_i` with `a_i` = ones from step `i`
    /// on, by a Cholesky factorization. `O(T³)`; `None` if the covariance is singular.
    pub fn exact_l2_squared(&self) -> Option<f64> {
        let factor = cholesky(&self.l.times(&self.l.transpose()))?;
        let steps = factor.shape().0;
        let reveals = |cut: usize| {
            // Forward substitution K y = a; then aᵀ C⁻¹ a = ‖y‖². Entries before the cut are 0.
            let mut y = vec![0.0; steps];
            for i in cut..steps {
                let row = factor.row(i);
                let known: f64 = row[cut..i].iter().zip(&y[cut..i]).map(|(k, y)| k * y).sum();
                y[i] = (1.0 - known) / row[i];
            }
            y.iter().map(|y| y * y).sum::<f64>()
        };
        // At most the column norm, which rounding could exceed in the last digit.
        Some((0..steps).map(reveals).fold(0.0, f64::max).min(self.column_norms().l2_squared))
    }

    /// `‖L_t‖²` for `t = 1 ..= T`.
    pub fn row_norms_squared(&self) -> Vec<f64> {
        (0..self.l.shape().0).map(|i| self.l.row(i).iter().map(|x| x * x).sum()).collect()
    }
}

/// The lower triangular `K` with `K Kᵀ` = `matrix`; `None` unless that is positive definite.
pub(super) fn cholesky(matrix: &Matrix) -> Option<Matrix> {
    let n = matrix.rows;
    let mut factor = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = factor.row(i)[..j].iter().zip(&factor.row(j)[..j]).map(|(a, b)| a * b).sum();
            let rest = matrix.row(i)[j] - known;
            let entry = if i > j {
                rest / factor.row(j)[j]
            } else if rest > 1e-12 * matrix.row(i)[i] {
                rest.sqrt()
            } else {
                return None;
            };
            factor.row_mut(i)[j] = entry;
        }
    }
    Some(factor)
}
