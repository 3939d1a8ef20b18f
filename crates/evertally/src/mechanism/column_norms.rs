//! Column norms of `R`, which decide how much noise a budget needs.

/// The largest column norms of `R` over the columns (steps) `1 ..= T`: how far one unit of change in one step can
/// move the vector of node sums.
///
/// Only nodes that some step `≤ T` reads are counted: a node that nothing reads costs no privacy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnNorms {
    /// `s1`, the largest L1 norm of a column. Exact for 0/1 matrices below 2^53, never below the true value.
    pub l1: f64,
    /// `s2²`, the square of the largest L2 norm of a column. Exact for 0/1 matrices below 2^53, never below the
    /// true value.
    pub l2_squared: f64,
}
