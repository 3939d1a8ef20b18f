//! The dense optimum for pure ε: a numeric search over rectangular factorizations `A = L R` for Laplace noise.
//!
//! Laplace noise of scale `s1/ε` has ε²·variance `2 s1² ‖L_t‖²` at step `t`, `s1` = largest column L1 norm of `R`.
//! Unlike the Gaussian problem this one is not convex, and its best `R` has more rows than columns. The search
//! (`search.rs`, `candidate.rs`) minimises the mean or the maximum over `R ≥ 0` with equal column sums, made of a
//! diagonal (every step measured alone, with its own weight) and a few smooth overlapping **bumps**; `L = A R⁺` is
//! weighted least squares (`bumps.rs`). Searches over all `R ≥ 0` of any shape from random starts, T = 3 to 64, never
//! improved on it by more than one part in 10⁴.
//!
//! **Result of the search.** At T = 512 three levels with a third of every column each: the diagonal, about thirty
//! bumps, and two wide ones. Fine bumps stand 10 steps apart at the peak of a wide one, 17 to 20 in between. Towards
//! the end the wide level fades to nothing and leaves its share to the other two. The largest variance can be brought
//! within a few percent of the mean.
//!
//! **Protected integers.** `R̃` has the integer diagonal `w_j` and the integer rows `H_b`, and every column of it sums
//! to `2^16` exactly, so that the L1 sensitivity is known to the last digit; all figures are those of `R̃`. Protected
//! by integer noise are `y_j = w_j x_j + z_j` and `y_b = (H x)_b + z_b`.
//!
//! **Exact release.** Let `[v]` be `v` rounded to a multiple of `2^-32` (halves up). As `x_j` is a whole number,
//! `[y_j / w_j] = x_j + [z_j / w_j]`. Write `ζ_j = [z_j / w_j]`. Then the discrepancies
//!
//! `δ_b = y_b - Σ_j H_bj [y_j / w_j] = z_b - Σ_j H_bj ζ_j`
//!
//! are multiples of `2^-32`, functions of `y` alone (left), which the program computes from the noise alone (right) in
//! exact integers: the data cancel identically, not approximately. So any function `G_t` of `δ`, floating point
//! included, is post-processing of `y`, and with whole multiples `⌊·⌉` of `2^-8` the release
//!
//! `⌊Σ_{j≤t} [y_j / w_j]⌉ + ⌊G_t(δ)⌉ = A x + ⌊Σ_{j≤t} ζ_j⌉ + ⌊G_t(δ)⌉`
//!
//! is one too (the sum `A x` of the first `t` steps is a whole number). The best `G_t` is the least-squares correction:
//! minimising `Σ_j w_j² e_j² + ‖δ - H e‖²` gives `e = D Hᵀ (I + H D Hᵀ)⁻¹ δ` with `D = diag(1/w_j²)`, and
//! `G_t = Σ_{j≤t} e_j`. The two roundings move a release by hardly more than `2^-8`, and only ties are not symmetric.

mod bumps;
mod bytes;
mod candidate;
mod release;
mod search;

use super::frame::solved_at_once;
use crate::mechanism::accounting::row_norms::RowNorms;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::{
    ColumnNorms, Cost, Criterion, Cursor, DensePair, LaplaceShift, LongSearch, Matrix, Mechanism, MechanismName,
    Objective, Optimum, RowLaw, SearchedMechanism, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, ErrorKind, Result};
use bumps::{BumpLayout, Solved};
use candidate::BumpCandidate;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A factorization for Laplace noise, found by a numerical search: a diagonal and overlapping bumps.
///
/// ```
/// use evertally::mechanism::{DensePure, Mechanism, Objective};
///
/// use std::ops::ControlFlow;
/// let found = DensePure::search(16, Objective::Mean, &mut |_, _| ControlFlow::Continue(()))?;
/// let s1 = found.column_norms().l1;
/// assert!(2.0 * s1 * s1 * found.mean_row_norm_squared() < 13.3); // ε² times the mean variance
/// # Ok::<(), evertally::Error>(())
/// ```
#[doc(alias = "matrix mechanism")]
#[doc(alias = "pure differential privacy")]
#[derive(Clone, Debug)]
pub struct DensePure {
    shape: Arc<DensePureShape>,
    row_norms: RowNorms,
    /// For every step, the number of equal terms whose fourth moment is at least that of its row of `L`.
    equal_terms: Arc<[u64]>,
}

