//! From cells to instants.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::civil::{self, MICROS_PER_DAY, MICROS_PER_SECOND};
use super::{Instant, Zone};
use crate::declaration::Parameter;
use crate::error::InputError;
use crate::event::{Event, Field, Role};
use crate::problem::{Sentence, sentence};
use evertally::number::{DecimalError, Grid, Rounding, parse_rounded, scale_float};

/// Days whose offset from UTC is remembered.
const CACHED_DAYS: usize = 512;

/// How the time column writes times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeFormat {
    /// Dates, dates with a time of day, with or without an offset. Bare numbers are refused: they do not say their
    /// unit.
    #[default]
    Auto,
    /// Only times with an offset, such as 2024-05-01T12:30:00Z.
    Rfc3339,
    /// Only dates, such as 2024-05-01.
    Date,
    /// Seconds since 1970 UTC, with or without a fraction.
    EpochSeconds,
    /// Milliseconds since 1970 UTC.
    EpochMillis,
}

impl TimeFormat {
    /// The grid on which a number of this format is a count of microseconds.
    fn micro_grid(self) -> Option<Grid> {
        match self {
            TimeFormat::EpochSeconds => Some("0.000001".parse().expect("a grid")),
            TimeFormat::EpochMillis => Some("0.001".parse().expect("a grid")),
            _ => None,
        }
    }
}

/// Why a cell is not a time. Reads on from the cell's text: "`abc` is not a time…".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// There is no time.
    Missing,
    /// None of the shapes that are read.
    Unrecognised,
    /// A component that no calendar has, such as month 13.
    NoSuch(&'static str, u32),
    /// A number where the format does not say its unit.
    BareNumber,
    /// No offset, though the declared format requires one.
    NoOffset,
    /// A time of day, though the declared format is plain dates.
    NotADate,
    /// Not a number, though the declared format is a count of seconds or milliseconds.
    NotEpoch,
    /// A count of seconds or milliseconds beyond every calendar.
    TooFar,
}

impl TimeError {
    /// What is wrong, and what to do.
    pub fn sentence(self) -> Sentence {
        use Parameter::{TimeFormat, TimeZone};
        match self {
            TimeError::Missing => "has no time; every event needs one".into(),
            TimeError::Unrecognised => sentence![
                "is not a time in a form that is read; write it as 2024-05-01, 2024-05-01T12:30:00 or 2024-05-01T12:30:00Z, \
                 or declare another ",
                TimeFormat
            ],
            TimeError::NoSuch(what, number) => format!("is not a time: there is no {what} {number}").into(),
            TimeError::BareNumber => sentence![
                "is a bare number, which does not say its unit; declare ",
                (TimeFormat, "epoch-seconds"),
                " or epoch-millis"
            ],
            TimeError::NoOffset => sentence![
                "has no offset from UTC, as RFC 3339 requires; write it as 2024-05-01T12:30:00Z, or declare ",
                (TimeFormat, "auto"),
                " and the ",
                TimeZone,
                " it is in"
            ],
            TimeError::NotADate => {
                let declared = (TimeFormat, "date");
                sentence!["is not a plain date such as 2024-05-01, though ", declared, " was declared"]
            }
            TimeError::NotEpoch => {
                sentence!["is not a number of seconds or milliseconds since 1970, though ", TimeFormat, " declares one"]
            }
            TimeError::TooFar => {
                "is too far from 1970 to be a time; check whether the unit is seconds or milliseconds".into()
            }
        }
    }
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sentence().fmt(f)
    }
}

impl std::error::Error for TimeError {}

/// Reads instants, with a memory of the zone's offsets.
///
/// A time of day without an offset is on the wall clock of the declared zone. Where the clock is set back, a time that
/// occurs twice means the first; where it is set forward, a time that does not occur is moved on by the gap.
#[derive(Clone, Debug)]
pub struct TimeParser {
    format: TimeFormat,
    micro_grid: Option<Grid>,
    clock: WallClock,
}

impl TimeParser {
    /// A parser of one format; `zone` is where times without an offset are.
    pub fn new(format: TimeFormat, zone: Zone) -> Self {
        TimeParser { format, micro_grid: format.micro_grid(), clock: WallClock::new(zone) }
    }

    /// The instant in an event's time column; an error that names its row and column.
    #[inline]
    pub fn parse_event(&mut self, event: &Event<'_>) -> Result<Instant, InputError> {
        self.parse(event.time()).map_err(|problem| match problem {
            TimeError::Missing => event.error(Role::Time, "the row has no time; every event needs one"),
            _ => event.bad_cell(Role::Time, problem.sentence()),
        })
    }

    /// The instant in a cell. Cells of a typed time column say by themselves what they are.
    #[inline]
    pub fn parse(&mut self, field: Field<'_>) -> Result<Instant, TimeError> {
        match field {
            Field::Missing => Err(TimeError::Missing),
            Field::Text(text) => self.parse_text(text),
            Field::Instant(micros) => Ok(Instant::from_micros(micros)),
            Field::Civil(micros) => Ok(self.clock.instant(micros)),
            Field::Date(days) => Ok(self.clock.instant(i64::from(days).saturating_mul(MICROS_PER_DAY))),
            Field::Integer(count) => self.parse_count(count),
            Field::Float(count) => {
                let grid = self.micro_grid.ok_or(TimeError::BareNumber)?;
                scale_float(count, grid, Rounding::Floor).map(Instant::from_micros).map_err(epoch_error)
            }
        }
    }

