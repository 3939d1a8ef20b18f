//! The square root of the prefix-sum matrix, and the same with columns scaled to one length.
//!
//! `√A` is the lower triangular Toeplitz matrix with coefficients `f_0 = 1`, `f_j = f_{j-1}(2j-1)/(2j)`; `√A √A = A`
//! (Fichtenberger, Henzinger, Upadhyay 2023, arXiv 2202.11205; Henzinger, Upadhyay, Upadhyay 2023, arXiv 2211.05006).
//!
//! * `sqrt`: `L = R = √A`;
//! * `normalized-sqrt`: `R = √A D⁻¹` with `D` the column norms of `√A`, so that every step is equally protected, and
//!   `L = A D √A⁻¹`.
//!
//! * `banded-sqrt(bands=b)`: `R` is the lower triangular Toeplitz matrix with only the coefficients `f_0 … f_{b-1}`:
//!   events of one unit that are `b` or more steps apart touch different nodes (Kalinin, Lampert 2024, arXiv
//!   2405.13763);
//! * `banded-inverse-sqrt(bands=b)`: `R⁻¹` is the inverse of `√A` without its coefficients from the `b`-th on (Kalinin,
//!   McKenna, Upadhyay, Lampert 2025, arXiv 2505.12128). `L = A R⁻¹` then has the coefficients
//!   `f_0, …, f_{b-1}, f_{b-1}, f_{b-1}, …`, because those of the inverse sum up to `f_j`;
//! * [`banded-inverse(bands=b)`](super::banded_inverse): the same with another power than the square root.
//!
//! **Exact release.** `R` is rounded to integers: `R̃_tj = F_{t-j} W_j` with `F_j ≈ 2^16 c_j`, `c` the coefficients of
//! the Toeplitz matrix, and `W_j ≈ 2^14 D_T / D_j` (1 except for `normalized-sqrt`). The node sums `R̃ x` are integers,
//! protected by integer noise `z`, and the columns of `R̃` give their exact sensitivity. The release is `L̃ (R̃ x + z)`
//! with `L̃ = A R̃⁻¹` exactly, hence `A x + L̃ z`: the exact prefix sum plus a number that depends on the noise alone.
//! That number is rounded to `2^-8` of the grid **correctly** (see [`TriangularCursor`]), and as `A x` is a whole
//! number, rounding the noise rounds the release: post-processing of `R̃ x + z`.
//!
//! The norms are those of the unrounded matrices; the rounding changes them by less than one part in 10³. Errors that a
//! plan states include the rounding: the largest `‖L̃_t‖²/‖L_t‖²` is [`Mechanism::row_growth`], computed from `F` and
//! `W`.

mod columns;
mod growth;
mod series;
mod units;

use super::filter::{FilterRows, TriangularCursor, WEIGHT_BITS};
use crate::mechanism::Exponent;
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::accounting::row_norms::{RowNorms, row_norms_of_table};
use crate::mechanism::toeplitz::filter::frame::filters_one_node_a_step;
use crate::mechanism::{
    Bands, ColumnNorms, Convolution, Cost, Cursor, DensePair, Matrix, Mechanism, MechanismName, Participation,
    SearchWatch, Streaming, check_horizon,
};
use crate::noise::Node;
use crate::number::{fourier, power};
use crate::privacy::Spread;
use crate::{Error, Result};
pub(super) use series::reciprocal;
use series::{
    coefficients, cut_off, inverse_coefficient, normalized_row_norms, power_of_differences, prefix_sums,
    reciprocal_watched, summed,
};
use std::sync::{Arc, OnceLock};

