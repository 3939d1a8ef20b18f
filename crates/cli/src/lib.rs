//! The parts of the `evertally` program.

pub mod commands;
pub mod failure;
mod figure;
pub mod progress;
pub mod ranking;
pub mod release;
pub mod searched;
pub mod sketch;
pub mod stream;
