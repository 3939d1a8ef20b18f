//! What two steps reveal together, by the covariance of all releases: for short horizons, and any mechanism.
//!
//! The squared sensitivity of vectors is `(A Δ)ᵀ C⁻¹ (A Δ)`, `C = L Lᵀ` ([`participation`](super::participation)): the
//! Gram matrix is `G = Aᵀ C⁻¹ A`, from the Cholesky factor of `C`. It is less than that of the nodes of a tree wherever
//! steps read nodes only together, such as blocks that reach beyond the horizon.
//!
//! If there are few patterns, all of them are tried. Otherwise [`chain`](super::chain) requires entries that do not
//! grow as `s` moves away from `t`. So an entry is replaced by the largest absolute value at that distance or beyond,
//! which changes nothing where they fall and are not negative.

use super::chain::{self, ColumnProducts};
use crate::mechanism::dense_twin::cholesky;
use crate::mechanism::{Matrix, Participation};

/// Longest horizon: `O(T³)`, some 10 ms.
const MAX_STEPS: u64 = 256;
/// Up to this many patterns are tried one by one.
const MAX_PATTERNS: f64 = 65536.0;
/// Covers the rounding of the factorization, whose condition is below 10⁵.
const MARGIN: f64 = 1e-8;

/// An upper bound of the squared sensitivity to a unit that takes part in several steps, from `L`; infinite beyond 256
/// steps.
pub(in crate::mechanism) fn squared(horizon: u64, participation: Participation, left: impl FnOnce() -> Matrix) -> f64 {
    if horizon > MAX_STEPS {
        return f64::INFINITY;
    }
    let Some(columns) = CovarianceColumns::new(&left()) else { return f64::INFINITY };
    let squared = match patterns(horizon, participation) {
        ..=MAX_PATTERNS => columns.largest(participation),
        _ => chain::of_steps(&columns, participation, u64::MAX, 0),
    };
    squared * (1.0 + MARGIN)
}

/// The number of patterns of a participation, `Σ_j C(T - (j-1)(b-1), j)`.
fn patterns(horizon: u64, participation: Participation) -> f64 {
    let of = |steps: u64| {
        let places = horizon - (steps - 1) * (participation.separation() - 1); // fits: the pattern fits the horizon
        (0..steps).map(|i| places.saturating_sub(i) as f64 / (i + 1) as f64).product::<f64>()
    };
    (1..=participation.within(horizon)).map(of).sum()
}

/// `|G_st|` for `s ≤ t`, those of one `t` in row `t`.
struct CovarianceColumns(Matrix);

impl CovarianceColumns {
    /// `None` if the covariance is singular.
    fn new(left: &Matrix) -> Option<Self> {
        let factor = cholesky(&left.times(&left.transpose()))?;
        let steps = factor.shape().0;
        // Column s of K⁻¹ A, in row s: it begins at step s.
        let mut right = Matrix::zeros(steps, steps);
        for s in 0..steps {
            for i in s..steps {
                let known: f64 = factor.row(i)[s..i].iter().zip(&right.row(s)[s..i]).map(|(k, y)| k * y).sum();
                right.set(s, i, (1.0 - known) / factor.row(i)[i]);
            }
        }
        let mut products = Matrix::zeros(steps, steps);
        for t in 0..steps {
            for s in 0..=t {
                let product: f64 = right.row(s)[t..].iter().zip(&right.row(t)[t..]).map(|(a, b)| a * b).sum();
                products.set(t, s, product.abs());
            }
        }
        Some(Self(products))
    }

    /// The largest sum over the pairs of a pattern.
    fn largest(&self, participation: Participation) -> f64 {
        // fits: the separation of a pattern of several steps is below the horizon
        let apart = usize::try_from(participation.separation()).unwrap_or(usize::MAX);
        self.extended(&mut Vec::new(), participation.within(self.steps() as u64), apart)
    }

    /// The largest that a pattern gains by up to this many later steps.
    fn extended(&self, pattern: &mut Vec<usize>, more: u64, apart: usize) -> f64 {
        let first = pattern.last().map_or(0, |last| last.saturating_add(apart));
        let mut largest = 0.0f64;
        for t in first..if more == 0 { first } else { self.steps() } {
            let row = self.0.row(t);
            let gained = row[t] + 2.0 * pattern.iter().map(|s| row[*s]).sum::<f64>();
            pattern.push(t);
            largest = largest.max(gained + self.extended(pattern, more - 1, apart));
            pattern.pop();
        }
        largest
    }
}