/// The square-root factorization: plain, with normalized columns, or banded.
#[doc(alias = "sqrt")]
#[doc(alias = "normalized-sqrt")]
#[doc(alias = "Toeplitz")]
#[doc(alias = "BandMF")]
#[doc(alias = "BISR")]
#[doc(alias = "BandInvMF")]
#[doc(alias = "BIFR")]
#[doc(alias = "lambda-CGD")]
#[doc(alias = "DP-FTRL")]
#[derive(Clone, Debug)]
pub struct SquareRoot {
    kind: Kind,
    /// `c_j` for `j < T`, the Toeplitz part of `R`.
    coefficients: Arc<[f64]>,
    /// The coefficients of `A` times the inverse of the Toeplitz part: `L`, except for the normalized factorization.
    left: Arc<[f64]>,
    /// `D_j`, the column norms of `√A` (all 1 except for the normalized factorization).
    scales: Arc<[f64]>,
    /// `‖L_t‖²`.
    row_norms: RowNorms,
    /// `F_j`.
    rounded: Arc<[u32]>,
    /// The same for the filter.
    rows: FilterRows,
    /// `W_j`.
    weights: Arc<[u32]>,
    /// Computed on first use.
    filter: OnceLock<Arc<fourier::RealConvolution>>,
    /// [`Mechanism::row_growth`], computed on first use.
    growth: OnceLock<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Normalized,
    Banded(u64),
    BandedInverse(u64),
    BandedInversePower(u64, Exponent),
}

/// Longest horizon of the plain square root: a stream holds `O(T)`.
const MAX_HORIZON: u64 = 1 << 20;
/// Longest horizon of the normalized one, whose norms cost `O(T²)`.
const MAX_NORMALIZED: u64 = 1 << 16;
/// Longest horizon of the banded ones, which cost `O(T · bands)` to build. Up to this horizon the rounding of a
/// coefficient, 2^-17, changes the inverse series too little for the filter to notice.
pub(super) const MAX_BANDED: u64 = 1 << 14;
/// The same for vectors, whose noise is not filtered in integers.
const MAX_BANDED_VECTORS: u64 = 1 << 20;
/// Maximum number of products to build one for vectors: a few seconds.
const MAX_BANDED_WORK: u64 = 1 << 32;
/// Bits of the integer coefficients `F`.
const COEFFICIENT_BITS: u32 = 16;

