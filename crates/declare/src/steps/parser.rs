//! From cells to instants.

use jiff::civil::{DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::boundaries::first_instant;
use super::pattern::PatternTime;
use super::zone_text::{ZoneText, ZoneTexts};
use super::{EpochUnit, Instant, Precision, TimeFormat, Zone};
use crate::civil::{self, LastDate, MICROS_PER_DAY, MICROS_PER_SECOND, TimeError};
use crate::error::InputError;
use crate::event::{ColumnRole, Event, Field};
use evertally::number::{DecimalError, Grid, Rounding, parse_rounded};

/// The number of days whose offset from UTC is cached.
const CACHED_DAYS: usize = 512;

/// A time as read from a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTime {
    /// The instant: the beginning of the day, month or year if the cell has no time of day.
    pub instant: Instant,
    /// The smallest unit that the cell states.
    pub precision: Precision,
    /// Days since 1970-01-01 on the clock that the cell is read on; 0 for a time of day.
    day: i64,
    /// Whether that is the clock of the declared zone.
    is_local: bool,
}

impl ReadTime {
    /// A time of day.
    #[inline]
    fn exact(instant: Instant) -> Self {
        Self { instant, precision: Precision::Time, day: 0, is_local: false }
    }

    /// Whether it is a day of the declared zone.
    pub fn is_local_day(&self) -> bool {
        self.precision == Precision::Day && self.is_local
    }
}

/// Reads instants, and caches the zone's offsets.
///
/// A time of day without a zone is on the wall clock of the declared zone. When the clock is set back, a time that
/// occurs twice means the first; when it is set forward, a time that does not occur is moved forward by the gap, and a
/// midnight that does not occur is the first instant of its date.
#[derive(Clone, Debug)]
pub struct TimeParser {
    format: TimeFormat,
    epoch: Option<EpochUnit>,
    century: Option<i16>,
    date: LastDate,
    clock: WallClock,
}

impl TimeParser {
    /// A parser of one format; `zone` is the zone of times without one.
    pub fn new(format: TimeFormat, zone: Zone) -> Self {
        let epoch = if let TimeFormat::Epoch(unit) = format { Some(unit) } else { None };
        TimeParser { format, epoch, century: None, date: LastDate::default(), clock: WallClock::new(zone) }
    }

    /// This parser, with the first of the hundred years that years of two digits mean.
    #[must_use]
    pub fn with_century(mut self, first: Option<i16>) -> Self {
        self.century = first;
        self
    }

    /// The instant in an event's time column; an error that names its row and column.
    #[inline]
    pub fn parse_event(&mut self, event: &Event<'_>) -> Result<Instant, InputError> {
        match self.read_event(event)? {
            Some(time) => Ok(time.instant),
            None => Err(no_time(event)),
        }
    }

    /// The time of an event whose cell is an instant of a typed column, or a text such as `2013-01-01T00:05:17Z`.
    /// `None` for other events, which [`read_event`](Self::read_event) reads; it is slower, as its result does not fit
    /// registers.
    #[inline]
    pub fn read_usual(&mut self, event: &Event<'_>) -> Option<Instant> {
        if event.time_of_day().is_some() {
            return None;
        }
        match event.time() {
            Field::Text(text) if matches!(self.format, TimeFormat::Auto | TimeFormat::Rfc3339) => {
                civil::parse_usual(&mut self.date, text).map(Instant::from_micros)
            }
            Field::Instant(micros) => Some(Instant::from_micros(micros)),
            _ => None,
        }
    }

    /// The time of an event, in one column or two; `None` without one. An error names row and column.
    #[inline]
    pub fn read_event(&mut self, event: &Event<'_>) -> Result<Option<ReadTime>, InputError> {
        let (read, role) = match event.time_of_day() {
            None => (self.read(event.time()), ColumnRole::Time),
            Some(clock) => {
                let mut role = ColumnRole::Time;
                (self.read_both(event.time(), clock, &mut role), role)
            }
        };
        match read {
            Ok(time) => Ok(Some(time)),
            Err(TimeError::Missing) => Ok(None),
            Err(problem) => Err(event.bad_cell(role, problem.sentence()).as_bad_row()),
        }
    }

