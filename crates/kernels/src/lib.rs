//! The vector lane's kernels: keystreams, normal variables and sums of vectors, each once as plain Rust and once per
//! instruction set, with **the same bytes from all of them**.
//!
//! This crate alone may use `unsafe` (see [`Path`]); what it computes is held bit for bit against safe twins.
#![deny(unsafe_op_in_unsafe_fn)]

#[macro_use]
mod path;
mod keystream;
mod normal;
mod normals;
mod ops;
pub mod quantile;
pub mod transform;

pub use keystream::{BlockName, Cipher, Keystream, UnknownCipher};
pub use normal::{normals_f32, normals_f64};
pub use normals::Normals;
pub use ops::Real;
pub use path::Path;
