//! The two trivial factorizations: noise on every input, noise on every output.

pub(super) mod input;
pub(super) mod output;

pub use input::Input;
pub use output::Output;
