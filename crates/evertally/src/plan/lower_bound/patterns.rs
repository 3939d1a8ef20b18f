//! The bound by patterns of steps, for units that add events of one sign, or vectors, to several steps.
//!
//! Let `u` have entries 1, for vectors `±1`, in the steps of a pattern and 0 elsewhere. For vectors that are all equal
//! or opposite the sensitivity is that of `u`, so `uᵀXu ≤ s²` for `X = RᵀR`; and `Σ X_tt` over the pattern, the mean
//! over all signs, is at most `s²`, too. With weights that sum to 1 let `M` be the mean of these `uuᵀ` and diagonal
//! matrices: `tr(M X) ≤ s²`. For weights `P` of the steps, also with the sum 1, as in the [bound of a
//! unit](super::unit_lower_bound),
//!
//! ```text
//! ‖P^½ A F‖_*² ≤ ‖P^½ L‖_F² ‖R F‖_F² = (Σ p_t ‖L_t‖²) tr(M X) ≤ s² Σ p_t ‖L_t‖²,   M = F Fᵀ
//! ```
//!
//! (the dual of Choquette-Choo et al., arXiv 2306.08153). Any weights give a bound. At the best ones, the `X` for which
//! both inequalities hold with equality, `F⁻ᵀ (Fᵀ Aᵀ P A F)^½ F⁻¹`, weighs no pattern more than those with weight, so
//! weights are multiplied by powers of `uᵀXu`; and patterns that differ from a known one in one step or sign, and
//! weigh more, are added.

use super::nuclear::{SINGLE, cholesky, nuclear_norm};
use super::symmetric::{Spectrum, Symmetric};
use crate::Result;
use crate::mechanism::{Objective, Participation, SearchWatch};
use std::collections::BTreeSet;

/// Longest horizon: each round takes `O(T³)`.
pub(super) const MAX_STEPS: u64 = 64;
/// Rounds, and the exponent of the weights.
const ROUNDS: usize = 60;
const POWER: f64 = 2.0;
/// New patterns are added after this many rounds, from at most this many of those with the largest weights.
const ROUNDS_BETWEEN: usize = 3;
const IMPROVED: usize = 300;
/// Part by which a new pattern weighs more.
const MIN_GAIN: f64 = 1e-4;

/// The directions of a unit's changes in its steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Directions {
    One,
    Any,
}

/// The weights of the largest bound found.
pub(super) struct BestWeights {
    pub(super) bound: f64,
    /// `M`, row after row.
    pub(super) mean: Vec<f64>,
    /// `p`.
    pub(super) rows: Vec<f64>,
}

impl BestWeights {
    /// The best of [`ROUNDS`].
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the search.
    pub(super) fn find(
        steps: usize,
        unit: Participation,
        (objective, watch): (Objective, SearchWatch<'_>),
        directions: Directions,
    ) -> Result<Self> {
        let mut dual = Dual::new(steps, unit, objective, directions);
        let mut best = Self { bound: 0.0, mean: vec![], rows: vec![] };
        let mut nearby = None;
        for round in 1..=ROUNDS {
            watch.check()?;
            let mean = dual.mean();
            let solved = DualPoint::new(&dual, &mean, nearby.take());
            if solved.nuclear > best.bound {
                best = Self { bound: solved.nuclear, mean, rows: dual.rows.clone() };
            }
            dual.reweigh(&solved);
            if round % ROUNDS_BETWEEN == 0 {
                dual.add_heavier(&solved);
            }
            nearby = Some(solved.spectrum);
        }
        // The weights of single steps that were added to all others.
        let total = 1.0 + SINGLE * steps as f64;
        best.mean.iter_mut().for_each(|entry| *entry /= total);
        best.bound = nuclear_norm(best.mean.clone(), &best.rows);
        Ok(best)
    }
}

/// The steps of a pattern, in increasing order, with their signs.
type SignedPattern = Vec<(usize, bool)>;

/// Patterns and their weights.
struct Dual {
    steps: usize,
    separation: usize,
    objective: Objective,
    directions: Directions,
    patterns: Vec<SignedPattern>,
    known: BTreeSet<SignedPattern>,
    /// With these signs, and with independent ones.
    signed: Vec<f64>,
    independent: Vec<f64>,
    /// `p`.
    rows: Vec<f64>,
}

fn sign(is_positive: bool) -> f64 {
    if is_positive { 1.0 } else { -1.0 }
}

impl Dual {
    /// Rows of steps, the separation apart, with at most one longer distance.
    fn new(steps: usize, participation: Participation, objective: Objective, directions: Directions) -> Self {
        // fits: within the horizon
        let (most, separation) = (participation.within(steps as u64), participation.separation().min(steps as u64));
        let (most, separation) = (most as usize, separation as usize);
        let longer = std::iter::once(0).chain((0..6).map(|power| 1 << power));
        let starts = (0..steps).flat_map(|first| (1..=most).map(move |after| (first, after)));
        let row = |((first, after), extra): ((usize, usize), usize)| -> SignedPattern {
            let place = |number: usize| first + number * separation + if number >= after { extra } else { 0 };
            (0..most).map(place).take_while(|step| *step < steps).map(|step| (step, true)).collect()
        };
        let all = longer.flat_map(|extra| starts.clone().map(move |start| (start, extra)));
        let known: BTreeSet<SignedPattern> = all.map(row).collect();
        let patterns: Vec<SignedPattern> = known.iter().cloned().collect();
        let independent = if directions == Directions::Any { 0.5 } else { 0.0 };
        let count = patterns.len();
        Self {
            steps,
            separation,
            objective,
            directions,
            signed: vec![(1.0 - independent) / count as f64; count],
            independent: vec![independent / count as f64; count],
            patterns,
            known,
            rows: vec![1.0 / steps as f64; steps],
        }
    }

