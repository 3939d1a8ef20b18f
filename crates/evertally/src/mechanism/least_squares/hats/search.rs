//! Choosing spacings and shares for Laplace noise.
//!
//! Levels that grow by one factor from 1 to `T / c` with nearly equal shares are close to the best. A descent on shares
//! and spacings finds the rest, as long as evaluating a horizon is cheap.

use super::{Hats, MAX_HORIZON};
use crate::Result;
use crate::mechanism::name::hat_levels::{HatLevels, MAX_LEVELS, SHARE_UNITS, check_spacings};
use crate::mechanism::{Objective, SearchWatch, check_horizon};

/// A starting point: two or three hats of the coarsest level, plus the room before the first one.
struct Start {
    /// The horizon over the coarsest spacing.
    division: f64,
    /// Shares of the coarsest level at the first and the last step, as multiples of an equal division.
    coarsest: [f64; 2],
}

const STARTS: [Start; 2] =
    [Start { division: 2.45, coarsest: [1.18, 0.69] }, Start { division: 3.4, coarsest: [1.36, 0.75] }];
/// The share of a finer level as a multiple of an equal division.
const FINER: f64 = 0.97;
/// The approximate factor between neighbouring levels in starting points.
const RATIO: f64 = 14.0;
/// Up to this horizon, no hats at all may be best.
const MAX_HATLESS_HORIZON: u64 = 64;
/// Maximum number of steps that all evaluations of a search visit together, apart from the starts.
const BUDGET: u64 = 1 << 22;
/// Evaluations that a descent should have; if there are fewer, fewer descents are made.
const EVALUATIONS_PER_DESCENT: u64 = 300;
/// With fewer evaluations a descent would find nothing: the best starting point is used unchanged.
const MIN_EVALUATIONS: u64 = 16;

/// The objective.
#[derive(Clone, Copy)]
enum SearchObjective {
    Mean,
    Max,
    /// The power mean of degree 16: near the largest, and smooth.
    Smooth,
}

/// The parameters that a descent may change.
#[derive(Clone, Copy)]
enum Free {
    Shares,
    All,
}

impl Hats {
    /// The best number of levels, spacings and shares by the largest or the mean variance under Laplace noise, over
    /// `horizon` steps (1 ..= 2^22). `O(T)`; a deterministic descent from a few starts, shorter for long horizons.
    ///
    /// # Errors
    /// If the horizon is out of range.
    pub fn best(horizon: u64, objective: Objective) -> Result<Self> {
        Self::searched(horizon, (objective, SearchWatch::NONE))
    }

