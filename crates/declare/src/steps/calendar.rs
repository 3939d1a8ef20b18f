//! A horizon cut into steps.

use std::fmt;

use jiff::Timestamp;

use super::boundaries::StepBoundaries;
use super::horizon::{CalendarError, Horizon, MAX_STEPS};
use super::{Every, Instant, Zone};

/// The steps of a horizon: step `k` of `1..=steps` is the half-open time from `start_of(k)` to `end_of(k)`.
///
/// Days, weeks, months and years begin at the first instant of their local date, if the horizon does. That is midnight,
/// or the end of the gap where the clock was set forward over midnight. A date that the zone skipped has no step.
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
    /// Otherwise the `steps + 1` boundaries of steps: fewer than eight million.
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
        match horizon {
            Horizon::Steps(0) => return Err(CalendarError::NoSteps),
            Horizon::Steps(steps) if steps > MAX_STEPS => return Err(CalendarError::TooMany(steps)),
            Horizon::Until(end) if end <= start => return Err(CalendarError::EndNotAfterStart { start, end }),
            _ => {}
        }
        let width = ruler.width();
        let (steps, end, boundaries) = match width {
            Some(_) => {
                let steps = ruler.even_steps(horizon)?;
                (steps, ruler.boundary(steps).ok_or(CalendarError::BeyondCalendar)?, Vec::new())
            }
            None => {
                let boundaries = ruler.lay_out(horizon)?;
                (boundaries.len() as u64 - 1, boundaries[boundaries.len() - 1], boundaries)
            }
        };
        if steps > MAX_STEPS {
            return Err(CalendarError::TooMany(steps));
        }
        let date_only = ruler.begins_with_dates();
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

    /// The calendar of as many steps that ends where this one begins; `None` if there is no such calendar.
    pub fn preceding(&self) -> Option<Self> {
        let start = StepBoundaries::new(self.start, self.every, &self.zone).ok()?.boundary_before(self.steps)?;
        let before = Self::new(start, Horizon::Steps(self.steps), self.every, self.zone.clone()).ok()?;
        (before.end == self.start).then_some(before)
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

    /// Whether times of this calendar are written as dates: steps are days or longer, and begin at the first instant of
    /// a date.
    pub fn is_date_only(&self) -> bool {
        self.date_only
    }

    /// An instant as written to output: RFC 3339 with the zone's offset, or only the date if that is unambiguous.
    pub fn format(&self, instant: Instant) -> String {
        let mut text = String::new();
        self.write_time(instant, &mut text);
        text
    }

    /// An instant in words: a date alone if it is at midnight, or if steps begin with dates.
    pub fn in_words(&self, instant: Instant) -> String {
        match instant.timestamp().map(|time| self.zone.time_zone().to_datetime(time)) {
            Some(civil) if civil.time() == jiff::civil::Time::midnight() || self.date_only => {
                civil.strftime("%-d %B %Y").to_string()
            }
            _ => self.format(instant),
        }
    }

    /// Appends an instant as written to output.
    pub fn write_time(&self, instant: Instant, out: &mut String) {
        use fmt::Write;
        let zone = self.zone.time_zone();
        match instant.timestamp() {
            Some(time) if self.date_only => {
                write!(out, "{}", zone.to_datetime(time).date()).expect("a String accepts every write");
            }
            _ => instant.write_in(zone, out),
        }
    }
}
