//! The optimal factorization under Gaussian noise, for the largest or for the mean variance, with a certificate of how
//! close it is.
//!
//! Denisov, McMahan, Rush, Smith, Thakurta 2022 (arXiv 2202.08312) state the problem as a convex program in `X = RᵀR`;
//! here it is solved through its dual, in `O(T log T)` a round and with a certificate.
//!
//! **Lower bound.** Let `p` and `v` be weights of the rows and the columns, both summing to 1, `P` and `V` their
//! diagonal matrices. For any factorization `A = L R` with columns of `R` no longer than 1,
//!
//! ```text
//! ‖P^½ A V^½‖_* ≤ ‖P^½ L‖_F ‖R V^½‖_F = (Σ p_t ‖L_t‖²)^½ (Σ v_i ‖R_i‖²)^½ ≤ (Σ p_t ‖L_t‖²)^½
//! ```
//!
//! (a nuclear norm is at most the product of the Frobenius norms of two factors). So the square of the left side is
//! below the mean variance of every factorization if `p` is uniform, and below the largest variance for every `p`.
//!
//! **Optimum.** Equality holds for `X = V^(-1/2) (V^½ Aᵀ P A V^½)^½ V^(-1/2)` if its diagonal is 1:
//! `Σ v_i X_ii = tr(Aᵀ P A X⁻¹)` is the nuclear norm. The nuclear norm is concave in `(p, v)` with the diagonal of `X`
//! as its gradient in `v`, and the iteration `v_i ← v_i X_ii^a`, normalised, climbs to the maximum, where the diagonal
//! is constant. For the mean `p` stays uniform. For the maximum, `A` is its own transpose along the other diagonal, so
//! the best `v` is the best `p` backwards; with that, `L Lᵀ` is `X` turned around, and one constant diagonal makes both
//! the columns and the rows equally long. The remaining error is measured: the gap between the factorization's variance
//! and the lower bound ([`Certificate`]).
//!
//! **Cost.** `K = (V^½ Aᵀ P A V^½)⁻¹` is tridiagonal, because `A⁻¹` is bidiagonal. Its inverse root is a sum of about
//! thirty shifted inverses, and all matrices here have the form of a ladder network with thirty states (`weights.rs`,
//! `factor.rs`). Nothing costs more than `O(T²)` numbers times thirty.
//!
//! **Exact release.** As for the square roots: `R̃ = 2^30 R`, rounded to integers, is protected; its column norms are
//! computed in integers. The release is `A x + L̃ z` with `L̃ = A R̃⁻¹`, correctly rounded to `2^-8` of the grid
//! ([`TriangularCursor`]). `R̃` has no negative entries. The variances are those of the unrounded matrices; the
//! rounding moves them by less than 10⁻⁶.

mod factor;
pub(super) mod integer;
mod products;

use super::weights::Weights;
use crate::Result;
use crate::mechanism::MatrixDigest;
use crate::mechanism::accounting::row_norms::{RowNorms, row_norms_of_table};
use crate::mechanism::toeplitz::filter::frame::filters_one_node_a_step;
use crate::mechanism::toeplitz::filter::{FilterRows, TriangularCursor, packed};
use crate::mechanism::{
    ColumnNorms, Cost, Cursor, DensePair, Matrix, Mechanism, MechanismName, Objective, Optimum, Participation,
    SearchWatch, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use factor::StateFactor;
use integer::{Integer, MATRIX_BITS};
use std::sync::Arc;

/// Longest horizon of the dense optimum: its matrix has `T²/2` entries.
const MAX_HORIZON: u64 = 4096;
/// Longest horizon of the lower bound alone.
const MAX_BOUND_HORIZON: u64 = 1 << 17;
/// Tolerance of the iteration: the gap of the certificate is at most about twice this.
const SLACK: f64 = 1e-10;
/// Longest horizon at which inner products of all columns are computed.
const MAX_PRODUCTS: u64 = 2048;

/// The factorization of least mean or least maximal variance under Gaussian noise (Denisov, McMahan, Rush, Smith,
/// Thakurta 2022, arXiv 2202.08312), solved through its dual in `O(T²)` instead of `O(T³)` per round, with a
/// certificate of how close it is.
#[doc(alias = "Denisov")]
#[doc(alias = "matrix mechanism")]
#[doc(alias = "matrix factorization")]
#[doc(alias = "DP-MF")]
#[doc(alias = "DP-FTRL")]
#[derive(Clone, Debug)]
pub struct Dense {
    objective: Objective,
    factor: Arc<StateFactor>,
    /// Number of steps: those of the factor, or the first of them.
    steps: usize,
    certificate: Certificate,
    /// Column norms of `R`.
    column_norms: ColumnNorms,
    /// `‖L_t‖²`.
    row_norms: RowNorms,
    /// `R̃`, its rows one after the other.
    matrix: Arc<[u32]>,
    /// Largest sum of a column of `R̃`, and of its squares.
    l1: u128,
    l2_squared: u128,
    /// The name in the plan.
    digest: MatrixDigest,
}

/// The variance of a factorization, and a lower bound for all factorizations: `s2²` times the mean or the largest
/// `‖L_t‖²`, the variance under `ρ = 1/2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Certificate {
    /// The value of this factorization.
    pub reached: f64,
    /// No factorization is below this.
    pub bound: f64,
}

