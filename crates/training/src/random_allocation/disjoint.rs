//! Bins with disjoint rows, such as those of independent noise: the law of the likelihood ratio itself.
//!
//! The Gram matrix is diagonal, so `M = (1/b) Σ Y_i` with **independent** lognormal `Y_i`: under `Q`, `ln Y_i` is
//! normal with mean `-g_i/2` and variance `g_i`. Both divergences are `E φ(M)` with `φ ≥ 0` convex: `(M - e^ε)₊` if the
//! example is removed, `(1 - e^ε M)₊` if it is added. Every step below replaces the law of `M` by a measure that gives
//! no such `φ` a smaller integral, so the result is an upper bound, whatever was chosen. Nothing is drawn at random.
//!
//! **Dilation.** `Y` between two multiples `a < a+h` of a step `h` is moved to one of the two at random, such that its
//! conditional mean stays: this makes `E φ` of a sum with independent summands no smaller (Jensen). The masses follow
//! from `p`, the probability of the cell, and its first moment `m`: `(m - a p)/h` moves up, the rest down. Both are
//! differences of normal distribution functions, because the first moment of `Y` has the law with the mean `+g/2`.
//! Their rounding has explicit bounds, which are added to both masses: more mass adds to either integral. The dilation
//! adds about `h²/6` to the variance of a `Y`, so the error is of second order in `h`.
//!
//! **Limit.** `Y` above a limit `C` is replaced by `C`. That lowers `M`, by `(1/b) Σ E (Y_i - C)₊` on average: for an
//! added example `E φ` grows, and for a removed one it shrinks by at most this mean, which is added. It is the δ of a
//! Gaussian mechanism, at `ε = ln C`.
//!
//! **Sum.** Since `(M - e^ε)₊ = Σ_i (Y_i/b) (1 - e^ε/M)₊`, the integral for a removed example is `E_P (1 - e^ε/M)₊`:
//! under `P`, one of the bins has the masses `y p` instead of `p`, which is exact for the dilated laws. So no mass has
//! a weight above 1 in either direction. The masses are convolved by Fourier transforms, tilted by `e^{λ y}` as in
//! [`poisson_subsampling`](crate::poisson_subsampling), whose header bounds the rounding errors. The convolution is
//! cyclic. Mass beyond the window, from 0 to its end, wraps around, which only adds; for a removed example it also
//! counts with weight 1, by Chernoff's bound.
//!
//! **Large ε.** Above ε = 3, the mean excess of one round is computed on a geometric grid instead, without transforms:
//! `disjoint/geometric.rs`.
//!
//! **Rounds.** The law of `M` under `Q`, with `M` as density, is a pair of measures. By the above it has hockey-stick
//! divergences at least as large as those of a round at any ε, in both directions, if the mean that `C` and the window
//! cut is added as mass with infinite loss for a removed example. So its products dominate those of the rounds (Zhu,
//! Dong and Wang 2022, arXiv 2106.08567), and the cells of Poisson subsampling compose them. Where the `Y` vary widely
//! and transforms would need very many points, the law of the sum is that of the geometric grid: masses under `P` are
//! those under `Q` times `M`, a mass at 0 is one of infinite loss for an added example, and losses are raised by a
//! bound of the relative errors of the points. Above ε = 4 rounding errors of transforms may be larger than δ, and that
//! grid is used unless it takes longer.
//!
//! **Tightness.** The step is such that δ grows by some hundredths of a percent, the noise by about a tenth of that.

mod dilated;
mod geometric;
mod grid;
mod kinds;
mod ratios;
mod round;
mod search;
mod sum;
#[cfg(test)]
mod tests;

use super::RandomAllocation;
use crate::poisson_subsampling::{Direction, Workspace, divergence};
pub(crate) use kinds::Coarseness;
use kinds::EqualBins;
use ratios::{MAX_EXPONENT, Ratios};
use round::RoundLaw;
pub(super) use search::{epsilon, noise};

/// Squared norms that differ by less count as the larger one.
const ALIKE_RATIO: f64 = 1.001;
/// The share of the wanted δ below which values are not distinguished: if no sum of losses exceeds ε, the best tilt is
/// infinite.
const ALIKE_SHARE: f64 = 1e-20;
/// Maximum number of different norms.
const MAX_KINDS: usize = 4;
/// The largest ε for which rounds are composed precisely.
const MAX_ROUNDS_EPSILON: f64 = 32.0;

/// An allocation to bins with disjoint rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DisjointBins {
    kinds: Vec<EqualBins>,
    rounds: u64,
}

impl DisjointBins {
    /// `None` if rows are shared, or norms are too varied.
    pub(super) fn of(allocation: &RandomAllocation) -> Option<Self> {
        let (bins, gram) = (allocation.bins, &allocation.gram);
        if (0..bins).any(|i| gram[i * bins..][..i].iter().any(|product| *product != 0.0)) {
            return None;
        }
        // A bin that moves next to nothing counts as one that moves a little.
        let least = allocation.largest() * 1e-12;
        let mut squares: Vec<(f64, u64)> = gram.iter().step_by(bins + 1).map(|square| (square.max(least), 1)).collect();
        squares.sort_by(|a, b| b.0.total_cmp(&a.0));
        let own = Self::of_kinds(&squares, allocation.rounds);
        (least > 0.0 && own.kinds.len() <= MAX_KINDS).then_some(own)
    }

    /// Squared norms, the largest first, and numbers of bins; alike ones are merged.
    pub(super) fn of_kinds(squares: &[(f64, u64)], rounds: u64) -> Self {
        let mut kinds: Vec<EqualBins> = vec![];
        for (square, count) in squares.iter().copied() {
            match kinds.last_mut() {
                Some(last) if last.square <= ALIKE_RATIO * square => last.count += count,
                _ => kinds.push(EqualBins { square, count }),
            }
        }
        Self { kinds, rounds }
    }

    /// Whether the rounding errors of rounds leave bounds at this ε as precise as stated.
    pub(super) fn is_exact_at(&self, epsilon: f64) -> bool {
        self.rounds == 1 || epsilon <= MAX_ROUNDS_EPSILON
    }

    /// A bound of δ at this noise and ε, which is precise if it is near `wanted`.
    pub(super) fn delta(&self, noise: f64, epsilon: f64, wanted: f64, coarseness: Coarseness) -> f64 {
        let ratios = Ratios::new(&self.kinds, self.rounds, noise, wanted);
        let Some(ratios) = ratios.filter(|own| epsilon + libm::log(own.bins) < MAX_EXPONENT) else { return 1.0 };
        let mut space = Workspace::default();
        if self.rounds == 1 {
            // Without a number, nothing is known. (`max` would drop it.)
            let known = |delta: f64| if delta.is_nan() { 1.0 } else { delta };
            let removed = known(ratios.removed(epsilon, wanted, coarseness, &mut space));
            if removed > wanted {
                return removed;
            }
            return removed.max(known(ratios.added(epsilon, wanted, coarseness, &mut space)));
        }
        let round = [RoundLaw::new(&ratios, self.rounds, (epsilon, wanted), coarseness, &mut space)];
        let least = ALIKE_SHARE * wanted;
        let removed = divergence(&round, Direction::Remove, epsilon, (least, wanted), &mut space);
        if removed > wanted {
            return removed;
        }
        removed.max(divergence(&round, Direction::Add, epsilon, (removed.max(least), wanted), &mut space))
    }
}
