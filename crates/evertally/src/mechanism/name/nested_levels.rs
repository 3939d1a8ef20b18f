//! The parameters of nested hats, small enough to be copied.

use super::parameters::{Parameters, joined, spacings_and_shares};
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Maximum number of levels of hats.
pub(in crate::mechanism) const MAX_LEVELS: usize = 10;
/// Shares are in thousandths.
pub(in crate::mechanism) const SHARE_UNITS: u16 = 1000;
/// The smallest share of a level.
const MIN_SHARE: u16 = 4;
/// The widest spacing is 2^39.
const MAX_EXPONENT: u32 = 39;
/// Every spacing is 2^3 to 2^6 times the one before.
const FACTORS: std::ops::RangeInclusive<u32> = 3..=6;

/// Spacings of the levels of nested hats, finest first, and how much of the budget each takes at the first and at the
/// last step.
///
/// Spacings are powers of two, each 8 to 64 times the one before. The remainder after all levels is the weight of the
/// single steps. Written `spacing=16/256,first=300/350,last=320/240`, and `spacing=none` without hats.
///
/// ```
/// use evertally::mechanism::NestedLevels;
/// let levels: NestedLevels = "spacing=16/256,first=300/350,last=320/240".parse()?;
/// assert_eq!(levels, NestedLevels::new(&[16, 256], &[300, 350], &[320, 240])?);
/// assert!(NestedLevels::new(&[16, 250], &[300, 350], &[320, 240]).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NestedLevels {
    exponents: [u8; MAX_LEVELS],
    shares: [[u16; MAX_LEVELS]; 2],
    count: u8,
}

impl NestedLevels {
    /// No hats: every step alone.
    pub const NONE: NestedLevels = NestedLevels { exponents: [0; MAX_LEVELS], shares: [[0; MAX_LEVELS]; 2], count: 0 };

    /// One to 10 levels, finest first: spacings (steps, powers of two from 4 to 2^39, each 8 to 64 times the one
    /// before) and shares at the first and the last step (thousandths of the budget, from 4 on).
    ///
    /// # Errors
    /// If the lists have different lengths or a number is out of range. Whether the shares fit depends on the horizon.
    pub fn new(spacings: &[u64], first: &[u16], last: &[u16]) -> Result<Self> {
        let count = spacings.len();
        let exponents: Vec<u32> = spacings.iter().map(|spacing| spacing.checked_ilog2().unwrap_or(0)).collect();
        let are_powers = spacings.iter().zip(&exponents).all(|(spacing, exponent)| *spacing == 1 << exponent);
        let are_nested = exponents.windows(2).all(|pair| FACTORS.contains(&pair[1].saturating_sub(pair[0])));
        let in_range = (1..=MAX_LEVELS).contains(&count)
            && exponents.first().is_some_and(|exponent| (2..=*FACTORS.end()).contains(exponent))
            && exponents.last().is_some_and(|exponent| *exponent <= MAX_EXPONENT);
        let fit = |shares: &[u16]| {
            shares.len() == count && shares.iter().all(|share| (MIN_SHARE..SHARE_UNITS).contains(share))
        };
        if !are_powers || !are_nested || !in_range || !fit(first) || !fit(last) {
            return Err(Error::invalid(format!(
                "nested hats have 1 to {MAX_LEVELS} spacings, powers of two from 4 (at most 64 for the first, \
                 2^{MAX_EXPONENT} for the last), each 8 to 64 times the one before, and as many shares at the first \
                 and the last step, in thousandths from {MIN_SHARE} on, like \
                 spacing=16/256,first=300/350,last=320/240; got {spacings:?}, {first:?} and {last:?}"
            )));
        }
        let mut levels = Self { count: count as u8, ..Self::NONE };
        // fits: exponents are at most 39
        levels.exponents.iter_mut().zip(&exponents).for_each(|(to, exponent)| *to = *exponent as u8);
        levels.shares[0][..count].copy_from_slice(first);
        levels.shares[1][..count].copy_from_slice(last);
        Ok(levels)
    }

    /// Spacings, finest level first.
    pub fn spacings(&self) -> Vec<u64> {
        self.exponents().iter().map(|exponent| 1 << exponent).collect()
    }

    /// Their logarithms to base 2.
    pub(in crate::mechanism) fn exponents(&self) -> &[u8] {
        &self.exponents[..self.count.into()]
    }

    /// Shares of the levels at the first and at the last step, in thousandths.
    pub fn shares(&self) -> [&[u16]; 2] {
        [&self.shares[0][..self.count.into()], &self.shares[1][..self.count.into()]]
    }

    /// The same with one share multiplied; first shares first. `None` if it would be out of range.
    pub(in crate::mechanism) fn moved(&self, place: usize, factor: f64) -> Option<Self> {
        let (side, level) = (place / usize::from(self.count), place % usize::from(self.count));
        let mut moved = *self;
        let share = (f64::from(self.shares[side][level]) * factor).round();
        let in_range = (f64::from(MIN_SHARE)..f64::from(SHARE_UNITS)).contains(&share);
        moved.shares[side][level] = share as u16;
        in_range.then_some(moved)
    }
}

impl fmt::Display for NestedLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str("spacing=none");
        }
        let [first, last] = self.shares();
        write!(f, "spacing={},first={},last={}", joined(&self.spacings()), joined(first), joined(last))
    }
}

impl fmt::Debug for NestedLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NestedLevels({self})")
    }
}

impl FromStr for NestedLevels {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!(
                "levels of nested hats are written spacing=16/256,first=300/350,last=320/240, got {text:?}"
            ))
        };
        if text.trim() == "spacing=none" {
            return Ok(Self::NONE);
        }
        if let Some((spacings, first, last)) = spacings_and_shares(text) {
            return Self::new(&spacings, &first, &last);
        }
        Err(wrong())
    }
}

/// The level parameters in the name; `None` for the best.
pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<Option<NestedLevels>> {
    match (parameters.take("spacing"), parameters.take("first"), parameters.take("last")) {
        (None, None, None) => Ok(None),
        (Some("none"), None, None) => Ok(Some(NestedLevels::NONE)),
        (Some(spacing), Some(first), Some(last)) => {
            Ok(Some(format!("spacing={spacing},first={first},last={last}").parse()?))
        }
        _ => Err(Error::invalid(format!(
            "`{}` should have the three parameters `spacing`, `first` and `last`, like \
             nested-hats(spacing=16/256,first=300/350,last=320/240), or none of them",
            parameters.text
        ))),
    }
}
