//! The vector lane's kernels: keystreams, normal variables and sums of vectors, each once as plain Rust and once per
//! instruction set, with **the same bytes from all of them**.
//!
//! This crate alone may use `unsafe` (see [`Path`]); what it computes is held bit for bit against safe twins.
#![deny(unsafe_op_in_unsafe_fn)]

#[macro_use]
mod path;

pub mod transform;

pub use path::Path;
