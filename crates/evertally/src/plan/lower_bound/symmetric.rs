//! Eigenvalues of a small symmetric matrix, by Jacobi's rotations.

use crate::number::power;

/// A symmetric matrix, row after row.
pub(super) struct Symmetric {
    size: usize,
    entries: Vec<f64>,
}

/// Eigenvalues, and the eigenvectors in the same order.
pub(super) struct Spectrum {
    pub(super) values: Vec<f64>,
    /// One vector after another.
    vectors: Vec<f64>,
}

/// Convergence limit: the off-diagonal part relative to the whole.
const SMALL: f64 = 1e-26;
/// Maximum number of sweeps; six or seven suffice.
const MAX_SWEEPS: usize = 30;

impl Spectrum {
    pub(super) fn vector(&self, k: usize) -> &[f64] {
        let size = self.values.len();
        &self.vectors[k * size..(k + 1) * size]
    }
}

impl Symmetric {
    /// From its entries, which are read on and below the diagonal.
    pub(super) fn new(size: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        let mut entries = vec![0.0; size * size];
        for i in 0..size {
            for j in 0..=i {
                entries[i * size + j] = entry(i, j);
                entries[j * size + i] = entries[i * size + j];
            }
        }
        Self { size, entries }
    }

    /// The spectrum; fast if that of a nearby matrix is known.
    pub(super) fn diagonalised(self, nearby: Option<Spectrum>) -> Spectrum {
        let size = self.size;
        let mut rotated = match nearby {
            None => {
                let mut vectors = vec![0.0; size * size];
                (0..size).for_each(|k| vectors[k * size + k] = 1.0);
                Rotated { size, entries: self.entries, vectors }
            }
            Some(nearby) => self.seen_from(nearby.vectors),
        };
        for _ in 0..MAX_SWEEPS {
            if rotated.sweep() {
                break;
            }
        }
        Spectrum { values: (0..size).map(|k| rotated.entries[k * size + k]).collect(), vectors: rotated.vectors }
    }

    /// `U A Uᵀ` for the rows `U` of orthonormal vectors.
    fn seen_from(self, vectors: Vec<f64>) -> Rotated {
        let size = self.size;
        let product = |left: &[f64], right: &[f64]| {
            // Both by rows: left · rightᵀ.
            let mut out = vec![0.0; size * size];
            for (i, row) in out.chunks_exact_mut(size).enumerate() {
                for (j, entry) in row.iter_mut().enumerate() {
                    let (a, b) = (&left[i * size..(i + 1) * size], &right[j * size..(j + 1) * size]);
                    *entry = a.iter().zip(b).map(|(a, b)| a * b).sum();
                }
            }
            out
        };
        let half = product(&vectors, &self.entries);
        let mut entries = product(&half, &vectors);
        for i in 0..size {
            for j in 0..i {
                entries[j * size + i] = entries[i * size + j];
            }
        }
        Rotated { size, entries, vectors }
    }
}

/// A matrix in another basis, and that basis.
struct Rotated {
    size: usize,
    entries: Vec<f64>,
    vectors: Vec<f64>,
}

impl Rotated {
    /// Rotates every pair of axes once; returns whether it has converged.
    fn sweep(&mut self) -> bool {
        let size = self.size;
        let squares = |row: usize, columns: std::ops::Range<usize>| -> f64 {
            columns.map(|column| power(self.entries[row * size + column], 2)).sum()
        };
        let above: f64 = (0..size).map(|k| squares(k, k + 1..size)).sum();
        let all: f64 = (0..size).map(|k| squares(k, 0..size)).sum();
        if above <= SMALL * all {
            return true;
        }
        for p in 0..size {
            for q in p + 1..size {
                self.rotate(p, q);
            }
        }
        false
    }

    fn rotate(&mut self, p: usize, q: usize) {
        let size = self.size;
        let (own, other, between) =
            (self.entries[p * size + p], self.entries[q * size + q], self.entries[p * size + q]);
        if between == 0.0 {
            return;
        }
        let theta = (other - own) / (2.0 * between);
        let tangent = theta.signum() / (theta.abs() + libm::sqrt(theta * theta + 1.0));
        let cosine = 1.0 / libm::sqrt(tangent * tangent + 1.0);
        let sine = tangent * cosine;
        for k in 0..size {
            let (a, b) = (self.entries[p * size + k], self.entries[q * size + k]);
            (self.entries[p * size + k], self.entries[q * size + k]) = (cosine * a - sine * b, sine * a + cosine * b);
            let (a, b) = (self.vectors[p * size + k], self.vectors[q * size + k]);
            (self.vectors[p * size + k], self.vectors[q * size + k]) = (cosine * a - sine * b, sine * a + cosine * b);
        }
        for k in 0..size {
            let (a, b) = (self.entries[k * size + p], self.entries[k * size + q]);
            (self.entries[k * size + p], self.entries[k * size + q]) = (cosine * a - sine * b, sine * a + cosine * b);
        }
    }
}