impl ColumnProducts for CovarianceColumns {
    fn steps(&self) -> usize {
        self.0.shape().0
    }

    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        for (t, into) in into.iter_mut().enumerate().skip(distance) {
            let last = if distance == 0 { t } else { 0 };
            *into = self.0.row(t)[last..=t - distance].iter().copied().fold(0.0, f64::max);
        }
    }

    /// Never called: these bounds go step by step.
    fn between(&self, _distance: usize, _earlier: (usize, usize), _later: (usize, usize)) -> f64 {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{DigitTree, HonakerOnline, Mechanism};
    use nalgebra::DMatrix;

    /// Every pattern of these steps.
    fn all_patterns(steps: usize, most: usize, separation: usize) -> Vec<Vec<usize>> {
        let mut all = vec![vec![]];
        let mut last = vec![vec![]];
        for _ in 0..most {
            let longer = |pattern: &Vec<usize>| {
                let first = pattern.last().map_or(0, |last: &usize| last + separation);
                (first..steps).map(|t| pattern.iter().copied().chain([t]).collect()).collect::<Vec<Vec<usize>>>()
            };
            last = last.iter().flat_map(longer).collect();
            all.extend(last.clone());
        }
        all
    }

    /// By another library's linear algebra, over all patterns and all signs of the vectors (one coordinate).
    fn by_force(mechanism: &dyn Mechanism, most: usize, separation: usize) -> f64 {
        let l = mechanism.dense().l;
        let (rows, columns) = l.shape();
        let l = DMatrix::from_fn(rows, columns, |i, j| l.row(i)[j]);
        let sums = DMatrix::from_fn(rows, rows, |t, i| f64::from(u8::from(t >= i)));
        let covariance = (&l * l.transpose()).cholesky().expect("releases are linearly independent");
        let gram = sums.transpose() * covariance.solve(&sums);
        let of_signs = |pattern: &Vec<usize>, signs: usize| {
            let sign = |i: usize| if signs >> i & 1 == 1 { -1.0 } else { 1.0 };
            let row = |i: usize| -> f64 {
                (0..pattern.len()).map(|j| sign(i) * sign(j) * gram[(pattern[i], pattern[j])]).sum()
            };
            (0..pattern.len()).map(row).sum::<f64>()
        };
        let of = |pattern: Vec<usize>| (0..1 << pattern.len()).map(|s| of_signs(&pattern, s)).fold(0.0, f64::max);
        all_patterns(rows, most, separation).into_iter().map(of).fold(0.0, f64::max)
    }

    /// Chains are never below the largest pattern, and the number of patterns is that of their list.
    #[test]
    fn chains_bound_all_patterns() {
        for (horizon, most, separation) in [(9u64, 3, 2), (16, 4, 4), (20, 2, 7), (14, 3, 1)] {
            let participation = Participation::new(most, separation).unwrap();
            let listed = all_patterns(horizon as usize, most as usize, separation as usize).len() - 1;
            assert_eq!(patterns(horizon, participation), listed as f64);
            let tree = DigitTree::subtractive(horizon, 3).unwrap();
            let columns = CovarianceColumns::new(&tree.dense().l).unwrap();
            let (all, chains) = (columns.largest(participation), chain::of_steps(&columns, participation, u64::MAX, 0));
            assert!(chains >= all * (1.0 - 1e-12) && chains < 1.3 * all, "{horizon} {most}: {chains} {all}");
        }
    }

    /// Never below the truth, and within 2 % of it, at horizons that fill the tree and others.
    #[test]
    fn trees_are_exact_at_every_short_horizon() {
        let mut reached = 0;
        for horizon in [2u64, 5, 8, 13, 14, 16, 20, 27] {
            let trees: Vec<Box<dyn Mechanism>> = vec![
                Box::new(DigitTree::subtractive(horizon, 3).unwrap()),
                Box::new(DigitTree::subtractive(horizon, 4).unwrap()),
                Box::new(DigitTree::subtractive(horizon, 7).unwrap()),
                Box::new(HonakerOnline::new(horizon).unwrap()),
            ];
            for (most, separation) in [(1, 1), (2, 1), (2, 5), (3, 2), (3, 7), (4, 4)] {
                let participation = Participation::new(most, separation).unwrap();
                for tree in &trees {
                    let truth = by_force(&**tree, most as usize, separation as usize);
                    let bound = tree.participation_squared(participation);
                    let place = format!("{} at {horizon}, {most} steps {separation} apart", tree.name());
                    assert!(bound >= truth * (1.0 - 1e-12) && bound <= 1.02 * truth, "{place}: {bound}, {truth}");
                    reached += 1;
                }
            }
        }
        assert_eq!(reached, 8 * 6 * 4);
        let sixteen = DigitTree::subtractive(16, 3).unwrap();
        let squared = sixteen.participation_squared(Participation::new(4, 4).unwrap());
        assert!((squared - 19.33).abs() < 0.01, "{squared}"); // by its nodes 31
    }
}
