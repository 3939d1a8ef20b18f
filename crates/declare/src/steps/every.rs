//! The width of a step.

use std::fmt;
use std::str::FromStr;

use crate::as_text::serde_as_text;
use crate::words::shorten;

/// The unit of a step width.
#[doc(alias = "Unit")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepUnit {
    /// Seconds of elapsed time.
    Second,
    /// Minutes of elapsed time.
    Minute,
    /// Hours of elapsed time.
    Hour,
    /// Calendar days, which may have 23 or 25 hours.
    Day,
    /// Seven calendar days.
    Week,
    /// Calendar months.
    Month,
    /// Calendar years.
    Year,
}

/// The width of a step: `90s`, `15m`, `1h`, `1d`, `2w`, `1mo`, `1q`, `1y`, or a word such as `day` or `month`.
///
/// Seconds, minutes and hours are elapsed time. Days and longer follow the calendar of the declared zone: a day has 23
/// or 25 hours when the clock is changed, and a month that begins on the 31st begins on the last day of a shorter
/// month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Every {
    count: u32,
    unit: StepUnit,
}

impl Every {
    /// A width of `count` units; `None` for zero.
    pub fn new(count: u32, unit: StepUnit) -> Option<Self> {
        (count > 0).then_some(Every { count, unit })
    }

    /// The number of units.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The unit.
    pub fn unit(self) -> StepUnit {
        self.unit
    }

    /// Whether steps are days or longer and follow the calendar.
    pub fn is_calendar(self) -> bool {
        matches!(self.unit, StepUnit::Day | StepUnit::Week | StepUnit::Month | StepUnit::Year)
    }

    /// In words: `7 days`.
    pub fn in_words(self) -> String {
        let unit = match self.unit {
            StepUnit::Second => "second",
            StepUnit::Minute => "minute",
            StepUnit::Hour => "hour",
            StepUnit::Day => "day",
            StepUnit::Week => "week",
            StepUnit::Month => "month",
            StepUnit::Year => "year",
        };
        format!("{} {unit}{}", self.count, if self.count == 1 { "" } else { "s" })
    }

    /// Seconds, if every step has the same number in zones whose clock never changes.
    pub(crate) fn seconds(self) -> Option<i64> {
        let unit = match self.unit {
            StepUnit::Second => 1,
            StepUnit::Minute => 60,
            StepUnit::Hour => 3600,
            StepUnit::Day => 86_400,
            StepUnit::Week => 7 * 86_400,
            StepUnit::Month | StepUnit::Year => return None,
        };
        Some(i64::from(self.count) * unit)
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            StepUnit::Second => "s",
            StepUnit::Minute => "m",
            StepUnit::Hour => "h",
            StepUnit::Day => "d",
            StepUnit::Week => "w",
            StepUnit::Month => "mo",
            StepUnit::Year => "y",
        };
        write!(f, "{}{unit}", self.count)
    }
}

impl FromStr for Every {
    type Err = EveryError;

    fn from_str(text: &str) -> Result<Self, EveryError> {
        let refuse = || EveryError { text: shorten(text) };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (digits, unit) = trimmed.split_at(split);
        let count = if digits.is_empty() { 1 } else { digits.parse::<u32>().map_err(|_| refuse())? };
        let (unit, factor) = parse_unit(unit.trim_start(), !digits.is_empty()).ok_or_else(refuse)?;
        let count = count.checked_mul(factor).ok_or_else(refuse)?;
        Every::new(count, unit).ok_or_else(refuse)
    }
}

/// A unit and a factor. One letter alone (`d` without a number) is refused because it is easily mistyped.
fn parse_unit(text: &str, numbered: bool) -> Option<(StepUnit, u32)> {
    let short = match text {
        "s" => Some((StepUnit::Second, 1)),
        "m" => Some((StepUnit::Minute, 1)),
        "h" => Some((StepUnit::Hour, 1)),
        "d" => Some((StepUnit::Day, 1)),
        "w" => Some((StepUnit::Week, 1)),
        "mo" => Some((StepUnit::Month, 1)),
        "q" => Some((StepUnit::Month, 3)),
        "y" => Some((StepUnit::Year, 1)),
        _ => None,
    };
    if short.is_some() {
        return short.filter(|_| numbered);
    }
    let word = text.to_ascii_lowercase();
    Some(match word.strip_suffix('s').unwrap_or(&word) {
        "sec" | "second" => (StepUnit::Second, 1),
        "min" | "minute" => (StepUnit::Minute, 1),
        "hour" => (StepUnit::Hour, 1),
        "day" => (StepUnit::Day, 1),
        "week" => (StepUnit::Week, 1),
        "month" => (StepUnit::Month, 1),
        "quarter" => (StepUnit::Month, 3),
        "year" => (StepUnit::Year, 1),
        _ => return None,
    })
}

serde_as_text!(Every);

/// A text that is not a step width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EveryError {
    text: String,
}

impl fmt::Display for EveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a step width: give a positive number and a unit (s, m, h, d, w, mo, q, y), such as 15m, 1d or \
             1mo (m is minutes, mo is months)",
            self.text
        )?;
        if !self.text.is_empty() && self.text.bytes().all(|byte| byte.is_ascii_digit()) {
            // docs/threat-model.md, "Insertions that shift later data".
            f.write_str(
                "; a step is a span of time, not a number of events: an inserted event would shift all later ones",
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for EveryError {}
