//! Periods, after each of which the bounds on a person restart.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use jiff::Span;
use jiff::civil::Date;

use super::boundaries::{StepBoundaries, first_instant};
use super::{Every, EveryError, Instant, StepCalendar, StepUnit, Zone};
use crate::parameter::Parameter;
use crate::problem::{Sentence, sentence};

/// The length of a period, as a number of steps or a time span: `day`, `1w`, `month`, `30`, …
///
/// Days, weeks (from Monday), months, quarters, other parts of a year in months, and years are those of the calendar in
/// the declared zone. All others (`2w`, `36h`, `30` steps) follow one another from the start of the horizon. In either
/// case the horizon may cut off the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// This many steps, counted from the first step.
    Steps(u64),
    /// A time span.
    Time(Every),
}

impl Period {
    /// In words, to follow "in": `one calendar month`.
    pub fn in_words(self) -> String {
        let every = match self {
            Self::Steps(steps) => return format!("{steps} steps"),
            Self::Time(every) => every,
        };
        let word = match (every.unit(), every.count()) {
            (StepUnit::Day, 1) => "day",
            (StepUnit::Week, 1) => "week",
            (StepUnit::Month, 1) => "month",
            (StepUnit::Month, 3) => "quarter",
            (StepUnit::Year, 1) => "year",
            _ => {
                return every.in_words();
            }
        };
        format!("one calendar {word}")
    }

    /// Several periods in words: `7 calendar months`.
    pub fn several_in_words(self, count: u64) -> String {
        match self.in_words().strip_prefix("one ") {
            Some(word) => format!("{count} {word}{}", if count == 1 { "" } else { "s" }),
            None if count == 1 => self.in_words(),
            None => format!("{count} times {}", self.in_words()),
        }
    }

    /// Whether it is a period of the calendar instead of one counted from the start of a horizon.
    pub fn is_of_the_calendar(self) -> bool {
        self.period_start(Date::new(2000, 1, 1).expect("a date")).is_some()
    }

    /// Whether a horizon that begins at `start`, where the one that began at `before` ends, begins with a new period. A
    /// period that is counted from the start of a horizon must have been over at its end. Periods of a number of steps
    /// are over if the horizon is a multiple of them: `is_multiple`.
    pub fn begins_at(self, start: Instant, before: Option<Instant>, zone: &Zone, is_multiple: bool) -> bool {
        let Some(time) = start.timestamp() else { return false };
        let Self::Time(every) = self else { return is_multiple };
        let date = zone.time_zone().to_datetime(time).date();
        if let Some(first) = self.period_start(date) {
            return first == date && first_instant(zone.time_zone(), date) == Some(time);
        }
        let ruler = before.and_then(|before| StepBoundaries::new(before, every, zone).ok());
        ruler.is_some_and(|ruler| ruler.has(start))
    }

    /// In words, with the zone unless that is UTC.
    pub fn name_in(self, zone: &str) -> String {
        let words = self.in_words();
        if zone == "UTC" { words } else { format!("{words} ({zone})") }
    }

    /// The date on which the calendar's period that contains a date begins, if it is a period of the calendar.
    fn period_start(self, date: Date) -> Option<Date> {
        let Self::Time(every) = self else { return None };
        match (every.unit(), every.count()) {
            (StepUnit::Day, 1) => Some(date),
            (StepUnit::Week, 1) => date.checked_sub(Span::new().days(date.weekday().to_monday_zero_offset())).ok(),
            (StepUnit::Month, months) if 12 % months == 0 => {
                let months = months as i8; // fits: a divisor of 12
                Date::new(date.year(), (date.month() - 1) / months * months + 1, 1).ok()
            }
            (StepUnit::Year, 1) => Date::new(date.year(), 1, 1).ok(),
            _ => None,
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => write!(f, "{steps} steps"),
            Self::Time(every) => every.fmt(f),
        }
    }
}

