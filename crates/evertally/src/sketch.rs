//! Private sketches under continual observation, in which a query costs no more than the cells it looks at.
//!
//! A sketch is a linear map of a huge vector of counts, one for every possible item, into a table of cells. An event
//! adds to a few cells; the table is a vector of running sums, protected over all steps by one plan. Here its cells are
//! the running sums of a [`LazyVector`](crate::stream::LazyVector): noise exists only in those that are read, with
//! exactly the joint law it would have had if every cell had had noise at every step. A query reads one cell a row,
//! whatever the width of the table and however long the horizon (Pagh, Sejer 2026). [`baselines`] holds what was done
//! before.
//!
//! | type | answers | cells an event touches |
//! |---|---|---|
//! | [`CountSketch`] | counts of items, second moments, join sizes | one a row, with a sign |
//! | [`CountMin`] | counts of items, upper ends, the total | one a row, and the total |
//! | [`DyadicCounts`] | range counts, distribution, quantiles, heavy hitters of keys below 2^39; no hashing | one a level |
//! | [`DyadicSketch`] | range counts and heavy hitters of any 64-bit keys | one a level or one a row and level |
//!
//! **Privacy.** A [`SketchPlan`] knows how many cells an event touches and whether its sign may flip, and asks its plan
//! for noise that covers that: for `c` cells and events of size at most `v` the table moves by at most `c·v` in L1 norm
//! and `c·v²` in squared L2 norm, before the factorization over time. That holds for every choice of hash functions and
//! of queries, also of queries that follow from earlier answers. Everything in this module that is not a cell is
//! computed from released cells, so it costs nothing more.
//!
//! **Accuracy** is lost in two places: by noise, whose standard error every [`Estimate`] states, and by collisions of
//! items in a cell, which the second moment of the counts decides; an [`ErrorLaw`] has both, read off released cells. Hash functions are keyed by the secret; answers
//! reveal some of their collisions, so whoever chooses items by the answers can make estimates of these items bad, but
//! learns nothing about the events that the budget does not allow.

pub mod baselines;
mod cells;
mod count_min;
mod count_sketch;
mod dyadic;
mod dyadic_sketch;
mod error_law;
mod errors;
mod estimate;
mod hashing;
mod median;
mod plan;
mod quantile;
mod queries;
mod roster;
mod shape;
mod tree;

pub use count_min::{CountMin, UpperEnd};
pub use count_sketch::CountSketch;
pub use dyadic::DyadicCounts;
pub use dyadic_sketch::DyadicSketch;
pub use error_law::{Choice, ChosenIntervals, ErrorLaw};
pub use estimate::{Estimate, HeavyHitter, Quantile};
pub use hashing::{Hashing, Item};
pub use plan::SketchPlan;
pub use roster::{Answers, Roster};
pub use shape::{Shape, Table};
pub use tree::KeyTree;

#[cfg(test)]
mod tests;