impl SquareRoot {
    /// `L = R = √A` over `horizon` steps, 1 ..= 2^20. `O(T)` time and memory, and `O(log² T)` per released step.
    pub fn new(horizon: u64) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "sqrt")?;
        let coefficients = coefficients(horizon);
        Ok(Self::toeplitz(Kind::Plain, coefficients.clone(), coefficients))
    }

    /// The normalized factorization over `horizon` steps, 1 ..= 2^16. `O(T²)` to build, a second at the longest.
    pub fn normalized(horizon: u64) -> Result<Self> {
        Self::normalized_watched(horizon, SearchWatch::NONE)
    }

    /// The same in a search that a watch may cancel.
    pub(super) fn normalized_watched(horizon: u64, watch: SearchWatch<'_>) -> Result<Self> {
        check_horizon(horizon, MAX_NORMALIZED, "normalized-sqrt")?;
        let coefficients = coefficients(horizon);
        let mut scales: Vec<f64> = prefix_sums(&coefficients).into_iter().map(f64::sqrt).collect();
        scales.reverse();
        let inverse: Vec<f64> = (0..coefficients.len()).map(|j| inverse_coefficient(&coefficients, j)).collect();
        let row_norms = normalized_row_norms(&inverse, &scales, watch)?;
        Ok(Self::assemble(Kind::Normalized, coefficients.clone(), coefficients, scales, row_norms))
    }

    /// `R` = the first `bands` diagonals of `√A`, 1 ..= T, over `horizon` steps, 1 ..= 2^14. `O(T · bands)` to build,
    /// `O(bands)` per released step. One band is noise on every input, `T` bands are the plain square root.
    ///
    /// ```
    /// use evertally::mechanism::{Mechanism, SquareRoot};
    /// let banded = SquareRoot::banded(100, 2)?;
    /// assert_eq!(banded.column_norms().l2_squared, 1.25);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn banded(horizon: u64, bands: u64) -> Result<Self> {
        Self::banded_watched(horizon, bands, SearchWatch::NONE)
    }

    /// The same in a search that a watch may cancel.
    pub(super) fn banded_watched(horizon: u64, bands: u64, watch: SearchWatch<'_>) -> Result<Self> {
        check_bands(horizon, bands, "banded-sqrt")?;
        Self::first_diagonals(horizon, bands, watch)
    }

    /// The same for the noise of vectors, over 1 ..= 2^20 steps.
    pub(super) fn banded_for_vectors(horizon: u64, bands: u64, watch: SearchWatch<'_>) -> Result<Self> {
        if horizon <= MAX_BANDED {
            return Self::banded_watched(horizon, bands, watch);
        }
        check_horizon(horizon, MAX_BANDED_VECTORS, "banded-sqrt")?;
        let most = MAX_BANDED_WORK / horizon;
        if !(1..=most).contains(&bands) {
            return Err(Error::invalid(format!(
                "`banded-sqrt` takes 1 to {most} bands over {horizon} steps, got {bands}"
            )));
        }
        Self::first_diagonals(horizon, bands, watch)
    }

    /// With checked numbers.
    fn first_diagonals(horizon: u64, bands: u64, watch: SearchWatch<'_>) -> Result<Self> {
        let right = cut_off(&coefficients(horizon), bands as usize);
        let left = summed(&reciprocal_watched(&right[..bands as usize], right.len(), watch)?);
        Ok(Self::toeplitz(Kind::Banded(bands), right, left))
    }

    /// `R⁻¹` = the first `bands` diagonals of the inverse of `√A`, 1 ..= T, over `horizon` steps, 1 ..= 2^14.
    /// `O(T · bands)` to build, `O(log² T)` per released step. One band is noise on every input, `T` bands are the
    /// plain square root.
    ///
    /// ```
    /// use evertally::mechanism::{Mechanism, SquareRoot};
    /// let banded = SquareRoot::banded_inverse(100, 2)?;
    /// assert_eq!(banded.row_norm_squared(3), 1.0 + 0.25 + 0.25);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn banded_inverse(horizon: u64, bands: u64) -> Result<Self> {
        let f = banded_coefficients(horizon, bands, "banded-inverse-sqrt")?;
        let inverse: Vec<f64> = (0..bands as usize).map(|j| inverse_coefficient(&f, j)).collect();
        let left = (0..f.len()).map(|j| f[j.min(inverse.len() - 1)]).collect();
        Ok(Self::toeplitz(Kind::BandedInverse(bands), reciprocal(&inverse, f.len()), left))
    }

    /// `R⁻¹` = the first `bands` diagonals, 1 ..= T, of the differences to a power, over `horizon` steps, 1 ..= 2^14:
    /// see the header of `toeplitz/banded_inverse.rs`. Costs as [`banded_inverse`](Self::banded_inverse).
    ///
    /// ```
    /// use evertally::mechanism::{Mechanism, SquareRoot};
    /// // Increments z_t - z_(t-1)/4.
    /// let geometric = SquareRoot::banded_inverse_power(100, 2, "0.25".parse()?)?;
    /// assert_eq!(geometric.row_norm_squared(2), 1.0 + 0.75 * 0.75);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn banded_inverse_power(horizon: u64, bands: u64, exponent: Exponent) -> Result<Self> {
        check_bands(horizon, bands, "banded-inverse")?;
        let (steps, kept) = (horizon as usize, bands as usize);
        let inverse = power_of_differences(exponent.get(), kept);
        // The running sums l_j; from the last band on they stay constant.
        let sums = power_of_differences(exponent.get() - 1.0, kept);
        let left = (0..steps).map(|j| sums[j.min(kept - 1)]).collect();
        Ok(Self::toeplitz(Kind::BandedInversePower(bands, exponent), reciprocal(&inverse, steps), left))
    }

    fn toeplitz(kind: Kind, coefficients: Vec<f64>, left: Vec<f64>) -> Self {
        let (scales, row_norms) = (vec![1.0; left.len()], prefix_sums(&left));
        Self::assemble(kind, coefficients, left, scales, row_norms)
    }

    fn assemble(kind: Kind, coefficients: Vec<f64>, left: Vec<f64>, scales: Vec<f64>, row_norms: Vec<f64>) -> Self {
        let unit = f64::from(1 << COEFFICIENT_BITS);
        // The coefficients fall; the minimum only guards against the last bit of a float at the edge of a rounding.
        let mut least = u32::MAX;
        let mut round = |f: &f64| {
            least = least.min((f * unit).round() as u32);
            least
        };
        let rounded: Arc<[u32]> = coefficients.iter().map(&mut round).collect();
        let last = scales.last().copied().unwrap_or(1.0);
        let fine = f64::from(1 << WEIGHT_BITS) * last;
        let weight = |d: &f64| if kind == Kind::Normalized { (fine / d).round() as u32 } else { 1 };
        let weights = scales.iter().map(weight).collect();
        Self {
            kind,
            coefficients: coefficients.into(),
            left: left.into(),
            scales: scales.into(),
            row_norms: RowNorms::new(row_norms),
            rows: FilterRows::toeplitz(&rounded),
            rounded,
            weights,
            filter: OnceLock::new(),
            growth: OnceLock::new(),
        }
    }

    fn is_normalized(&self) -> bool {
        self.kind == Kind::Normalized
    }

    /// Row `step` of `L`, from 1. `O(t)`, `O(T log T)` for the normalized factorization.
    fn row(&self, step: u64) -> Vec<f64> {
        let t = step as usize;
        if !self.is_normalized() {
            return self.left[..t].iter().rev().copied().collect();
        }
        // L_tj = Σ_{k=j..t} D_k r_{k-j}: backwards, the series D filtered by r.
        let backwards: Vec<f64> = self.scales[..t].iter().rev().copied().collect();
        self.filter().of(&backwards)[..t].iter().rev().copied().collect()
    }

    /// The series that turns nodes into releases, or for the normalized factorization into increments over their
    /// scales.
    fn filter(&self) -> &fourier::RealConvolution {
        self.filter.get_or_init(|| {
            let inverse = |j| inverse_coefficient(&self.coefficients, j);
            let own: Vec<f64> = (0..self.coefficients.len()).map(inverse).collect();
            fourier::RealConvolution::new(if self.is_normalized() { &own } else { &self.left }).into()
        })
    }

    /// The largest of some sum over the columns, where column `j` has the first `T - j` coefficients, times
    /// `W_j^power`.
    fn largest_column(&self, power: u32, term: impl Fn(u128) -> u128) -> u128 {
        let (mut sum, mut largest) = (0, 0);
        for (f, w) in self.rounded.iter().zip(self.weights.iter().rev()) {
            sum += term(u128::from(*f));
            largest = largest.max(sum * u128::from(*w).pow(power));
        }
        largest
    }
}