impl Certificate {
    /// The largest possible improvement, `reached / bound - 1`.
    pub fn gap(&self) -> f64 {
        self.reached / self.bound - 1.0
    }
}

impl Dense {
    /// The factorization of least maximal or least mean variance over `horizon` steps, 1 ..= 4096. `O(T²)`: a
    /// second or less up to 2048 steps, always with the same result.
    ///
    /// # Errors
    /// If the horizon is out of range.
    ///
    /// ```
    /// use evertally::mechanism::{Dense, Objective};
    /// let optimum = Dense::solve(2, Objective::Max)?;
    /// assert!((optimum.certificate().reached - 4.0 / 3.0).abs() < 1e-9);
    /// assert!(optimum.certificate().gap() < 1e-9);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn solve(horizon: u64, objective: Objective) -> Result<Self> {
        Self::searched(horizon, (objective, SearchWatch::NONE))
    }

    /// The same in a search that a watch may cancel.
    pub(super) fn searched(horizon: u64, (objective, watch): (Objective, SearchWatch<'_>)) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "dense")?;
        let weights = Weights::optimal(horizon as usize, (objective, watch), SLACK)?;
        let factor = StateFactor::new(&weights);
        let built = Integer::new(&factor, watch)?;
        let row_norms = RowNorms::new(built.row_norms);
        let figure = objective.of(row_norms.max(), row_norms.mean());
        let reached = built.column_norms.l2_squared * figure;
        Ok(Self {
            objective,
            steps: factor.steps(),
            factor: Arc::new(factor),
            certificate: Certificate { reached, bound: bound_by(&weights) },
            column_norms: built.column_norms,
            row_norms,
            l1: largest_column(&built.matrix, |r| r),
            l2_squared: largest_column(&built.matrix, |r| r * r),
            digest: digest(horizon, objective, &built.matrix),
            matrix: built.matrix.into(),
        })
    }

    /// The factorization with this digest.
    ///
    /// # Errors
    /// If the horizon is out of range, or this version of the library finds a factorization with another digest.
    pub fn with_digest(horizon: u64, objective: Objective, digest: MatrixDigest) -> Result<Self> {
        Self::solve(horizon, objective)?.checked(Some(digest))
    }

    /// The same factorization, if it has this digest.
    pub(super) fn checked(self, digest: Option<MatrixDigest>) -> Result<Self> {
        self.digest.check(digest, "the dense optimum")?;
        Ok(self)
    }

    /// A lower bound of the mean or the largest variance of every factorization (`s2² ‖L_t‖²`, as in
    /// [`Certificate::bound`]), within 10⁻⁵ of the least one, over 1 ..= 2^17 steps. `O(T log T)`, without the
    /// matrices.
    ///
    /// # Errors
    /// If the horizon is out of range.
    ///
    /// ```
    /// use evertally::mechanism::{Dense, Objective};
    /// let bound = Dense::lower_bound(1024, Objective::Max)?;
    /// assert!(bound > 8.7702 && bound < 8.7703);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn lower_bound(horizon: u64, objective: Objective) -> Result<f64> {
        check_horizon(horizon, MAX_BOUND_HORIZON, "dense")?;
        // The nuclear norm is stationary at the optimum: its error is of the order of the square of the slack.
        Ok(bound_by(&Weights::optimal(horizon as usize, (objective, SearchWatch::NONE), 1e-3)?))
    }

    /// How close this is to the optimum.
    pub fn certificate(&self) -> Certificate {
        self.certificate
    }

    /// The BLAKE3 digest of the integer matrix, part of the name: a plan is bound to the matrix itself.
    pub fn digest(&self) -> MatrixDigest {
        self.digest
    }
}

/// The lower bound that weights prove, minus the possible error of its computation. Relative errors: 10⁻¹² of the
/// poles; in units of `u = 2⁻⁵³`, at most `5u` for every step of a ladder, `u` for every term of the sums of weights
/// and of the nuclear norm. The square doubles that: below `2 · 10⁻¹² + 14 u T`.
fn bound_by(weights: &Weights) -> f64 {
    let error = 4e-12 + 2e-15 * weights.rows.len() as f64;
    weights.nuclear * weights.nuclear * (1.0 - error)
}

/// `R̃_ij` with its column, row by row.
fn entries(matrix: &[u32]) -> impl Iterator<Item = (usize, u32)> {
    let rows = (0..).take_while(|t| packed(*t) < matrix.len());
    rows.flat_map(|t| matrix[packed(t)..packed(t + 1)].iter().copied().enumerate())
}

