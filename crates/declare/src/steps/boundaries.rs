//! The boundaries of steps: even widths of elapsed time, or the first instants of dates.

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp, Zoned};

use super::horizon::{CalendarError, Horizon, MAX_STEPS};
use super::{Every, Instant, StepUnit, Zone};
use crate::civil::MICROS_PER_SECOND;

/// The number of years for which a calendar without an end is laid out. Nothing depends on it: the plan has no end.
const ENDLESS_YEARS: i64 = 400;

/// The first instant of a date in a zone, or of the next date that exists; `None` beyond the calendar.
///
/// Midnight does not exist where the clock is set forward over it: the date begins when the gap ends, or the zone skips
/// the whole date. Where the clock is set back over midnight, midnight occurs twice, and the date begins at the first.
pub(super) fn first_instant(zone: &TimeZone, date: Date) -> Option<Timestamp> {
    let midnight = date.to_datetime(Time::midnight());
    let ambiguous = zone.to_ambiguous_timestamp(midnight);
    let AmbiguousOffset::Gap { after, .. } = ambiguous.offset() else { return ambiguous.compatible().ok() };
    // The offset after the gap is the larger one, so this instant is before the gap.
    let before = after.to_timestamp(midnight).ok()?;
    zone.following(before).map(|change| change.timestamp()).find(|time| zone.to_datetime(*time) >= midnight)
}

/// The unlimited sequence of step boundaries after a start.
pub(super) struct StepBoundaries {
    start: Instant,
    origin: Zoned,
    every: Every,
    width: Option<i64>,
    /// Whether steps are days or longer, and begin at the first instants of dates.
    at_dates: bool,
}

impl StepBoundaries {
    pub(super) fn new(start: Instant, every: Every, zone: &Zone) -> Result<Self, CalendarError> {
        let origin = start.timestamp().ok_or(CalendarError::BeyondCalendar)?.to_zoned(zone.time_zone().clone());
        let is_even = !every.is_calendar() || zone.fixed_offset().is_some();
        let micros = |seconds: i64| seconds.checked_mul(MICROS_PER_SECOND).ok_or(CalendarError::BeyondCalendar);
        let width = every.seconds().filter(|_| is_even).map(micros).transpose()?;
        let begins_date =
            || origin.time() == Time::midnight() || first_instant(zone.time_zone(), origin.date()) == start.timestamp();
        let at_dates = every.is_calendar() && begins_date();
        Ok(StepBoundaries { start, origin, every, width, at_dates })
    }

    /// Microseconds of every step, if all have the same.
    pub(super) fn width(&self) -> Option<i64> {
        self.width
    }

    /// Whether steps are days or longer, and begin at the first instants of dates.
    pub(super) fn begins_with_dates(&self) -> bool {
        self.at_dates
    }

    /// The boundary `index` widths after the start. It is always counted from the start, so months from the 31st return
    /// to the 31st after a shorter month. Two successive ones are equal if the zone skipped the date between them.
    pub(super) fn boundary(&self, index: u64) -> Option<Instant> {
        self.boundary_at(i64::try_from(index).ok()?)
    }

    /// Whether an instant after the start is one of the boundaries.
    pub(super) fn has(&self, instant: Instant) -> bool {
        if let Some(width) = self.width {
            return (i128::from(instant.micros()) - i128::from(self.start.micros())) % i128::from(width) == 0;
        }
        // Days or more each: fewer than 4 million.
        let boundaries = (1..).map_while(|index| self.boundary(index));
        boundaries.take_while(|boundary| *boundary <= instant).last() == Some(instant)
    }

    /// The instant `index` widths before the start, from which the same widths usually lead back to the start: not if
    /// months differ in length, or the zone skipped a date.
    pub(super) fn boundary_before(&self, index: u64) -> Option<Instant> {
        self.boundary_at(i64::try_from(index).ok()?.checked_neg()?)
    }

    fn boundary_at(&self, index: i64) -> Option<Instant> {
        if index == 0 {
            return Some(self.start);
        }
        if let Some(width) = self.width {
            let instant = Instant::from_micros(self.start.micros().checked_add(index.checked_mul(width)?)?);
            return instant.timestamp().map(|_| instant);
        }
        let span = Self::span(self.every, index)?;
        let time = match self.at_dates {
            true => first_instant(self.origin.time_zone(), self.origin.date().checked_add(span).ok()?)?,
            false => self.origin.checked_add(span).ok()?.timestamp(),
        };
        Some(time.into())
    }

