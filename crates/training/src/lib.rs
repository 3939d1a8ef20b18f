//! Correlated Gaussian noise for vectors of many coordinates, for machine learning.
//!
//! A mechanism protects the running sums of a stream of vectors (gradients, model updates) with the same factorization
//! in every coordinate: the noise of step `t` is `σ (L z)_t`, or its increment `σ ((L z)_t - (L z)_{t-1})` for training
//! loops that add the noise to each step's sum. The noise variables `z(node, coordinate)` are a pure function of the
//! secret key, the stream's name, the plan, node and coordinate. So nothing about noise has to be stored that can be
//! drawn again, workers that own different coordinates need not talk to one another, and a run can go on after a crash
//! with the very same noise.
//!
//! A [`VectorPlan`] says how much noise there is and what it promises; [`VectorNoise`] draws it.
//!
//! A step is a short program over vectors, made from mechanism and step and run piece by piece so that buffers are
//! touched once. The noise of square roots is a convolution of all innovations so far: it is computed for many steps at
//! once, by Fourier transforms, and a step's program begins with its row.
//!
//! **The same bytes** come out on every processor, for any number of threads, any cutting of the coordinates among
//! workers, after any resumption, and whether partial sums are kept or computed again ([`Memory`]): all of them run the
//! same floating-point operations in the same order for every number.
//!
//! **What floating-point noise does not promise.** Values are rounded to 24 or 53 bits, and the sum of a gradient and
//! its noise is rounded again; the low bits of a sum of floating-point numbers can tell something about the data that
//! the law of the noise would not. Counts of people belong into [`evertally::stream`], whose noise is exact.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod batches;
mod blocks;
mod buffer;
mod elsewhere;
mod execute;
mod law;
mod lazy;
mod noise;
mod noise_search;
mod optimizer;
mod plan;
pub mod poisson_subsampling;
mod program;
pub mod random_allocation;
mod recurrence;
mod sampling;
mod schedule;
mod scheme;
mod sums;
mod tuning;

#[cfg(test)]
mod tests;

pub use batches::Batches;
pub use elsewhere::{Code, Instruction, Programs};
pub use evertally_kernels::{Cipher, InstructionSet, Real};
pub use law::NoiseMatrix;
pub use lazy::RowNoise;
pub use noise::VectorNoise;
pub use optimizer::{Optimizer, Rates};
pub use plan::{Order, Series, Training, VectorCandidate, VectorGuarantee, VectorPlan, VectorRequest, Way, streams};
pub use sampling::Sampling;
pub use sums::check_sum;
pub use tuning::{Memory, Tuning};
