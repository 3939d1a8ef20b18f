//! A privacy budget, and its validated numbers ε, δ and ρ.

use crate::number::exact::Exact;
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
                    "delta = {d} protects next to nothing (the limit is {}): with that probability anything may come \
                     out; lower it, or allow a weak budget explicitly",
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

/// The ε of pure or approximate differential privacy, positive and finite.
///
/// ```
/// use evertally::privacy::Epsilon;
/// assert_eq!(Epsilon::new(0.5)?.get(), 0.5);
/// assert!(Epsilon::new(0.0).is_err() && Epsilon::new(f64::NAN).is_err());
/// assert!(Epsilon::new(40.0).is_err()); // e^40: no protection at all
/// assert!(Epsilon::new_even_if_weak(40.0).is_ok());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Epsilon(f64);

/// The ρ of zero-concentrated differential privacy, positive and finite.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rho(f64);

/// The δ of approximate differential privacy, strictly between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Delta(f64);

impl Epsilon {
    /// A value converted from a valid budget; it may lie outside the range of stated budgets.
    pub fn derived(value: f64) -> Self {
        debug_assert!(value > 0.0 && value.is_finite());
        Self(value)
    }

    /// Above this ε a likelihood ratio of `e^20`, half a billion, is allowed: practically no protection.
    pub const WEAK: f64 = 20.0;

    /// A positive, finite ε of at most [`Epsilon::WEAK`].
    pub fn new(value: f64) -> Result<Self> {
        let epsilon = Self::new_even_if_weak(value)?;
        if value > Self::WEAK {
            return Err(too_weak("epsilon", value, Self::WEAK));
        }
        Ok(epsilon)
    }

    /// Any positive, finite ε: the explicit override for values above [`Epsilon::WEAK`].
    pub fn new_even_if_weak(value: f64) -> Result<Self> {
        in_range("epsilon", value, 1e-12).map(Self)
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Rho {
    /// A value converted from a valid budget; it may lie outside the range of stated budgets.
    pub fn derived(value: f64) -> Self {
        debug_assert!(value > 0.0 && value.is_finite());
        Self(value)
    }

    /// Above this ρ even δ = 10⁻⁶ only gives ε ≈ 30.
    pub const WEAK: f64 = 10.0;

    /// A positive, finite ρ of at most [`Rho::WEAK`].
    pub fn new(value: f64) -> Result<Self> {
        let rho = Self::new_even_if_weak(value)?;
        if value > Self::WEAK {
            return Err(too_weak("rho", value, Self::WEAK));
        }
        Ok(rho)
    }

    /// Any positive, finite ρ: the explicit override for values above [`Rho::WEAK`].
    pub fn new_even_if_weak(value: f64) -> Result<Self> {
        in_range("rho", value, 1e-30).map(Self)
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Delta {
    /// The sum with another as the decimal numbers that they print as, rounded up.
    ///
    /// ```
    /// use evertally::privacy::Delta;
    /// assert_eq!(Delta::new(1e-6)?.plus(Delta::new(1e-7)?), 1.1e-6);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn plus(self, other: Self) -> f64 {
        Exact::decimal(self.0).plus(&Exact::decimal(other.0)).to_f64_up()
    }

    /// Above this δ one person in ten may be fully exposed.
    pub const WEAK: f64 = 0.1;

    /// A δ strictly between 0 and 1.
    pub fn new(value: f64) -> Result<Self> {
        if value > 0.0 && value < 1.0 {
            Ok(Self(value))
        } else {
            Err(Error::invalid(format!("delta must be strictly between 0 and 1, got {value}")))
        }
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// Numbers below `least` or above a million are typing errors, and would overflow a noise scale. ρ may be far
/// smaller than ε: (10⁻¹², 10⁻³⁰⁰)-DP needs ρ ≈ 4·10⁻²⁸.
fn in_range(what: &str, value: f64, least: f64) -> Result<f64> {
    if (least..=1e6).contains(&value) {
        Ok(value)
    } else if value.is_finite() && value > 0.0 {
        Err(Error::invalid(format!("{what} must lie between {least:e} and 1e6, got {value:e}")))
    } else {
        Err(Error::invalid(format!("{what} must be a positive finite number, got {value}")))
    }
}

fn too_weak(what: &str, value: f64, limit: f64) -> Error {
    Error::new(
        ErrorKind::WeakBudget,
        format!(
            "{what} = {value} protects next to nothing (the limit is {limit}); lower it, or allow a weak budget \
             explicitly"
        ),
    )
}
