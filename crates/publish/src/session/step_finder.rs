//! From the time of an event to its step, and what to do where it has none.
//!
//! Skipping events outside the horizon is the right policy for a file that covers more than the horizon, and the wrong
//! one for times that are misread: in another unit, or another century. So an event that is decades away is refused
//! with the time as read, and a run in which no event is inside publishes nothing. The operator can declare that
//! [any event](Outside::SkipAny) may be skipped. The refusal is a message to the operator: published values do not
//! depend on it.

use evertally_declare::error::{InputError, Result, usage};
use evertally_declare::event::{ColumnRole, Event};
use evertally_declare::parameter::Parameter::{self, TimeFormat};
use evertally_declare::policy::{DateOnly, Outside, Refusable};
use evertally_declare::problem::{Sentence, SentencePart, sentence};
use evertally_declare::settings::Settings;
use evertally_declare::steps::{EpochUnit, Instant, Precision, ReadTime, StepCalendar, TimeParser, no_time};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Events further from the horizon than this are refused even if events outside it are skipped: 50 years.
const FAR_MICROS: i64 = 50 * YEAR_MICROS;

const YEAR_MICROS: i64 = 31_556_952 * 1_000_000;

/// Finds the steps of events.
#[derive(Clone)]
pub(super) struct StepFinder {
    times: TimeParser,
    /// The step of the event before this one, and its time from the start to before the end.
    last: (u64, Range<Instant>),
    seen: Arc<TimesSeen>,
}

/// The times of the events that some threads have read.
#[derive(Debug)]
pub(super) struct TimesSeen {
    any_inside: AtomicBool,
    any_missing: AtomicBool,
    any_unreadable: AtomicBool,
    any_left_out: AtomicBool,
    /// The first and the last time outside the horizon, in microseconds; crossed without one.
    first: AtomicI64,
    last: AtomicI64,
}

impl Default for TimesSeen {
    fn default() -> Self {
        Self {
            any_inside: AtomicBool::new(false),
            any_missing: AtomicBool::new(false),
            any_unreadable: AtomicBool::new(false),
            any_left_out: AtomicBool::new(false),
            first: AtomicI64::new(i64::MAX),
            last: AtomicI64::new(i64::MIN),
        }
    }
}

impl TimesSeen {
    #[inline]
    fn note(flag: &AtomicBool) {
        if !flag.load(Ordering::Relaxed) {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// Records that a row could not be read.
    pub(super) fn note_unreadable(&self) {
        Self::note(&self.any_unreadable);
    }

    /// Records that the filter left out a row.
    pub(super) fn note_left_out(&self) {
        Self::note(&self.any_left_out);
    }

    /// Whether the filter left out every row.
    pub(super) fn is_all_left_out(&self) -> bool {
        let any = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let others = [&self.any_inside, &self.any_missing, &self.any_unreadable];
        let is_any_outside = self.first.load(Ordering::Relaxed) <= self.last.load(Ordering::Relaxed);
        any(&self.any_left_out) && !others.into_iter().any(any) && !is_any_outside
    }

    fn note_outside(&self, instant: Instant) {
        let micros = instant.micros();
        if micros < self.first.load(Ordering::Relaxed) {
            self.first.fetch_min(micros, Ordering::Relaxed);
        }
        if micros > self.last.load(Ordering::Relaxed) {
            self.last.fetch_max(micros, Ordering::Relaxed);
        }
    }

    /// Refuses to publish anything if events were read and none of them is inside the horizon.
    ///
    /// # Errors
    /// If so, unless any event may be skipped.
    pub(super) fn check(&self, stream: &Settings) -> Result<()> {
        if self.any_inside.load(Ordering::Relaxed) || stream.outside == Outside::SkipAny {
            return Ok(());
        }
        let calendar = &stream.calendar;
        let (first, last) = (self.first.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed));
        let [missing, unreadable] = [&self.any_missing, &self.any_unreadable].map(|any| any.load(Ordering::Relaxed));
        let found = match (first <= last, missing, unreadable) {
            (false, false, false) => return Ok(()),
            (false, false, true) => "none of them can be read".to_owned(),
            (false, true, _) => "none of them has a time".to_owned(),
            (true, ..) => {
                let [first, last] = [first, last].map(|micros| as_read(calendar, Instant::from_micros(micros)));
                if first == last { format!("all are at {first}") } else { format!("they are from {first} to {last}") }
            }
        };
        let (start, end) = (calendar.format(calendar.start()), calendar.format(calendar.end()));
        let remedy = sentence![
            "; correct ",
            SentencePart::Any(&[Parameter::Time, TimeFormat, Parameter::Start]),
            ", or publish a history without events with ",
            (Parameter::Outside, "skip-any")
        ];
        Err(usage(sentence![format!("no event is inside the horizon, {start} to {end}: {found}")].then(remedy)))
    }
}

impl StepFinder {
    pub(super) fn new(stream: &Settings) -> Self {
        let nowhere = Instant::from_micros(0);
        Self { times: stream.file_times(), last: (0, nowhere..nowhere), seen: Arc::default() }
    }

