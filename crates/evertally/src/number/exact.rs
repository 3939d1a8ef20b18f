//! Exact positive rationals: parameters of noise laws before they are rounded up.

use crate::number::Ratio;
use crate::{Error, Result};
use num_bigint::BigUint;
use std::cmp::Ordering;

/// Numerators and denominators up to this size are kept as they are.
const SHORT: u64 = 1 << 32;
/// Significant bits of a rounded parameter.
const BITS: i64 = 25;

/// A non-negative rational of any length, not reduced.
#[derive(Clone, Debug)]
pub(crate) struct Exact {
    numerator: BigUint,
    denominator: BigUint,
}

impl From<Ratio> for Exact {
    fn from(value: Ratio) -> Self {
        Self { numerator: value.numerator().into(), denominator: value.denominator().into() }
    }
}

impl From<u128> for Exact {
    fn from(value: u128) -> Self {
        Self { numerator: value.into(), denominator: 1u32.into() }
    }
}

impl Exact {
    pub(crate) fn zero() -> Self {
        Self::from(0)
    }

    /// The shortest decimal number that identifies a double, finite and not negative: the value that a person who typed
    /// it meant. Ten times ε = 0.1 is 1.
    pub(crate) fn decimal(value: f64) -> Self {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').expect("{:e} writes an exponent");
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mantissa: BigUint = format!("{whole}{fraction}").parse().expect("decimal digits");
        let exponent = exponent.parse::<i32>().expect("a small integer") - fraction.len() as i32;
        let power = BigUint::from(10u32).pow(exponent.unsigned_abs());
        let one = BigUint::from(1u32);
        let (numerator, denominator) = if exponent >= 0 { (mantissa * power, one) } else { (mantissa, power) };
        Self { numerator, denominator }
    }

    pub(crate) fn times(&self, other: &Exact) -> Exact {
        Exact { numerator: &self.numerator * &other.numerator, denominator: &self.denominator * &other.denominator }
    }

    pub(crate) fn plus(&self, other: &Exact) -> Exact {
        let (left, right) = (&self.numerator * &other.denominator, &other.numerator * &self.denominator);
        Exact { numerator: left + right, denominator: &self.denominator * &other.denominator }
    }

    /// The difference; 0 if it would be negative.
    pub(crate) fn less(&self, other: &Exact) -> Exact {
        let (left, right) = (&self.numerator * &other.denominator, &other.numerator * &self.denominator);
        let numerator = if left > right { left - right } else { BigUint::ZERO };
        Exact { numerator, denominator: &self.denominator * &other.denominator }
    }

    pub(crate) fn over(&self, other: &Exact) -> Exact {
        Exact { numerator: &self.numerator * &other.denominator, denominator: &self.denominator * &other.numerator }
    }

    /// `self²/2`, the ρ of a pure ε.
    pub(crate) fn half_square(&self) -> Self {
        let (numerator, denominator) = (&self.numerator * &self.numerator, &self.denominator * &self.denominator);
        Self { numerator, denominator: denominator * 2u32 }
    }

    /// The least double that is not below this value, read as a [decimal](Self::decimal) number; infinity beyond the
    /// doubles.
    pub(crate) fn to_f64_up(&self) -> f64 {
        if self.numerator == BigUint::ZERO {
            return 0.0;
        }
        // About 62 bits of the quotient are more than a double has; from there it is at most two steps.
        let shift = 62 + self.denominator.bits() as i64 - self.numerator.bits() as i64;
        let (up, down) = (shift.max(0) as u64, (-shift).max(0) as u64);
        let quotient = (&self.numerator << up) / (&self.denominator << down);
        let bits = u64::try_from(quotient).expect("fits: the quotient is below 2^63");
        let mut found = libm::scalbn(bits as f64, -shift.clamp(-5000, 5000) as i32);
        while found > 0.0 && Self::decimal(found.next_down().min(f64::MAX)) >= *self {
            found = found.next_down().min(f64::MAX);
        }
        while found.is_finite() && Self::decimal(found) < *self {
            found = found.next_up();
        }
        found
    }