/// Sums over the shorter of the two.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `f_j` for a banded factorization.
fn banded_coefficients(horizon: u64, bands: u64, mechanism: &str) -> Result<Vec<f64>> {
    check_bands(horizon, bands, mechanism)?;
    Ok(coefficients(horizon))
}

fn check_bands(horizon: u64, bands: u64, mechanism: &str) -> Result<()> {
    check_horizon(horizon, MAX_BANDED, mechanism)?;
    if !(1..=horizon).contains(&bands) {
        return Err(Error::invalid(format!(
            "`{mechanism}` takes 1 to {horizon} bands, at most one per step; got {bands}"
        )));
    }
    Ok(())
}

impl SquareRoot {
    /// The largest L1 norm of a column of the integer matrix that is protected.
    pub fn l1_column_sum(&self) -> u128 {
        self.largest_column(1, |f| f)
    }
}

impl Mechanism for SquareRoot {
    fn name(&self) -> MechanismName {
        match self.kind {
            Kind::Plain => MechanismName::Sqrt,
            Kind::Normalized => MechanismName::NormalizedSqrt,
            Kind::Banded(bands) => MechanismName::BandedSqrt(bands),
            Kind::BandedInverse(bands) => MechanismName::BandedInverseSqrt(bands),
            Kind::BandedInversePower(bands, exponent) => MechanismName::BandedInverse(bands, Some(exponent)),
        }
    }