    pub(super) fn seen(&self) -> &TimesSeen {
        &self.seen
    }

    /// Adds to the record of another one.
    pub(super) fn share(&mut self, other: &Self) {
        self.seen = Arc::clone(&other.seen);
    }

    /// The instant and the step of an event; `None` for an event that the stream skips.
    ///
    /// # Errors
    /// If its time cannot be read, or if it has no step and the stream refuses such events. The error names the row.
    #[inline]
    pub(super) fn find(&mut self, stream: &Settings, event: &Event<'_>) -> Result<Option<(Instant, u64)>> {
        if let Some(instant) = self.times.read_usual(event)
            && let Some(step) = self.step_of(&stream.calendar, instant)
        {
            TimesSeen::note(&self.seen.any_inside);
            return Ok(Some((instant, step)));
        }
        let Some(time) = self.read(stream, event)? else { return Ok(None) };
        let step = self.step_of(&stream.calendar, time.instant);
        self.check_width(stream, event, &time, step)?;
        Ok(self.found(stream, event, &time, step)?.map(|step| (time.instant, step)))
    }

    /// The step that contains an instant. Most events are in the step of the event before them.
    #[inline]
    fn step_of(&mut self, calendar: &StepCalendar, instant: Instant) -> Option<u64> {
        if self.last.1.contains(&instant) {
            return Some(self.last.0);
        }
        let step = calendar.step_of(instant)?;
        self.last = (step, calendar.start_of(step)..calendar.end_of(step));
        Some(step)
    }

    /// The time of an event; `None` for an event without one that the stream skips.
    ///
    /// # Errors
    /// If it cannot be read, or is missing and the stream refuses such events.
    #[inline]
    pub(super) fn read(&mut self, stream: &Settings, event: &Event<'_>) -> Result<Option<ReadTime>> {
        if let Some(time) = self.times.read_event(event)? {
            return Ok(Some(time));
        }
        TimesSeen::note(&self.seen.any_missing);
        skip_or(stream.missing, || no_time(event).remedy(leave_out()))
    }

    /// The step of an event, where the calendar has one; `None` for an event that the stream skips.
    ///
    /// # Errors
    /// If it has no step and the stream refuses such events.
    #[inline]
    pub(super) fn found(
        &self,
        stream: &Settings,
        event: &Event<'_>,
        time: &ReadTime,
        step: Option<u64>,
    ) -> Result<Option<u64>> {
        if step.is_none() {
            return self.outside(stream, event, time.instant);
        }
        TimesSeen::note(&self.seen.any_inside);
        Ok(step)
    }

    /// Refuses a day, month or year that is not within one step.
    #[inline]
    pub(super) fn check_width(
        &mut self,
        stream: &Settings,
        event: &Event<'_>,
        time: &ReadTime,
        step: Option<u64>,
    ) -> Result<()> {
        if time.precision == Precision::Time { Ok(()) } else { self.check_date(stream, event, time, step) }
    }

    fn check_date(&mut self, stream: &Settings, event: &Event<'_>, time: &ReadTime, step: Option<u64>) -> Result<()> {
        let calendar = &stream.calendar;
        if (time.is_local_day() && calendar.is_date_only()) || stream.date_only == DateOnly::Midnight {
            return Ok(());
        }
        let last = self.times.last_instant(time);
        let encloses = time.instant < calendar.start() && last >= calendar.end();
        if calendar.step_of(last) == step && !encloses {
            return Ok(());
        }
        let every = calendar.every().in_words();
        let (what, unit) = match time.precision {
            Precision::Month => ("a month", "month"),
            Precision::Year => ("a year", "year"),
            Precision::Day | Precision::Time => ("a date without a time of day", "day"),
        };
        let problem = format!("is {what}, which is not within one step of {every}");
        let in_two_columns = match (time.precision, stream.columns.time_of_day.is_none()) {
            (Precision::Day, true) => sentence![
                "if the time of day is in another column, name both with ",
                SentencePart::Example(Parameter::Date),
                " ",
                SentencePart::Example(Parameter::TimeOfDay),
                "; otherwise "
            ],
            _ => Sentence::default(),
        };
        let remedy = in_two_columns.then(sentence![
            format!(
                "take steps of a {unit} that begin where a {unit} does, or count such events at the beginning of \
                     their {unit} with "
            ),
            (Parameter::DateOnly, "midnight")
        ]);
        Err(event.bad_cell(ColumnRole::Time, problem).remedy(remedy).into())
    }

