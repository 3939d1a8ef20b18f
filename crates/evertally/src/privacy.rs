//! Privacy budgets as validated types, and the conversions between them.
//!
//! A budget is a guarantee for the **whole history** of releases. Three definitions are supported: pure ε-DP
//! ([`Epsilon`]), ρ-zCDP ([`Rho`]; Bun and Steinke 2016, arXiv 1605.02065) and (ε, δ)-DP. [`conversions`] turns one
//! into another, always rounding towards the weaker statement. [`loss`] has the tight (ε, δ) curves of discrete noise,
//! [`gaussian`] those of Gaussian noise, [`skellam`] the guarantees of Skellam noise, and
//! [`composition`] the joint cost of several plans; [`contribution`] bounds each person's share of the data.

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

pub use crossover::crossover_delta;
pub use sensitivity::Sensitivity;
pub use unit::{Neighbours, PersonBounds, Signs, Spread, Unit, Values};
pub use values::{Delta, Epsilon, Rho};

use crate::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The privacy budget, in the definition in which the user states it.
///
/// ```
/// use evertally::privacy::{Budget, Epsilon, Rho};
/// let pure = Budget::Pure(Epsilon::new(1.0)?);
/// let concentrated = Budget::Zcdp(Rho::new(0.5)?);
/// assert_eq!(pure.to_string(), "ε = 1");
/// assert_eq!(concentrated.to_string(), "ρ = 0.5 (zCDP)");
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawBudget", into = "RawBudget")]
pub enum Budget {
    /// ε-differential privacy.
    Pure(Epsilon),
    /// ρ-zero-concentrated differential privacy.
    Zcdp(Rho),
    /// (ε, δ)-differential privacy.
    Approximate(Epsilon, Delta),
}

impl Budget {
    /// The ρ that zCDP (Gaussian) noise may spend under this budget, or `None` under pure ε, which Gaussian noise
    /// cannot give.
    pub fn rho(&self) -> Option<Rho> {
        match *self {
            Self::Pure(_) => None,
            Self::Zcdp(rho) => Some(rho),
            Self::Approximate(epsilon, delta) => Some(conversions::rho_for(epsilon, delta)),
        }
    }

    /// The ε that pure (Laplace) noise may spend under this budget: ε itself, or `√(2ρ)`, since ε-DP implies
    /// `ε²/2`-zCDP.
    pub fn pure_epsilon(&self) -> Epsilon {
        match *self {
            Self::Pure(epsilon) | Self::Approximate(epsilon, _) => epsilon,
            Self::Zcdp(rho) => conversions::pure_epsilon_for(rho),
        }
    }

    /// The budget from the three usual numbers, as given by flags or a file.
    ///
    /// # Errors
    /// Unless exactly one of ε, (ε, δ) and ρ is given, each in range; `allow_weak` accepts values that give almost no
    /// protection.
    pub fn from_numbers(epsilon: Option<f64>, delta: Option<f64>, rho: Option<f64>, allow_weak: bool) -> Result<Self> {
        let epsilon_of = |e| if allow_weak { Epsilon::new_even_if_weak(e) } else { Epsilon::new(e) };
        let rho_of = |r| if allow_weak { Rho::new_even_if_weak(r) } else { Rho::new(r) };
        match (epsilon, delta, rho) {
            (Some(e), None, None) => Ok(Self::Pure(epsilon_of(e)?)),
            (Some(_), Some(d), None) if d > Delta::WEAK && d < 1.0 && !allow_weak => Err(Error::new(
                ErrorKind::WeakBudget,
                format!(
                    "delta = {d} protects next to nothing (the limit is {}): with that probability anything may come out; \
                 lower it, or allow a weak budget explicitly",
                    Delta::WEAK
                ),
            )),
            (Some(e), Some(d), None) => Ok(Self::Approximate(epsilon_of(e)?, Delta::new(d)?)),
            (None, None, Some(r)) => Ok(Self::Zcdp(rho_of(r)?)),
            (None, None, None) => Err(Error::invalid("a privacy budget is needed: epsilon, epsilon and delta, or rho")),
            (None, Some(_), None) => Err(Error::invalid("delta needs epsilon as well")),
            _ => Err(Error::invalid("give either epsilon (with or without delta) or rho, not both")),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pure(epsilon) => write!(f, "ε = {}", epsilon.get()),
            Self::Zcdp(rho) => write!(f, "ρ = {} (zCDP)", rho.get()),
            Self::Approximate(epsilon, delta) => write!(f, "ε = {}, δ = {:e}", epsilon.get(), delta.get()),
        }
    }
}

/// The form of a budget in files: the numbers present decide the definition.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBudget {
    epsilon: Option<f64>,
    delta: Option<f64>,
    rho: Option<f64>,
}

impl TryFrom<RawBudget> for Budget {
    type Error = Error;
    fn try_from(raw: RawBudget) -> Result<Self> {
        // A stored plan was accepted when it was made; weakness was confirmed then.
        Self::from_numbers(raw.epsilon, raw.delta, raw.rho, true)
    }
}

impl From<Budget> for RawBudget {
    fn from(budget: Budget) -> Self {
        let (epsilon, delta, rho) = match budget {
            Budget::Pure(e) => (Some(e.get()), None, None),
            Budget::Zcdp(r) => (None, None, Some(r.get())),
            Budget::Approximate(e, d) => (Some(e.get()), Some(d.get()), None),
        };
        Self { epsilon, delta, rho }
    }
}

#[cfg(test)]
mod tests;