    fn horizon(&self) -> u64 {
        self.coefficients.len() as u64
    }

    /// Every column ends earlier; those of the normalized factorization keep their scales.
    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        let first = steps as usize; // fits: at most the horizon
        let kind = match self.kind {
            Kind::Plain | Kind::Normalized => self.kind,
            Kind::Banded(bands) => Kind::Banded(bands.min(steps)),
            Kind::BandedInverse(bands) => Kind::BandedInverse(bands.min(steps)),
            Kind::BandedInversePower(bands, exponent) => Kind::BandedInversePower(bands.min(steps), exponent),
        };
        Some(Arc::new(Self {
            kind,
            coefficients: self.coefficients[..first].into(),
            left: self.left[..first].into(),
            scales: self.scales[..first].into(),
            row_norms: self.row_norms.through(steps),
            rows: FilterRows::toeplitz(&self.rounded[..first]),
            rounded: self.rounded[..first].into(),
            weights: self.weights[..first].into(),
            filter: OnceLock::new(),
            growth: OnceLock::new(),
        }))
    }

    fn column_norms(&self) -> ColumnNorms {
        // Column j has T - j coefficients over D_j; the plain columns are longest at j = 0.
        let (mut l1, mut l2, mut largest) = (0.0, 0.0, ColumnNorms { l1: 0.0, l2_squared: 0.0 });
        for (f, d) in self.coefficients.iter().zip(self.scales.iter().rev()) {
            (l1, l2) = (l1 + f, l2 + f * f);
            largest.l1 = largest.l1.max(l1 / d);
            largest.l2_squared = largest.l2_squared.max(l2 / (d * d));
        }
        largest
    }

    fn noise_bits(&self) -> u32 {
        COEFFICIENT_BITS + if self.is_normalized() { WEIGHT_BITS } else { 0 }
    }

    /// In squared units of `2^-noise_bits`. All but the normalized factorization: exactly that of the packed pattern
    /// from the first step on ([`participation`](crate::mechanism::accounting::participation)), since the coefficients
    /// do not grow. (Those of `banded-inverse-sqrt`: the series `1/(1-x)` over them has the coefficients of `L`, which
    /// are log-convex, so that by Kaluza's theorem its reciprocal, their difference series, has no positive coefficient
    /// after the first.) The normalized one: by [chains](crate::mechanism::accounting::chain). `O(T n)` for events in
    /// `n` steps.
    fn spread_squared(&self, spread: Spread) -> u128 {
        self.squared(spread, SearchWatch::NONE).expect("nothing cancels it")
    }

    fn spreads_squared_watched(&self, spread: Spread, events: &[u64], watch: SearchWatch<'_>) -> Result<Vec<u128>> {
        events.iter().map(|events| self.squared(spread.in_one_sum(*events), watch)).collect()
    }

    /// Exact, in `O(T log k)`, except for the normalized factorization. That one uses
    /// [chains](crate::mechanism::accounting::chain), which are exact if the worst steps are in a row, in `O(T k)`, and
    /// pairs if that is too expensive.
    fn participation_squared(&self, participation: Participation) -> f64 {
        self.participation_squared_watched(participation, SearchWatch::NONE).expect("nothing cancels it")
    }

    fn participation_squared_watched(&self, participation: Participation, watch: SearchWatch<'_>) -> Result<f64> {
        self.squared_of_steps(participation, watch)
    }

    fn bands(&self) -> Option<Bands> {
        let Kind::Banded(count) = self.kind else { return None };
        let mut squares = prefix_sums(&self.coefficients);
        // Positive numbers, with at most two roundings each.
        squares.iter_mut().for_each(|square| *square = rounded_up(*square, 4 * count + 8));
        squares.reverse();
        Some(Bands { count, squares })
    }

    filters_one_node_a_step!();

    row_norms_of_table!();

    /// `O(T log T)`, `O(T²)` for the normalized factorization; once.
    fn row_growth_watched(&self, watch: SearchWatch<'_>) -> Result<f64> {
        if let Some(known) = self.growth.get() {
            return Ok(*known);
        }
        let found = self.growth(watch)?;
        Ok(*self.growth.get_or_init(|| found))
    }

    /// `O(s)`; `O(T log T)` for the normalized factorization.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        if self.is_normalized() {
            return dot(&self.row(earlier), &self.row(later));
        }
        let (rows, apart) = (earlier as usize, (later - earlier) as usize);
        dot(&self.left[..rows], &self.left[apart..apart + rows])
    }

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.row(step).into_iter().zip(0..).for_each(|(entry, index)| visit(Node { level: 0, index }, entry));
    }

    fn noise_path(&self, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
        let filter = self.filter();
        let nodes: Vec<f64> = (0..self.horizon()).map(|index| draw(Node { level: 0, index })).collect();
        let path = filter.of(&nodes);
        if !self.is_normalized() {
            return path;
        }
        let increments: Vec<f64> = path.iter().zip(&*self.scales).map(|(x, d)| x * d).collect();
        summed(&increments)
    }

    fn streaming(&self) -> Option<Streaming> {
        match self.kind {
            Kind::Plain | Kind::Normalized => {
                let f = &self.coefficients;
                Some(Streaming::Convolution(Convolution {
                    increments: (0..f.len()).map(|j| inverse_coefficient(f, j)).collect(),
                    scales: self.is_normalized().then(|| self.scales.to_vec()),
                    sums: (!self.is_normalized()).then(|| self.left.to_vec()),
                }))
            }
            Kind::Banded(bands) => Some(Streaming::Outputs(self.coefficients[1..bands as usize].into())),
            Kind::BandedInverse(bands) => {
                // The first coefficients of L are those of the square root.
                let inverse = (0..bands as usize).map(|j| inverse_coefficient(&self.left, j));
                Some(Streaming::Innovations(inverse.collect()))
            }
            Kind::BandedInversePower(bands, exponent) => {
                Some(Streaming::Innovations(power_of_differences(exponent.get(), bands as usize).into()))
            }
        }
    }

    /// The bands, or all earlier steps by transforms.
    fn cost(&self) -> Cost {
        let work = {
            let steps = self.horizon() as f64;
            match self.kind {
                Kind::Banded(bands) => bands as f64,
                Kind::Plain | Kind::Normalized | Kind::BandedInverse(_) | Kind::BandedInversePower(..) => {
                    (steps / 2.0).min(64.0 + power(libm::log2(steps), 2))
                }
            }
        };
        Cost { draws_per_step: 1.0, work_per_step: work, memory_words: 7 * self.horizon() }
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(TriangularCursor::new(self.rows.clone(), self.is_normalized().then(|| self.weights.clone())))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        let steps = self.coefficients.len();
        pair.r = Matrix::zeros(steps, steps);
        for t in 0..steps {
            for j in 0..=t {
                pair.r.set(t, j, self.coefficients[t - j] / self.scales[j]);
            }
        }
        pair
    }
}

#[cfg(test)]
mod tests;
