//! The parts of the `evertally` program.

pub mod commands;
pub mod failure;
mod kebab;
mod lab;
pub mod progress;
mod searched;
pub mod stream;
