//! The exponent of `banded-inverse`.

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// `α`, in parts of 10⁴: 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exponent(pub(in crate::mechanism) u16);

impl Exponent {
    const UNIT: f64 = 1e4;
    /// That of the square root.
    pub const HALF: Self = Self(5000);

    /// The nearest representable exponent.
    pub(in crate::mechanism) fn near(value: f64) -> Self {
        // Casts saturate.
        Self((value * Self::UNIT).round().clamp(1.0, Self::UNIT - 1.0) as u16)
    }

    /// As a number between 0 and 1.
    pub fn get(self) -> f64 {
        f64::from(self.0) / Self::UNIT
    }
}

impl FromStr for Exponent {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::invalid(format!(
                "the exponent of `banded-inverse` must be between 0 and 1 with at most four decimals, such as \
                 0.75; got `{text}`"
            ))
        };
        let value: f64 = text.parse().map_err(|_| refuse())?;
        let near = Self::near(value);
        if (near.get() - value).abs() <= 1e-9 { Ok(near) } else { Err(refuse()) }
    }
}

impl fmt::Display for Exponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}
