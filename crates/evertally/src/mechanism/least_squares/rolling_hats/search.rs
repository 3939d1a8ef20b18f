//! Choosing spacings and shares for a window.
//!
//! Spacings that grow by one factor from 1 to a fifth of the window, with equal shares, are close to the best. A
//! descent on shares and factors finds the rest, as long as evaluating a window is cheap. Variances are evaluated at a
//! few positions of a period, so a search sees the largest one within 1 %.

use super::RollingHats;
use super::local::{AROUND, Local};
use super::row::EstimateWeights;
use super::shape::RollingHatShape;
use crate::mechanism::name::rolling_levels::{MAX_LEVELS, RollingLevels, SHARE_UNITS};
use crate::mechanism::{Objective, SearchWatch};
use crate::{Error, Result};

/// The widest spacing of a starting point, as a part of the window.
const STARTS: [f64; 5] = [0.12, 0.16, 0.22, 0.3, 0.42];
/// Factors between neighbouring spacings of starting points.
const FACTORS: std::ops::RangeInclusive<f64> = 4.0..=40.0;
/// Positions of a period that are evaluated.
const PLACES: u64 = 12;
/// Approximate number of steps that all evaluations of a search visit together.
const BUDGET: u64 = 1 << 23;
/// Evaluations of a descent.
const TURNS: std::ops::RangeInclusive<u64> = 12..=160;

/// Parameters that can be varied one by one.
#[derive(Clone, Debug)]
struct Trial {
    /// Factors between neighbouring spacings, the finest being the first.
    factors: Vec<u32>,
    shares: Vec<u16>,
}

impl Trial {
    fn levels(&self) -> Result<RollingLevels> {
        let spacings = self.factors.iter().scan(1u32, |spacing, factor| {
            *spacing = spacing.saturating_mul(*factor);
            Some(*spacing)
        });
        RollingLevels::new(&spacings.collect::<Vec<_>>(), &self.shares)
    }

    /// The same with one number multiplied, and moved by one at least.
    fn moved(&self, place: usize, factor: f64) -> Self {
        let by = |number: f64| {
            let moved = (number * factor).round();
            if moved == number { number + if factor > 1.0 { 1.0 } else { -1.0 } } else { moved }
        };
        let mut moved = self.clone();
        match place.checked_sub(self.shares.len()) {
            None => moved.shares[place] = by(self.shares[place].into()) as u16,
            Some(level) => moved.factors[level] = by(self.factors[level].into()) as u32,
        }
        moved
    }
}

/// Geometric spacings up to a part of the window, with equal shares.
fn starts(width: u64) -> Vec<Trial> {
    let mut starts: Vec<Trial> = vec![];
    for part in STARTS {
        let widest = (part * width as f64).clamp(2.0, 32768.0);
        for count in 1..=MAX_LEVELS {
            let factor = libm::pow(widest, 1.0 / count as f64);
            if count > 1 && !FACTORS.contains(&factor) {
                continue;
            }
            let mut spacing = 1.0;
            let factors = (0..count).map(|level| {
                let factor = libm::pow(widest / spacing, 1.0 / (count - level) as f64).round().max(2.0);
                spacing *= factor;
                factor as u32
            });
            let shares = vec![SHARE_UNITS / (count as u16 + 1); count];
            let start = Trial { factors: factors.collect(), shares };
            if start.levels().is_ok() && !starts.iter().any(|known| known.factors == start.factors) {
                starts.push(start);
            }
        }
    }
    starts
}

/// ε² · variance of windows at late steps, at a few positions of a period.
fn figure(width: u64, levels: RollingLevels, objective: Objective) -> f64 {
    let shape = RollingHatShape::new(levels);
    let local = Local::new(&shape);
    let period = shape.period();
    let whole = local.weights(&shape, 0..period);
    let places = PLACES.min(period);
    let variance = |place: u64| {
        let start = AROUND * period + place * period / places;
        EstimateWeights::new(&shape, &local, &whole, start, start + width).moments().0
    };
    let variances: Vec<f64> = (0..places).map(variance).collect();
    let row =
        objective.of(variances.iter().copied().fold(0.0, f64::max), variances.iter().sum::<f64>() / places as f64);
    2.0 * shape.total as f64 * shape.total as f64 * row
}

impl RollingHats {
    /// The spacings and shares with the least largest or mean variance of windows of `width` steps (2 ..= 2^16) under
    /// Laplace noise: a deterministic search of less than a second.
    ///
    /// # Errors
    /// If the horizon or the width is out of range.
    pub fn best(horizon: u64, width: u64, objective: Objective) -> Result<Self> {
        Self::searched(horizon, width, (objective, SearchWatch::NONE))
    }

    /// The same in a search that a watch may cancel.
    pub(super) fn searched(horizon: u64, width: u64, (objective, watch): (Objective, SearchWatch<'_>)) -> Result<Self> {
        Self::check(horizon, width)?;
        let fits = |levels: &RollingLevels| levels.period() <= width && !watch.is_cancelled();
        let fitting = |trial: &Trial| trial.levels().ok().filter(fits);
        let of = |trial: &Trial| fitting(trial).map(|levels| figure(width, levels, objective));
        let mut found: Vec<(f64, Trial)> = starts(width).into_iter().filter_map(|t| Some((of(&t)?, t))).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        watch.check()?;
        let (mut least, mut best) = found.into_iter().next().ok_or_else(|| Error::invalid("no hats fit the window"))?;
        let (mut step, mut left) = (1.3, (BUDGET / (PLACES * width)).clamp(*TURNS.start(), *TURNS.end()));
        while step > 1.02 && left > 0 {
            let before = least;
            for place in 0..2 * best.shares.len() {
                for factor in [step, 1.0 / step] {
                    let moved = best.moved(place, factor);
                    let Some(value) = (left > 0).then(|| of(&moved)).flatten() else { continue };
                    left -= 1;
                    if value < least {
                        (least, best) = (value, moved);
                    }
                }
            }
            if least >= before * (1.0 - 1e-3) {
                step = libm::sqrt(step);
            }
        }
        Self::watched(horizon, width, best.levels()?, watch)
    }
}
