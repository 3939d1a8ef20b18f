//! Choosing spacings and shares for Laplace noise: spacings by a rule, then a descent on the shares.

use super::{MAX_HORIZON, NestedHats};
use crate::Result;
use crate::mechanism::name::nested_levels::{NestedLevels, SHARE_UNITS};
use crate::mechanism::{Mechanism, Objective, check_horizon};

/// The logarithm of the factor between neighbouring spacings.
const FACTOR_BITS: u32 = 4;
/// The finest spacing has one of `FACTOR_BITS` logarithms from here on.
const MIN_FINEST_BITS: u32 = 3;
/// The horizon over the coarsest spacing, at least and at most.
const DIVISIONS: [u64; 2] = [2, 16];
/// Shares at the first and the last step, as multiples of that of the single steps: of the coarsest level, and of all
/// others.
const COARSEST: [f64; 2] = [1.7, 0.85];
const FINER: [f64; 2] = [0.8, 1.15];
/// Steps at which a search evaluates variances, and groups of neighbouring ones.
const SAMPLES: u64 = 144;
const GROUPS: usize = 24;
/// About the largest variance over the mean within a group.
const WORST_OF_GROUP: f64 = 1.2;
/// Degree of the power mean that stands for the largest variance.
const DEGREE: f64 = 32.0;
/// Maximum number of evaluations of a descent.
const EVALUATIONS: u32 = 240;

impl NestedHats {
    /// Spacings and shares with nearly the least largest or mean variance under Laplace noise, over `horizon` steps
    /// (up to 2^40): a deterministic search of a fraction of a second.
    ///
    /// # Errors
    /// If the horizon is out of range.
    pub fn best(horizon: u64, objective: Objective) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "nested-hats")?;
        let [least, most] = DIVISIONS;
        let fits = |exponent: &u32| (least << exponent) <= horizon && horizon <= (most << exponent);
        let starts = (MIN_FINEST_BITS..40).filter(fits).map(|coarsest| Self::start(horizon, coarsest));
        let starts = starts.collect::<Result<Vec<_>>>()?;
        // The mean says most about spacings; the largest variance depends on how well the shares fit them.
        let order =
            |objective: Objective| move |a: &Self, b: &Self| a.sampled(objective).total_cmp(&b.sampled(objective));
        let searched = starts.into_iter().min_by(order(Objective::Mean)).map(|start| start.descend(objective));
        let alone = Self::new(horizon, NestedLevels::NONE); // fails for long horizons
        let either = searched.into_iter().chain(alone).min_by(order(objective));
        Ok(either.expect("a horizon is short, or has room for a level"))
    }

    /// The rule's spacings and shares for a coarsest spacing of two to this power.
    fn start(horizon: u64, coarsest: u32) -> Result<Self> {
        let finest = (coarsest - MIN_FINEST_BITS) % FACTOR_BITS + MIN_FINEST_BITS;
        let spacings: Vec<u64> =
            (finest..=coarsest).step_by(FACTOR_BITS as usize).map(|exponent| 1u64 << exponent).collect();
        let shares = |side: usize| -> Vec<u16> {
            let of = |index: usize| if index + 1 == spacings.len() { COARSEST[side] } else { FINER[side] };
            let all = 1.0 + (0..spacings.len()).map(of).sum::<f64>(); // 1 for the single steps
            (0..spacings.len()).map(|index| (f64::from(SHARE_UNITS) * of(index) / all) as u16).collect()
        };
        Self::new(horizon, NestedLevels::new(&spacings, &shares(0), &shares(1))?)
    }

    /// ε² · variance over a few steps: the mean, or a smooth number near the largest: a power mean of the last step's
    /// variance, often the worst, and of the mean variances of groups of neighbouring steps, somewhat raised.
    fn sampled(&self, objective: Objective) -> f64 {
        let norms: Vec<f64> = self.samples().into_iter().map(|step| self.row_norm_squared(step)).collect();
        let mean = |norms: &[f64]| norms.iter().sum::<f64>() / norms.len() as f64;
        let smooth = || {
            let groups = norms.chunks(norms.len().div_ceil(GROUPS)).map(|group| WORST_OF_GROUP * mean(group));
            let mut values: Vec<f64> = groups.collect();
            values.push(self.row_norm_squared(self.shape.horizon));
            let max = values.iter().copied().fold(0.0, f64::max);
            let powers: Vec<f64> = values.iter().map(|value| libm::pow(value / max, DEGREE)).collect();
            max * libm::pow(mean(&powers), 1.0 / DEGREE)
        };
        let row = if objective.of(true, false) { smooth() } else { mean(&norms) };
        2.0 * self.shape.total as f64 * self.shape.total as f64 * row
    }

    /// Steps at which variances are evaluated, in order: all of a short horizon, or evenly spread ones.
    fn samples(&self) -> Vec<u64> {
        let horizon = self.shape.horizon;
        if horizon <= SAMPLES {
            return (1..=horizon).collect();
        }
        // Multiples of the golden ratio: no spacing is a multiple of their distances.
        let place = |index: u64| (index as f64 * 0.618_033_988_749_894_9).fract();
        let mut steps: Vec<u64> = (0..SAMPLES).map(|index| 1 + (place(index) * (horizon - 1) as f64) as u64).collect();
        steps.sort_unstable();
        steps
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
