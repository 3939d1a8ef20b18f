//! Numbers: exact ratios, decimals on a grid, wide integers, exact convolutions, descent, special functions. One of
//! each.
//!
//! Everything that counts people is exact here: a value is a multiple of a declared [`Grid`], the parameter of a noise
//! law is a [`Ratio`], a budget is the decimal number that was typed. The floating-point functions are used for
//! planning and figures only. They have the same bits on every system: transcendental functions come from `libm`, and
//! powers from [`power`], because those of the standard library differ between systems (`clippy.toml` refuses them).

mod decimal;
pub(crate) mod descent;
pub(crate) mod exact;
pub mod fourier;
pub mod lanes;
mod power;
mod ratio;
pub mod special;
pub mod threads;
#[cfg(test)]
pub(crate) mod timed;
pub(crate) mod transform;
pub(crate) mod wide;

pub use decimal::{DecimalError, Grid, Rounding, is_multiple, parse_rounded, parse_scaled, scale_float, scale_integer};
pub use power::power;
pub use ratio::Ratio;
