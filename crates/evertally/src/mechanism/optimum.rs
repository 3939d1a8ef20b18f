//! The optimal factorization under Gaussian noise: as a dense matrix, and as a filter with few states.

pub(super) mod dense;
pub(super) mod optimal;
mod poles;
mod weights;

pub use dense::{Certificate, Dense};
pub use optimal::Optimal;
