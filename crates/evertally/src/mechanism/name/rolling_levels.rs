//! The parameters of rolling hats, small enough to be copied.

use super::parameters::{Parameters, joined, list};
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Maximum number of levels of hats.
pub(in crate::mechanism) const MAX_LEVELS: usize = 4;
/// Shares are in thousandths.
pub(in crate::mechanism) const SHARE_UNITS: u16 = 1000;
/// Maximum share of all levels together: the rest is for the single steps.
const MAX_TOTAL_SHARE: u16 = 990;
/// The widest spacing.
const MAX_SPACING: u32 = 1 << 15;

/// Spacings of the levels of hats, finest first, and how much of the budget each takes.
///
/// Every spacing is a multiple of the one before. The remainder after all levels is the weight of the single steps.
/// Written `spacing=11/110,share=303/370`.
///
/// ```
/// use evertally::mechanism::RollingLevels;
/// let levels: RollingLevels = "spacing=11/110,share=303/370".parse()?;
/// assert_eq!(levels, RollingLevels::new(&[11, 110], &[303, 370])?);
/// assert!(RollingLevels::new(&[11, 100], &[303, 370]).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RollingLevels {
    spacings: [u32; MAX_LEVELS],
    shares: [u16; MAX_LEVELS],
    count: u8,
}

impl RollingLevels {
    /// One to 4 levels, finest first: spacings (steps, 2 to 2^15, each a multiple of the one before) and shares
    /// (thousandths of the budget, 990 in all at most).
    ///
    /// # Errors
    /// If the lists have different lengths or a number is out of range.
    pub fn new(spacings: &[u32], shares: &[u16]) -> Result<Self> {
        let nested = spacings.windows(2).all(|pair| pair[0] < pair[1] && pair[1].is_multiple_of(pair[0]));
        let count = spacings.len();
        let in_range =
            spacings.iter().all(|spacing| (2..=MAX_SPACING).contains(spacing)) && (1..=MAX_LEVELS).contains(&count);
        let taken: u32 = shares.iter().map(|share| u32::from(*share)).sum();
        let fit = shares.len() == count && !shares.contains(&0) && taken <= MAX_TOTAL_SHARE.into();
        if !nested || !in_range || !fit {
            return Err(Error::invalid(format!(
                "rolling hats have 1 to {MAX_LEVELS} spacings from 2 to {MAX_SPACING} steps, each a multiple of the \
                 one before, and as \
                 many shares in thousandths, at most {MAX_TOTAL_SHARE} in all, like spacing=11/110,share=303/370; got \
                 {spacings:?} and {shares:?}"
            )));
        }
        let mut levels = Self { spacings: [0; MAX_LEVELS], shares: [0; MAX_LEVELS], count: count as u8 };
        levels.spacings[..count].copy_from_slice(spacings);
        levels.shares[..count].copy_from_slice(shares);
        Ok(levels)
    }

    /// Spacings, finest level first.
    pub fn spacings(&self) -> &[u32] {
        &self.spacings[..self.count.into()]
    }

    /// Shares of the levels, in thousandths.
    pub fn shares(&self) -> &[u16] {
        &self.shares[..self.count.into()]
    }

    /// Steps after which everything repeats: the widest spacing.
    pub(in crate::mechanism) fn period(&self) -> u64 {
        u64::from(self.spacings[usize::from(self.count) - 1])
    }
}

impl fmt::Display for RollingLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spacing={},share={}", joined(self.spacings()), joined(self.shares()))
    }
}

impl fmt::Debug for RollingLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RollingLevels({self})")
    }
}

impl FromStr for RollingLevels {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::invalid(format!("levels of rolling hats are written spacing=11/110,share=303/370, got {text:?}"));
        let (spacings, shares) = text.split_once(',').ok_or_else(wrong)?;
        let after = |part: &'_ str, key: &str| part.trim().strip_prefix(key).map(str::to_owned).ok_or_else(wrong);
        Self::from_lists(&after(spacings, "spacing=")?, &after(shares, "share=")?, wrong)
    }
}

impl RollingLevels {
    fn from_lists(spacings: &str, shares: &str, wrong: impl Fn() -> Error) -> Result<Self> {
        Self::new(&list(spacings).ok_or_else(&wrong)?, &list(shares).ok_or_else(wrong)?)
    }
}

/// The level parameters in the name; `None` for the best.
pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<Option<RollingLevels>> {
    let wrong = format!(
        "`{}` should have both parameters `spacing` and `share`, like rolling-hats(spacing=11/110,share=303/370), or \
         neither",
        parameters.text
    );
    let wrong = || Error::invalid(wrong.clone());
    match (parameters.take("spacing"), parameters.take("share")) {
        (None, None) => Ok(None),
        (Some(spacings), Some(shares)) => RollingLevels::from_lists(spacings, shares, wrong).map(Some),
        _ => Err(wrong()),
    }
}
