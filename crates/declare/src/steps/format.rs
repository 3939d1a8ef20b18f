//! The declared format of the time column.

use super::TimePattern;
use crate::as_text::serde_as_text;
use crate::civil::{MICROS_PER_SECOND, TimeError};
use crate::words::quoted;
use evertally::number::{DecimalError, Grid, Rounding, parse_rounded, scale_float};
use std::fmt;
use std::str::FromStr;

/// The format of the time column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// Dates, and dates with a time of day, with or without a zone. Bare numbers are refused because their unit is
    /// unknown.
    #[default]
    Auto,
    /// Only times with an offset, such as 2024-05-01T12:30:00Z.
    Rfc3339,
    /// Only dates, such as 2024-05-01.
    Date,
    /// A number of units of time since 1970 UTC, with or without a fraction.
    Epoch(EpochUnit),
    /// According to a pattern, such as `%d/%m/%Y %H:%M`.
    Pattern(TimePattern),
}

/// The unit of times that are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

const WORDS: [(&str, TimeFormat); 7] = [
    ("auto", TimeFormat::Auto),
    ("rfc3339", TimeFormat::Rfc3339),
    ("date", TimeFormat::Date),
    (EpochUnit::Seconds.format_word(), TimeFormat::Epoch(EpochUnit::Seconds)),
    (EpochUnit::Millis.format_word(), TimeFormat::Epoch(EpochUnit::Millis)),
    (EpochUnit::Micros.format_word(), TimeFormat::Epoch(EpochUnit::Micros)),
    (EpochUnit::Nanos.format_word(), TimeFormat::Epoch(EpochUnit::Nanos)),
];

impl EpochUnit {
    /// All units, from the longest.
    pub const ALL: [Self; 4] = [Self::Seconds, Self::Millis, Self::Micros, Self::Nanos];

    /// The format of times in this unit, as flags write it.
    pub const fn format_word(self) -> &'static str {
        match self {
            Self::Seconds => "epoch-seconds",
            Self::Millis => "epoch-millis",
            Self::Micros => "epoch-micros",
            Self::Nanos => "epoch-nanos",
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Millis => "milliseconds",
            Self::Micros => "microseconds",
            Self::Nanos => "nanoseconds",
        }
    }

    /// Its units in a second.
    pub(crate) fn per_second(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Millis => 1000,
            Self::Micros => MICROS_PER_SECOND,
            Self::Nanos => 1000 * MICROS_PER_SECOND,
        }
    }

    /// The grid on which decimal numbers of this unit are read, and the number of its multiples in a microsecond.
    #[inline]
    fn grid(self) -> (Grid, i64) {
        let finer = |digits| Grid::ONE.finer(digits).expect("few digits");
        match self {
            Self::Seconds => (finer(6), 1),
            Self::Millis => (finer(3), 1),
            Self::Micros => (Grid::ONE, 1),
            Self::Nanos => (Grid::ONE, 1000),
        }
    }

    /// Microseconds of a decimal number of this unit, rounded down.
    pub(crate) fn micros_of_text(self, text: &str) -> Result<i64, TimeError> {
        let (grid, divisor) = self.grid();
        parse_rounded(text, grid, Rounding::Floor).map(|count| count.div_euclid(divisor)).map_err(epoch_error)
    }

    /// Microseconds of a double of this unit, rounded down.
    pub(crate) fn micros_of_float(self, count: f64) -> Result<i64, TimeError> {
        let (grid, divisor) = self.grid();
        scale_float(count, grid, Rounding::Floor).map(|count| count.div_euclid(divisor)).map_err(epoch_error)
    }

    /// Microseconds of a whole number of this unit, rounded down.
    pub(crate) fn micros_of_count(self, count: i64) -> Result<i64, TimeError> {
        match self {
            Self::Nanos => Ok(count.div_euclid(1000)),
            _ => count.checked_mul(MICROS_PER_SECOND / self.per_second()).ok_or(TimeError::TooFar),
        }
    }
}

fn epoch_error(error: DecimalError) -> TimeError {
    match error {
        DecimalError::Overflow => TimeError::TooFar,
        DecimalError::NotANumber | DecimalError::NotFinite => TimeError::NotEpoch,
    }
}

impl fmt::Display for TimeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, WORDS.iter().find(|(_, format)| format == self)) {
            (TimeFormat::Pattern(pattern), _) => f.write_str(pattern.text()),
            (_, found) => f.write_str(found.map_or("", |(word, _)| word)),
        }
    }
}

impl FromStr for TimeFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match WORDS.iter().find(|(word, _)| *word == text) {
            Some((_, format)) => Ok(format.clone()),
            None if text.contains('%') => TimePattern::new(text).map(Self::Pattern),
            None => Err(format!(
                "{} is not a time format: use auto, rfc3339, date, epoch-seconds, epoch-millis, epoch-micros or \
                 epoch-nanos, or a pattern such as %d/%m/%Y or %Y%m%d",
                quoted(text)
            )),
        }
    }
}

serde_as_text!(TimeFormat);
