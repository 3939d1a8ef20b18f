//! Exact positive rationals: parameters of noise laws before they are rounded up.

use crate::noise::Ratio;
use crate::{Error, Result};
use num_bigint::BigUint;

/// Numerators and denominators up to this size are kept as they are.
const SHORT: u64 = 1 << 32;
/// Significant bits of a rounded parameter.
const BITS: i64 = 25;

/// A positive rational of any length, not reduced.
pub(super) struct Exact {
    numerator: BigUint,
    denominator: BigUint,
}

impl From<u128> for Exact {
    fn from(value: u128) -> Self {
        Self { numerator: value.into(), denominator: 1u32.into() }
    }
}

impl Exact {
    /// The shortest decimal number that names a positive double: what a person who typed it meant.
    pub(super) fn decimal(value: f64) -> Self {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').expect("{:e} writes an exponent");
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mantissa: BigUint = format!("{whole}{fraction}").parse().expect("decimal digits of a positive number");
        let exponent = exponent.parse::<i32>().expect("a small integer") - fraction.len() as i32;
        let power = BigUint::from(10u32).pow(exponent.unsigned_abs());
        let one = BigUint::from(1u32);
        let (numerator, denominator) = if exponent >= 0 { (mantissa * power, one) } else { (mantissa, power) };
        Self { numerator, denominator }
    }

    pub(super) fn times(&self, other: &Exact) -> Exact {
        Exact { numerator: &self.numerator * &other.numerator, denominator: &self.denominator * &other.denominator }
    }

    pub(super) fn plus(&self, other: &Exact) -> Exact {
        let (left, right) = (&self.numerator * &other.denominator, &other.numerator * &self.denominator);
        Exact { numerator: left + right, denominator: &self.denominator * &other.denominator }
    }

    pub(super) fn over(&self, other: &Exact) -> Exact {
        Exact { numerator: &self.numerator * &other.denominator, denominator: &self.denominator * &other.numerator }
    }

    pub(super) fn rounded_up(&self) -> Result<Ratio> {
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
            |_| Error::invalid("the noise this needs is too large to draw; raise the budget or coarsen the grid");
        let numerator = u128::try_from(numerator).map_err(too_large)?;
        if shift > 120 {
            return Err(Error::invalid("the noise this needs is too small for the grid; use a finer grid"));
        }
        Ratio::new(numerator, 1 << shift)
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
}
