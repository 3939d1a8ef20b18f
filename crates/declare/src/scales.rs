//! Groups whose values have separate bounds.
//!
//! Bounds and grid of a stream hold for a group of scale 1; those of another group are multiplied by its scale. Values
//! are counted in steps of the group's grid, so the bound on an event is the same number of steps in every group. One
//! plan, with one sensitivity in steps, serves all groups, and in units of the data the noise of each is proportional
//! to its bounds. All of this is exact: a scale is a decimal number, and so is its product with the grid.

use crate::parameter::Parameter::{Grid as GridOf, Scales as ScalesOf};
use crate::problem::{Problem, sentence};
use evertally::number::Grid;
use serde::{Deserialize, Serialize};

/// A summary of the scales of a stream's groups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scales {
    /// The smallest scale.
    pub least: f64,
    /// The largest scale.
    pub greatest: f64,
    /// Whether every group's values are whole numbers if the plan's are.
    #[serde(skip)]
    pub keep_integers: bool,
}

impl Default for Scales {
    fn default() -> Self {
        Self { least: 1.0, greatest: 1.0, keep_integers: true }
    }
}

impl Scales {
    /// The summary for groups with these scales, on this grid.
    pub(crate) fn new(scales: &[Grid], grid: Grid) -> Self {
        let sizes = || scales.iter().map(|scale| scale.to_f64(1));
        Self {
            least: sizes().fold(f64::INFINITY, f64::min),
            greatest: sizes().fold(0.0, f64::max),
            keep_integers: scales.iter().all(|scale| grid.times(*scale).is_some_and(Grid::is_integral)),
        }
    }

    /// Whether any scale differs from 1.
    pub fn are_declared(&self) -> bool {
        (self.least, self.greatest) != (1.0, 1.0)
    }
}

/// The grid of a group.
///
/// # Errors
/// If it has too many digits.
pub(crate) fn scaled(grid: Grid, scale: Grid) -> Result<Grid, Problem> {
    grid.times(scale).ok_or_else(|| {
        let problem = format!(": {scale} times the grid of {grid} has more than 18 digits");
        Problem::for_parameter(ScalesOf, sentence![ScalesOf, problem]).remedy(sentence![
            "give it, or ",
            GridOf,
            ", fewer digits"
        ])
    })
}