    /// The instant in a cell. Cells of a typed time column do not need a format.
    #[inline]
    pub fn parse(&mut self, field: Field<'_>) -> Result<Instant, TimeError> {
        self.read(field).map(|time| time.instant)
    }

    /// The instant in a text.
    #[inline]
    pub fn parse_text(&mut self, text: &str) -> Result<Instant, TimeError> {
        self.read_text(text).map(|time| time.instant)
    }

    /// The time in a cell.
    #[inline]
    pub fn read(&mut self, field: Field<'_>) -> Result<ReadTime, TimeError> {
        match field {
            Field::Missing => Err(TimeError::Missing),
            Field::Text(text) | Field::Number(text) | Field::Decimal(text) => self.read_text(text),
            Field::Instant(micros) => Ok(ReadTime::exact(Instant::from_micros(micros))),
            Field::Civil(micros) => Ok(ReadTime::exact(self.clock.instant(micros))),
            Field::Date(days) => Ok(self.local(i64::from(days), Precision::Day)),
            Field::Integer(_) | Field::Float(_) | Field::Short { .. }
                if matches!(self.format, TimeFormat::Pattern(_)) =>
            {
                self.read_text(&field.to_string())
            }
            Field::Integer(count) => match self.epoch {
                Some(unit) => unit.micros_of_count(count).map(Instant::from_micros).map(ReadTime::exact),
                None => Err(unrecognised(&count.to_string(), TimeError::BareNumber)),
            },
            Field::Float(count) | Field::Short { value: count, .. } => {
                let unit = self.epoch.ok_or(TimeError::BareNumber)?;
                unit.micros_of_float(count).map(Instant::from_micros).map(ReadTime::exact)
            }
        }
    }

    /// The beginning of a day of the declared zone.
    #[inline]
    fn local(&mut self, day: i64, precision: Precision) -> ReadTime {
        let instant = self.clock.instant(day.saturating_mul(MICROS_PER_DAY));
        ReadTime { instant, precision, day, is_local: true }
    }

    #[inline]
    fn read_text(&mut self, text: &str) -> Result<ReadTime, TimeError> {
        let text = text.trim_ascii();
        if let Some(unit) = self.epoch {
            return unit.micros_of_text(text).map(Instant::from_micros).map(ReadTime::exact);
        }
        if let TimeFormat::Pattern(pattern) = &self.format {
            let precision = pattern.precision();
            return match pattern.read(text, self.century)? {
                PatternTime::Instant(time) => Ok(ReadTime::exact(Instant::from(time))),
                PatternTime::Civil(time, zones) => self.of_zones(civil_micros(time), &zones, precision),
            };
        }
        let civil = match civil::parse_after(&mut self.date, text) {
            Ok(civil) => civil,
            Err(TimeError::Unrecognised) if self.format != TimeFormat::Rfc3339 => return self.read_wide(text),
            Err(problem) => return Err(unrecognised(text, problem)),
        };
        match self.format {
            TimeFormat::Rfc3339 if civil.offset.is_none() => Err(TimeError::NoOffset),
            TimeFormat::Date if civil.time.is_some() => Err(TimeError::NotADate),
            _ => Ok(match (civil.offset, civil.time) {
                (Some(offset), _) => {
                    ReadTime::exact(Instant::from_micros(civil.micros() - i64::from(offset) * MICROS_PER_SECOND))
                }
                (None, Some(_)) => ReadTime::exact(self.clock.instant(civil.micros())),
                (None, None) => self.local(civil.day, Precision::Day),
            }),
        }
    }

    /// The time in a text of a less usual shape.
    #[cold]
    fn read_wide(&mut self, text: &str) -> Result<ReadTime, TimeError> {
        let wide = civil::parse_wide(text).map_err(|problem| unrecognised(text, problem))?;
        match (wide.clock, wide.is_month) {
            (Some(_), _) | (None, true) if self.format == TimeFormat::Date => Err(TimeError::NotADate),
            (Some(clock), _) => self.of_clock(wide.day, clock),
            (None, true) => Ok(self.local(wide.day, Precision::Month)),
            (None, false) => Ok(self.local(wide.day, Precision::Day)),
        }
    }

