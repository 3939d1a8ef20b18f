//! Toeplitz factorizations: a node depends on how long ago a step was, and releases are filters of the noise.

mod blt;
pub(in crate::mechanism) mod filter;
mod square_root;

pub(crate) use blt::MAX_BUFFERS;
pub use blt::{Blt, BufferChoice, Buffers, LazyBlt};
pub use square_root::SquareRoot;
