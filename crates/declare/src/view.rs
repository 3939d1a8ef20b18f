//! Maps of released values, as they are declared.

use serde::{Deserialize, Serialize};

/// A map of released values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// The nearest whole number.
    WholeNumber,
    /// No value below 0.
    NonNegative,
    /// No value below the earlier ones.
    NonDecreasing,
}

impl View {
    /// All views, in the order in which they are applied.
    pub const ALL: [Self; 3] = [Self::WholeNumber, Self::NonNegative, Self::NonDecreasing];

    /// The name of the view in flags and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::WholeNumber => "whole-number",
            Self::NonNegative => "non-negative",
            Self::NonDecreasing => "non-decreasing",
        }
    }

    /// A description of the view, for a report.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::WholeNumber => "rounded to the nearest whole number",
            Self::NonNegative => {
                "values below 0 become 0 (too large on average near 0, by at most 0.4 standard errors)"
            }
            Self::NonDecreasing => {
                "values below the previous one become the previous one (too large on average where counts grow slowly, \
                 by as much as the largest noise so far)"
            }
        }
    }
}