    /// A time of day with the zone that follows it.
    fn of_clock(&mut self, day: i64, clock: civil::TimeOfDay<'_>) -> Result<ReadTime, TimeError> {
        let mut zones = ZoneTexts::default();
        if !clock.zone.is_empty() {
            let (zone, len) = ZoneText::read(clock.zone)?;
            if len != clock.zone.len() {
                return Err(TimeError::Unrecognised);
            }
            zones.add(zone)?;
        }
        self.of_zones(day * MICROS_PER_DAY + clock.micros, &zones, Precision::Time) // fits: years have four digits
    }

    /// A time on the wall clock of some zones, or of the declared one.
    fn of_zones(&mut self, civil: i64, zones: &ZoneTexts, precision: Precision) -> Result<ReadTime, TimeError> {
        let day = if precision == Precision::Time { 0 } else { civil.div_euclid(MICROS_PER_DAY) };
        if zones.is_empty() {
            let is_local = precision != Precision::Time;
            return Ok(ReadTime { instant: self.clock.instant(civil), precision, day, is_local });
        }
        let time = wall_time(civil).ok_or(TimeError::TooFar)?;
        let offset = zones.offset_at(time, &self.clock.zone)?.unwrap_or(0);
        let instant = Instant::from_micros(civil.saturating_sub(i64::from(offset) * MICROS_PER_SECOND));
        Ok(ReadTime { instant, precision, day, is_local: false })
    }

    /// The last microsecond of the day, month or year that a time states; the instant itself for a time of day.
    pub fn last_instant(&mut self, time: &ReadTime) -> Instant {
        let (year, month, _) = civil::date_of(time.day);
        let next = match time.precision {
            Precision::Time => return time.instant,
            Precision::Day => time.day + 1,
            Precision::Month if month == 12 => civil::days_since_1970(year + 1, 1, 1),
            Precision::Month => civil::days_since_1970(year, month as u32 + 1, 1), // fits: at most 12
            Precision::Year => civil::days_since_1970(year + 1, 1, 1),
        };
        let end = match time.is_local {
            true => self.clock.instant(next.saturating_mul(MICROS_PER_DAY)).micros(),
            false => time.instant.micros().saturating_add((next - time.day).saturating_mul(MICROS_PER_DAY)),
        };
        Instant::from_micros(end.saturating_sub(1).max(time.instant.micros()))
    }

    /// Whether a text is a time of any year, or of a year from 1980 if times are numbers: small numbers may be other
    /// things.
    pub fn reads_as_recent(&mut self, text: &str) -> bool {
        const RECENT: Instant = Instant::from_micros(10 * 31_556_952 * MICROS_PER_SECOND);
        let is_number = self.epoch.is_some();
        self.parse_text(text).is_ok_and(|time| !is_number || time >= RECENT)
    }

    /// The declared unit of times that are numbers.
    pub fn epoch_unit(&self) -> Option<EpochUnit> {
        self.epoch
    }

    /// The instant in a cell if its number counts another unit; `None` for other cells.
    pub fn in_unit(&self, field: Field<'_>, unit: EpochUnit) -> Option<Instant> {
        let micros = match field {
            Field::Text(text) | Field::Number(text) | Field::Decimal(text) => unit.micros_of_text(text.trim_ascii()),
            Field::Integer(count) => unit.micros_of_count(count),
            Field::Float(count) | Field::Short { value: count, .. } => unit.micros_of_float(count),
            _ => return None,
        };
        micros.ok().map(Instant::from_micros)
    }

