//! The parameters of a mechanism of hats, small enough to be copied.

use super::parameters::{Parameters, list, spacings_and_shares};
use crate::{Error, Result};
use std::fmt;

/// Maximum number of levels of hats.
pub(in crate::mechanism) const MAX_LEVELS: usize = 6;
/// Shares are in thousandths.
pub(in crate::mechanism) const SHARE_UNITS: u16 = 1000;

/// Spacings of the levels of hats, finest first, and how much of the budget each takes.
///
/// A level takes a **share** of the remainder of the coarser levels, in thousandths (1 to 999): one share at the first
/// step and one at the last, and in between along the straight line. The remainder after all levels is the weight of
/// the single steps.
///
/// Written `spacing=12/150,first=480/417,last=516/257`, and `spacing=none` without hats.
///
/// ```
/// use evertally::mechanism::HatLevels;
/// let levels: HatLevels = "spacing=12/150,first=480/417,last=516/257".parse()?;
/// assert_eq!(levels, HatLevels::new(&[12, 150], &[480, 417], &[516, 257])?);
/// assert_eq!(levels.spacings(), [12, 150]);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HatLevels {
    spacings: [u32; MAX_LEVELS],
    first: [u16; MAX_LEVELS],
    last: [u16; MAX_LEVELS],
    count: u8,
}

impl HatLevels {
    /// No hats: every step alone.
    pub const NONE: HatLevels =
        HatLevels { spacings: [0; MAX_LEVELS], first: [0; MAX_LEVELS], last: [0; MAX_LEVELS], count: 0 };

    /// At most 6 levels, finest first: spacings (steps, 2 and more, growing), and the shares at the first and the last
    /// step (thousandths, 1 to 999).
    ///
    /// # Errors
    /// If the three lists have different lengths or a number is out of range.
    pub fn new(spacings: &[u32], first: &[u16], last: &[u16]) -> Result<Self> {
        check_spacings(spacings)?;
        let count = spacings.len();
        let wrong = |shares: &[u16]| shares.len() != count || shares.iter().any(|s| !(1..SHARE_UNITS).contains(s));
        if wrong(first) || wrong(last) {
            return Err(Error::invalid(format!(
                "{count} levels of hats need {count} shares from 1 to 999 for the first step and as many for \
                 the last, got {first:?} and {last:?}"
            )));
        }
        let mut levels = Self { count: count as u8, ..Self::NONE };
        levels.spacings[..count].copy_from_slice(spacings);
        levels.first[..count].copy_from_slice(first);
        levels.last[..count].copy_from_slice(last);
        Ok(levels)
    }

    /// Spacings, finest level first.
    pub fn spacings(&self) -> &[u32] {
        &self.spacings[..self.len()]
    }

    /// Shares at the first and at the last step, in thousandths of the remainder of the coarser levels.
    pub fn shares(&self) -> [&[u16]; 2] {
        [&self.first[..self.len()], &self.last[..self.len()]]
    }

    /// Number of levels of hats.
    pub(in crate::mechanism) fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// The same with one number multiplied and rounded: `place` counts the shares at the first step, those at the last,
    /// then the spacings.
    ///
    /// # Errors
    /// If the number leaves its range.
    pub(in crate::mechanism) fn moved(&self, place: usize, factor: f64) -> Result<Self> {
        let (mut moved, level) = (*self, place % self.len());
        let by = |number: f64| (number * factor).round();
        match place / self.len() {
            0 => moved.first[level] = by(self.first[level].into()) as u16,
            1 => moved.last[level] = by(self.last[level].into()) as u16,
            _ => moved.spacings[level] = by(self.spacings[level].into()) as u32,
        }
        let [first, last] = moved.shares();
        Self::new(moved.spacings(), first, last)
    }
}

/// Checks the rules for a list of spacings.
pub(in crate::mechanism) fn check_spacings(spacings: &[u32]) -> Result<()> {
    let grow = spacings.windows(2).all(|pair| pair[0] < pair[1]);
    if spacings.len() > MAX_LEVELS || !grow || spacings.first().is_some_and(|w| *w < 2) {
        return Err(Error::invalid(format!(
            "spacings of hats are at most {MAX_LEVELS} increasing numbers of steps from 2, like 12/150, got \
             {spacings:?}"
        )));
    }
    Ok(())
}

fn write_list<N: fmt::Display>(f: &mut fmt::Formatter<'_>, key: &str, list: &[N]) -> fmt::Result {
    for (i, number) in list.iter().enumerate() {
        write!(f, "{}{number}", if i > 0 { "/" } else { key })?;
    }
    Ok(())
}

impl fmt::Display for HatLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str("spacing=none");
        }
        let [first, last] = self.shares();
        write_list(f, "spacing=", self.spacings())?;
        write_list(f, ",first=", first)?;
        write_list(f, ",last=", last)
    }
}

impl fmt::Debug for HatLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HatLevels({self})")
    }
}

impl std::str::FromStr for HatLevels {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.trim() == "spacing=none" {
            return Ok(Self::NONE);
        }
        if let Some((spacings, first, last)) = spacings_and_shares(text) {
            return Self::new(&spacings, &first, &last);
        }
        Err(Error::invalid(format!(
            "levels of hats are written spacing=12/150,first=480/417,last=516/257, got {text:?}"
        )))
    }
}

/// The level parameters in the name of a mechanism of hats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HatChoice {
    /// The best spacings and shares.
    Best,
    /// These spacings (up to the first 0) with the best shares.
    Spaced([u32; MAX_LEVELS]),
    /// The given ones.
    Given(HatLevels),
}

impl HatChoice {
    /// This many spacings, at most [`MAX_LEVELS`].
    fn spaced(given: &[u32]) -> Self {
        let mut spacings = [0; MAX_LEVELS];
        spacings[..given.len()].copy_from_slice(given);
        Self::Spaced(spacings)
    }

    /// Spacings without shares.
    pub(in crate::mechanism) fn brief(self) -> Self {
        match self {
            Self::Given(levels) if !levels.spacings().is_empty() => Self::spaced(levels.spacings()),
            other => other,
        }
    }

    /// From `spacing`, alone or with `first` and `last`.
    pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<Self> {
        match (parameters.take("spacing"), parameters.take("first"), parameters.take("last")) {
            (None, None, None) => Ok(Self::Best),
            (Some("none"), None, None) => Ok(Self::Given(HatLevels::NONE)),
            (Some(spacing), None, None) => {
                let wrong = || {
                    Error::invalid(format!(
                        "`spacing` of `{}` should be at most {MAX_LEVELS} increasing numbers of steps from 2, like \
                         12/150",
                        parameters.text
                    ))
                };
                let spacings = list(spacing).filter(|list| list.iter().all(|w| *w > 1) && list.len() <= MAX_LEVELS);
                Ok(Self::spaced(&spacings.ok_or_else(wrong)?))
            }
            (Some(spacing), Some(first), Some(last)) => {
                Ok(Self::Given(format!("spacing={spacing},first={first},last={last}").parse()?))
            }
            _ => Err(Error::invalid(format!(
                "`{}` should have the parameter `spacing` alone, or with both `first` and `last`",
                parameters.text
            ))),
        }
    }
}

impl fmt::Display for HatChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => Ok(()),
            Self::Spaced(spacings) => {
                let used = spacings.iter().take_while(|w| **w > 0).map(u32::to_string);
                write!(f, "(spacing={})", used.collect::<Vec<_>>().join("/"))
            }
            Self::Given(levels) => write!(f, "({levels})"),
        }
    }
}