    /// The instant in a text.
    #[inline]
    pub fn parse_text(&mut self, text: &str) -> Result<Instant, TimeError> {
        let text = text.trim_ascii();
        if let Some(grid) = self.micro_grid {
            return parse_rounded(text, grid, Rounding::Floor).map(Instant::from_micros).map_err(epoch_error);
        }
        let civil = civil::parse(text).map_err(|e| if is_number(text) { TimeError::BareNumber } else { e })?;
        match self.format {
            TimeFormat::Rfc3339 if civil.offset.is_none() => Err(TimeError::NoOffset),
            TimeFormat::Date if civil.time.is_some() => Err(TimeError::NotADate),
            _ => Ok(match civil.offset {
                Some(offset) => Instant::from_micros(civil.micros() - i64::from(offset) * MICROS_PER_SECOND),
                None => self.clock.instant(civil.micros()),
            }),
        }
    }

    fn parse_count(&self, count: i64) -> Result<Instant, TimeError> {
        let micros = match self.format {
            TimeFormat::EpochSeconds => count.checked_mul(MICROS_PER_SECOND),
            TimeFormat::EpochMillis => count.checked_mul(1000),
            _ => return Err(TimeError::BareNumber),
        };
        micros.map(Instant::from_micros).ok_or(TimeError::TooFar)
    }
}

fn epoch_error(error: DecimalError) -> TimeError {
    match error {
        DecimalError::Overflow => TimeError::TooFar,
        DecimalError::NotANumber | DecimalError::NotFinite => TimeError::NotEpoch,
    }
}

fn is_number(text: &str) -> bool {
    !matches!(parse_rounded(text, Grid::ONE, Rounding::Floor), Err(DecimalError::NotANumber | DecimalError::NotFinite))
}

/// A zone's wall clock.
#[derive(Clone, Debug)]
struct WallClock {
    zone: TimeZone,
    fixed_offset: Option<i64>,
    /// By day modulo the length: the day, and its offset in microseconds if it has one all day.
    days: Vec<(i64, Option<i64>)>,
}

impl WallClock {
    fn new(zone: Zone) -> Self {
        let fixed_offset = zone.fixed_offset().map(|seconds| seconds * MICROS_PER_SECOND);
        let days = if fixed_offset.is_some() { Vec::new() } else { vec![(i64::MIN, None); CACHED_DAYS] };
        WallClock { zone: zone.time_zone().clone(), fixed_offset, days }
    }

    #[inline]
    fn instant(&mut self, civil: i64) -> Instant {
        let offset = match self.fixed_offset {
            Some(offset) => Some(offset),
            None => self.offset_of_day(civil.div_euclid(MICROS_PER_DAY)),
        };
        match offset {
            Some(offset) => Instant::from_micros(civil.saturating_sub(offset)),
            None => self.slow_instant(civil),
        }
    }

    fn offset_of_day(&mut self, day: i64) -> Option<i64> {
        let slot = day.rem_euclid(CACHED_DAYS as i64) as usize;
        if self.days[slot].0 != day {
            self.days[slot] = (day, self.find_offset_of_day(day));
        }
        self.days[slot].1
    }

    /// The day's one offset in microseconds; `None` when the clock is set on it, or no calendar has the day.
    fn find_offset_of_day(&self, day: i64) -> Option<i64> {
        let midnight = wall_time(day.checked_mul(MICROS_PER_DAY)?)?;
        let last = midnight.checked_add(1.day()).ok()?.checked_sub(1.microsecond()).ok()?;
        let first = self.zone.to_ambiguous_timestamp(midnight);
        let AmbiguousOffset::Unambiguous { offset } = first.offset() else { return None };
        let begins = first.compatible().ok()?;
        let ends = self.zone.to_ambiguous_timestamp(last);
        if ends.offset() != (AmbiguousOffset::Unambiguous { offset }) {
            return None;
        }
        let ends: Timestamp = ends.compatible().ok()?;
        let changes = self.zone.following(begins).next().is_some_and(|next| next.timestamp() <= ends);
        (!changes).then(|| i64::from(offset.seconds()) * MICROS_PER_SECOND)
    }

    #[cold]
    fn slow_instant(&self, civil: i64) -> Instant {
        let time = wall_time(civil).and_then(|t| self.zone.to_ambiguous_timestamp(t).compatible().ok());
        // Only the ends of the calendar have no instant, and no horizon reaches there: any instant near will do.
        time.map_or(Instant::from_micros(civil), Instant::from)
    }
}

fn wall_time(civil: i64) -> Option<DateTime> {
    Timestamp::from_microsecond(civil).ok().map(|t| TimeZone::UTC.to_datetime(t))
}