    /// `M`, row after row.
    fn mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.steps * self.steps];
        (0..self.steps).for_each(|t| mean[t * self.steps + t] = SINGLE);
        for ((pattern, signed), independent) in self.patterns.iter().zip(&self.signed).zip(&self.independent) {
            for (s, a) in pattern {
                mean[s * self.steps + s] += independent;
                pattern.iter().for_each(|(t, b)| mean[s * self.steps + t] += signed * sign(a == b));
            }
        }
        mean
    }

    /// New weights, of patterns and, if the maximum counts, of rows.
    fn reweigh(&mut self, solved: &DualPoint) {
        let raise = |weight: f64| libm::pow((weight / solved.nuclear).max(0.0), POWER);
        for (place, pattern) in self.patterns.iter().enumerate() {
            self.signed[place] *= raise(solved.weight(pattern));
            self.independent[place] *= raise(pattern.iter().map(|(t, _)| solved.x[t * self.steps + t]).sum());
        }
        self.normalise();
        if self.objective == Objective::Max {
            self.rows.iter_mut().zip(&solved.variances).for_each(|(row, variance)| *row *= variance);
            let total: f64 = self.rows.iter().sum();
            self.rows.iter_mut().for_each(|row| *row /= total);
        }
    }

    fn normalise(&mut self) {
        let total: f64 = self.signed.iter().chain(&self.independent).sum();
        self.signed.iter_mut().chain(&mut self.independent).for_each(|weight| *weight /= total);
    }

    /// Adds the heaviest neighbours of the patterns with the largest weights.
    fn add_heavier(&mut self, solved: &DualPoint) {
        let mut order: Vec<usize> = (0..self.patterns.len()).collect();
        order.sort_by(|a, b| self.signed[*b].total_cmp(&self.signed[*a]));
        for place in order.into_iter().take(IMPROVED) {
            let (weight, pattern) = self.heaviest_neighbour(&self.patterns[place], solved);
            if weight > solved.nuclear * (1.0 + MIN_GAIN) && self.known.insert(pattern.clone()) {
                let equal = 1.0 / self.patterns.len() as f64;
                self.patterns.push(pattern);
                self.signed.push(equal);
                self.independent.push(0.0);
            }
        }
        self.normalise();
    }

    /// The heaviest pattern that differs in one step, with its weight.
    fn heaviest_neighbour(&self, pattern: &SignedPattern, solved: &DualPoint) -> (f64, SignedPattern) {
        let mut best = (f64::NEG_INFINITY, pattern.clone());
        for place in 0..pattern.len() {
            let first = if place == 0 { 0 } else { pattern[place - 1].0 + self.separation };
            let end = pattern.get(place + 1).map_or(self.steps, |(next, _)| (next + 1).saturating_sub(self.separation));
            let mut others = pattern.clone();
            others.remove(place);
            let rest = solved.weight(&others);
            for step in first..end {
                let product = solved.product(step, &others);
                let is_positive = product >= 0.0 || self.directions == Directions::One;
                let weight = rest + 2.0 * sign(is_positive) * product + solved.x[step * self.steps + step];
                if weight > best.0 {
                    let mut moved = others.clone();
                    moved.insert(place, (step, is_positive));
                    best = (weight, moved);
                }
            }
        }
        // One of two opposite vectors.
        let flipped = best.1.first().is_some_and(|(_, is_positive)| !is_positive);
        best.1.iter_mut().for_each(|(_, is_positive)| *is_positive ^= flipped);
        best
    }
}

