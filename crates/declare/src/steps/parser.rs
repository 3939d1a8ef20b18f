//! From cells to instants.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::civil::{DateTime, Time};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::boundaries::first_instant;
use super::{Instant, Zone};
use crate::civil::{self, MICROS_PER_DAY, MICROS_PER_SECOND, TimeError};
use crate::error::InputError;
use crate::event::{ColumnRole, Event, Field};
use crate::words::quoted;
use evertally::number::{DecimalError, Grid, Rounding, parse_rounded, scale_float};

/// The number of days whose offset from UTC is cached.
const CACHED_DAYS: usize = 512;

/// The format of the time column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// Dates, and dates with a time of day, with or without an offset. Bare numbers are refused because their unit is
    /// unknown.
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
    /// According to a pattern, such as `%d/%m/%Y %H:%M`.
    Pattern(TimePattern),
}

const WORDS: [(&str, TimeFormat); 5] = [
    ("auto", TimeFormat::Auto),
    ("rfc3339", TimeFormat::Rfc3339),
    ("date", TimeFormat::Date),
    ("epoch-seconds", TimeFormat::EpochSeconds),
    ("epoch-millis", TimeFormat::EpochMillis),
];

impl fmt::Display for TimeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, WORDS.iter().find(|(_, format)| format == self)) {
            (TimeFormat::Pattern(pattern), _) => f.write_str(&pattern.0),
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
                "{} is not a time format: use auto, rfc3339, date, epoch-seconds or epoch-millis, or a pattern such as \
                 %d/%m/%Y or %Y%m%d",
                quoted(text)
            )),
        }
    }
}

impl serde::Serialize for TimeFormat {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for TimeFormat {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A pattern of times with the conversions of `strptime`, as the calendar library
/// [defines them](jiff::fmt::strtime#conversion-specifications).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimePattern(Arc<str>);

impl TimePattern {
    /// A pattern that determines at least a date, or the seconds since 1970.
    ///
    /// # Errors
    /// A description of the problem with it.
    fn new(text: &str) -> Result<Self, String> {
        let refuse = |problem: &dyn fmt::Display| {
            let shape = "it needs a year, a month and a day, such as %d/%m/%Y, %Y%m%d or %m/%d/%y %I:%M %p";
            Err(format!("{} is not a time pattern ({problem}); {shape}", quoted(text)))
        };
        let pattern = TimePattern(text.into());
        // It must read its own output, and recover the day.
        let time = Timestamp::from_second(1_714_566_645).expect("in 2024").to_zoned(TimeZone::UTC);
        let written = match BrokenDownTime::from(&time).to_string(text) {
            Ok(written) => written,
            Err(problem) => return refuse(&problem),
        };
        match pattern.read(&written) {
            Ok(read) if read.day() == time.timestamp().as_second().div_euclid(86_400) => Ok(pattern),
            Ok(_) => refuse(&"it does not determine the day"),
            Err(problem) => refuse(&problem),
        }
    }

    fn read(&self, text: &str) -> Result<ParsedTime, jiff::Error> {
        let time = BrokenDownTime::parse(&*self.0, text)?;
        if time.timestamp().is_some() || time.offset().is_some() {
            return time.to_timestamp().map(ParsedTime::Instant);
        }
        time.to_datetime().map(ParsedTime::Civil)
    }
}

/// The result of reading with a pattern.
enum ParsedTime {
    Instant(Timestamp),
    /// A time on the wall clock of the declared zone.
    Civil(DateTime),
}

impl ParsedTime {
    /// Days since 1970-01-01.
    fn day(&self) -> i64 {
        match self {
            Self::Instant(time) => time.as_second().div_euclid(86_400),
            Self::Civil(time) => civil_micros(*time).div_euclid(MICROS_PER_DAY),
        }
    }
}

/// Microseconds since 1970-01-01T00:00, rounded down, or the largest value beyond the calendar.
fn civil_micros(time: DateTime) -> i64 {
    TimeZone::UTC.to_timestamp(time).map_or(i64::MAX, micros)
}

fn micros(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond().div_euclid(1000)).expect("calendar times fit 64 bits of microseconds")
}

impl TimeFormat {
    /// The grid on which numbers of this format count microseconds.
    fn micro_grid(&self) -> Option<Grid> {
        match self {
            TimeFormat::EpochSeconds => Some("0.000001".parse().expect("a grid")),
            TimeFormat::EpochMillis => Some("0.001".parse().expect("a grid")),
            _ => None,
        }
    }
}

/// Reads instants, and caches the zone's offsets.
///
/// A time of day without an offset is on the wall clock of the declared zone. When the clock is set back, a time that
/// occurs twice means the first; when it is set forward, a time that does not occur is moved forward by the gap, and a
/// midnight that does not occur is the first instant of its date.
#[derive(Clone, Debug)]
pub struct TimeParser {
    format: TimeFormat,
    micro_grid: Option<Grid>,
    clock: WallClock,
}

impl TimeParser {
    /// A parser of one format; `zone` is the zone of times without an offset.
    pub fn new(format: TimeFormat, zone: Zone) -> Self {
        TimeParser { micro_grid: format.micro_grid(), format, clock: WallClock::new(zone) }
    }

