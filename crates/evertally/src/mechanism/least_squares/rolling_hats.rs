//! Rolling hats: windows under Laplace noise, on an endless stream.
//!
//! Every step is measured alone, with weight `W`, and at a few scales sums with overlapping triangular weights are
//! measured, without end: level `l` has a hat on every multiple of its spacing `s_l`, with the entry
//! `slope · (s_l - d)` at the distance `d` from its knot. Each spacing is a multiple of the one before, so everything
//! repeats after the widest, the **period**. At every step the two hats of a level add up to `slope · s_l`: every
//! column of `R` has the L1 norm `s1 = W + Σ slope_l s_l` exactly. (The first step has the knot of a hat: the part of
//! the hat before it has no data.)
//!
//! **Estimate.** As for `hats`, but local: the steps of a period are estimated by least squares from the single steps
//! of five periods, two before and two after, and the hats that lie in them ([`local`]). A window's estimate is the sum
//! of those of its steps, and the noise of a step is the same for every window that it is in. With `H` these hats,
//! `D` = `1/W²`, `M = I + D H Hᵀ`, the estimates of steps with the indicator `a` have the weights `m = M⁻¹ H D a` on
//! the hats and `(a - Hᵀ m)/W` on the single steps: `L R` is the window for every choice of `m`, whatever is left out.
//! Measurements before step 1 have neither data nor noise; their absence can only lower the variance there.
//!
//! **Exact release**, as for `hats`: let `e_j` be `2^20 z_j / W` rounded. `2^20 x_j + e_j` is a function of the
//! protected sum of step `j`, and so is `d_b = 2^20 z_b - Σ_j H_bj e_j` of the protected sums, in which `x` cancels.
//! The release is the window's sum of `x` plus that of `e_j` and of a function of `d`, rounded: a function of protected
//! sums for *any* such function. Its rounding costs accuracy and no privacy; with the four basic operations only, it is
//! the same on every machine.
//!
//! **Memory** does not grow with time: the window, five periods, and the working memory of the solver. Any step is
//! reached with the draws of a window.

mod cursor;
mod local;
mod row;
mod search;
mod shape;

use crate::mechanism::RollingLevels;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::name::rolling_levels;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::{
    ColumnNorms, Cost, Criterion, Cursor, DensePair, LaplaceShift, MAX_HORIZON, Matrix, Mechanism, MechanismName,
    RowLaw, SearchWatch, Workload, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use cursor::{RollingCursor, hat_node, step_node};
use local::{AROUND, Local, MeasurementWeights, REACH};
use row::EstimateWeights;
use shape::RollingHatShape;
use std::fmt;
use std::sync::Arc;

/// Single steps and endless levels of overlapping hats, for windows.
#[doc(alias = "sliding window")]
#[doc(alias = "hierarchical")]
#[derive(Clone, Debug)]
pub struct RollingHats {
    horizon: u64,
    width: u64,
    shape: Arc<RollingHatShape>,
    local: Arc<Local>,
    whole: Arc<MeasurementWeights>,
    /// Of the squared row norms.
    max: f64,
    mean: f64,
}

impl fmt::Debug for MeasurementWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weights({} + {})", self.singles.len(), self.hats.len())
    }
}

/// The widest window: some megabytes for every stream.
const MAX_WIDTH: u64 = 1 << 16;
/// Approximate number of weights computed for the largest and the mean variance; if there would be more, steps are
/// skipped.
const BUDGET: u64 = 1 << 24;

impl RollingHats {
    /// Windows of `width` steps (2 ..= 2^16) over `horizon` steps (1 ..= 2^62) with these levels. `O(w p)` for a period
    /// of `p` steps. For periods of more than a few thousand steps the largest and the mean variance are taken over a
    /// few hundred positions of a period (they differ by less than 1 %).
    ///
    /// # Errors
    /// If horizon or width is out of range, or the widest spacing exceeds the width.
    ///
    /// ```
    /// use evertally::mechanism::{Mechanism, RollingHats};
    /// let hats = RollingHats::new(1 << 40, 168, "spacing=37,share=439".parse()?)?;
    /// let s1 = hats.column_norms().l1;
    /// assert!(2.0 * s1 * s1 * hats.max_row_norm_squared() < 102.0); // noise on each step: 336
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(horizon: u64, width: u64, levels: RollingLevels) -> Result<Self> {
        Self::watched(horizon, width, levels, SearchWatch::NONE)
    }

    /// The same in a computation that a watch may cancel.
    fn watched(horizon: u64, width: u64, levels: RollingLevels, watch: SearchWatch<'_>) -> Result<Self> {
        Self::check(horizon, width)?;
        if levels.period() > width {
            return Err(Error::invalid(format!(
                "hats {} steps apart are too wide for windows of {width}",
                levels.period()
            )));
        }
        let shape = RollingHatShape::new(levels);
        let local = Local::new(&shape);
        let whole = Arc::new(local.weights(&shape, 0..shape.period()));
        let (shape, local) = (Arc::new(shape), Arc::new(local));
        let mut hats = Self { horizon, width, shape, local, whole, max: 0.0, mean: 0.0 };
        (hats.max, hats.mean) = hats.largest_and_mean(watch)?;
        Ok(hats)
    }

    fn check(horizon: u64, width: u64) -> Result<()> {
        check_horizon(horizon, MAX_HORIZON, "rolling-hats")?;
        if (2..=MAX_WIDTH).contains(&width) {
            return Ok(());
        }
        Err(Error::invalid(format!("`rolling-hats` is for windows of 2 to {MAX_WIDTH} steps, not {width}")))
    }

    /// The row of a step.
    fn row(&self, step: u64) -> EstimateWeights {
        EstimateWeights::new(&self.shape, &self.local, &self.whole, step.saturating_sub(self.width), step)
    }

