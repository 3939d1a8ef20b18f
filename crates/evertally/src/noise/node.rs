//! The name of one noise variable within a stream.

/// Names one noise variable of a factorization: a row of `R`.
///
/// A mechanism gives every row of its `R` a distinct node; [`crate::noise`] maps each node to its own block of random
/// bits, so a variable has the same value no matter how often, or in which order, it is drawn.
///
/// ```
/// use evertally::noise::Node;
///
/// let leaf = Node { level: 0, index: 41 };
/// assert!(leaf < Node { level: 1, index: 0 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// Level of the tree (0 = leaves); mechanisms without levels use 0.
    pub level: u32,
    /// Position within the level.
    pub index: u64,
}
