//! Several measures of one stream under one budget: counts, sums, means, variances, distinct people, histograms and
//! quantiles, released together.
//!
//! ```text
//! wanted measures ──▶ parts: the sums they need, each a stream with its own plan and its share of the budget
//!                      count   Σ (x − c)   Σ (h − (x−c)²/h)   people   toggles   bins   blocks of ranks
//!                        └──────┴──────────────┴─────────────────┴────────┴────────┴─────────┘
//!                                          estimates with intervals: one row per measure
//! ```
//!
//! A bundle has one name, one budget and one entry in the ledger: the digest of a [`Bundle`] covers the plans of all
//! its parts, and the digest of the steps covers the sums of all parts, so a release contains all of it or nothing.
//!
//! | part | added by one event | changed by one unit | unit of the plan |
//! |---|---|---|---|
//! | count | 1 | as any count | the unit as declared |
//! | sum | `e = x − c`, with `\|e\| ≤ h` | as any sum between `−h` and `h` | the unit as declared |
//! | squares | `q = κ (h − e²/h)`, between 0 and `κh` | **nothing more**: see [`parts`] | that of the sum |
//! | people | 1 for a person's first event in a group | 1 per group | one event per group |
//! | active | +1 and −1 as people become active and inactive | see [`activity`] | replaced events |
//! | bins | 1 in the bin of its value | as a count: one event is in one bin | the unit as declared |
//! | ranks | 1 in one block of each level | as one count per level | one sum per level and event |
//!
//! Here `c` is the middle of the bounds, and `h` is half their width.
//!
//! Several workloads of one count or sum (`--workload sum --workload 'window(7d)'`) are handled alike: each is a part,
//! and all are read from one release, or each has its share of the budget.
//!
//! The measures are computed from the parts' releases by post-processing, which costs nothing: see [`estimate`].

pub mod activity;
mod additions;
mod bundle;
pub mod estimate;
mod measure;
pub mod parts;
mod planned;
mod ranks;
mod readings;

pub use additions::MeasuredEvent;
pub use bundle::{Bundle, MEASURE, WORKLOAD};
pub use measure::{Measure, Wanted};
pub use planned::{PlannedPart, RecordedPart};
