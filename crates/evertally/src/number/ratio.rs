//! Exact positive rationals.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use num_bigint::BigUint;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// An exact positive rational, reduced, with numerator and denominator in 1 ..= 2¹²⁸ − 1.
///
/// The scales of the exact laws are ratios, so a plan states exactly which law it uses. Text form `n/d`, or `n` for a
/// whole number when reading.
///
/// ```
/// use evertally::number::Ratio;
///
/// let ratio = Ratio::new(14, 6)?;
/// assert_eq!((ratio.numerator(), ratio.denominator()), (7, 3));
/// assert_eq!(ratio.to_string(), "7/3");
/// assert_eq!("7/3".parse::<Ratio>()?, ratio);
/// assert!(Ratio::new(0, 1).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    /// `numerator / denominator`, reduced.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if either is 0.
    ///
    /// ```
    /// # use evertally::number::Ratio;
    /// assert_eq!(Ratio::new(50, 100)?, Ratio::new(1, 2)?);
    /// assert!(Ratio::new(1, 0).unwrap_err().is_invalid());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(numerator: u128, denominator: u128) -> Result<Self> {
        if numerator == 0 || denominator == 0 {
            return Err(Error::invalid(format!("a ratio must be positive, got {numerator}/{denominator}")));
        }
        let divisor = gcd(numerator, denominator);
        Ok(Self { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// The exact value of a floating-point number.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) unless `value` is positive and finite and its numerator and
    /// denominator fit: every number in 2⁻⁷⁵ ..= 2¹²⁷ does.
    ///
    /// ```
    /// # use evertally::number::Ratio;
    /// assert_eq!(Ratio::from_f64(0.75)?, Ratio::new(3, 4)?);
    /// assert!(Ratio::from_f64(f64::NAN).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn from_f64(value: f64) -> Result<Self> {
        let invalid = || Error::invalid(format!("{value:e} is not a positive number with an exact 128-bit ratio"));
        if !(value.is_finite() && value > 0.0) {
            return Err(invalid());
        }
        let bits = value.to_bits();
        // Sign is 0: the shifted exponent has 11 bits.
        let raw = (bits >> 52) as i32;
        if raw == 0 {
            return Err(invalid());
        }
        let mantissa = u128::from((bits & ((1 << 52) - 1)) | (1 << 52));
        let zeros = mantissa.trailing_zeros();
        let odd = mantissa >> zeros;
        // value = odd · 2^exponent; all quantities are below 2^12 in size.
        let exponent = raw - 1075 + zeros as i32;
        if exponent >= 0 {
            if exponent as u32 > odd.leading_zeros() {
                return Err(invalid());
            }
            Self::new(odd << exponent, 1)
        } else {
            let denominator = 1u128.checked_shl(exponent.unsigned_abs()).ok_or_else(invalid)?;
            Self::new(odd, denominator)
        }
    }

    /// The numerator of the reduced fraction.
    ///
    /// ```
    /// # use evertally::number::Ratio;
    /// assert_eq!(Ratio::new(6, 4)?.numerator(), 3);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn numerator(self) -> u128 {
        self.numerator
    }

    /// The denominator of the reduced fraction.
    ///
    /// ```
    /// # use evertally::number::Ratio;
    /// assert_eq!(Ratio::new(6, 4)?.denominator(), 2);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn denominator(self) -> u128 {
        self.denominator
    }

    /// The value in floating point, to 2 units in the last place.
    ///
    /// ```
    /// # use evertally::number::Ratio;
    /// assert_eq!(Ratio::new(3, 4)?.to_f64(), 0.75);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn to_f64(self) -> f64 {
        // Each conversion and the division round once, by half a unit each.
        self.numerator as f64 / self.denominator as f64
    }

    /// n, which is not 0, without computing a common divisor.
    #[inline]
    pub(crate) fn whole(n: u128) -> Self {
        debug_assert!(n != 0);
        Self { numerator: n, denominator: 1 }
    }

    pub(crate) fn big(self) -> (BigUint, BigUint) {
        (self.numerator.into(), self.denominator.into())
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    /// By exact value.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.numerator.checked_mul(other.denominator), other.numerator.checked_mul(self.denominator)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => {
                let ((a, b), (c, d)) = (self.big(), other.big());
                (a * d).cmp(&(c * b))
            }
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

impl FromStr for Ratio {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) unless the text is `n/d` or `n` in decimal digits, in range.
    fn from_str(text: &str) -> Result<Self> {
        let integer = |digits: &str| {
            // `parse` alone would accept a plus sign.
            let plain = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
            plain.then(|| digits.parse::<u128>().ok()).flatten()
        };
        let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
        match (integer(numerator), integer(denominator)) {
            (Some(numerator), Some(denominator)) => Self::new(numerator, denominator),
            _ => Err(Error::invalid(format!("a ratio is written n/d with whole numbers below 2^128, got {text:?}"))),
        }
    }
}

impl TryFrom<String> for Ratio {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Ratio> for String {
    fn from(ratio: Ratio) -> Self {
        ratio.to_string()
    }
}
