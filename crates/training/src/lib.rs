//! Correlated Gaussian noise for vectors of many coordinates, for machine learning.
//!
//! A mechanism protects the running sums of a stream of vectors (gradients, model updates) with the same factorization
//! in every coordinate: the noise of step `t` is `σ (L z)_t`, or its increment `σ ((L z)_t - (L z)_{t-1})` for training
//! loops that add the noise to each step's sum. The noise variables `z(node, coordinate)` are a pure function of the
//! secret key, the stream's name, the plan, node and coordinate. So noise that can be drawn again need not be stored,
//! workers that own different coordinates need not communicate, and a run can continue after a crash with exactly the
//! same noise.
//!
//! A [`VectorPlan`] fixes the amount of noise and the guarantee; [`VectorNoise`] draws the noise.
//!
//! A step is a short program over vectors, made from mechanism and step, and run piece by piece so that each buffer is
//! touched once. The noise of square roots is a convolution of all innovations so far: it is computed for many steps at
//! once, by Fourier transforms, and a step's program begins with its row.
//!
//! **The same bytes** result on every processor, for any number of threads, any division of the coordinates among
//! workers, after any resumption, and whether partial sums are kept or computed again ([`Memory`]): all variants run
//! the same floating-point operations in the same order for every number.
//!
//! **What floating-point noise does not promise.** Values are rounded to 24 or 53 bits, and the sum of a gradient and
//! its noise is rounded again; the low bits of a sum of floating-point numbers can reveal something about the data that
//! exact noise would not. For counts of people use [`evertally::stream`], whose noise is exact.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod batches;
mod blocks;
mod buffer;
mod device_programs;
mod execute;
mod law;
mod lazy;
mod noise;
mod noise_memory;
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
pub use device_programs::{Code, Instruction, Programs};
pub use evertally_kernels::{Cipher, InstructionSet, Real};
pub use law::NoiseMatrix;
pub use lazy::RowNoise;
pub use noise::VectorNoise;
pub use optimizer::{IterateAverage, Optimizer, Rates};
pub use plan::{
    OmittedOption, SearchEffort, Series, Training, TrainingOption, TrainingOptions, VectorCandidate, VectorGuarantee,
    VectorPlan, VectorRequest, streams,
};
pub use sampling::{Sampling, SamplingScheme};
pub use sums::{check_squares, check_sum};
pub use tuning::{Memory, Tuning};
