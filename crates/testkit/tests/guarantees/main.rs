//! Every printed number that states a guarantee, computed again: by exact fractions, or in floating point with room for
//! its rounding, from the declaration, the law of the noise and the matrices of the mechanism alone. The printed number
//! is never below the true one, and equals it if the truth is known to the last digit.
//!
//! The calculations here share no code with those of the library: conversions, compositions, tails, neighbours and
//! calendars are all written again here.

mod floors;
mod neighbours;
mod numbers;
mod plans;
mod reports;
mod totals;