/// The integer matrix, and the values that its least-squares `L` needs.
#[derive(Debug)]
struct DensePureShape {
    /// Which variance was minimised.
    objective: Objective,
    bumps: Vec<Bump>,
    /// `w_j`.
    diagonal: Vec<u32>,
    /// The same entries as floating-point numbers, all of them exact.
    solved: Solved,
}

/// A row of `R̃`: integer weights on consecutive steps, the first and the last not 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Bump {
    /// The first step, from 0.
    first: u16,
    weights: Vec<u16>,
}

/// Longest horizon.
const MAX_HORIZON: u64 = 512;
/// Maximum number of bumps: a search ends with fewer than 50.
const MAX_BUMPS: usize = 1 << 10;
/// The sum of every column of `R̃`.
const COLUMN_SUM: u32 = 1 << 16;
/// Least `w_j`: keeps the least-squares problem well conditioned, and fixed point short.
const MIN_DIAGONAL: u32 = 1 << 9;

impl DensePure {
    /// Searches for the best factorization over `horizon` steps (1 ..= 512), by the mean or the largest variance.
    ///
    /// Deterministic: the same on every machine. Takes one to two minutes at 512 steps, a second at 64. `progress`
    /// receives the best value so far (ε² times the mean or the largest variance) and the completed share of the work,
    /// 0 to 1; [`ControlFlow::Break`] cancels the search.
    ///
    /// # Errors
    /// If the horizon is out of range, or the search is cancelled.
    pub fn search(
        horizon: u64,
        objective: Objective,
        progress: &mut dyn FnMut(f64, f64) -> ControlFlow<()>,
    ) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "dense-pure")?;
        let ControlFlow::Continue(found) = search::search(horizon as usize, objective, progress) else {
            return Err(Error::new(ErrorKind::Cancelled, "the search was cancelled"));
        };
        Self::assemble(horizon, objective, integer_bumps(&found))
    }

    /// Which variance was minimised.
    pub fn objective(&self) -> Objective {
        self.shape.objective
    }

    /// Checks the bumps and computes all norms. `O(T (n² + entries))`.
    fn assemble(horizon: u64, objective: Objective, bumps: Vec<Bump>) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "dense-pure")?;
        if bumps.len() > MAX_BUMPS {
            return Err(Error::invalid(format!("`dense-pure` takes at most {MAX_BUMPS} bumps, got {}", bumps.len())));
        }
        let steps = horizon as usize;
        let mut diagonal = vec![COLUMN_SUM; steps];
        for bump in &bumps {
            let first = usize::from(bump.first);
            let ends = [bump.weights.first(), bump.weights.last()];
            let columns = diagonal.get_mut(first..first + bump.weights.len());
            let (Some(columns), true) = (columns, ends.iter().all(|end| end.is_some_and(|weight| *weight > 0))) else {
                return Err(Error::invalid(
                    "a bump of `dense-pure` is empty, padded with zeros, or beyond the horizon",
                ));
            };
            for (w, weight) in columns.iter_mut().zip(&bump.weights) {
                *w = w.checked_sub(u32::from(*weight)).filter(|w| *w >= MIN_DIAGONAL).ok_or_else(|| {
                    Error::invalid("the bumps of `dense-pure` leave too little weight to a step's own measurement")
                })?;
            }
        }
        let spans = bumps.iter().map(|b| usize::from(b.first)..usize::from(b.first) + b.weights.len()).collect();
        let mut entries: Vec<f64> = diagonal.iter().map(|w| f64::from(*w)).collect();
        bumps.iter().for_each(|bump| entries.extend(bump.weights.iter().map(|w| f64::from(*w))));
        let solved = Solved::new(&BumpLayout::new(steps, spans), entries);
        let row_norms = RowNorms::new(solved.row_norms());
        let equal_terms = (0..steps).map(|step| equal_terms(&solved, step)).collect();
        let shape = Arc::new(DensePureShape { objective, bumps, diagonal, solved });
        Ok(Self { shape, row_norms, equal_terms })
    }
}

