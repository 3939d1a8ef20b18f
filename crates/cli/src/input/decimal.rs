//! Exact decimal numbers on a declared grid: the library's own, under the name the readers use.

pub use evertally::number::*;
