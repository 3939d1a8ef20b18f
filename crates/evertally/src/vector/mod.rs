//! Noise for vectors of many coordinates.

#[doc(hidden)]
pub mod blocks;
