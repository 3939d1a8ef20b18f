//! Correlated noise of groups, and its effect on totals and differences.

use crate::rows::seven_digits;
use evertally::plan::Correlation;
use evertally_declare::words::short;
use serde::{Deserialize, Serialize};

/// The remark on a plan that was to correlate the noise of groups, and does not.
pub const CORRELATION_GAINS_NOTHING: &str =
    "the noise of the groups is independent: correlated noise would not lower these errors";

/// Correlated noise of groups. Factors compare variances with those of independent noise of the same size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CorrelationFacts {
    /// The number of groups, which is fixed.
    pub groups: u64,
    /// Correlation coefficient of the noise of two groups in one step.
    pub coefficient: f64,
    /// The factor of the variance of the total over all groups.
    pub total_factor: f64,
    /// The factor of the variance of the difference of two groups.
    pub difference_factor: f64,
}

impl From<Correlation> for CorrelationFacts {
    fn from(correlation: Correlation) -> Self {
        Self {
            groups: correlation.groups(),
            coefficient: seven_digits(correlation.coefficient()),
            total_factor: seven_digits(correlation.total_factor()),
            difference_factor: seven_digits(correlation.difference_factor()),
        }
    }
}

impl CorrelationFacts {
    /// The effect on totals and differences.
    pub fn in_words(&self) -> String {
        let of = |factor: f64| short(factor.sqrt());
        format!(
            "correlated (coefficient {}): the standard error of the total over all {} groups is {} times that of \
             independent noise of this size, that of the difference of two groups {} times",
            short(self.coefficient),
            self.groups,
            of(self.total_factor),
            of(self.difference_factor)
        )
    }
}
