//! Dates and times as identities: a single text for each instant, without a zone.

use super::parse::{self, MICROS_PER_DAY, MICROS_PER_SECOND};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// The length in bytes of a date and a blank; longer texts have a time of day.
const MIN_TIME_BYTES: usize = 11;

/// Days since 1970-01-01, and microseconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    day: i64,
    micros: i64,
}

impl Time {
    /// Midnight of a day.
    pub(crate) fn from_days(day: i64) -> Self {
        Self { day, micros: 0 }
    }

    /// The time with this number of microseconds since 1970.
    pub(crate) fn from_micros(micros: i64) -> Self {
        Self { day: micros.div_euclid(MICROS_PER_DAY), micros: micros.rem_euclid(MICROS_PER_DAY) }
    }

    /// Reads a text in one of the shapes of `--time-format auto`, in UTC if it has an offset. `None` for others.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let named = [" UTC", " GMT", "[UTC]"].iter().find_map(|zone| text.strip_suffix(zone));
        let (text, zone) = named.map_or((text, None), |text| (text, Some(0)));
        // Databases and git write a blank before the offset.
        let joined = match text.rsplit_once(' ') {
            Some((time, offset)) if time.len() > MIN_TIME_BYTES && offset.starts_with(['+', '-', 'Z', 'z']) => {
                Cow::Owned(format!("{time}{offset}"))
            }
            _ => Cow::Borrowed(text),
        };
        let civil = parse::parse(&joined).ok().filter(|civil| civil.time.is_some() || zone.is_none())?;
        if zone.is_some() && civil.offset.is_some_and(|offset| offset != 0) {
            return None; // it contradicts itself
        }
        // fits: years have four digits.
        Some(Self::from_micros(civil.micros() - i64::from(civil.offset.or(zone).unwrap_or(0)) * MICROS_PER_SECOND))
    }

    /// Whether its year has four digits, as years in texts do.
    pub(crate) fn has_four_digit_year(self) -> bool {
        (0..=9999).contains(&parse::date_of(self.day).0)
    }

    /// Whether it is at midnight.
    pub(crate) fn is_midnight(self) -> bool {
        self.micros == 0
    }

    /// Writes the date alone.
    pub(crate) fn write_date(self, f: &mut impl Write) -> fmt::Result {
        let (year, month, day) = parse::date_of(self.day);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }

    /// Writes the date and the time of day, with a fraction if there is one.
    pub(crate) fn put(self, f: &mut impl Write) -> fmt::Result {
        self.write_date(f)?;
        let (seconds, fraction) = (self.micros / MICROS_PER_SECOND, self.micros % MICROS_PER_SECOND);
        write!(f, "T{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        if fraction == 0 {
            return Ok(());
        }
        f.write_str(format!(".{fraction:06}").trim_end_matches('0'))
    }
}
