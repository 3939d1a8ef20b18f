//! The validated numbers of a privacy budget.

use crate::number::exact::Exact;
use crate::{Error, ErrorKind, Result};

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
            "{what} = {value} protects next to nothing (the limit is {limit}); lower it, or allow a weak budget explicitly"
        ),
    )
}
