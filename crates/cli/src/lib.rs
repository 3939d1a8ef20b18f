//! The parts of the `evertally` program.

pub mod commands;
pub mod failure;
mod figure;
pub mod progress;
pub mod release;
mod searched;
pub mod sketch;
pub mod stream;
