//! `epoch-bands`: banded matrix factorization (BandMF family) with per-epoch column scaling: a banded Toeplitz matrix
//! whose columns have individual lengths, epoch by epoch, for units that return.
//!
//! `R_tj = c_(t-j) d_j` with `bands` coefficients `c_0 … c_(bands-1)`, and `L = A R⁻¹`: increments are
//! `u_t = (1/d_t) v_t`, `v_t = z_t - Σ_(0<j<bands) c_j v_(t-j)`.
//!
//! **Sensitivity.** Columns that are `bands` or more steps apart have no step in common, so they are orthogonal, and
//! for a unit whose steps are that far apart, with vectors of norm at most 1 that may depend on everything earlier,
//! `‖R Δ‖² = Σ_(j ∈ π) ‖v_j‖² n_j ≤ Σ_(j ∈ π) n_j` with the squared column norms `n_j` (see
//! `mechanism/accounting/participation.rs`): the exact sensitivity is the heaviest [chain](chain) of at most `k` steps
//! that are `b` apart. If a unit returns sooner, after `b < bands` steps, its steps are dealt in turn to
//! `m = ⌈bands/b⌉` hands: those of one hand are `m b ≥ bands` apart, and by the triangle inequality
//! `s ≤ Σ_hands √(heaviest chain)`. Alternatively, by pairs: no entry of `R` is negative, so the
//! [chains](crate::mechanism::accounting::chain) of steps apply, with the `n`-th step before `t` replaced by the
//! largest inner product of column `t` with one that is `n b` or more steps before it. The smaller of the two bounds is
//! used.
//!
//! Counts, at most `c` in a step and `m` in all, are largest if all steps with events have `c` of them, except one with
//! the rest (`‖R u‖²` is convex; see `mechanism/accounting/chain.rs`). So `‖R u‖ ≤ c s` for the sensitivity `s` to
//! `⌈m/c⌉` steps; if there is a rest, the chains by pairs count it, for any `b`; and `‖R u‖² ≤ m² max n_j`.
//!
//! **Lengths.** If all `n_j` are equal, that is the banded matrix with normalised columns (Choquette-Choo et al. 2023,
//! arXiv 2306.08153). But a unit that takes part in `k` epochs of `b` steps adds up one column of each epoch: only the
//! *sum* of the epochs' lengths counts. So every epoch has a weight `w_e`, all of its columns have `n_j = w_e`, and the
//! weights are [searched](search) together with the coefficients. No two steps of a pattern lie in one epoch, so the
//! sensitivity is at most the sum of the `k` largest weights, and if the horizon is `k` epochs the sum of all. This
//! lowers the largest error by 0.5 to 2 %, the mean by 1 to 3 %.
//!
//! **Exact release** as for the other square factors (`toeplitz/square_root.rs`): `R̃_tj = F_(t-j) W_j` with
//! `F_j ≈ 2^16 c_j` and `W_j ≈ 2^14 d_j / min d`. The frozen integers *are* the matrix: all norms, also those for
//! vectors, are computed from them.

mod chain;
mod pairs;
mod search;
#[cfg(test)]
mod tests;

