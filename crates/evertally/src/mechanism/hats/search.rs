//! Choosing spacings and shares for Laplace noise.
//!
//! Levels that grow by one factor from 1 to `T / c` with shares of nearly one size are close to the best; what remains is
//! found by a descent on the shares, as long as evaluating a horizon is cheap.

use super::levels::{HatLevels, MOST, WHOLE, check_spacings};
use super::{Hats, MAX_HORIZON};
use crate::Result;
use crate::mechanism::check_horizon;

/// Horizons over the coarsest spacing that are tried, with the shares of that level at the first and the last step, as
/// multiples of an equal division: two or three hats and half a spacing before the first.
const TOPS: [(f64, f64, f64); 2] = [(2.45, 1.18, 0.69), (3.4, 1.36, 0.75)];
/// The share of a finer level as a multiple of an equal division.
const FINER: f64 = 0.97;
/// Factors between neighbouring levels that are tried.
const RATIOS: std::ops::RangeInclusive<f64> = 6.0..=64.0;
/// Steps that all evaluations of a search together go through at most, apart from the starts.
const BUDGET: u64 = 1 << 22;

impl Hats {
    /// The best number of levels, spacings and shares by the largest or the mean variance under Laplace noise, over `horizon`
    /// steps (1 ..= 2^22). `O(T)`; a deterministic descent from a few starts, shorter for long horizons.
    ///
    /// # Errors
    /// If the horizon is out of range.
    pub fn best(horizon: u64, mean: bool) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "hats")?;
        let mut starts = vec![Self::new(horizon, &HatLevels::NONE)?];
        for top in TOPS {
            let coarsest = horizon as f64 / top.0;
            for count in (1..=MOST).filter(|count| RATIOS.contains(&libm::pow(coarsest, 1.0 / *count as f64))) {
                starts.extend(Self::start(horizon, &geometric(coarsest, count), top));
            }
            if coarsest < *RATIOS.start() {
                starts.extend(Self::start(horizon, &geometric(coarsest, 1), top));
            }
        }
        starts.sort_by(|a, b| a.laplace_figure(mean).total_cmp(&b.laplace_figure(mean)));
        starts.truncate(3);
        Ok(best_of(starts, mean))
    }

    /// The best shares for these spacings (at most 6, growing from 2 or more, none above the horizon).
    ///
    /// # Errors
    /// If the horizon or a spacing is out of range.
    pub fn with_spacings(horizon: u64, spacings: &[u32], mean: bool) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "hats")?;
        check_spacings(spacings)?;
        if spacings.is_empty() {
            return Self::new(horizon, &HatLevels::NONE);
        }
        let starts = TOPS.map(|top| Self::start(horizon, spacings, top)).into_iter().collect::<Result<Vec<_>>>()?;
        Ok(best_of(starts, mean))
    }

    /// The rule's shares for some spacings.
    fn start(horizon: u64, spacings: &[u32], top: (f64, f64, f64)) -> Result<Self> {
        let share = |level: usize, coarsest: f64| {
            let factor = if level + 1 == spacings.len() { coarsest } else { FINER };
            (f64::from(WHOLE) * factor / (level + 2) as f64).round() as u16
        };
        let shares = |coarsest: f64| (0..spacings.len()).map(|level| share(level, coarsest)).collect::<Vec<_>>();
        Self::new(horizon, &HatLevels::new(spacings, &shares(top.1), &shares(top.2))?)
    }

    /// ε²·variance.
    fn laplace_figure(&self, mean: bool) -> f64 {
        let row = if mean { self.row_norms.mean() } else { self.row_norms.max() };
        let s1 = self.shape.total as f64;
        2.0 * s1 * s1 * row
    }

    /// Coordinate descent with shrinking factors, with so many evaluations at most.
    fn descend(self, mean: bool, evaluations: u64) -> Self {
        let (horizon, places) = (self.shape.horizon, 2 * self.shape.levels.len());
        let mut best = self;
        let (mut step, mut left) = (1.2, evaluations);
        while step > 1.01 && places > 0 {
            let before = best.laplace_figure(mean);
            for place in (0..places).rev() {
                for factor in [step, 1.0 / step] {
                    if left == 0 {
                        return best;
                    }
                    left -= 1;
                    let tried = Self::new(horizon, &best.shape.levels.moved(place, factor));
                    if let Ok(better) =
                        tried.map_err(drop).and_then(|t| t.is_better(&best, mean).then_some(t).ok_or(()))
                    {
                        best = better;
                    }
                }
            }
            if best.laplace_figure(mean) >= before * (1.0 - 1e-4) {
                step = step.sqrt();
            }
        }
        best
    }

    fn is_better(&self, other: &Self, mean: bool) -> bool {
        self.laplace_figure(mean) < other.laplace_figure(mean)
    }
}

/// So many spacings that grow by one factor from 1 (excluded) to the coarsest.
fn geometric(coarsest: f64, count: usize) -> Vec<u32> {
    let spacing = |level: usize| libm::pow(coarsest, level as f64 / count as f64).round().max(2.0) as u32;
    (1..=count).map(spacing).collect()
}

/// The best of several, each after a descent.
fn best_of(starts: Vec<Hats>, mean: bool) -> Hats {
    let evaluations = BUDGET / starts[0].shape.horizon / starts.len() as u64;
    let figure = |hats: &Hats| hats.laplace_figure(mean);
    let best = starts.into_iter().map(|start| start.descend(mean, evaluations.min(400)));
    best.min_by(|a, b| figure(a).total_cmp(&figure(b))).expect("at least one start")
}
