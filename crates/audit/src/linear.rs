//! A Cholesky factorization and its solutions.

use evertally::mechanism::Matrix;

/// `C = K Kᵀ`, `K` lower triangular.
#[derive(Debug)]
pub(crate) struct Cholesky {
    /// Row `i` has `i + 1` entries.
    rows: Vec<Vec<f64>>,
}

impl Cholesky {
    /// `O(T³)`; `None` unless the symmetric matrix is positive definite.
    pub(crate) fn new(matrix: &Matrix) -> Option<Self> {
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for i in 0..matrix.shape().0 {
            let mut row = Vec::with_capacity(i + 1);
            for other in &rows {
                let known = dot(&row, other);
                row.push((matrix.row(i)[row.len()] - known) / other[row.len()]);
            }
            let rest = matrix.row(i)[i] - dot(&row, &row);
            if rest <= 1e-12 * matrix.row(i)[i] {
                return None;
            }
            row.push(rest.sqrt());
            rows.push(row);
        }
        Some(Self { rows })
    }

    /// `K⁻¹ b`.
    pub(crate) fn whiten(&self, b: &[f64]) -> Vec<f64> {
        let mut y: Vec<f64> = Vec::with_capacity(b.len());
        for (row, b) in self.rows.iter().zip(b) {
            y.push((b - dot(&y, row)) / row[y.len()]);
        }
        y
    }

    /// `C⁻¹ b`.
    pub(crate) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = self.whiten(b);
        for i in (0..x.len()).rev() {
            x[i] /= self.rows[i][i];
            let (above, found) = (&mut x[..=i], self.rows[i].as_slice());
            let (rest, last) = above.split_at_mut(i);
            rest.iter_mut().zip(found).for_each(|(x, k)| *x -= k * last[0]);
        }
        x
    }
}

/// Inner product over the shorter length.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `Mᵀ v`.
pub(crate) fn transpose_times(matrix: &Matrix, v: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; matrix.shape().1];
    for (i, v) in v.iter().enumerate().filter(|(_, v)| **v != 0.0) {
        out.iter_mut().zip(matrix.row(i)).for_each(|(out, m)| *out += v * m);
    }
    out
}

/// Column `j`.
pub(crate) fn column(matrix: &Matrix, j: usize) -> Vec<f64> {
    (0..matrix.shape().0).map(|i| matrix.row(i)[j]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solutions_solve() {
        let mut c = Matrix::zeros(3, 3);
        for (i, row) in [[4.0, 2.0, 1.0], [2.0, 5.0, 3.0], [1.0, 3.0, 6.0]].iter().enumerate() {
            row.iter().enumerate().for_each(|(j, x)| c.set(i, j, *x));
        }
        let factor = Cholesky::new(&c).unwrap();
        let b = [1.0, -2.0, 3.0];
        let x = factor.solve(&b);
        for (row, b) in (0..3).map(|i| c.row(i)).zip(b) {
            assert!((dot(row, &x) - b).abs() < 1e-14);
        }
        let white = factor.whiten(&b);
        assert!((dot(&white, &white) - dot(&b, &x)).abs() < 1e-14);
        c.set(2, 2, 1.0);
        assert!(Cholesky::new(&c).is_none());
    }
}