    /// The instant in an event's time column; an error that names its row and column.
    #[inline]
    pub fn parse_event(&mut self, event: &Event<'_>) -> Result<Instant, InputError> {
        self.parse(event.time()).map_err(|problem| match problem {
            TimeError::Missing => event.error(ColumnRole::Time, "the row has no time; every event needs one"),
            _ => event.bad_cell(ColumnRole::Time, problem.sentence()),
        })
    }

    /// The instant in a cell. Cells of a typed time column do not need a format.
    #[inline]
    pub fn parse(&mut self, field: Field<'_>) -> Result<Instant, TimeError> {
        match field {
            Field::Missing => Err(TimeError::Missing),
            Field::Text(text) | Field::Decimal(text) => self.parse_text(text),
            Field::Instant(micros) => Ok(Instant::from_micros(micros)),
            Field::Civil(micros) => Ok(self.clock.instant(micros)),
            Field::Date(days) => Ok(self.clock.instant(i64::from(days).saturating_mul(MICROS_PER_DAY))),
            Field::Integer(_) | Field::Float(_) | Field::Short { .. }
                if matches!(self.format, TimeFormat::Pattern(_)) =>
            {
                self.parse_text(&field.to_string())
            }
            Field::Integer(count) => self.parse_count(count),
            Field::Float(count) | Field::Short { value: count, .. } => {
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
        if let TimeFormat::Pattern(pattern) = &self.format {
            return match pattern.read(text).map_err(|_| TimeError::NotAsDeclared)? {
                ParsedTime::Instant(time) => Ok(Instant::from_micros(micros(time))),
                ParsedTime::Civil(time) => Ok(self.clock.instant(civil_micros(time))),
            };
        }
        let civil = civil::parse(text).map_err(|problem| unrecognised(text, problem))?;
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
            _ => return Err(unrecognised(&count.to_string(), TimeError::BareNumber)),
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

/// The problem of a text without a known shape, based on its likely intention.
#[cold]
fn unrecognised(text: &str, problem: TimeError) -> TimeError {
    let date = || -> Option<TimeError> {
        let digits = |part: Option<&str>| part?.bytes().all(|b| b.is_ascii_digit()).then_some(());
        digits(text.get(..8).filter(|_| text.len() == 8))?;
        let dashed = format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]);
        civil::parse(&dashed).ok().map(|_| TimeError::CompactDate)
    };
    if let Some(compact) = date() {
        return compact;
    }
    if is_number(text) {
        return TimeError::BareNumber;
    }
    let parts: Vec<&str> = text.split([' ', 'T', ',']).next().unwrap_or(text).split(['/', '.', '-']).collect();
    let is_short = |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let is_year = |part: &str| part.len() == 4 && part.bytes().all(|b| b.is_ascii_digit());
    match parts[..] {
        [first, second, year] if is_short(first) && is_short(second) && is_year(year) => TimeError::OrderOpen,
        _ => problem,
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

    /// The day's only offset in microseconds; `None` if the clock changes on it, or if no calendar has the day.
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
        let time = wall_time(civil).and_then(|wall| match wall.time() == Time::midnight() {
            true => first_instant(&self.zone, wall.date()),
            false => self.zone.to_ambiguous_timestamp(wall).compatible().ok(),
        });
        // Only the ends of the calendar have no instant, and no horizon reaches them: any nearby instant will do.
        time.map_or(Instant::from_micros(civil), Instant::from)
    }
}

fn wall_time(civil: i64) -> Option<DateTime> {
    Timestamp::from_microsecond(civil).ok().map(|t| TimeZone::UTC.to_datetime(t))
}
