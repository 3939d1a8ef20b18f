//! Several measures of one stream under one budget: counts, sums, means, variances, distinct people, histograms and
//! quantiles, released together.
//!
//! ```text
//! wanted measures ──▶ parts: what must be summed, each a stream with a plan of its own and its share of the budget
//!                      count   Σ (x − c)   Σ (h − (x−c)²/h)   people   toggles   bins   blocks of ranks
//!                        └──────┴──────────────┴─────────────────┴────────┴────────┴─────────┘
//!                                          estimates with intervals: one row a measure
//! ```
//!
//! One name, one budget, one entry in the ledger: the digest of a [`Bundle`] is over the plans of all its parts, and the
//! digest of the steps over what all of them add up, so that a release is all of it or nothing.
//!
//! | part | what one event adds | what one unit can move | the plan |
//! |---|---|---|---|
//! | count | 1 | as every count | the unit as declared |
//! | sum | `e = x − c`, `c` the middle of the bounds, `h` half their width: `\|e\| ≤ h` | as every sum between `−h` and `h` | the unit as declared |
//! | squares | `q = κ (h − e²/h)`, between 0 and `κh` | **nothing further**: see [`parts`] | that of the sum |
//! | people | 1 for a person's first event in a group | 1 a group | one event a group |
//! | active | +1 and −1 as people become active and inactive | see [`activity`] | replaced events |
//! | bins | 1 in the bin of its value | as a count: one event is in one bin | the unit as declared |
//! | ranks | 1 in one block of each level | as so many counts | so many sums an event |
//!
//! Several workloads of one count or sum (`--workload sum --workload 'window(7d)'`) take the same way: each is a part, and
//! all are read from one release, or each has its share of the budget.
//!
//! What is computed from the parts' releases is post-processing, and costs nothing: see [`estimate`].

pub mod activity;
mod additions;
mod bundle;
pub mod estimate;
mod measure;
pub mod parts;
mod ranks;
mod readings;

pub use additions::KeptEvent;
pub use bundle::{BegunPart, Bundle, MEASURE, PlannedPart, WORKLOAD};
pub use measure::{Measure, Wanted};