    /// The largest double that is not above this value, read as a [decimal](Self::decimal) number.
    pub(crate) fn to_f64_down(&self) -> f64 {
        let up = self.to_f64_up().min(f64::MAX);
        if Self::decimal(up) <= *self { up } else { up.next_down().max(0.0) }
    }

    /// A ratio that is not below this value, and larger by less than one part in 2^24.
    ///
    /// # Errors
    /// If it is too large or too small for a noise law.
    pub(crate) fn rounded_up(&self) -> Result<Ratio> {
        let divisor = gcd(self.numerator.clone(), self.denominator.clone());
        let (n, d) = (&self.numerator / &divisor, &self.denominator / &divisor);
        if let (Ok(n), Ok(d)) = (u64::try_from(&n), u64::try_from(&d))
            && n.max(d) < SHORT
        {
            return Ratio::new(n.into(), d.into());
        }
        // n/d lies in (2^(e-1), 2^(e+1)); shift so that the rounded numerator has BITS or BITS+1 bits, or is whole.
        let e = n.bits() as i64 - d.bits() as i64;
        let shift = (BITS - e).max(0);
        let numerator: BigUint = ((&n << shift) + &d - 1u32) / &d;
        let too_large =
            |_| Error::invalid("the required noise is too large to draw; raise the budget or coarsen the grid");
        let numerator = u128::try_from(numerator).map_err(too_large)?;
        if shift > 120 {
            return Err(Error::invalid("the required noise is too small for the grid; use a finer grid"));
        }
        Ratio::new(numerator, 1 << shift)
    }
}

impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Exact {}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Exact {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.numerator * &other.denominator).cmp(&(&other.numerator * &self.denominator))
    }
}

fn gcd(mut a: BigUint, mut b: BigUint) -> BigUint {
    while b != BigUint::ZERO {
        (a, b) = (b.clone(), a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long rationals are rounded up, never down, and by less than one part in 2^24.
    #[test]
    fn rounding_only_adds() {
        for exponent in -20..20 {
            let rho = 0.123_456_789_123_456_78 * 10f64.powi(exponent);
            let exact = Exact::from(7).over(&Exact::decimal(rho).times(&Exact::from(2)));
            let rounded = exact.rounded_up().unwrap();
            let (n, d) = (BigUint::from(rounded.numerator()), BigUint::from(rounded.denominator()));
            assert!(&n * &exact.denominator >= &exact.numerator * &d, "rho {rho}: too little noise");
            assert!((rounded.to_f64() * 2.0 * rho / 7.0 - 1.0).abs() < 1.0 / f64::from(1 << 24), "rho {rho}");
        }
    }

    #[test]
    fn sums_are_exact() {
        let sum = Exact::decimal(0.1).plus(&Exact::decimal(0.2));
        assert_eq!(sum.rounded_up().unwrap(), Ratio::new(3, 10).unwrap());
    }

    /// The least double that is not below the value, by the definition.
    #[test]
    fn doubles_are_rounded_up() {
        assert_eq!(Exact::zero().to_f64_up(), 0.0);
        let tenths = (0..10).fold(Exact::zero(), |sum, _| sum.plus(&Exact::decimal(0.1)));
        assert_eq!(tenths.to_f64_up(), 1.0);
        for value in [f64::MIN_POSITIVE, 5e-324, 1e-300, 0.1, 0.3, 1.0, 123.456, 9e15, 1e300, f64::MAX] {
            let exact = Exact::decimal(value);
            assert_eq!(exact.to_f64_up(), value);
            let more = exact.plus(&Exact::decimal(value).over(&Exact::from(1 << 100)));
            assert_eq!(more.to_f64_up(), value.next_up(), "a little more than {value:e}");
        }
    }
}
