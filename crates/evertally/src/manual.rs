//! What one should know before a program that publishes private numbers is trusted with people. Nothing here but words
//! and examples.
//!
//! 1. [`promises`]: what a plan promises, and what breaks it.
//! 2. [`units_and_budgets`]: who is protected, how strongly, and what several streams spend together.
//! 3. [`keys_and_streams`]: one name, one data set.
//! 4. [`states_and_restarts`]: going on tomorrow, after a crash, on another machine.
//! 5. [`errors_and_panics`]: which class of error asks whom to do what.
//! 6. [`testing`]: how to test a program whose results are random.

pub mod errors_and_panics;
pub mod keys_and_streams;
pub mod promises;
pub mod states_and_restarts;
pub mod testing;
pub mod units_and_budgets;