    /// What happens to an event outside the horizon.
    #[cold]
    fn outside(&self, stream: &Settings, event: &Event<'_>, instant: Instant) -> Result<Option<u64>> {
        if stream.outside == Outside::SkipAny {
            return Ok(None);
        }
        let is_far = is_far(&stream.calendar, instant);
        let other_unit = self.other_unit(stream, event);
        if stream.outside == Outside::Skip && !is_far && other_unit.is_none() {
            self.seen.note_outside(instant);
            return Ok(None);
        }
        Err(self.refusal(stream, event, instant, other_unit).into())
    }

    /// Another unit in which the number of an event is a time inside the horizon.
    fn other_unit(&self, stream: &Settings, event: &Event<'_>) -> Option<(EpochUnit, Instant)> {
        let declared = self.times.epoch_unit()?;
        let others = EpochUnit::ALL.into_iter().filter(|unit| *unit != declared);
        let read = |unit| Some((unit, self.times.in_unit(event.time(), unit)?));
        others.filter_map(read).find(|(_, instant)| stream.calendar.step_of(*instant).is_some())
    }

    fn refusal(
        &self,
        stream: &Settings,
        event: &Event<'_>,
        instant: Instant,
        other_unit: Option<(EpochUnit, Instant)>,
    ) -> InputError {
        let calendar = &stream.calendar;
        let (start, end) = (calendar.format(calendar.start()), calendar.format(calendar.end()));
        let read = match self.times.epoch_unit() {
            Some(unit) => format!("is {} in {}, ", as_read(calendar, instant), unit.name()),
            None if stream.outside.skips() => format!("is read as {}, ", as_read(calendar, instant)),
            None => "is ".to_owned(),
        };
        let far = if stream.outside.skips() { "far " } else { "" };
        let error = event.bad_cell(ColumnRole::Time, format!("{read}{far}outside the horizon, {start} to {end}"));
        let policy = if stream.outside.skips() { "skip-any" } else { "skip" };
        match other_unit {
            Some((unit, instant)) => error.remedy(sentence![
                format!("in {} it is {}: declare ", unit.name(), as_read(calendar, instant)),
                (TimeFormat, unit.format_word()),
                ", or leave such events out with ",
                (Parameter::Outside, "skip-any")
            ]),
            None if stream.outside.skips() => error.remedy(sentence![
                "correct ",
                SentencePart::Any(&[Parameter::Time, TimeFormat]),
                ", or leave such events out with ",
                (Parameter::Outside, policy)
            ]),
            None => error.remedy(sentence!["widen it, or leave such events out with ", (Parameter::Outside, policy)]),
        }
    }
}

pub(super) fn skip_or<T>(policy: Refusable, error: impl FnOnce() -> InputError) -> Result<Option<T>> {
    if policy == Refusable::Skip { Ok(None) } else { Err(error().into()) }
}

/// The remedy for events that lack a cell.
pub(super) fn leave_out() -> Sentence {
    sentence!["leave such events out with ", (Parameter::Missing, "skip")]
}

/// An instant as the operator reads it, also if no calendar has its year.
fn as_read(calendar: &StepCalendar, instant: Instant) -> String {
    match instant.timestamp() {
        Some(_) => calendar.format(instant),
        None => format!("in the year {}", 1970 + instant.micros().div_euclid(YEAR_MICROS)),
    }
}

/// Whether an instant is very far from the horizon.
pub(super) fn is_far(calendar: &StepCalendar, instant: Instant) -> bool {
    let before = calendar.start().micros().saturating_sub(instant.micros());
    before.max(instant.micros().saturating_sub(calendar.end().micros())) > FAR_MICROS
}

#[cfg(test)]
mod tests;
