//! The likelihood ratios of the bins at a noise, and δ of one round; see the header of `disjoint.rs`.

use super::dilated::{CoarseRatios, dilated};
use super::geometric;
use super::grid::SumGrid;
use super::kinds::{Coarseness, EqualBins, UNIT};
use super::sum::BinSums;
use crate::poisson_subsampling::Workspace;
use evertally::privacy::{Delta, conversions};

/// Exponents stay below this.
pub(super) const MAX_EXPONENT: f64 = 300.0;
/// The largest ε for which transforms are precise, and take less time than sums term by term.
const MAX_TRANSFORMED_EPSILON: f64 = 3.0;
/// The share of δ that limits may cost.
const CUT: f64 = 1e-4;

/// The likelihood ratios `Y_i` at a noise.
pub(super) struct Ratios {
    pub(super) bins: f64,
    /// Squared norms over the variance of the noise, numbers of bins, and limits.
    pub(super) kinds: Vec<(EqualBins, f64)>,
    pub(super) sketch: CoarseRatios,
}

impl Ratios {
    /// `None` if numbers would overflow.
    pub(super) fn new(bins: &[EqualBins], rounds: u64, noise: f64, wanted: f64) -> Option<Self> {
        let cut = Delta::new((wanted * CUT / rounds as f64).clamp(1e-300, 0.5)).expect("between 0 and 1");
        let at_noise = |kind: &EqualBins| {
            let square = kind.square / (noise * noise) * (1.0 + 8.0 * UNIT);
            let log = conversions::epsilon_of_gaussian(square.sqrt(), cut);
            (square > 1e-24 && log.max(square) < MAX_EXPONENT)
                .then(|| (EqualBins { square, count: kind.count }, libm::exp(log)))
        };
        let kinds = bins.iter().map(at_noise).collect::<Option<Vec<_>>>()?;
        let sketch = CoarseRatios::new(&kinds);
        let bins = kinds.iter().map(|(kind, _)| kind.count as f64).sum();
        Some(Self { bins, kinds, sketch })
    }

    /// The largest value of a sum.
    fn highest(&self) -> f64 {
        self.kinds.iter().map(|(kind, limit)| kind.count as f64 * limit).sum()
    }

    /// A bound of `E (M - e^ε)₊`.
    pub(super) fn removed(&self, epsilon: f64, wanted: f64, coarseness: Coarseness, space: &mut Workspace) -> f64 {
        let threshold = self.bins * libm::exp(epsilon) * (1.0 - 8.0 * UNIT);
        if threshold >= self.highest() {
            // Only what the limits cut is left.
            let beyond = |(kind, limit): &(EqualBins, f64)| dilated(kind.square, &[0.0, *limit]).beyond;
            return self.kinds.iter().map(beyond).fold(f64::MIN_POSITIVE, f64::max);
        }
        if epsilon > MAX_TRANSFORMED_EPSILON {
            return geometric::removed(&self.kinds, threshold, coarseness);
        }
        let grid = SumGrid::above(&self.sketch, threshold, wanted, coarseness);
        let sums = BinSums::new(&self.kinds, grid);
        let above = sums.with(grid.lambda, space).iter().map(|(share, sum)| share * sum.above(threshold)).sum::<f64>();
        (above * (1.0 + 64.0 * UNIT) + sums.beyond() + sums.tail()).clamp(f64::MIN_POSITIVE, 1.0)
    }

    /// A bound of `E (1 - e^ε M)₊`.
    pub(super) fn added(&self, epsilon: f64, wanted: f64, coarseness: Coarseness, space: &mut Workspace) -> f64 {
        let threshold = self.bins * libm::exp(-epsilon) * (1.0 + 8.0 * UNIT);
        let (lambda, chernoff) = self.sketch.saddle_below(threshold);
        if chernoff <= wanted / 2.0 {
            return chernoff;
        }
        let grid = SumGrid::below(&self.sketch, lambda, threshold, wanted, coarseness);
        let sum = BinSums::new(&self.kinds, grid).without(grid.lambda, space);
        sum.below(threshold).clamp(f64::MIN_POSITIVE, chernoff.max(f64::MIN_POSITIVE))
    }
}