/// The largest sum of some function of the entries over a column. fits: entries are at most 2^30, squares add up to
/// 2^72.
fn largest_column(matrix: &[u32], term: impl Fn(u128) -> u128) -> u128 {
    let mut sums: Vec<u128> = vec![];
    for (column, entry) in entries(matrix) {
        if column == sums.len() {
            sums.push(0);
        }
        sums[column] += term(entry.into());
    }
    sums.into_iter().max().unwrap_or(0)
}

fn digest(horizon: u64, objective: Objective, matrix: &[u32]) -> MatrixDigest {
    let mut hasher = blake3::Hasher::new_derive_key("evertally 1 dense matrix");
    hasher.update(&horizon.to_le_bytes());
    hasher.update(&[(objective == Objective::Mean).into(), MATRIX_BITS as u8]);
    matrix.iter().for_each(|entry| {
        hasher.update(&entry.to_le_bytes());
    });
    MatrixDigest::new(&hasher.finalize())
}

impl Dense {
    /// The largest L1 norm of a column of the integer matrix that is protected.
    pub fn l1_column_sum(&self) -> u128 {
        self.l1
    }
}

impl Mechanism for Dense {
    fn name(&self) -> MechanismName {
        MechanismName::Dense(Optimum::found(self.objective, self.digest), Participation::ONCE)
    }

    fn horizon(&self) -> u64 {
        self.steps as u64
    }

    /// Every column ends earlier. `O(t²)`.
    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        let first = steps as usize; // fits: at most 4096
        let (mut l1, mut l2) = (vec![0.0; first], vec![0.0; first]);
        for t in 0..first {
            for ((entry, l1), l2) in self.factor.row(t).into_iter().zip(&mut l1).zip(&mut l2) {
                (*l1, *l2) = (*l1 + entry, *l2 + entry * entry);
            }
        }
        let largest = |norms: &[f64]| norms.iter().copied().fold(0.0, f64::max);
        let matrix = &self.matrix[..packed(first)];
        Some(Arc::new(Self {
            steps: first,
            column_norms: ColumnNorms { l1: largest(&l1), l2_squared: largest(&l2) },
            row_norms: self.row_norms.through(steps),
            l1: largest_column(matrix, |r| r),
            l2_squared: largest_column(matrix, |r| r * r),
            matrix: matrix.into(),
            ..self.clone()
        }))
    }

    fn column_norms(&self) -> ColumnNorms {
        self.column_norms
    }

    fn noise_bits(&self) -> u32 {
        MATRIX_BITS
    }

    /// In squared units of `2^-30`, exact for one event. With the inner products `G_ij` of the columns of `R̃`,
    /// `‖R̃ u‖² = Σ u_i u_j G_ij ≤ total · max_i Σ_j u_j G_ij`, and the sum is largest if the events are in the steps
    /// of the largest `G_ij`; and `G_ij ≤ max_i G_ii`. `O(T² k + T³ / 8)` for units with events in `k` steps, up to
    /// 2048 steps; longer horizons do not use this bound.
    fn spread_squared(&self, spread: Spread) -> u128 {
        let total = u128::from(spread.total);
        let together = total * self.l2_squared;
        let capped = if spread.per_step >= spread.total || self.horizon() > MAX_PRODUCTS {
            together
        } else {
            together.min(products::largest_sum(&self.matrix, self.steps, spread))
        };
        capped.saturating_mul(total)
    }

    filters_one_node_a_step!();

    row_norms_of_table!();

    /// `O(T log T)`.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        let row = |step: u64| self.factor.times_inverse(&vec![1.0; step as usize]);
        row(earlier).iter().zip(row(later)).map(|(a, b)| a * b).sum()
    }

    /// `O(T log T)`.
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let row = self.factor.times_inverse(&vec![1.0; step as usize]);
        row.into_iter().zip(0..).for_each(|(entry, index)| visit(Node { level: 0, index }, entry));
    }

    fn noise_path(&self, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
        let mut path = self.factor.path(|k| draw(Node { level: 0, index: k as u64 }));
        path.truncate(self.steps);
        path
    }

    /// A row of the matrix.
    fn cost(&self) -> Cost {
        Cost {
            draws_per_step: 1.0,
            work_per_step: self.horizon() as f64 / 2.0,
            memory_words: 4 * self.horizon() + self.matrix.len() as u64 / 2,
        }
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(TriangularCursor::new(FilterRows::Packed(self.matrix.clone()), None))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        let steps = self.steps;
        pair.r = Matrix::zeros(steps, steps);
        for t in 0..steps {
            self.factor.row(t).into_iter().enumerate().for_each(|(j, entry)| pair.r.set(t, j, entry));
        }
        pair
    }
}

#[cfg(test)]
mod tests;
