//! The parts of the `evertally` program.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod commands;
pub mod failure;
mod figure;
pub mod progress;
pub mod release;
mod searched;
pub mod sketch;
pub mod stream;
