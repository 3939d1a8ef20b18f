//! Private sketches under continual observation, in which a query costs only the cells that it reads.
//!
//! A sketch is a linear map of a huge vector of counts, one for each possible item, into a table of cells. An event
//! adds to a few cells; the table is a vector of running sums, protected over all steps by one plan. Here its cells are
//! the running sums of a [`LazyVector`](crate::stream::LazyVector): noise exists only in those that are read, with
//! exactly the joint law it would have had if every cell had had noise at every step. A query reads one cell per row,
//! whatever the width of the table and however long the horizon (Pagh, Sejer 2026). [`baselines`] holds the earlier
//! methods.
//!
//! | type | answers | cells an event touches |
//! |---|---|---|
//! | [`CountSketch`] | counts of items, second moments, join sizes | one per row, with a sign |
//! | [`CountMin`] | counts of items, upper ends, the total | one per row, and the total |
//! | [`DyadicCounts`] | range counts, distribution, quantiles, heavy hitters of keys < 2^39, unhashed | one per level |
//! | [`DyadicSketch`] | range counts and heavy hitters of any 64-bit keys | one per level, or one per row and level |
//!
//! **Privacy.** A [`SketchPlan`] knows how many cells an event touches and whether its sign may flip, and requests
//! noise that covers that from its plan: for `c` cells and events of size at most `v` the table moves by at most `c·v`
//! in L1 norm and `c·v²` in squared L2 norm, before the factorization over time. That holds for every choice of hash
//! functions and of queries, also of queries that depend on earlier answers. Everything else in this module is computed
//! from released cells, so it costs no additional budget.
//!
//! **Accuracy** is lost in two places: by noise, whose standard error every [`Estimate`] states, and by collisions of
//! items in a cell, whose size depends on the second moment of the counts. An [`ErrorLaw`] covers both, computed from
//! released cells. Hash functions are keyed by the secret; answers reveal some of their collisions, so anyone who
//! chooses items by the answers can make the estimates of these items bad, but learns no more about the events than the
//! budget allows.

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
