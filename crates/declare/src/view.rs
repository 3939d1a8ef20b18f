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
    /// No value below those before.
    NonDecreasing,
}

impl View {
    /// All of them, in the order in which they are applied.
    pub const ALL: [Self; 3] = [Self::WholeNumber, Self::NonNegative, Self::NonDecreasing];

    /// Its word in flags and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::WholeNumber => "whole-number",
            Self::NonNegative => "non-negative",
            Self::NonDecreasing => "non-decreasing",
        }
    }

    /// What it does to values, for a report.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::WholeNumber => "rounded to the nearest whole number",
            Self::NonNegative => {
                "0 in the place of what is less (too large on average near 0, by 0.4 standard errors at most)"
            }
            Self::NonDecreasing => {
                "the value before where the released one is less (too large on average where little happens, by as much \
                 as the largest noise so far)"
            }
        }
    }
}
