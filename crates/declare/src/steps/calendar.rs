//! A horizon cut into steps.

use std::fmt;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use super::{Every, Instant, StepUnit, Zone};
use crate::civil::MICROS_PER_SECOND;
use crate::parameter::Parameter;
use crate::problem::{Sentence, sentence};

/// The maximum number of steps of a horizon.
pub const MAX_STEPS: u64 = 1 << 40;

/// The extent of a horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// Until this instant (exclusive), at which a step must end.
    Until(Instant),
    /// For this many steps.
    Steps(u64),
    /// Without an end; the calendar is laid out for 400 years.
    Endless,
}

/// The number of years for which a calendar without an end is laid out. Nothing depends on it: the plan has no end.
const ENDLESS_YEARS: i64 = 400;

/// The steps of a horizon: step `k` of `1..=steps` is the half-open time from `start_of(k)` to `end_of(k)`.
///
/// ```
/// use evertally_declare::steps::{Horizon, Instant, StepCalendar, Zone};
/// let (start, horizon) = (Instant::from_micros(0), Horizon::Steps(24));
/// let hourly = StepCalendar::new(start, horizon, "1h".parse().unwrap(), Zone::utc()).unwrap();
/// assert_eq!(hourly.step_of(Instant::from_micros(3_600_000_000)), Some(2));
/// assert_eq!(hourly.format(hourly.end_of(24)), "1970-01-02T00:00:00Z");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCalendar {
    start: Instant,
    end: Instant,
    steps: u64,
    every: Every,
    zone: Zone,
    /// Microseconds of every step, if all have the same.
    width: Option<i64>,
    /// Otherwise the `steps + 1` boundaries of steps. They are few: a calendar has less than four million days.
    boundaries: Vec<Instant>,
    date_only: bool,
}

/// A plan's description of its steps, from which [`StepCalendar::from_spec`] restores the same steps anywhere.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    /// Start of the first step, RFC 3339 in UTC.
    pub start: Timestamp,
    /// Number of steps.
    pub steps: u64,
    /// Width of a step.
    pub every: Every,
    /// Time zone whose calendar the steps follow.
    pub zone: Zone,
}

impl StepCalendar {
    /// Lays out the steps of a horizon that begins at `start`.
    pub fn new(start: Instant, horizon: Horizon, every: Every, zone: Zone) -> Result<Self, CalendarError> {
        let ruler = StepBoundaries::new(start, every, &zone)?;
        let steps = match horizon {
            Horizon::Steps(steps) => steps,
            Horizon::Until(end) if end <= start => return Err(CalendarError::EndNotAfterStart { start, end }),
            Horizon::Until(end) => ruler.steps_until(end)?,
            Horizon::Endless => ruler.steps_within(ENDLESS_YEARS)?.clamp(1, MAX_STEPS),
        };
        if steps == 0 {
            return Err(CalendarError::NoSteps);
        }
        if steps > MAX_STEPS {
            return Err(CalendarError::TooMany(steps));
        }
        let end = ruler.boundary(steps).ok_or(CalendarError::BeyondCalendar)?;
        let boundaries = match ruler.width {
            Some(_) => Vec::new(),
            None => {
                (0..=steps).map(|k| ruler.boundary(k)).collect::<Option<_>>().ok_or(CalendarError::BeyondCalendar)?
            }
        };
        let width = ruler.width;
        let at_midnight = ruler.origin.time() == jiff::civil::Time::midnight();
        let date_only = every.is_calendar() && at_midnight;
        Ok(StepCalendar { start, end, steps, every, zone, width, boundaries, date_only })
    }

    /// The steps that a plan describes.
    pub fn from_spec(spec: &CalendarSpec) -> Result<Self, CalendarError> {
        StepCalendar::new(spec.start.into(), Horizon::Steps(spec.steps), spec.every, spec.zone.clone())
    }

    /// The description of these steps for a plan.
    pub fn spec(&self) -> CalendarSpec {
        let start = self.start.timestamp().expect("checked when the steps were laid out");
        CalendarSpec { start, steps: self.steps, every: self.every, zone: self.zone.clone() }
    }

    /// Number of steps.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Start of the first step.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// End of the last step, exclusive.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// Width of a step.
    pub fn every(&self) -> Every {
        self.every
    }

    /// Microseconds of every step, if all have the same.
    pub(crate) fn width(&self) -> Option<i64> {
        self.width
    }

