//! The kernels of vector noise: keystreams, normal variables and sums of vectors, each once as plain Rust and once per
//! instruction set, with **the same bytes from all of them**. Beyond noise, [`prefetch`] hides the latency of memory.
//!
//! Only this crate may use `unsafe` (see [`InstructionSet`]); tests compare its results bit for bit with safe twins.
//!
//! **Floating-point environment.** Rust assumes that the processor rounds to nearest; in another mode bytes differ.
//! Treating subnormal numbers as zero (which `torch.set_flush_denormal` sets for a thread and the threads that it
//! starts) changes nothing as long as no number comes near 10^-38 (`f32`) or 10^-308 (`f64`): normal variables are
//! never smaller than 2.9·10^-10, so weights from 10^-20 on are safe.
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(all(target_arch = "x86", not(target_feature = "sse2")))]
compile_error!(
    "without SSE2 floating-point operations are rounded twice, and the bytes of the noise would not be the same"
);

#[macro_use]
mod instruction_set;
mod fourier;
pub mod interleaved;
mod keystream;
mod normal;
mod normals;
mod ops;
mod prefetch;
pub mod quantile;
pub mod transform;
mod universal;

pub use instruction_set::InstructionSet;
pub use keystream::{BlockName, Cipher, FirstBlocks, Keystream, UnknownCipher};
pub use normal::{SINGLE_ROWS, normals_f32, normals_f64};
pub use normals::Normals;
pub use ops::{FloatSlice, Real};
pub use prefetch::prefetch;
pub use universal::UniversalHash;
