//! The optimal factorization under Gaussian noise: as a dense matrix, and as a filter with few states.

mod choice;
pub(super) mod dense;
pub(super) mod optimal;
mod poles;
mod weights;

pub use choice::{MatrixDigest, Optimum};
pub use dense::{Certificate, Dense};
pub use optimal::Optimal;
