//! The parts of the `evertally` program.

pub mod audit;
pub mod commands;
pub mod failure;
pub mod input;
pub mod keyfile;
pub mod ledger;
pub mod output;
pub mod plot;
pub mod release;
pub mod steps;