/// The factorization for which the weights are best.
struct DualPoint {
    steps: usize,
    /// The nuclear norm of `P^½ A F`, as far as it is known in floating point.
    nuclear: f64,
    /// `X`, row after row.
    x: Vec<f64>,
    /// `(A X⁻¹ Aᵀ)_tt`.
    variances: Vec<f64>,
    spectrum: Spectrum,
}

impl DualPoint {
    fn new(dual: &Dual, mean: &[f64], nearby: Option<Spectrum>) -> Self {
        let steps = dual.steps;
        let factor = cholesky(mean.to_vec(), steps);
        // The rows of `P^½ A F`, and of `A F`.
        let mut sums = factor.clone();
        (steps..sums.len()).for_each(|place| sums[place] += sums[place - steps]);
        let entry = |i: usize, j: usize| {
            (i.max(j)..steps).map(|t| dual.rows[t] * sums[t * steps + i] * sums[t * steps + j]).sum::<f64>()
        };
        let spectrum = Symmetric::new(steps, entry).diagonalised(nearby);
        let roots: Vec<f64> = spectrum.values.iter().map(|value| libm::sqrt(value.max(0.0))).collect();
        let (mut x, mut variances) = (vec![0.0; steps * steps], vec![0.0; steps]);
        for (k, root) in roots.iter().enumerate().filter(|(_, root)| **root > 0.0) {
            let vector = spectrum.vector(k);
            let column = solved_transposed(&factor, vector, steps);
            for (s, a) in column.iter().enumerate() {
                let row = &mut x[s * steps..(s + 1) * steps];
                row.iter_mut().zip(&column).for_each(|(x, b)| *x += root * a * b);
            }
            for (variance, row) in variances.iter_mut().zip(sums.chunks_exact(steps)) {
                let length: f64 = row.iter().zip(vector).map(|(a, b)| a * b).sum();
                *variance += length * length / root;
            }
        }
        Self { steps, nuclear: roots.iter().sum(), x, variances, spectrum }
    }

    /// `(Xu)_t`.
    fn product(&self, step: usize, pattern: &SignedPattern) -> f64 {
        pattern.iter().map(|(t, is_positive)| sign(*is_positive) * self.x[step * self.steps + t]).sum()
    }

    /// `uᵀXu`.
    fn weight(&self, pattern: &SignedPattern) -> f64 {
        pattern.iter().map(|(t, is_positive)| sign(*is_positive) * self.product(*t, pattern)).sum()
    }
}

