//! Differentially private **continual release**: running counts and sums of a sensitive event stream,
//! published step after step with one privacy guarantee for the whole history.
//!
//! Three things are kept apart:
//!
//! * a [`plan`] is public and is decided before the first datum: horizon, budget, neighbours, factorization, noise scale;
//! * [`noise`] is a pure function of a secret key and the name of a noise variable;
//! * a [`stream`] is plan + key + data so far, and yields the same releases whoever computes them, whenever.
#![forbid(unsafe_code)]

mod error;
pub mod mechanism;
pub mod noise;
pub mod number;
pub mod plan;
pub mod privacy;
pub mod sketch;
pub mod state;
pub mod stream;
pub mod vector;

pub use error::{Error, ErrorKind, Result};

/// The README's Rust example is compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The guide's examples, too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust.md")]
struct Guide;