    /// The same in a search that a watch may cancel.
    pub(super) fn searched(horizon: u64, aim: (Objective, SearchWatch<'_>)) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "hats")?;
        let mut starts = Vec::new();
        if horizon <= MAX_HATLESS_HORIZON {
            starts.push(Self::new(horizon, &HatLevels::NONE)?);
        }
        for start in &STARTS {
            let coarsest = horizon as f64 / start.division;
            let levels = (libm::log(coarsest.max(2.0)) / libm::log(RATIO)).max(1.0) as usize;
            for count in [levels, levels + 1].into_iter().filter(|count| *count <= MAX_LEVELS) {
                starts.extend(start.hats(horizon, &geometric(coarsest, count)));
            }
        }
        best_of(starts, aim, Free::All)
    }

    /// The best shares for these spacings (at most 6, growing from 2 or more, none above the horizon).
    ///
    /// # Errors
    /// If the horizon or a spacing is out of range.
    pub fn with_spacings(horizon: u64, spacings: &[u32], objective: Objective) -> Result<Self> {
        Self::spaced(horizon, spacings, (objective, SearchWatch::NONE))
    }

    /// The same in a search that a watch may cancel.
    pub(super) fn spaced(horizon: u64, spacings: &[u32], aim: (Objective, SearchWatch<'_>)) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "hats")?;
        check_spacings(spacings)?;
        if spacings.is_empty() {
            return Self::new(horizon, &HatLevels::NONE);
        }
        let starts = STARTS.iter().map(|start| start.hats(horizon, spacings)).collect::<Result<Vec<_>>>()?;
        best_of(starts, aim, Free::Shares)
    }

    /// ε²·variance.
    fn laplace_variance(&self, figure: SearchObjective) -> f64 {
        let s1 = self.shape.total as f64;
        let row = match figure {
            SearchObjective::Mean => self.row_norms().mean(),
            SearchObjective::Max => self.row_norms().max(),
            SearchObjective::Smooth => {
                let square = |x: f64| x * x;
                let power = |step| square(square(square(square(self.row_norms().at(step) / self.row_norms().max()))));
                let mean = (1..=self.shape.horizon).map(power).sum::<f64>() / self.shape.horizon as f64;
                self.row_norms().max() * mean.sqrt().sqrt().sqrt().sqrt()
            }
        };
        2.0 * s1 * s1 * row
    }

    /// Coordinate descent with shrinking factors, with at most `evaluations` evaluations.
    fn descend(self, figure: SearchObjective, free: Free, evaluations: u64, watch: SearchWatch<'_>) -> Result<Self> {
        let horizon = self.shape.horizon;
        let places = self.shape.levels.len() * if matches!(free, Free::All) { 3 } else { 2 };
        let (mut best, mut least) = (self.shape.levels, self.laplace_variance(figure));
        let (mut step, mut left) = (1.2, evaluations);
        let mut found = self;
        while step > 1.01 && places > 0 {
            let before = least;
            for place in (0..places).rev() {
                for factor in [step, 1.0 / step] {
                    if left == 0 {
                        return Ok(found);
                    }
                    left -= 1;
                    watch.check()?;
                    let Ok(tried) = best.moved(place, factor).and_then(|levels| Self::new(horizon, &levels)) else {
                        continue; // out of range
                    };
                    let value = tried.laplace_variance(figure);
                    if value < least {
                        (best, least, found) = (tried.shape.levels, value, tried);
                    }
                }
            }
            if least >= before * (1.0 - 1e-4) {
                step = step.sqrt();
            }
        }
        Ok(found)
    }
}

impl Start {
    /// The rule's shares for some spacings.
    fn hats(&self, horizon: u64, spacings: &[u32]) -> Result<Hats> {
        let share = |level: usize, coarsest: f64| {
            let factor = if level + 1 == spacings.len() { coarsest } else { FINER };
            (f64::from(SHARE_UNITS) * factor / (level + 2) as f64).round() as u16
        };
        let [first, last] =
            self.coarsest.map(|coarsest| (0..spacings.len()).map(|level| share(level, coarsest)).collect::<Vec<_>>());
        Hats::new(horizon, &HatLevels::new(spacings, &first, &last)?)
    }
}

/// This many spacings that grow by one factor from 1 (excluded) to the coarsest.
fn geometric(coarsest: f64, count: usize) -> Vec<u32> {
    let spacing = |level: usize| libm::pow(coarsest, level as f64 / count as f64).round().max(2.0) as u32;
    (1..=count).map(spacing).collect()
}

/// The best of several starts after a descent; for long horizons, of the most promising ones only. The largest variance
/// is reached by way of the smooth objective.
fn best_of(starts: Vec<Hats>, (objective, watch): (Objective, SearchWatch<'_>), free: Free) -> Result<Hats> {
    let path: &[SearchObjective] =
        objective.of::<&[SearchObjective]>(&[SearchObjective::Smooth, SearchObjective::Max], &[SearchObjective::Mean]);
    let evaluations = BUDGET / (starts[0].shape.horizon * path.len() as u64);
    let kept = (evaluations / EVALUATIONS_PER_DESCENT).clamp(1, starts.len() as u64);
    let valued = |hats: Hats, figure: SearchObjective| {
        watch.check()?;
        Ok((hats.laplace_variance(figure), hats))
    };
    let turns =
        Some((evaluations / kept).min(EVALUATIONS_PER_DESCENT)).filter(|turns| *turns >= MIN_EVALUATIONS).unwrap_or(0);
    let last = path[path.len() - 1];
    let first = if turns > 0 { path[0] } else { last };
    let mut starts: Vec<(f64, Hats)> = starts.into_iter().map(|hats| valued(hats, first)).collect::<Result<_>>()?;
    starts.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    starts.truncate(kept as usize);
    let descend = |start: Hats| path.iter().try_fold(start, |hats, figure| hats.descend(*figure, free, turns, watch));
    let found = starts.into_iter().map(|(_, start)| valued(descend(start)?, last));
    let found: Vec<(f64, Hats)> = found.collect::<Result<_>>()?;
    let best = found.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(best.expect("at least one start").1)
}