    /// The first instant of the date `index` widths after a date, by the calendar of a zone.
    pub(super) fn date_after(date: Date, every: Every, index: u64, zone: &Zone) -> Option<Instant> {
        let date = date.checked_add(Self::span(every, i64::try_from(index).ok()?)?).ok()?;
        first_instant(zone.time_zone(), date).map(Instant::from)
    }

    /// The calendar span of `index` widths.
    fn span(every: Every, index: i64) -> Option<Span> {
        let count = index.checked_mul(i64::from(every.count()))?;
        let span = match every.unit() {
            StepUnit::Day => Span::new().try_days(count),
            StepUnit::Week => Span::new().try_weeks(count),
            StepUnit::Month => Span::new().try_months(count),
            StepUnit::Year => Span::new().try_years(count),
            StepUnit::Second | StepUnit::Minute | StepUnit::Hour => unreachable!("elapsed time has one width"),
        };
        span.ok()
    }

    /// The number of steps of a horizon, if all have the same width.
    pub(super) fn even_steps(&self, horizon: Horizon) -> Result<u64, CalendarError> {
        let width = self.width.expect("steps of one width");
        let whole = |end: Instant| (i128::from(end.micros()) - i128::from(self.start.micros())) / i128::from(width);
        match horizon {
            Horizon::Steps(steps) => Ok(steps),
            Horizon::Endless => {
                let steps = u64::try_from(whole(self.last_end())).unwrap_or(0);
                if steps == 0 { Err(CalendarError::BeyondCalendar) } else { Ok(steps.min(MAX_STEPS)) }
            }
            Horizon::Until(end) => {
                let steps = u64::try_from(whole(end)).map_err(|_| CalendarError::BeyondCalendar)?;
                let boundary = |index| self.boundary(index).ok_or(CalendarError::BeyondCalendar);
                let before = boundary(steps)?;
                if before == end { Ok(steps) } else { Err(self.inside_step(before, end, boundary(steps + 1)?)) }
            }
        }
    }

    /// The boundaries of all steps of a horizon, if steps differ in width: fewer than eight million.
    pub(super) fn lay_out(&self, horizon: Horizon) -> Result<Vec<Instant>, CalendarError> {
        // Quick refusals of what no calendar contains.
        let is_within = match horizon {
            Horizon::Steps(steps) => self.boundary(steps).is_some(),
            Horizon::Until(end) => end.timestamp().is_some(),
            Horizon::Endless => true,
        };
        if !is_within {
            return Err(CalendarError::BeyondCalendar);
        }
        let last = self.last_end();
        let mut all = vec![self.start];
        for end in (1..).map_while(|index| self.boundary(index)) {
            let before = all[all.len() - 1];
            match horizon {
                // The zone skipped a date.
                _ if end <= before => continue,
                Horizon::Until(until) if end > until => return Err(self.inside_step(before, until, end)),
                Horizon::Endless if end > last && all.len() > 1 => return Ok(all),
                Horizon::Endless if end > last => return Err(CalendarError::BeyondCalendar),
                _ => all.push(end),
            }
            match horizon {
                Horizon::Steps(steps) if all.len() as u64 > steps => return Ok(all),
                Horizon::Until(until) if end == until => return Ok(all),
                _ => {}
            }
        }
        match horizon {
            Horizon::Endless if all.len() > 1 => Ok(all),
            _ => Err(CalendarError::BeyondCalendar),
        }
    }

    /// The instant at which the last step of a calendar without an end has ended.
    fn last_end(&self) -> Instant {
        let years = Span::new().try_years(ENDLESS_YEARS).ok().and_then(|span| self.origin.checked_add(span).ok());
        years.map_or(Timestamp::MAX, |zoned| zoned.timestamp()).into()
    }

    fn inside_step(&self, before: Instant, end: Instant, after: Instant) -> CalendarError {
        let zone = self.origin.time_zone().clone();
        CalendarError::EndInsideStep { end, before: (before > self.start).then_some(before), after, zone }
    }
}
