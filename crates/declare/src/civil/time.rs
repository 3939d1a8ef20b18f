//! Dates and times as identities: one text for each instant, without a zone.

use super::parse::{self, MICROS_PER_DAY, MICROS_PER_SECOND};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// Bytes of a date and a blank: what is longer has a time of day.
const SHORTEST_TIME: usize = 11;

/// Days since 1970-01-01, and microseconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    day: i64,
    micros: i64,
}

impl Time {
    /// Midnight of a day.
    pub(crate) fn of_day(day: i64) -> Self {
        Self { day, micros: 0 }
    }

    /// From microseconds since 1970.
    pub(crate) fn of_micros(micros: i64) -> Self {
        Self { day: micros.div_euclid(MICROS_PER_DAY), micros: micros.rem_euclid(MICROS_PER_DAY) }
    }

    /// A text in one of the shapes that `--time-format auto` reads: in UTC where it has an offset. `None` for others.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let named = [" UTC", " GMT", "[UTC]"].iter().find_map(|zone| text.strip_suffix(zone));
        let (text, zone) = named.map_or((text, None), |text| (text, Some(0)));
        // As databases and git write it: with a blank before the offset.
        let joined = match text.rsplit_once(' ') {
            Some((time, offset)) if time.len() > SHORTEST_TIME && offset.starts_with(['+', '-', 'Z', 'z']) => {
                Cow::Owned(format!("{time}{offset}"))
            }
            _ => Cow::Borrowed(text),
        };
        let civil = parse::parse(&joined).ok().filter(|civil| civil.time.is_some() || zone.is_none())?;
        if zone.is_some() && civil.offset.is_some_and(|offset| offset != 0) {
            return None; // it contradicts itself
        }
        // fits: years have four digits.
        Some(Self::of_micros(civil.micros() - i64::from(civil.offset.or(zone).unwrap_or(0)) * MICROS_PER_SECOND))
    }

    /// Whether its year has four digits, as those of texts have.
    pub(crate) fn is_written(self) -> bool {
        (0..=9999).contains(&parse::date_of(self.day).0)
    }

    /// Whether it is at midnight.
    pub(crate) fn is_midnight(self) -> bool {
        self.micros == 0
    }

    /// The date alone.
    pub(crate) fn put_date(self, f: &mut impl Write) -> fmt::Result {
        let (year, month, day) = parse::date_of(self.day);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }

    /// Date and time of day, with a fraction where there is one.
    pub(crate) fn put(self, f: &mut impl Write) -> fmt::Result {
        self.put_date(f)?;
        let (seconds, fraction) = (self.micros / MICROS_PER_SECOND, self.micros % MICROS_PER_SECOND);
        write!(f, "T{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        if fraction == 0 {
            return Ok(());
        }
        f.write_str(format!(".{fraction:06}").trim_end_matches('0'))
    }
}