/// The bumps of a candidate in units of `2^-16`, without zeros at their ends; the diagonal gets the remainder of each
/// column.
fn integer_bumps(found: &BumpCandidate) -> Vec<Bump> {
    let entries = found.entries();
    let of = |(bump, span): (usize, &std::ops::Range<usize>)| {
        let rounded = |weight: &f64| (weight * f64::from(COLUMN_SUM)).round() as u16;
        let weights: Vec<u16> = entries[found.layout.entries(bump)].iter().map(rounded).collect();
        let first = weights.iter().position(|w| *w > 0)?;
        let last = weights.iter().rposition(|w| *w > 0)?;
        Some(Bump { first: (span.start + first) as u16, weights: weights[first..=last].to_vec() })
    };
    found.layout.spans().iter().enumerate().filter_map(of).collect()
}

/// The largest `n` with `Σ L⁴ ≤ (Σ L²)² / n`: `n` equal terms of the same variance have no smaller fourth moment.
fn equal_terms(solved: &Solved, step: usize) -> u64 {
    let (bumps, diagonal) = solved.row(step);
    let squares = || bumps.iter().chain(&diagonal).map(|weight| weight * weight);
    let (second, fourth) = (squares().sum::<f64>(), squares().map(|square| square * square).sum::<f64>());
    (second * second / fourth * (1.0 - 1e-9)).floor().max(1.0) as u64
}

impl DensePureShape {
    fn horizon(&self) -> u64 {
        self.diagonal.len() as u64
    }

    /// The largest sum over a column of `term(weight, bump)`, for the diagonal `term(weight, None)`.
    fn largest_column(&self, term: impl Fn(u32, Option<usize>) -> u128) -> u128 {
        let mut sums: Vec<u128> = self.diagonal.iter().map(|w| term(*w, None)).collect();
        for (index, bump) in self.bumps.iter().enumerate() {
            for (sum, weight) in sums[usize::from(bump.first)..].iter_mut().zip(&bump.weights) {
                *sum += term(u32::from(*weight), Some(index));
            }
        }
        sums.into_iter().max().expect("at least one step")
    }
}

impl Bump {
    /// The most that events with this spread add to this row: the largest weights, as often as a step may be used.
    fn most(&self, spread: Spread) -> u128 {
        let mut weights = self.weights.clone();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        let (mut left, mut sum) = (spread.total, 0);
        for weight in weights {
            let here = left.min(spread.per_step);
            sum += u128::from(here) * u128::from(weight); // fits: 2^9 times 2^64 times 2^16
            left -= here;
        }
        sum
    }
}

impl Mechanism for DensePure {
    fn name(&self) -> MechanismName {
        MechanismName::DensePure(Optimum::found(self.shape.objective, self.digest()))
    }

    fn horizon(&self) -> u64 {
        self.shape.horizon()
    }

    /// Of the integer matrix: `s1 = 2^16`. Exact.
    fn column_norms(&self) -> ColumnNorms {
        // fits: a sum of squares is at most the square of the sum, 2^32
        let squares = self.shape.largest_column(|weight, _| u128::from(weight).pow(2));
        ColumnNorms { l1: f64::from(COLUMN_SUM), l2_squared: squares as f64 }
    }

    /// Events `u` move node `n` by at most `s_n`, the largest weights of its row as often as the limits allow, so
    /// `‖R̃ u‖² = Σ_n s_n(u) Σ_i r_ni u_i ≤ Σ_i u_i Σ_n r_ni s_n`; and never more than `total` columns together.
    fn spread_squared(&self, spread: Spread) -> u128 {
        let most: Vec<u128> = self.shape.bumps.iter().map(|bump| bump.most(spread)).collect();
        let alone = u128::from(spread.total.min(spread.per_step));
        // fits: s_n < 2^89 times weights of 2^16 together
        let apart = self.shape.largest_column(|weight, bump| {
            u128::from(weight) * bump.map_or_else(|| alone * u128::from(weight), |bump| most[bump])
        });
        let together = self.shape.largest_column(|weight, _| u128::from(weight).pow(2));
        apart.min(u128::from(spread.total) * together).saturating_mul(spread.total.into())
    }