    /// A width in microseconds such that all steps begin at multiples of it, counted from 1970: all times between two
    /// adjacent multiples are in one step.
    pub fn common_width(&self) -> i64 {
        let divisor = |a: i64, b: i64| {
            let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a as i64 // fits: no instant is that far away
        };
        let boundaries = self.boundaries.iter().map(|boundary| boundary.micros());
        boundaries.chain(self.width).chain([self.start.micros()]).fold(0, divisor).max(1)
    }

    /// Time zone whose calendar the steps follow.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The step, counted from 1, that contains an instant; `None` outside the horizon.
    #[inline]
    pub fn step_of(&self, instant: Instant) -> Option<u64> {
        if instant < self.start || instant >= self.end {
            return None;
        }
        let elapsed = instant.micros() - self.start.micros();
        Some(match self.width {
            Some(width) => (elapsed / width) as u64 + 1,
            None => self.find_step(instant, elapsed),
        })
    }

    /// Finds the step from a proportional guess, which is off by at most two steps as calendar steps have nearly the
    /// same width.
    fn find_step(&self, instant: Instant, elapsed: i64) -> u64 {
        let whole = self.end.micros() - self.start.micros();
        let guess = i128::from(elapsed) * i128::from(self.steps) / i128::from(whole);
        let mut index = guess as usize;
        while self.boundaries[index] > instant {
            index -= 1;
        }
        while self.boundaries[index + 1] <= instant {
            index += 1;
        }
        index as u64 + 1
    }

    /// The start of a step.
    ///
    /// # Panics
    /// When the step is not one of `1..=steps`.
    pub fn start_of(&self, step: u64) -> Instant {
        assert!((1..=self.steps).contains(&step), "step {step} of {}", self.steps);
        self.boundary(step - 1)
    }

    /// The end of a step; the instant belongs to the next step.
    ///
    /// # Panics
    /// When the step is not one of `1..=steps`.
    pub fn end_of(&self, step: u64) -> Instant {
        assert!((1..=self.steps).contains(&step), "step {step} of {}", self.steps);
        self.boundary(step)
    }

    fn boundary(&self, index: u64) -> Instant {
        match self.width {
            Some(width) => Instant::from_micros(self.start.micros() + index as i64 * width),
            None => self.boundaries[index as usize],
        }
    }

    /// Whether times of this calendar are written as dates: steps are days or longer, and begin at midnight.
    pub fn is_date_only(&self) -> bool {
        self.date_only
    }

    /// An instant as written to output: RFC 3339 with the zone's offset, or only the date if that is unambiguous.
    pub fn format(&self, instant: Instant) -> String {
        let mut text = String::new();
        self.write_time(instant, &mut text);
        text
    }

    /// Appends an instant as written to output.
    pub fn write_time(&self, instant: Instant, out: &mut String) {
        use fmt::Write;
        let zone = self.zone.time_zone();
        match instant.timestamp() {
            Some(time) if self.date_only => {
                write!(out, "{}", zone.to_datetime(time).date()).expect("a String accepts every write");
            }
            _ => write_local(zone, instant, out),
        }
    }
}

/// Appends an instant with the zone's offset; `Z` for UTC itself.
fn write_local(zone: &TimeZone, instant: Instant, out: &mut String) {
    use fmt::Write;
    let written = match instant.timestamp() {
        Some(time) if *zone != TimeZone::UTC => write!(out, "{}", time.display_with_offset(zone.to_offset(time))),
        _ => write!(out, "{instant}"),
    };
    written.expect("a String accepts every write");
}

/// The unlimited sequence of step boundaries after a start.
pub(super) struct StepBoundaries {
    start: Instant,
    origin: Zoned,
    every: Every,
    width: Option<i64>,
}

impl StepBoundaries {
    pub(super) fn new(start: Instant, every: Every, zone: &Zone) -> Result<Self, CalendarError> {
        let origin = start.timestamp().ok_or(CalendarError::BeyondCalendar)?.to_zoned(zone.time_zone().clone());
        let is_even = !every.is_calendar() || zone.fixed_offset().is_some();
        let micros = |seconds: i64| seconds.checked_mul(MICROS_PER_SECOND).ok_or(CalendarError::BeyondCalendar);
        let width = every.seconds().filter(|_| is_even).map(micros).transpose()?;
        Ok(StepBoundaries { start, origin, every, width })
    }

    /// The boundary with this index. It is always counted from the start, so months from the 31st return to the 31st
    /// after a shorter month.
    pub(super) fn boundary(&self, index: u64) -> Option<Instant> {
        let index = i64::try_from(index).ok()?;
        match self.width {
            Some(width) => {
                let instant = Instant::from_micros(self.start.micros().checked_add(index.checked_mul(width)?)?);
                instant.timestamp().map(|_| instant)
            }
            None => {
                let span = Self::span(self.every, index)?;
                self.origin.checked_add(span).ok().map(|zoned| zoned.timestamp().into())
            }
        }
    }

