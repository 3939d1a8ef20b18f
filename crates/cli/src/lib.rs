//! The parts of the `evertally` program.

pub mod audit;
pub mod commands;
pub mod failure;
mod figure;
pub mod input;
pub mod keyfile;
pub mod ledger;
pub mod output;
pub mod publish;
pub mod ranking;
pub mod release;
pub mod searched;
pub mod sketch;
pub mod steps;