impl FromStr for Period {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let trimmed = text.trim();
        let number = trimmed.strip_suffix("steps").map_or(trimmed, str::trim_end);
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            let steps = number.parse().ok().filter(|steps| *steps > 0);
            return steps.map(Self::Steps).ok_or_else(|| PeriodError { text: crate::words::shorten(text) });
        }
        trimmed.parse().map(Self::Time).map_err(|_: EveryError| PeriodError { text: crate::words::shorten(text) })
    }
}

impl serde::Serialize for Period {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Steps(steps) => serializer.serialize_u64(*steps),
            Self::Time(every) => serializer.collect_str(every),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Period {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Written {
            Steps(u64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Steps(steps) => steps.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is not a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodError {
    text: String,
}

impl fmt::Display for PeriodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        write!(
            f,
            "`{text}` is not a period: give day, week, month, quarter or year, a width such as 2w, or a number of steps"
        )
    }
}

impl std::error::Error for PeriodError {}

/// The periods of a horizon, each a whole number of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Periods {
    laid_out: PeriodLayout,
    longest: Option<u64>,
    /// The smallest number of steps of a period between two others.
    least: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum PeriodLayout {
    /// The whole horizon is one period.
    #[default]
    One,
    /// Periods of this many steps, counted from the first step.
    Even(u64),
    /// The first steps of all but the first period.
    Listed(Vec<u64>),
}

impl Periods {
    /// Lays out the periods of a horizon.
    ///
    /// # Errors
    /// If a step would belong to two periods.
    ///
    /// ```
    /// use evertally_declare::steps::{Horizon, Instant, Periods, StepCalendar, Zone};
    /// let (start, horizon) = (Instant::from_micros(0), Horizon::Steps(59));
    /// let days = StepCalendar::new(start, horizon, "1d".parse().unwrap(), Zone::utc()).unwrap();
    /// let months = Periods::new(&days, "month".parse().unwrap()).unwrap();
    /// assert_eq!(months.of(31), 1..32);
    /// assert_eq!(months.of(32), 32..u64::MAX); // the last one
    /// assert_eq!(months.longest(), Some(31));
    /// ```
    pub fn new(calendar: &StepCalendar, period: Period) -> Result<Self, Sentence> {
        let every = match period {
            Period::Steps(steps) => return Ok(Self::even(steps)),
            Period::Time(every) => every,
        };
        if let (Some(width), false) = (calendar.width(), every.is_calendar()) {
            let seconds = every.seconds().expect("elapsed time");
            let period = seconds.saturating_mul(crate::civil::MICROS_PER_SECOND); // longer than any horizon
            let steps = (period / width) as u64; // fits: both are positive
            if period % width != 0 {
                return Err(cut(calendar, period_of(every), calendar.start_of(1), calendar.end_of(1)));
            }
            return Ok(Self::even(steps));
        }
        let firsts = period_starts(calendar, every)?;
        let ends = firsts.iter().copied().chain([calendar.steps() + 1]);
        let lengths = std::iter::once(1).chain(firsts.iter().copied()).zip(ends).map(|(from, to)| to - from);
        let longest = lengths.max().expect("there is one").max(max_period_steps(calendar, every));
        let least = firsts.windows(2).map(|pair| pair[1] - pair[0]).min();
        Ok(Self { laid_out: PeriodLayout::Listed(firsts), longest: Some(longest), least })
    }

    /// Periods of `steps` steps each.
    fn even(steps: u64) -> Self {
        Self { laid_out: PeriodLayout::Even(steps), longest: Some(steps), least: Some(steps) }
    }

    /// Whether every whole period has at least nine tenths of the steps of the longest. Bounds on the number of periods
    /// that a number of steps can touch rely on that.
    pub fn are_regular(&self) -> bool {
        self.longest.zip(self.least).is_none_or(|(longest, least)| least >= longest - longest / 10)
    }

    /// The largest possible length of such a period, in steps, for any position of the horizon; `None` without periods.
    pub fn longest(&self) -> Option<u64> {
        self.longest
    }

    /// The number of periods in a horizon of `steps` steps.
    pub fn count(&self, steps: u64) -> u64 {
        match &self.laid_out {
            PeriodLayout::One => 1,
            PeriodLayout::Even(length) => steps.div_ceil(*length),
            PeriodLayout::Listed(firsts) => 1 + firsts.len() as u64,
        }
    }

    /// The largest number of periods that this many consecutive steps touch, for any position of the horizon. These are
    /// the periods of a calendar that this was laid out by.
    ///
    /// ```
    /// use evertally_declare::steps::{Horizon, Instant, Period, Periods, StepCalendar, Zone};
    /// let (start, month): (_, Period) = (Instant::from_micros(0), "month".parse().unwrap());
    /// let days = StepCalendar::new(start, Horizon::Steps(59), "1d".parse().unwrap(), Zone::utc()).unwrap();
    /// let months = Periods::new(&days, month).unwrap();
    /// // Of 30 days, 28 may be those of February.
    /// assert_eq!([1, 29, 30].map(|steps| months.touched(steps, &days, month)), [1, 2, 3]);
    /// ```
    pub fn touched(&self, steps: u64, calendar: &StepCalendar, period: Period) -> u64 {
        let between = steps.saturating_sub(2);
        match (&self.laid_out, period) {
            (PeriodLayout::One, _) => 1,
            _ if steps <= 1 => 1,
            (PeriodLayout::Even(length), _) => (steps - 1).div_ceil(*length) + 1,
            (PeriodLayout::Listed(firsts), Period::Time(every)) => {
                // Whole periods between the first and the last step; those of the calendar, and those of this horizon,
                // where a zone may have skipped a date.
                let fits = |count: &u64| (1..=between).contains(&fewest_steps(calendar, every, *count));
                let of_calendar = (1..).take_while(fits).count();
                let first_of = |place: usize| firsts.partition_point(|first| *first <= firsts[place] + between) - place;
                let listed = (0..firsts.len()).map(first_of).max().unwrap_or(0);
                (of_calendar as u64 + 2).max(listed as u64 + 1)
            }
            (PeriodLayout::Listed(firsts), Period::Steps(_)) => firsts.len() as u64 + 1,
        }
    }

    /// The steps of the period that contains a step; the last period has no end.
    pub fn of(&self, step: u64) -> Range<u64> {
        match &self.laid_out {
            PeriodLayout::One => 1..u64::MAX,
            PeriodLayout::Even(steps) => {
                let first = step - (step - 1) % steps;
                first..first.saturating_add(*steps)
            }
            PeriodLayout::Listed(firsts) => {
                let next = firsts.partition_point(|first| *first <= step);
                let first = if next == 0 { 1 } else { firsts[next - 1] };
                first..firsts.get(next).copied().unwrap_or(u64::MAX)
            }
        }
    }
}

fn period_of(every: Every) -> Period {
    Period::Time(every)
}

/// The first steps of all periods except the first.
fn period_starts(calendar: &StepCalendar, every: Every) -> Result<Vec<u64>, Sentence> {
    let zone = calendar.zone();
    let start = calendar.start().timestamp().expect("checked when the steps were laid out");
    let date = zone.time_zone().to_datetime(start).date();
    let aligned = period_of(every).period_start(date);
    let ruler = StepBoundaries::new(calendar.start(), every, zone).map_err(|problem| problem.sentence())?;
    let boundary = |index: u64| match aligned {
        Some(first) => StepBoundaries::date_after(first, every, index, zone),
        None => ruler.boundary(index),
    };
    let mut firsts = Vec::new();
    for index in 1.. {
        let Some(begins) = boundary(index).filter(|begins| *begins < calendar.end()) else { break };
        // The calendar's own period may begin before the horizon.
        let Some(step) = calendar.step_of(begins) else { continue };
        if calendar.start_of(step) != begins {
            return Err(cut(calendar, period_of(every), calendar.start_of(step), calendar.end_of(step)));
        }
        // A date that the zone skipped has no steps.
        if step > 1 && firsts.last() != Some(&step) {
            firsts.push(step);
        }
    }
    Ok(firsts)
}

fn cut(calendar: &StepCalendar, period: Period, from: Instant, to: Instant) -> Sentence {
    let (from, to) = (calendar.format(from), calendar.format(to));
    let step =
        format!(" {period} would cut the step from {from} to {to}: a step must lie within one period; choose another ");
    sentence![
        Parameter::Per,
        step,
        Parameter::Every,
        ", or give the number of steps of a period, as with ",
        (Parameter::Per, "30")
    ]
}

/// The largest number of steps of a whole period anywhere in the calendar, so that the plan does not depend on the
/// position of the horizon.
fn max_period_steps(calendar: &StepCalendar, every: Every) -> u64 {
    let (step, count) = (calendar.every(), u64::from(every.count()));
    let per = u64::from(step.count());
    let days = match every.unit() {
        StepUnit::Day => count,
        StepUnit::Week => 7 * count,
        StepUnit::Month => most_days(count),
        StepUnit::Year => most_days(12 * count),
        StepUnit::Second | StepUnit::Minute | StepUnit::Hour => return 0,
    };
    let months = match every.unit() {
        StepUnit::Month => count,
        StepUnit::Year => 12 * count,
        _ => 0,
    };
    match step.unit() {
        StepUnit::Day => days / per,
        StepUnit::Week => days / (7 * per),
        StepUnit::Month => months / per,
        StepUnit::Year => months / (12 * per),
        StepUnit::Second | StepUnit::Minute | StepUnit::Hour => {
            // If the clock is changed, one of the days has an additional hour.
            let set = if calendar.zone().fixed_offset().is_some() { 0 } else { 3600 };
            let seconds = step.seconds().expect("elapsed time") as u64;
            (days * 86_400 + set).div_ceil(seconds)
        }
    }
}

/// The smallest number of steps of `count` consecutive whole periods anywhere in the calendar; 0 if they are not days.
fn fewest_steps(calendar: &StepCalendar, every: Every, count: u64) -> u64 {
    let (step, count) = (calendar.every(), count.saturating_mul(u64::from(every.count())));
    let per = u64::from(step.count());
    let (days, months) = match every.unit() {
        StepUnit::Day => (count, 0),
        StepUnit::Week => (count.saturating_mul(7), 0),
        StepUnit::Month => (days_of(count, |days| days.min()), count),
        StepUnit::Year => (days_of(count.saturating_mul(12), |days| days.min()), count.saturating_mul(12)),
        StepUnit::Second | StepUnit::Minute | StepUnit::Hour => return 0,
    };
    match step.unit() {
        StepUnit::Day => days / per,
        StepUnit::Week => days / (7 * per),
        StepUnit::Month => months / per,
        StepUnit::Year => months / (12 * per),
        StepUnit::Second | StepUnit::Minute | StepUnit::Hour => {
            // If the clock is changed, one of the days lacks an hour.
            let set = if calendar.zone().fixed_offset().is_some() { 0 } else { 3600 };
            let seconds = step.seconds().expect("elapsed time") as u64;
            days.saturating_mul(86_400).saturating_sub(set) / seconds
        }
    }
}

/// The largest number of days of `months` consecutive months.
fn most_days(months: u64) -> u64 {
    days_of(months, |days| days.max())
}

/// The largest or smallest number of days of `months` consecutive months.
fn days_of(months: u64, extreme: impl Fn(&mut dyn Iterator<Item = i64>) -> Option<i64>) -> u64 {
    // The calendar repeats after 400 years, of 146,097 days.
    let (cycles, months) = (months / 4800, months % 4800);
    let first = |month: u64| Date::new(2000 + (month / 12) as i16, (month % 12 + 1) as i8, 1).expect("a date");
    let days =
        |from: u64| first(from).until(first(from + months)).map_or(31 * months as i64, |s| i64::from(s.get_days()));
    cycles * 146_097 + extreme(&mut (0..48).map(days)).unwrap_or(0) as u64
}
