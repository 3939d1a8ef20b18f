//! Privacy budgets as validated types, and the conversions between them.
//!
//! A budget is a guarantee for the **whole history** of releases. Three definitions are supported: pure ε-DP
//! ([`Epsilon`]), ρ-zCDP ([`Rho`]; Bun and Steinke 2016, arXiv 1605.02065) and (ε, δ)-DP. [`conversions`] turns one
//! into another, always rounding towards the weaker statement. [`loss`] has the tight (ε, δ) curves of discrete noise,
//! [`gaussian`] those of Gaussian noise, [`skellam`] the guarantees of Skellam noise, and
//! [`composition`] the joint cost of several plans; [`contribution`] bounds each person's share of the data.

mod budget;
pub mod composition;
pub mod contribution;
pub mod conversions;
mod crossover;
pub mod gaussian;
pub mod loss;
pub mod selection;
mod sensitivity;
pub mod skellam;
mod unit;
mod values;

pub use budget::{Budget, Delta, Epsilon, Rho};
pub use crossover::crossover_delta;
pub use sensitivity::Sensitivity;
pub use unit::{Neighbours, PersonBounds, RollingWindow, Signs, Spread, Substitutes, Unit};
pub use values::Values;

#[cfg(test)]
mod tests;
