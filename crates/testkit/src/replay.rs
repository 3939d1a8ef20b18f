//! Neighbour replay: two data sets that differ in one unit, through a whole run, under the same key.
//!
//! With equal noise the difference of two releases is the exact difference of the running sums. So the promise of a
//! plan can be held against what really comes out, to the last event, whatever happens between file and table:
//!
//! 1. **What is protected moves by no more than the plan says.** The steps' sums differ by no more than the unit's
//!    spread (so many events in all, so many in a step, values within their bounds), and the nodes of the mechanism by
//!    no more than the norms that the noise was calibrated to.
//! 2. **What others do stays the same.** Nothing differs where the unit has no events; and where values are codes of
//!    persons, so that a sum tells whose events were kept, those of all others are equal.
//! 3. **Everything else is equal**: how many rows there are and in which order, every text but values and the ends of
//!    their intervals, every other file, every message; or a run ends in one of the [documented
//!    refusals](REFUSALS).
//!
//! What is run is a [`Pipeline`]: [`InProcess`] is what every front does, [`Program`] the built program, and [`faults`] has pipelines with one fault
//! each, which [`check`] must find.

mod case;
mod check;
pub mod faults;
mod pipeline;
mod program;
mod rows;
mod spends;

pub use case::{Case, Codes, any_case, nth_case, nth_wide_case};
pub use check::{Fault, Findings, check};
pub use pipeline::{Declared, InProcess, Outcome, Pipeline, REFUSALS, Run, TableRow};
pub use program::Program;
pub use rows::{FileFormat, Row, write_file};
pub use spends::{Spent, spends};
