//! Exact sums of budgets.

use num_bigint::BigUint;
use std::cmp::Ordering;

/// The non-negative decimal number `mantissa · 10^exponent`. A double stands for the shortest decimal number that names
/// it, as everywhere in plans: ten times ε = 0.1 is 1.
#[derive(Clone, Debug)]
pub(super) struct Exact {
    mantissa: BigUint,
    exponent: i32,
}

impl Exact {
    pub(super) fn zero() -> Self {
        Self { mantissa: BigUint::ZERO, exponent: 0 }
    }

    /// The number a non-negative, finite double is written as.
    pub(super) fn of(value: f64) -> Self {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').expect("{:e} writes an exponent");
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mantissa = format!("{whole}{fraction}").parse().expect("decimal digits");
        Self { mantissa, exponent: exponent.parse::<i32>().expect("a small integer") - fraction.len() as i32 }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        Self { mantissa: self.scaled_to(exponent) + other.scaled_to(exponent), exponent }
    }

    /// `self²/2`, the ρ of a pure ε.
    pub(super) fn half_square(&self) -> Self {
        Self { mantissa: &self.mantissa * &self.mantissa * 5u32, exponent: 2 * self.exponent - 1 }
    }

    /// The least double that is no smaller, read as a decimal number.
    pub(super) fn to_f64_up(&self) -> f64 {
        let nearest: f64 = format!("{}e{}", self.mantissa, self.exponent).parse().expect("a number");
        if nearest.is_finite() && Self::of(nearest) < *self { nearest.next_up() } else { nearest }
    }

    fn scaled_to(&self, exponent: i32) -> BigUint {
        &self.mantissa * BigUint::from(10u32).pow((self.exponent - exponent) as u32)
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
        let exponent = self.exponent.min(other.exponent);
        self.scaled_to(exponent).cmp(&other.scaled_to(exponent))
    }
}