    /// The midnight that begins the day `index` widths after a date, by the calendar of a zone.
    pub(super) fn midnight(date: Date, every: Every, index: u64, zone: &Zone) -> Option<Instant> {
        let date = date.checked_add(Self::span(every, i64::try_from(index).ok()?)?).ok()?;
        Some(date.to_zoned(zone.time_zone().clone()).ok()?.timestamp().into())
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

    fn steps_until(&self, end: Instant) -> Result<u64, CalendarError> {
        let mut index = self.guess(end);
        while self.boundary(index).is_none_or(|b| b > end) {
            index -= 1;
        }
        while self.boundary(index + 1).is_some_and(|b| b <= end) {
            index += 1;
        }
        let before = self.boundary(index).ok_or(CalendarError::BeyondCalendar)?;
        if before == end {
            return Ok(index);
        }
        let after = self.boundary(index + 1).ok_or(CalendarError::BeyondCalendar)?;
        let zone = self.origin.time_zone().clone();
        Err(CalendarError::EndInsideStep { end, before: (before > self.start).then_some(before), after, zone })
    }

    /// The number of whole steps in `years` years from the start, or before the calendar ends.
    fn steps_within(&self, years: i64) -> Result<u64, CalendarError> {
        let years = Span::new().try_years(years).ok().and_then(|span| self.origin.checked_add(span).ok());
        let end: Instant = years.map_or(Timestamp::MAX, |zoned| zoned.timestamp()).into();
        let mut index = self.guess(end);
        while index > 0 && self.boundary(index).is_none_or(|boundary| boundary > end) {
            index -= 1;
        }
        if index == 0 { Err(CalendarError::BeyondCalendar) } else { Ok(index) }
    }

    /// The index of a boundary close to `end`, as calendar units have nearly the same width.
    fn guess(&self, end: Instant) -> u64 {
        let elapsed = i128::from(end.micros()) - i128::from(self.start.micros());
        let day = 86_400 * i128::from(MICROS_PER_SECOND);
        let width = match (self.width, self.every.unit()) {
            (Some(width), _) => i128::from(width),
            (None, StepUnit::Month) => i128::from(self.every.count()) * day * 146_097 / 4800,
            (None, StepUnit::Year) => i128::from(self.every.count()) * day * 146_097 / 400,
            (None, _) => i128::from(self.every.seconds().expect("days and weeks")) * i128::from(MICROS_PER_SECOND),
        };
        u64::try_from(elapsed / width).unwrap_or(0)
    }
}

/// Why a horizon cannot be cut into steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalendarError {
    /// The horizon is empty or goes backwards.
    EndNotAfterStart {
        /// Declared start.
        start: Instant,
        /// Declared end.
        end: Instant,
    },
    /// The last step would be cut off.
    EndInsideStep {
        /// Declared end.
        end: Instant,
        /// Last end of a step before it, if any.
        before: Option<Instant>,
        /// First end of a step after it.
        after: Instant,
        /// Zone in which the message writes times.
        zone: TimeZone,
    },
    /// Zero steps.
    NoSteps,
    /// More than [`MAX_STEPS`].
    TooMany(u64),
    /// The end is after the year 9999, or the start before the year -9999.
    BeyondCalendar,
}

impl CalendarError {
    /// The problem and its remedy.
    pub fn sentence(&self) -> Sentence {
        match self {
            CalendarError::EndNotAfterStart { start, end } => {
                let ends = format!("the horizon ends at {end}, which is not after its start {start}; give a later ");
                sentence![ends, Parameter::End]
            }
            CalendarError::EndInsideStep { end, before, after, zone } => {
                let local = |instant: &Instant| {
                    let mut text = String::new();
                    write_local(zone, *instant, &mut text);
                    text
                };
                let before = before.as_ref().map_or(String::new(), |before| format!("{} and ", local(before)));
                format!(
                    "the horizon ends at {}, in the middle of a step; the nearest ends of steps are {before}{}",
                    local(end),
                    local(after)
                )
                .into()
            }
            CalendarError::NoSteps => "the horizon has no steps; give at least one".into(),
            CalendarError::TooMany(steps) => {
                format!("the horizon has {steps} steps, but at most 2^40 are possible; make steps wider").into()
            }
            CalendarError::BeyondCalendar => {
                "the horizon leaves the calendar (years -9999 to 9999); give fewer or narrower steps".into()
            }
        }
    }
}

impl fmt::Display for CalendarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sentence().fmt(f)
    }
}

impl std::error::Error for CalendarError {}
