//! What to know before trusting people's data to a program that publishes private numbers. This module holds only text
//! and examples.
//!
//! 1. [`promises`]: what a plan promises, and what breaks it.
//! 2. [`units_and_budgets`]: who is protected, how strongly, and what several streams spend together.
//! 3. [`keys_and_streams`]: each key and stream name serve one data set.
//! 4. [`states_and_restarts`]: continuing tomorrow, after a crash, or on another machine.
//! 5. [`errors_and_panics`]: who must act on each class of error.
//! 6. [`testing`]: how to test a program whose results are random.

pub mod errors_and_panics;
pub mod keys_and_streams;
pub mod promises;
pub mod states_and_restarts;
pub mod testing;
pub mod units_and_budgets;