use super::filter::{FilterRows, TriangularCursor, WEIGHT_BITS};
use crate::mechanism::Sharpness;
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::accounting::row_norms::{RowNorms, row_norms_of_table};
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::toeplitz::filter::frame::filters_one_node_a_step;
use crate::mechanism::{
    BandSteps, BandedFamily, Bands, ColumnNorms, Cost, Criterion, Cursor, DensePair, MAX_CONSTANT_MEMORY, Matrix,
    MatrixDigest, Mechanism, MechanismName, Objective, Participation, Recursion, SearchWatch, Streaming, TrainingLoop,
    check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use search::{EpochBandsProblem, EpochBandsSolution};
use std::fmt;
use std::sync::Arc;

/// Longest horizon: an evaluation in the search costs `O(T²)`, or `O(T)` times the bands until the inverse has faded.
const MAX_HORIZON: u64 = 1 << 14;
/// Longest horizons at which fewer bands compete, because few of them are searched in blocks of steps, or none.
const MAX_HORIZON_FEW_BANDS: u64 = 1 << 13;
const MAX_HORIZON_FEWEST_BANDS: u64 = 1 << 12;
const FEWEST_BANDS: u64 = 16;
/// Bits of the integer coefficients `F`.
const COEFFICIENT_BITS: u32 = 16;
/// Largest ratio of weights that the filter's range covers.
const MAX_WEIGHT_RATIO: f64 = 16.0;

/// Bands with columns whose lengths change from epoch to epoch; see the [module](self).
#[doc(alias = "BandMF")]
#[doc(alias = "banded matrix factorization")]
#[doc(alias = "per-epoch column scaling")]
#[doc(alias = "DP-FTRL")]
#[derive(Clone, Debug)]
pub struct EpochBands {
    bands: u64,
    runs: Participation,
    sharpness: Sharpness,
    digest: MatrixDigest,
    /// `F_j` for every step, 0 from `bands` on.
    rounded: Arc<[u32]>,
    /// `W_j`.
    weights: Arc<[u32]>,
    /// `Σ_i F_i² W_j²` of every column.
    squares: Arc<[u128]>,
    /// Coefficients of the inverse of the Toeplitz part, one per step.
    inverse: Arc<[f64]>,
    /// `1/d_t`.
    scales: Arc<[f64]>,
    row_norms: RowNorms,
    /// For exact releases.
    rows: FilterRows,
}

impl EpochBands {
    /// With `bands` bands (1 ..= T) over `horizon` steps (1 ..= 2^14), optimised for units that take part in the steps
    /// of `runs`. `O(T²)` for each of about fifty evaluations: a second for 2000 steps.
    ///
    /// # Errors
    /// If a number is out of range.
    ///
    /// ```
    /// use evertally::mechanism::{EpochBands, Mechanism, Objective, Participation};
    /// let epochs = Participation::new(10, 51)?;
    /// let bands = EpochBands::new(512, 51, epochs, Objective::Mean)?;
    /// let error = bands.participation_squared(epochs) * bands.mean_row_norm_squared();
    /// assert!(error.sqrt() < 10.65); // with columns of one length 10.87
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(horizon: u64, bands: u64, runs: Participation, objective: Objective) -> Result<Self> {
        check(horizon, bands)?;
        let aim = (objective, SearchWatch::NONE);
        Self::for_loop(bands, runs, Sharpness::default(), aim, &Recursion::sums(horizon))
    }

    /// The same, optimised for the output of a training loop fed with the increments; if examples are sampled, also for
    /// the sharpness of sampling.
    pub(crate) fn for_loop(
        bands: u64,
        runs: Participation,
        sharpness: Sharpness,
        (objective, watch): (Objective, SearchWatch<'_>),
        of: &Recursion,
    ) -> Result<Self> {
        let horizon = of.steps.len() as u64;
        check(horizon, bands)?;
        let (bands, sharp) = (bands as usize, sharpness.get());
        let problem = EpochBandsProblem { bands, runs, objective, sharpness: sharp, of, watch };
        Self::frozen(horizon, runs, sharpness, &problem.search())
    }

    fn frozen(horizon: u64, runs: Participation, sharpness: Sharpness, found: &EpochBandsSolution) -> Result<Self> {
        let unit = f64::from(1 << COEFFICIENT_BITS);
        // Casts saturate, and out-of-range values are rejected below.
        let mut rounded: Vec<u32> = found.coefficients.iter().map(|c| (c * unit).round() as u32).collect();
        let bands = rounded.len() as u64;
        let sums: Vec<f64> = {
            let add = |sum: &mut f64, f: &u32| {
                *sum += f64::from(*f) * f64::from(*f);
                Some(*sum)
            };
            rounded.iter().scan(0.0, add).collect()
        };
        let length = |step: usize| {
            let room = (horizon as usize - 1 - step).min(sums.len() - 1);
            (found.weight(step) / sums[room]).sqrt()
        };
        let lengths: Vec<f64> = (0..horizon as usize).map(length).collect();
        let least = lengths.iter().copied().fold(f64::INFINITY, f64::min);
        let one = f64::from(1 << WEIGHT_BITS);
        let weights: Vec<u32> = lengths.iter().map(|d| (d / least * one).round() as u32).collect();
        rounded.resize(horizon as usize, 0);
        Self::from_integers(bands, (runs, sharpness), rounded, weights)
    }

    /// The matrix with these integers.
    fn from_integers(
        bands: u64,
        (runs, sharpness): (Participation, Sharpness),
        rounded: Vec<u32>,
        weights: Vec<u32>,
    ) -> Result<Self> {
        let refuse = |what: &str| Error::invalid(format!("`epoch-bands(bands={bands})` is out of range: {what}"));
        let unit = f64::from(1 << COEFFICIENT_BITS);
        if rounded[0] != 1 << COEFFICIENT_BITS || rounded.iter().any(|f| *f > 1 << COEFFICIENT_BITS) {
            return Err(refuse("a coefficient is larger than the first"));
        }
        let (least, largest) = (1u32 << WEIGHT_BITS, f64::from(1 << WEIGHT_BITS) * MAX_WEIGHT_RATIO);
        if weights.iter().any(|w| *w < least || f64::from(*w) > largest) {
            return Err(refuse("its epochs differ too much"));
        }
        let coefficients: Vec<f64> = rounded[..bands as usize].iter().map(|f| f64::from(*f) / unit).collect();
        let inverse = search::reciprocal(&coefficients, rounded.len());
        let scales: Vec<f64> = weights.iter().map(|w| f64::from(least) / f64::from(*w)).collect();
        let variances = search::variances(&Recursion::sums(rounded.len() as u64), &scales, &inverse);
        Ok(Self {
            bands,
            runs,
            sharpness,
            digest: digest(&rounded[..bands as usize], &weights),
            squares: squares(&rounded, &weights),
            rows: FilterRows::with_inverse(&rounded, &inverse).ok_or_else(|| refuse("its inverse grows"))?,
            rounded: rounded.into(),
            weights: weights.into(),
            inverse: inverse.into(),
            scales: scales.into(),
            row_norms: RowNorms::new(variances),
        })
    }

    /// From squared units of `2^-noise_bits`, rounded up.
    fn real(&self, squared: u128) -> f64 {
        // fits f64: below 2^100; the conversion rounds once
        rounded_up(squared as f64 * libm::exp2(-2.0 * f64::from(self.noise_bits())), 8)
    }

    /// The same backwards, rounded up.
    fn in_integers(&self, real: f64) -> u128 {
        (real * libm::exp2(2.0 * f64::from(self.noise_bits()))).ceil() as u128 // saturates
    }

    /// `F_j` of the bands.
    fn band_integers(&self) -> &[u32] {
        &self.rounded[..self.bands as usize]
    }

    /// The number of hands that the steps of a unit are dealt to.
    fn hands(&self, participation: Participation) -> u64 {
        self.bands.div_ceil(participation.separation()).min(participation.within(self.horizon())).max(1)
    }

    /// Whether the inner products of every step with the steps before it can be computed, by the number of steps
    /// between them.
    fn has_few_pairs(&self, participation: Participation) -> bool {
        let products = self.bands * self.hands(participation).max(participation.within(self.horizon()));
        self.horizon().saturating_mul(products) <= pairs::MAX_PRODUCTS
    }

    /// Row `step` of `L`, from 1: `L_ts = Σ_(τ=s..t) r_(τ-s) / d_τ`.
    fn row(&self, step: u64) -> Vec<f64> {
        let t = step as usize;
        let of = |s: usize| self.inverse.iter().zip(&self.scales[s..t]).map(|(r, e)| r * e).sum();
        (0..t).map(of).collect()
    }
}

fn check(horizon: u64, bands: u64) -> Result<()> {
    check_horizon(horizon, MAX_HORIZON, "epoch-bands")?;
    if !(1..=horizon).contains(&bands) {
        return Err(Error::invalid(format!(
            "`epoch-bands` takes 1 to {horizon} bands, at most one per step; got {bands}"
        )));
    }
    Ok(())
}

/// `Σ_i F_i² W_j²` over the coefficients that column `j` has room for.
fn squares(rounded: &[u32], weights: &[u32]) -> Arc<[u128]> {
    // fits: 2^14 terms of 2^32, times 2^36
    let mut sums: Vec<u128> = vec![];
    for f in rounded {
        sums.push(sums.last().unwrap_or(&0) + u128::from(*f) * u128::from(*f));
    }
    let square = |(sum, w): (&u128, &u32)| sum * u128::from(*w) * u128::from(*w);
    sums.iter().rev().zip(weights).map(square).collect()
}

fn digest(rounded: &[u32], weights: &[u32]) -> MatrixDigest {
    let mut hasher = blake3::Hasher::new_derive_key("evertally 1 epoch bands");
    for numbers in [rounded, weights] {
        hasher.update(&(numbers.len() as u64).to_le_bytes());
        for number in numbers {
            hasher.update(&number.to_le_bytes());
        }
    }
    MatrixDigest::new(&hasher.finalize())
}

/// The family by its number of bands.
pub(in crate::mechanism) const BANDED: BandedFamily = BandedFamily {
    with_bands: open,
    bands: |name| match name {
        MechanismName::EpochBands(bands, ..) => Some(bands),
        _ => None,
    },
    are_optimised: true,
    with_sharpness: |name, sharpness| match name {
        MechanismName::EpochBands(bands, runs, open, None) if open == Sharpness::default() => {
            Some(MechanismName::EpochBands(bands, runs, sharpness, None))
        }
        _ => None,
    },
};

/// The name with this number of bands, and the rest left open.
fn open(bands: u64) -> MechanismName {
    MechanismName::EpochBands(bands, Participation::ONCE, Sharpness::default(), None)
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    let bands = super::bands::parse(parameters)?;
    let (run, gap) = (parameters.number("run")?, parameters.number("gap")?);
    let runs = Participation::new(run.unwrap_or(1), gap.unwrap_or(1))?;
    let sharpness = Sharpness(parameters.number("sharpness")?.unwrap_or(0));
    let digest = parameters.take("digest").map(str::parse).transpose()?;
    Ok(MechanismName::EpochBands(bands, runs, sharpness, digest))
}

pub(in crate::mechanism) fn write(
    f: &mut fmt::Formatter<'_>,
    bands: u64,
    runs: Participation,
    sharpness: Sharpness,
    digest: Option<MatrixDigest>,
) -> fmt::Result {
    write!(f, "(bands={bands}")?;
    if runs != Participation::ONCE {
        write!(f, ",run={},gap={}", runs.most(), runs.separation())?;
    }
    if sharpness != Sharpness::default() {
        write!(f, ",sharpness={}", sharpness.0)?;
    }
    digest.map_or(Ok(()), |digest| write!(f, ",digest={digest}"))?;
    f.write_str(")")
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    bands: u64,
    runs: Participation,
    sharpness: Sharpness,
    digest: Option<MatrixDigest>,
) -> Result<Arc<dyn Mechanism>> {
    check(horizon, bands)?;
    build_for(criterion, &Recursion::sums(horizon), bands, runs, sharpness, digest)
}

/// The mechanism of a name, optimised for a training loop.
pub(in crate::mechanism) fn for_loop(
    name: MechanismName,
    training: &TrainingLoop<'_>,
) -> Option<Result<Arc<dyn Mechanism>>> {
    match name {
        MechanismName::EpochBands(bands, runs, sharpness, digest) => {
            Some(build_for(training.criterion, training.recursion, bands, runs, sharpness, digest))
        }
        _ => None,
    }
}

/// The mechanism of a name for a loop; if the name does not state the units, for the criterion's units.
fn build_for(
    criterion: &Criterion,
    of: &Recursion,
    bands: u64,
    runs: Participation,
    sharpness: Sharpness,
    digest: Option<MatrixDigest>,
) -> Result<Arc<dyn Mechanism>> {
    let units = criterion.unit();
    let runs = if runs == Participation::ONCE { units } else { runs };
    let aim = (criterion.objective(), criterion.watch());
    let built = EpochBands::for_loop(bands, runs, sharpness, aim, of)?;
    built.digest.check(digest, "the `epoch-bands` matrix")?;
    Ok(Arc::new(built))
}

/// Competes if units return: with as many bands as steps until their return. (With half as many the error is already
/// above that of a BLT, which keeps a few vectors.)
pub(in crate::mechanism) fn competitors(horizon: u64, unit: Participation) -> Vec<MechanismName> {
    let separation = unit.separation();
    let longest = match separation {
        ..FEWEST_BANDS => MAX_HORIZON_FEWEST_BANDS,
        FEWEST_BANDS..=MAX_CONSTANT_MEMORY => MAX_HORIZON_FEW_BANDS,
        _ => MAX_HORIZON,
    };
    let bands = Some(separation).filter(|bands| (2..=horizon).contains(bands) && horizon <= longest);
    bands.map(open).into_iter().collect()
}

/// The first diagonals of the square root, as many.
pub(in crate::mechanism) fn stand_in(name: MechanismName) -> Option<MechanismName> {
    (BANDED.bands)(name).map(MechanismName::BandedSqrt)
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::EpochBands(bands, ..) => open(bands),
        other => other,
    }
}

impl Mechanism for EpochBands {
    fn name(&self) -> MechanismName {
        MechanismName::EpochBands(self.bands, self.runs, self.sharpness, Some(self.digest))
    }

    fn horizon(&self) -> u64 {
        self.rounded.len() as u64
    }

    /// Every column ends earlier, and keeps its weight.
    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        let first = steps as usize; // fits: at most 2^14
        let rounded = self.rounded[..first].to_vec();
        Some(Arc::new(Self {
            bands: self.bands.min(steps),
            squares: squares(&rounded, &self.weights[..first]),
            rows: FilterRows::with_inverse(&rounded, &self.inverse[..first])?,
            rounded: rounded.into(),
            weights: self.weights[..first].into(),
            inverse: self.inverse[..first].into(),
            scales: self.scales[..first].into(),
            row_norms: self.row_norms.through(steps),
            ..self.clone()
        }))
    }

    fn column_norms(&self) -> ColumnNorms {
        let unit = libm::exp2(-f64::from(self.noise_bits()));
        let mut sum = 0.0;
        let mut l1 = 0.0f64;
        for (f, w) in self.rounded.iter().zip(self.weights.iter().rev()) {
            sum += f64::from(*f);
            l1 = l1.max(sum * f64::from(*w) * unit);
        }
        ColumnNorms { l1, l2_squared: self.real(self.squares.iter().copied().max().unwrap_or(0)) }
    }

    fn noise_bits(&self) -> u32 {
        COEFFICIENT_BITS + WEIGHT_BITS
    }

    /// The least of three bounds, see the [module](self): exact if steps with events are as far apart as there are
    /// bands, up to a rounding if the events do not fill their steps.
    fn spread_squared(&self, spread: Spread) -> u128 {
        let largest = self.squares.iter().copied().max().unwrap_or(0);
        let (total, per_step) = (u128::from(spread.total), u128::from(spread.per_step));
        let together = total.saturating_mul(total).saturating_mul(largest);
        if spread.per_step >= spread.total {
            return together;
        }
        let steps = Participation::new(spread.total.div_ceil(spread.per_step), spread.separation);
        let steps = steps.expect("neither is 0");
        let of_steps = if spread.separation >= self.bands {
            chain::heaviest(&self.squares, steps)
        } else {
            self.in_integers(self.participation_squared(steps))
        };
        let least = of_steps.saturating_mul(per_step * per_step).min(together);
        if spread.total.is_multiple_of(spread.per_step) || !self.has_few_pairs(steps) {
            return least;
        }
        // Saturates if the pairs give no bound.
        least.min(pairs::spread_squared(self.band_integers(), &self.weights, spread).ceil() as u128)
    }

    fn participation_squared(&self, participation: Participation) -> f64 {
        let hands = self.hands(participation);
        let of_hand = |hand: u64| {
            // The first hands have one step more; fits: hands ≤ bands ≤ 2^14.
            let most = participation.within(self.horizon()).saturating_sub(hand).div_ceil(hands);
            let dealt = Participation::new(most.max(1), participation.separation().saturating_mul(hands));
            chain::heaviest(&self.squares, dealt.expect("neither is 0"))
        };
        if hands == 1 {
            return self.real(of_hand(0));
        }
        let roots: f64 = (0..hands).map(|hand| self.real(of_hand(hand)).sqrt()).sum();
        let all = participation.of_any(self.horizon(), self.column_norms().l2_squared);
        let dealt = rounded_up(roots * roots, 4 * hands).min(all);
        if !self.has_few_pairs(participation) {
            return dealt;
        }
        dealt.min(pairs::squared(self.band_integers(), &self.weights, self.noise_bits(), participation))
    }

    fn bands(&self) -> Option<Bands> {
        Some(Bands { count: self.bands, squares: self.squares.iter().map(|square| self.real(*square)).collect() })
    }

    filters_one_node_a_step!();

    row_norms_of_table!();

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.row(step).into_iter().zip(0..).for_each(|(entry, index)| visit(Node { level: 0, index }, entry));
    }

    fn streaming(&self) -> Option<Streaming> {
        let unit = f64::from(1 << COEFFICIENT_BITS);
        let past = self.rounded[1..self.bands as usize].iter().map(|f| f64::from(*f) / unit).collect();
        Some(Streaming::Bands(BandSteps { past, scales: self.scales.clone(), inverse: self.inverse.clone() }))
    }

    fn cost(&self) -> Cost {
        Cost { draws_per_step: 1.0, work_per_step: self.bands as f64, memory_words: 7 * self.horizon() }
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(TriangularCursor::new(self.rows.clone(), Some(self.weights.clone())))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        let steps = self.rounded.len();
        let unit = libm::exp2(-f64::from(self.noise_bits()));
        pair.r = Matrix::zeros(steps, steps);
        for t in 0..steps {
            for j in 0..=t {
                pair.r.set(t, j, f64::from(self.rounded[t - j]) * f64::from(self.weights[j]) * unit);
            }
        }
        pair
    }
}