    solved_at_once!();

    fn row_law(&self, step: u64) -> RowLaw {
        if self.shape.bumps.is_empty() && step == 1 {
            return RowLaw::Sum(vec![(1.0 / f64::from(self.shape.diagonal[0]), 1)]); // one measurement
        }
        RowLaw::Like { norm_squared: self.row_norm_squared(step), terms: self.equal_terms[step as usize - 1] }
    }

    /// `O(n² + entries)`: the diagonal has level 0, the bumps have level 1.
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let (bumps, diagonal) = self.shape.solved.row(step as usize - 1);
        for (level, weights) in [(0, diagonal), (1, bumps)] {
            weights.into_iter().zip(0..).for_each(|(weight, index)| visit(Node { level, index }, weight));
        }
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        if node.level == 0 {
            return (node.index + 1, node.index + 1);
        }
        let bump = &self.shape.bumps[node.index as usize];
        let first = u64::from(bump.first);
        (first + 1, first + bump.weights.len() as u64)
    }

    fn cost(&self) -> Cost {
        let steps = self.horizon() as f64;
        let draws = (steps + self.shape.bumps.len() as f64) / steps;
        Cost::from_draws(draws, 6 * self.horizon() + 4 * self.shape.bumps.len() as u64)
    }

    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        Ok(LaplaceShift::together(COLUMN_SUM.into()))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        pair.r = Matrix::zeros(pair.nodes.len(), self.shape.diagonal.len());
        for (row, node) in pair.nodes.iter().enumerate() {
            let index = node.index as usize;
            if node.level == 0 {
                pair.r.set(row, index, f64::from(self.shape.diagonal[index]));
            } else {
                let bump = &self.shape.bumps[index];
                let steps = usize::from(bump.first)..;
                bump.weights.iter().zip(steps).for_each(|(w, step)| pair.r.set(row, step, f64::from(*w)));
            }
        }
        pair
    }
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::DensePure(Optimum::parse(parameters)?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, optimum: Optimum) -> fmt::Result {
    write!(f, "{optimum}")
}

pub(in crate::mechanism) fn build(horizon: u64, criterion: &Criterion, optimum: Optimum) -> Result<Arc<dyn Mechanism>> {
    let objective = optimum.objective.unwrap_or(criterion.objective());
    let found = DensePure::search(horizon, objective, &mut |_, _| ControlFlow::Continue(()))?;
    match optimum.digest {
        Some(digest) if digest != found.digest() => Err(Error::invalid(format!(
            "`dense-pure` with digest {digest} was found by another version of this program; this one finds {}",
            found.name()
        ))),
        _ => Ok(Arc::new(found)),
    }
}

/// One to two minutes at the longest horizon.
pub(in crate::mechanism) const LONG_SEARCH: LongSearch = LongSearch {
    longest: MAX_HORIZON,
    objective: |name| match name {
        MechanismName::DensePure(optimum) => optimum.objective,
        _ => None,
    },
    run: |horizon, objective, progress| {
        let found = DensePure::search(horizon, objective, &mut |_, share| progress(share))?;
        let bytes = found.to_bytes();
        Ok(SearchedMechanism { mechanism: Arc::new(found), bytes })
    },
    read: |bytes| Ok(Arc::new(DensePure::from_bytes(bytes)?)),
};

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::DensePure(optimum) => MechanismName::DensePure(optimum.brief()),
        other => other,
    }
}

pub(in crate::mechanism) fn answers(asked: MechanismName, built: MechanismName, objective: Objective) -> bool {
    match (asked, built) {
        (MechanismName::DensePure(asked), MechanismName::DensePure(built)) => asked.matches_request(built, objective),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
