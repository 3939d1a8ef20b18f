//! Neighbour replay: two data sets that differ in one unit, through a whole run, under the same key.
//!
//! With equal noise the difference of two releases is the exact difference of the running sums. So the guarantee of a
//! plan can be compared with the real output, to the last event, whatever happens between file and table:
//!
//! 1. **The protected values move by no more than the plan states.** The steps' sums differ by no more than the unit's
//!    spread (the bounds on events in total and per step, and on values), and the nodes of the mechanism by no more
//!    than the norms that the noise was calibrated to.
//! 2. **Other units stay the same.** Nothing differs where the unit has no events. If values are codes of persons, so
//!    that a sum shows whose events were kept, the kept events of all others are equal.
//! 3. **Everything else is equal**: the number and order of rows, every text except values and the ends of their
//!    intervals, every other file, every message; or a run ends in one of the [documented refusals](REFUSALS).
//!
//! A replay runs a [`Pipeline`]: [`InProcess`] does what every front end does, [`Program`] is the built program, and
//! [`faults`] has pipelines with one fault each, which [`check`] must find.

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
pub use rows::{Row, write_file};
pub use spends::{Spent, spends};
