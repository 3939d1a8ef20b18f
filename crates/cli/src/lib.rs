//! The parts of the `evertally` program.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod commands;
pub mod failure;
mod kebab;
mod lab;
pub mod progress;
mod searched;
pub mod stream;