/// `F⁻ᵀ v`.
fn solved_transposed(factor: &[f64], vector: &[f64], steps: usize) -> Vec<f64> {
    let mut solution = vector.to_vec();
    for t in (0..steps).rev() {
        solution[t] /= factor[t * steps + t];
        let own = solution[t];
        solution[..t].iter_mut().zip(&factor[t * steps..]).for_each(|(s, f)| *s -= f * own);
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{DenseRuns, Mechanism};

    fn unit(most: u64, separation: u64) -> Participation {
        Participation::new(most, separation).unwrap()
    }

    fn find(steps: usize, runs: Participation, objective: Objective, directions: Directions) -> BestWeights {
        BestWeights::find(steps, runs, (objective, SearchWatch::NONE), directions).unwrap()
    }

    /// All patterns of steps and signs, the first of which is positive.
    fn all(steps: usize, most: usize, separation: usize, directions: Directions) -> Vec<SignedPattern> {
        let (mut found, mut open) = (vec![], vec![vec![]]);
        while let Some(pattern) = open.pop() {
            let first = pattern.last().map_or(0, |(last, _): &(usize, bool)| last + separation);
            for step in if pattern.len() < most { first..steps } else { 0..0 } {
                for is_positive in [true, false] {
                    if is_positive || (directions == Directions::Any && !pattern.is_empty()) {
                        open.push(pattern.iter().copied().chain([(step, is_positive)]).collect());
                    }
                }
            }
            found.push(pattern);
        }
        found
    }

    /// No factorization is below the bound: optima, and matrices near them with entries of either sign, whose
    /// sensitivity is found over all patterns and signs.
    #[test]
    fn no_factorization_is_below_the_bound() {
        for (steps, most, separation) in [(8, 3, 2), (9, 2, 4), (7, 4, 1)] {
            let runs = unit(most, separation);
            for (objective, directions) in [
                (Objective::Mean, Directions::Any),
                (Objective::Max, Directions::Any),
                (Objective::Mean, Directions::One),
                (Objective::Max, Directions::One),
            ] {
                let bound = find(steps as usize, runs, objective, directions).bound.powi(2);
                let patterns = all(steps as usize, most as usize, separation as usize, directions);
                let optimum = DenseRuns::solve(steps, runs, objective).unwrap().dense().r;
                let mut least = f64::INFINITY;
                for trial in 0..200 {
                    let size = [0.0, 0.003, 0.02, 0.1][trial % 4];
                    let entry = |i: usize, j: usize| {
                        let wave = ((trial * 37 + i * 11 + j * 23) as f64 * 1.7).sin();
                        if j <= i { optimum.row(i)[j] + size * wave } else { 0.0 }
                    };
                    let c = nalgebra::DMatrix::from_fn(steps as usize, steps as usize, entry);
                    let Some(inverse) = c.clone().try_inverse() else { continue };
                    let sums =
                        nalgebra::DMatrix::from_fn(steps as usize, steps as usize, |i, j| f64::from(u8::from(j <= i)));
                    let rows: Vec<f64> = (sums * inverse).row_iter().map(|row| row.norm_squared()).collect();
                    let moved = |pattern: &SignedPattern| {
                        let sum = |i: usize| pattern.iter().map(|(t, s)| sign(*s) * c[(i, *t)]).sum::<f64>();
                        (0..steps as usize).map(|i| sum(i).powi(2)).sum::<f64>()
                    };
                    let squared = patterns.iter().map(moved).fold(0.0, f64::max);
                    let mean = rows.iter().sum::<f64>() / steps as f64;
                    let reached = squared * objective.of(rows.into_iter().fold(0.0, f64::max), mean);
                    assert!(reached >= bound, "{steps} {runs:?} {objective} {directions:?}: {reached} {bound}");
                    least = least.min(reached);
                }
                assert!(directions == Directions::One || least < 1.02 * bound, "{steps} {runs:?}: {least} {bound}");
            }
        }
    }

    /// By multiplicative weights over all patterns and signs, in NumPy: the bound, and what a factorization reaches.
    #[test]
    fn bounds_are_those_over_all_patterns() {
        for (horizon, runs, objective, directions, best, reached) in [
            (16, unit(4, 4), Objective::Mean, Directions::Any, 13.6703, 13.6743),
            (24, unit(3, 4), Objective::Max, Directions::Any, 15.8266, 15.8501),
            (20, unit(2, 9), Objective::Mean, Directions::Any, 6.4816, 6.4860),
            (16, unit(4, 4), Objective::Mean, Directions::One, 12.0033, 12.0063),
            (20, unit(2, 9), Objective::Mean, Directions::One, 6.1978, 6.1979),
        ] {
            let ours = find(horizon, runs, objective, directions).bound.powi(2);
            assert!(ours > 0.998 * best && ours < reached, "{horizon} {runs:?} {directions:?}: {ours} {best}");
        }
    }

    /// The certificate of the dense optimum: at most half a percent for a few events.
    #[test]
    fn dense_optima_are_close() {
        for (horizon, runs) in [(16, unit(4, 4)), (20, unit(2, 9)), (24, unit(2, 11)), (12, unit(3, 4))] {
            let optimum = DenseRuns::solve(horizon, runs, Objective::Mean).unwrap();
            let reached = optimum.participation_squared(runs) * optimum.mean_row_norm_squared();
            let bound = find(horizon as usize, runs, Objective::Mean, Directions::Any).bound.powi(2);
            assert!(reached > bound && reached < 1.005 * bound, "{horizon} {runs:?}: {reached} {bound}");
        }
    }
}