    /// From the step `w + 2p` on, a window's variance depends on its position in a period.
    fn largest_and_mean(&self, watch: SearchWatch<'_>) -> Result<(f64, f64)> {
        let period = self.shape.period();
        let settled = self.width + REACH * period;
        let of = |steps: std::ops::Range<u64>, count: u64| {
            let length = steps.end - steps.start;
            let stride = (length / count.max(1)).max(1);
            let places = (steps.start..steps.end).step_by(stride as usize);
            let (mut max, mut sum, mut number) = (0.0f64, 0.0, 0.0);
            for step in places {
                watch.check()?;
                let variance = self.row_norm_squared(step);
                (max, sum, number) = (max.max(variance), sum + variance, number + 1.0);
            }
            Ok::<_, Error>((max, if number > 0.0 { length as f64 * sum / number } else { 0.0 }))
        };
        let count = BUDGET / (self.width + AROUND * period);
        let first = self.horizon.min(settled - 1);
        let (first_max, first_sum) = of(1..first + 1, count)?;
        let late = self.horizon - first;
        let (late_max, late_sum) = of(settled..settled + period.min(late), count)?;
        let (_, rest_sum) = of(settled..settled + late % period, count)?;
        let late_sum = (late / period) as f64 * late_sum + rest_sum;
        Ok((first_max.max(late_max), (first_sum + late_sum) / self.horizon as f64))
    }
}

impl Mechanism for RollingHats {
    fn name(&self) -> MechanismName {
        MechanismName::RollingHats(Some(self.shape.levels))
    }

    fn horizon(&self) -> u64 {
        self.horizon
    }

    fn workload(&self) -> Workload {
        Workload::Window(self.width)
    }

    /// `O(p l)`.
    fn column_norms(&self) -> ColumnNorms {
        let squares = self.shape.column_squares();
        let nearest = squares as f64;
        let l2_squared = if (nearest as u128) < squares { nearest.next_up() } else { nearest };
        ColumnNorms { l1: self.shape.total as f64, l2_squared }
    }

    /// `‖R u‖ ≤ Σ u_i ‖R_i‖`.
    fn spread_squared(&self, spread: Spread) -> u128 {
        let total = u128::from(spread.total);
        total.saturating_mul(total).saturating_mul(self.shape.column_squares())
    }

    /// `O(w + p l)`, as for every row.
    fn row_norm_squared(&self, step: u64) -> f64 {
        self.row(step).moments().0
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.max
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.mean
    }

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.row(step).visit(visit);
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        match (node.level as usize).checked_sub(1) {
            None => (node.index + 1, node.index + 1),
            Some(level) => {
                let spacing = self.shape.spacing(level);
                ((node.index * spacing + 2).saturating_sub(spacing).max(1), (node.index + 1) * spacing)
            }
        }
    }

    /// The largest entry: a hat's row of `R` is not constant.
    fn node_weight(&self, node: Node) -> f64 {
        (node.level as usize).checked_sub(1).map_or(self.shape.single, |level| self.shape.height(level)) as f64
    }

    fn fraction_bits(&self) -> u32 {
        FRACTION_BITS
    }

    fn row_law(&self, step: u64) -> RowLaw {
        let (norm_squared, fourth) = self.row(step).moments();
        RowLaw::Like { norm_squared, terms: (norm_squared * norm_squared / fourth).max(1.0) as u64 }
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(RollingCursor::new(self.shape.clone(), self.local.clone(), self.width))
    }

    fn cost(&self) -> Cost {
        let period = self.shape.period();
        let hats = self.local.hats().len() as f64 / period as f64;
        let solving = (AROUND * self.shape.level_count() as u64) as f64;
        Cost {
            draws_per_step: 1.0 + hats,
            work_per_step: 1.0 + 4.0 * solving,
            memory_words: 2 * (self.width + (AROUND + 1) * period) + self.local.words(),
        }
    }

    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        Ok(LaplaceShift::together(self.shape.total))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        pair.r = Matrix::zeros(pair.nodes.len(), self.horizon as usize);
        for position in 0..self.horizon {
            let hats = self.shape.over(position).map(|(level, number, entry)| (hat_node(level, number), entry));
            for (node, entry) in hats.chain([(step_node(position), self.shape.single)]) {
                let row = pair.nodes.binary_search(&node).expect("the row of its step has it");
                pair.r.set(row, position as usize, entry as f64);
            }
        }
        pair
    }
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::RollingHats(rolling_levels::parse(parameters)?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, levels: Option<RollingLevels>) -> fmt::Result {
    levels.map_or(Ok(()), |levels| write!(f, "({levels})"))
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    levels: Option<RollingLevels>,
) -> Result<Arc<dyn Mechanism>> {
    let Workload::Window(width) = criterion.workload() else {
        return Err(Error::invalid(format!(
            "`rolling-hats` publishes windows of 2 steps and more, not `{}`",
            criterion.workload()
        )));
    };
    Ok(Arc::new(match levels {
        Some(levels) => RollingHats::watched(horizon, width, levels, criterion.watch())?,
        None => RollingHats::searched(horizon, width, (criterion.objective(), criterion.watch()))?,
    }))
}

/// Itself for a window, if nothing else is read from the same release.
pub(in crate::mechanism) fn readings(criterion: &Criterion) -> Vec<MechanismName> {
    let is_window = criterion.mix().is_none() && matches!(criterion.workload(), Workload::Window(_));
    is_window.then_some(MechanismName::RollingHats(None)).into_iter().collect()
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::RollingHats(_) => MechanismName::RollingHats(None),
        other => other,
    }
}

#[cfg(test)]
mod tests;