    /// The time in a column of dates and a column of times of day. After an error, `role` is the column at fault.
    fn read_both(&mut self, date: Field<'_>, clock: Field<'_>, role: &mut ColumnRole) -> Result<ReadTime, TimeError> {
        if date.is_missing() || clock.is_missing() {
            return Err(TimeError::Missing);
        }
        if let TimeFormat::Pattern(pattern) = &self.format
            && pattern.precision() == Precision::Time
        {
            let mut clock = clock.to_string();
            let digits = pattern.packed_clock().filter(|_| clock.bytes().all(|b| b.is_ascii_digit()));
            // Numbers lose the zeros at their front.
            let zeros = digits.map_or(0, |digits| digits.saturating_sub(clock.len()));
            clock.insert_str(0, &"0".repeat(zeros));
            let both = self.read_text(&format!("{date} {}", clock.trim_ascii()));
            // The pattern may be that of a date with a midnight.
            if both != Err(TimeError::NotAsDeclared) || self.day_of(date).is_err() {
                return both;
            }
        }
        let day = self.day_of(date)?;
        *role = ColumnRole::TimeOfDay;
        let (Field::Text(text) | Field::Number(text) | Field::Decimal(text)) = clock else {
            return Err(TimeError::NotAClock);
        };
        let clock = civil::parse_clock(text.trim_ascii()).map_err(|problem| match problem {
            TimeError::Unrecognised => TimeError::NotAClock,
            other => other,
        })?;
        if self.format == TimeFormat::Rfc3339 && clock.zone.is_empty() {
            return Err(TimeError::NoOffset);
        }
        self.of_clock(day, clock).map_err(|problem| match problem {
            TimeError::Unrecognised => TimeError::NotAClock,
            other => other,
        })
    }

    /// The day in a cell whose time of day is in another column. Exports write midnight after such dates.
    fn day_of(&mut self, date: Field<'_>) -> Result<i64, TimeError> {
        let at_midnight = |micros: i64| match micros.rem_euclid(MICROS_PER_DAY) {
            0 => Ok(micros.div_euclid(MICROS_PER_DAY)),
            _ => Err(TimeError::NotADateAlone),
        };
        match (date, &self.format) {
            (Field::Date(days), _) => Ok(i64::from(days)),
            (Field::Civil(micros), _) => at_midnight(micros),
            (Field::Instant(_), _) | (_, TimeFormat::Epoch(_)) => Err(TimeError::NotADateAlone),
            (_, TimeFormat::Pattern(pattern)) => match pattern.read(date.to_string().trim_ascii(), self.century)? {
                PatternTime::Civil(time, zones) if zones.is_empty() => at_midnight(civil_micros(time)),
                _ => Err(TimeError::NotADateAlone),
            },
            (Field::Text(text) | Field::Number(text) | Field::Decimal(text), _) => {
                let text = text.trim_ascii();
                match civil::parse(text) {
                    Ok(civil) if civil.offset.is_none() => at_midnight(civil.micros()),
                    Ok(_) => Err(TimeError::NotADateAlone),
                    Err(problem) => match civil::parse_wide(text) {
                        Ok(wide) if wide.clock.is_none() && !wide.is_month => Ok(wide.day),
                        Ok(_) => Err(TimeError::NotADateAlone),
                        Err(_) => Err(unrecognised(text, problem)),
                    },
                }
            }
            _ => Err(unrecognised(&date.to_string(), TimeError::BareNumber)),
        }
    }
}

/// The error of an event without a time.
pub fn no_time(event: &Event<'_>) -> InputError {
    let role = match event.time_of_day() {
        Some(clock) if clock.is_missing() && !event.time().is_missing() => ColumnRole::TimeOfDay,
        _ => ColumnRole::Time,
    };
    event.error(role, "the row has no time")
}

/// Microseconds since 1970-01-01T00:00, rounded down, or the largest value beyond the calendar.
fn civil_micros(time: DateTime) -> i64 {
    TimeZone::UTC.to_timestamp(time).map_or(i64::MAX, |time| Instant::from(time).micros())
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
        let is_year = text.len() == 4 && text.starts_with(['1', '2']) && text.bytes().all(|b| b.is_ascii_digit());
        return if is_year { TimeError::BareYear } else { TimeError::BareNumber };
    }
    let parts: Vec<&str> = text.split([' ', 'T', ',']).next().unwrap_or(text).split(['/', '.', '-']).collect();
    let is_short = |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let is_year = |part: &str| part.len() == 4 && part.bytes().all(|b| b.is_ascii_digit());
    match parts[..] {
        [first, second, year] if is_short(first) && is_short(second) && is_year(year) => TimeError::OrderOpen,
        [first, second, third] if [first, second, third].into_iter().all(is_short) => TimeError::ShortYear,
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
