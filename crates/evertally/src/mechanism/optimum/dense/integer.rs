//! The integer matrix `R̃ ≈ 2^30 R` and the checks that its filter needs.
//!
//! With the float inverse `Z ≈ R⁻¹` let `E = I - 2^-30 R̃ Z`. If the rows of `E` have L1 norms of at most `e < 1`, then
//! `(2^-30 R̃)⁻¹ = Z (I - E)⁻¹`, and row `t` of `A (2^-30 R̃)⁻¹` has an L1 norm of at most `‖(A Z)_t‖₁ / (1 - e)`. `E`
//! is computed entry by entry; that rounding (some 10⁻¹² an entry) is far below the remaining slack.

use super::factor::StateFactor;
use crate::mechanism::toeplitz::filter::packed;
use crate::mechanism::{ColumnNorms, SearchWatch};
use crate::{Error, Result};

/// Bits of the integer matrix below the grid.
pub(in crate::mechanism::optimum) const MATRIX_BITS: u32 = 30;

/// Values of a factor, computed in one pass over its rows.
pub(super) struct Integer {
    /// `R̃`, row by row.
    pub(super) matrix: Vec<u32>,
    /// The column norms of `R`.
    pub(super) column_norms: ColumnNorms,
    /// `‖L_t‖²`.
    pub(super) row_norms: Vec<f64>,
}

/// L1 norms that bound the filter's errors, in units of `R` and `L`.
#[derive(Default)]
pub(in crate::mechanism::optimum) struct NormBounds {
    /// Longest row of `E`.
    residual: f64,
    /// Longest row of `2^-30 R̃`.
    row: f64,
    /// Largest diagonal entry of `2^-30 R̃`.
    diagonal: f64,
    /// Longest row of `A Z`, and its largest length per step (row `t` over `t`).
    inverse: f64,
    inverse_per_step: f64,
}

impl Integer {
    /// `O(T² n)`.
    pub(super) fn new(factor: &StateFactor, watch: SearchWatch<'_>) -> Result<Self> {
        let steps = factor.steps();
        let unit = f64::from(1 << MATRIX_BITS);
        let (mut matrix, mut row_norms) = (Vec::with_capacity(packed(steps)), Vec::with_capacity(steps));
        let (mut l1, mut l2) = (vec![0.0; steps], vec![0.0; steps]);
        let mut bounds = NormBounds::default();
        let ones = vec![1.0; steps];
        for t in 0..steps {
            watch.check()?;
            let mut row = factor.row(t);
            for ((entry, l1), l2) in row.iter_mut().zip(&mut l1).zip(&mut l2) {
                (*l1, *l2) = (*l1 + *entry, *l2 + *entry * *entry);
                let rounded = (*entry * unit).round().max(0.0) as u32;
                matrix.push(rounded);
                *entry = f64::from(rounded) / unit;
            }
            bounds.row = bounds.row.max(row.iter().sum());
            bounds.diagonal = bounds.diagonal.max(row[t]);
            let mut residual = factor.times_inverse(&row);
            residual[t] -= 1.0;
            bounds.residual = bounds.residual.max(residual.iter().map(|e| e.abs()).sum());
            let inverse = factor.times_inverse(&ones[..=t]);
            let length = inverse.iter().map(|l| l.abs()).sum();
            bounds.inverse = bounds.inverse.max(length);
            bounds.inverse_per_step = bounds.inverse_per_step.max(length / (t + 1) as f64);
            row_norms.push(inverse.iter().map(|l| l * l).sum());
        }
        bounds.check()?;
        let largest = |norms: &[f64]| norms.iter().copied().fold(0.0, f64::max);
        Ok(Self { matrix, column_norms: ColumnNorms { l1: largest(&l1), l2_squared: largest(&l2) }, row_norms })
    }
}

impl NormBounds {
    /// Of `2^-30 R̃`, its float inverse `Z` and `A Z`, all packed by rows. `O(T³)`.
    pub(in crate::mechanism::optimum) fn of(r: &[f64], inverse: &[f64], left: &[f64], steps: usize) -> Self {
        let mut bounds = Self::default();
        for t in 0..steps {
            let (row, left) = (&r[packed(t)..packed(t + 1)], &left[packed(t)..packed(t + 1)]);
            bounds.row = bounds.row.max(row.iter().sum());
            bounds.diagonal = bounds.diagonal.max(row[t]);
            let mut residual = vec![0.0; t + 1];
            for (j, entry) in row.iter().enumerate() {
                let inverse = &inverse[packed(j)..packed(j + 1)];
                residual.iter_mut().zip(inverse).for_each(|(sum, z)| *sum += entry * z);
            }
            residual[t] -= 1.0;
            bounds.residual = bounds.residual.max(residual.iter().map(|e| e.abs()).sum());
            let length = left.iter().map(|l| l.abs()).sum();
            bounds.inverse = bounds.inverse.max(length);
            bounds.inverse_per_step = bounds.inverse_per_step.max(length / (t + 1) as f64);
        }
        bounds
    }

    /// The conditions of the [filter](crate::mechanism::toeplitz::filter) on a packed matrix, with a factor 2 to spare.
    pub(in crate::mechanism::optimum) fn check(&self) -> Result<()> {
        let stretch = 1.0 / (1.0 - self.residual);
        let fits = self.residual < 0.25
            && 2.0 * self.inverse_per_step * self.diagonal * stretch < 8.0
            && 2.0 * self.inverse * self.row * stretch < f64::from(1 << 18);
        if fits {
            Ok(())
        } else {
            Err(Error::invalid("the dense optimum is not well conditioned at this horizon; use another mechanism"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Objective;
    use crate::mechanism::optimum::weights::Weights;

    #[test]
    fn ill_conditioned_matrices_are_refused() {
        let fine = || NormBounds { residual: 1e-4, row: 40.0, diagonal: 1.0, inverse: 100.0, inverse_per_step: 1.0 };
        assert!(fine().check().is_ok());
        for bad in [
            NormBounds { residual: 0.3, ..fine() },
            NormBounds { diagonal: 5.0, ..fine() },
            NormBounds { inverse_per_step: 5.0, ..fine() },
            NormBounds { inverse: 1e4, ..fine() },
            NormBounds { row: f64::INFINITY, ..fine() },
            NormBounds { residual: f64::NAN, ..fine() },
        ] {
            assert!(bad.check().is_err());
        }
    }

    /// The inverse in states is the inverse of the rows in states.
    #[test]
    fn rows_times_the_inverse_are_unit_vectors() {
        for objective in Objective::BOTH {
            let factor = StateFactor::new(&Weights::optimal(300, (objective, SearchWatch::NONE), 1e-6).unwrap());
            for t in [0, 1, 77, 299] {
                let unit = factor.times_inverse(&factor.row(t));
                let error = |(j, x): (usize, &f64)| (x - f64::from(u8::from(j == t))).abs();
                let worst = unit.iter().enumerate().map(error).fold(0.0, f64::max);
                assert!(worst < 1e-11, "row {t}: {worst}");
            }
        }
    }
}
