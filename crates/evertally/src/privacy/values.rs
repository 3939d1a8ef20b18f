//! What one event may contribute to its step.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The contribution of one event to its step, in multiples of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// Every event counts 1.
    Count,
    /// A number between declared bounds.
    Sum {
        /// Lower bound, in multiples of the grid.
        lower: i64,
        /// Upper bound, in multiples of the grid.
        upper: i64,
    },
}

impl Values {
    /// The bounds, in multiples of the grid.
    pub fn bounds(self) -> (i64, i64) {
        match self {
            Self::Count => (1, 1),
            Self::Sum { lower, upper } => (lower, upper),
        }
    }

    /// Whether events can have this sum, in multiples of the grid: whether its sign is that of a possible value.
    ///
    /// ```
    /// use evertally::privacy::Values;
    ///
    /// assert!(Values::Count.allows_sum(7) && !Values::Count.allows_sum(-1));
    /// assert!(Values::Sum { lower: -5, upper: 20 }.allows_sum(-1));
    /// ```
    pub fn allows_sum(self, sum: i64) -> bool {
        let (lower, upper) = self.bounds();
        (sum >= 0 || lower < 0) && (sum <= 0 || upper > 0)
    }

    pub(super) fn validate(self) -> Result<()> {
        let (lower, upper) = self.bounds();
        if lower > upper {
            return Err(Error::invalid(format!("the lower bound ({lower}) is above the upper bound ({upper})")));
        }
        if lower == 0 && upper == 0 {
            return Err(Error::invalid(
                "the step sensitivity is 0: with both bounds 0 there is nothing to protect and nothing to release",
            ));
        }
        Ok(())
    }
}
