//! Choosing spacings and shares for Laplace noise: spacings by a rule, then a descent on the shares.

use super::{MAX_HORIZON, NestedHats};
use crate::mechanism::name::nested_levels::{NestedLevels, SHARE_UNITS};
use crate::mechanism::{Mechanism, Objective, check_horizon};
use crate::{Error, Result};

/// The logarithm of the factor between neighbouring spacings.
const FACTOR_BITS: u32 = 4;
/// The finest spacing has one of `FACTOR_BITS` logarithms from here on.
const MIN_FINEST_BITS: u32 = 3;
/// The horizon over the coarsest spacing, at least and at most.
const DIVISIONS: [u64; 2] = [2, 16];
/// Shares at the first and the last step, as multiples of an equal division: of the coarsest level, and of all others.
const COARSEST: [f64; 2] = [1.7, 0.85];
const FINER: [f64; 2] = [0.8, 1.15];
/// Steps at which a search evaluates variances.
const SAMPLES: u64 = 72;
/// Maximum number of evaluations of a descent.
const EVALUATIONS: u32 = 240;

impl NestedHats {
    /// Spacings and shares with nearly the least largest or mean variance under Laplace noise, over `horizon` steps
    /// (16 to 2^40): a deterministic search of a fraction of a second.
    ///
    /// # Errors
    /// If the horizon is out of range.
    pub fn best(horizon: u64, objective: Objective) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "nested-hats")?;
        let [least, most] = DIVISIONS;
        let fits = |exponent: &u32| (least << exponent) <= horizon && horizon <= (most << exponent);
        let starts = (MIN_FINEST_BITS..40).filter(fits).map(|coarsest| Self::start(horizon, coarsest));
        let starts = starts.collect::<Result<Vec<_>>>()?;
        let order = |a: &Self, b: &Self| a.sampled(objective).total_cmp(&b.sampled(objective));
        let start = starts.into_iter().min_by(order).ok_or_else(|| {
            Error::invalid(format!("`nested-hats` needs a horizon of 16 steps or more, not {horizon}"))
        })?;
        Ok(start.descend(objective))
    }

    /// The rule's spacings and shares for a coarsest spacing of two to this power.
    fn start(horizon: u64, coarsest: u32) -> Result<Self> {
        let finest = (coarsest - MIN_FINEST_BITS) % FACTOR_BITS + MIN_FINEST_BITS;
        let spacings: Vec<u64> =
            (finest..=coarsest).step_by(FACTOR_BITS as usize).map(|exponent| 1u64 << exponent).collect();
        let equal = f64::from(SHARE_UNITS) / (spacings.len() + 1) as f64;
        let shares = |side: usize| -> Vec<u16> {
            let of = |index: usize| if index + 1 == spacings.len() { COARSEST[side] } else { FINER[side] };
            (0..spacings.len()).map(|index| (equal * of(index)) as u16).collect()
        };
        Self::new(horizon, NestedLevels::new(&spacings, &shares(0), &shares(1))?)
    }

    /// ε² · variance over a few steps: the mean, or the power mean of degree 16, which is near the largest and smooth.
    fn sampled(&self, objective: Objective) -> f64 {
        let norms: Vec<f64> = self.samples(SAMPLES).into_iter().map(|step| self.row_norm_squared(step)).collect();
        let max = norms.iter().copied().fold(0.0, f64::max);
        let mean = |of: &dyn Fn(f64) -> f64| norms.iter().map(|norm| of(*norm)).sum::<f64>() / norms.len() as f64;
        let square = |x: f64| x * x;
        let smooth = || max * mean(&|norm| square(square(square(square(norm / max))))).sqrt().sqrt().sqrt().sqrt();
        let row = if objective.of(true, false) { smooth() } else { mean(&|norm| norm) };
        2.0 * self.shape.total as f64 * self.shape.total as f64 * row
    }

    /// Coordinate descent on the shares with shrinking factors.
    fn descend(self, objective: Objective) -> Self {
        let (mut least, mut found) = (self.sampled(objective), self);
        let (mut factor, mut left) = (1.3, EVALUATIONS);
        while factor > 1.03 {
            let before = least;
            for place in 0..2 * found.shape.level_count() {
                for by in [factor, 1.0 / factor] {
                    let Some(rest) = left.checked_sub(1) else { return found };
                    left = rest;
                    let moved = found.shape.levels.moved(place, by);
                    let Some(tried) = moved.and_then(|levels| Self::new(found.shape.horizon, levels).ok()) else {
                        continue; // out of range
                    };
                    let value = tried.sampled(objective);
                    if value < least {
                        (least, found) = (value, tried);
                    }
                }
            }
            if least >= before * (1.0 - 2e-3) {
                factor = f64::sqrt(factor);
            }
        }
        found
    }
}
