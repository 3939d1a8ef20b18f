//! The time axis: ticks at round civil times, or at round step numbers.

use super::ValueAxis;
use crate::style::SMALL;
use crate::text::{number, width};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};

/// The labels of the horizontal axis.
#[derive(Clone, Debug)]
pub enum TimeLabels {
    /// Times are seconds since 1970; dates and hours are those of this time zone.
    Calendar(TimeZone),
    /// Times are step numbers.
    Steps,
}

/// A tick of the time axis: position, label, and the context that begins here (the day of an hour, the year of a
/// month).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimeTick {
    pub(crate) at: f64,
    pub(crate) label: String,
    pub(crate) context: String,
}

/// The unit of ticks of a calendar axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TickUnit {
    Second(i64),
    Minute(i64),
    Hour(i64),
    Day,
    Week,
    Month(i64),
    Year(i64),
}

/// Units that divide the next larger one, with their rough lengths in seconds.
const UNITS: [(f64, TickUnit); 25] = [
    (1.0, TickUnit::Second(1)),
    (5.0, TickUnit::Second(5)),
    (15.0, TickUnit::Second(15)),
    (30.0, TickUnit::Second(30)),
    (60.0, TickUnit::Minute(1)),
    (300.0, TickUnit::Minute(5)),
    (900.0, TickUnit::Minute(15)),
    (1_800.0, TickUnit::Minute(30)),
    (3_600.0, TickUnit::Hour(1)),
    (10_800.0, TickUnit::Hour(3)),
    (21_600.0, TickUnit::Hour(6)),
    (43_200.0, TickUnit::Hour(12)),
    (86_400.0, TickUnit::Day),
    (604_800.0, TickUnit::Week),
    (2_629_746.0, TickUnit::Month(1)),
    (7_889_238.0, TickUnit::Month(3)),
    (15_778_476.0, TickUnit::Month(6)),
    (31_556_952.0, TickUnit::Year(1)),
    (63_113_904.0, TickUnit::Year(2)),
    (157_784_760.0, TickUnit::Year(5)),
    (315_569_520.0, TickUnit::Year(10)),
    (631_139_040.0, TickUnit::Year(20)),
    (1_577_847_600.0, TickUnit::Year(50)),
    (3_155_695_200.0, TickUnit::Year(100)),
    (31_556_952_000.0, TickUnit::Year(1_000)),
];

/// A panel should show at least this many time labels.
const MIN_TIME_LABELS: usize = 3;
/// If ticks are too close, only every k-th may be kept, for these k.
const STRIDES: [usize; 9] = [1, 2, 3, 4, 5, 10, 15, 20, 50];
/// More ticks than this are not thinned.
const MAX_TICKS: f64 = 300.0;

impl TimeLabels {
    /// As many ticks from `low` to `high` as fit on `width` pixels; at least one.
    pub(crate) fn ticks(&self, low: f64, high: f64, width: f64) -> Vec<TimeTick> {
        match self {
            Self::Calendar(zone) => calendar(low, high, width, zone).unwrap_or_else(|| steps(low, high, width)),
            Self::Steps => steps(low, high, width),
        }
    }

    /// The quantity of the axis: the time zone, or steps.
    pub(crate) fn caption(&self) -> String {
        match self {
            Self::Calendar(zone) if *zone == TimeZone::UTC => "UTC".into(),
            Self::Calendar(zone) => match (zone.iana_name(), zone.to_fixed_offset()) {
                (Some(name), _) => name.into(),
                (None, Ok(offset)) => format!("UTC{offset}"),
                (None, Err(_)) => "local time".into(),
            },
            Self::Steps => "step".into(),
        }
    }

    /// The time as long before `first` as `second` is after it: a month before, if it is a month after.
    pub(crate) fn before(&self, first: f64, second: f64) -> f64 {
        let civil = |zone: &TimeZone| {
            let (first, second) = (zoned(first, zone)?, zoned(second, zone)?);
            let step = first.until((jiff::Unit::Year, &second)).ok()?;
            Some(first.checked_sub(step).ok()?.timestamp().as_second() as f64)
        };
        match self {
            Self::Calendar(zone) if first.fract() == 0.0 && second.fract() == 0.0 => civil(zone),
            _ => None,
        }
        .unwrap_or(first - (second - first))
    }

    /// One instant in words.
    pub(crate) fn instant(&self, at: f64) -> String {
        match self {
            Self::Calendar(zone) => zoned(at, zone).map_or_else(|| number(at), |when| full(&when)),
            Self::Steps => format!("step {}", number(at)),
        }
    }
}

fn zoned(at: f64, zone: &TimeZone) -> Option<Zoned> {
    // A cast saturates; the conversion refuses times outside the calendar's range.
    Timestamp::from_second(at.floor() as i64).ok().map(|instant| instant.to_zoned(zone.clone()))
}

fn full(when: &Zoned) -> String {
    let format = if when.second() == 0 { "%-d %b %Y %H:%M" } else { "%-d %b %Y %H:%M:%S" };
    when.strftime(format).to_string()
}

/// Ticks at round civil times; nothing if a time is outside the calendar.
fn calendar(low: f64, high: f64, width: f64, zone: &TimeZone) -> Option<Vec<TimeTick>> {
    let first = zoned(low, zone)?;
    let span = high - low;
    if span <= 0.0 {
        return Some(vec![TimeTick { at: low, label: full(&first), context: String::new() }]);
    }
    let fits = |(length, unit): &(f64, TickUnit)| span / length * room(*unit) <= width;
    let chosen = UNITS.iter().position(fits).unwrap_or(UNITS.len() - 1);
    let mut ticks = every(UNITS[chosen].1, low, high, zone)?;
    if labels_inside(&ticks, low, high, width) < MIN_TIME_LABELS {
        // Every second week or every tenth day rather than months.
        let finer = UNITS[..chosen].iter().rev().take_while(|(length, _)| span / length <= MAX_TICKS);
        for (_, unit) in finer {
            let all = every(*unit, low, high, zone)?;
            let thinned = STRIDES.map(|stride| all.iter().step_by(stride).cloned().collect::<Vec<TimeTick>>());
            let better = |ticks: &Vec<TimeTick>| {
                apart(ticks, low, high, width) && labels_inside(ticks, low, high, width) >= MIN_TIME_LABELS
            };
            if let Some(better) = thinned.into_iter().find(better) {
                return Some(better);
            }
        }
    }
    if ticks.is_empty() {
        let label = full(&first);
        ticks.push(TimeTick { at: low, label, context: String::new() });
    }
    Some(ticks)
}

/// Ticks at all round civil times of a unit.
fn every(unit: TickUnit, low: f64, high: f64, zone: &TimeZone) -> Option<Vec<TimeTick>> {
    let (first, last) = (zoned(low, zone)?, zoned(high, zone)?);
    let mut ticks = Vec::new();
    let mut civil = floor(first.datetime(), unit)?;
    while civil <= last.datetime() {
        let when = zone.to_zoned(civil).ok()?;
        let at = when.timestamp().as_second() as f64;
        if at >= low && at <= high && ticks.last().is_none_or(|tick: &TimeTick| tick.at < at) {
            ticks.push(tick(at, &when, unit));
        }
        match civil.checked_add(step(unit)) {
            Ok(next) => civil = next,
            Err(_) => break,
        }
    }
    Some(ticks)
}

/// The right end of a tick's label, from the left of a panel `room` wide.
pub(crate) fn label_end(tick: &TimeTick, times: (f64, f64), room: f64) -> f64 {
    let (low, high) = times;
    let share = if high > low { (tick.at - low) / (high - low) } else { 0.5 };
    share * room + width(&tick.label, SMALL, false) / 2.0
}

/// The number of labels that do not extend beyond the end.
fn labels_inside(ticks: &[TimeTick], low: f64, high: f64, room: f64) -> usize {
    ticks.iter().filter(|tick| label_end(tick, (low, high), room) <= room).count()
}

/// Whether the labels leave gaps between them.
fn apart(ticks: &[TimeTick], low: f64, high: f64, room: f64) -> bool {
    let end = |tick: &TimeTick| label_end(tick, (low, high), room);
    ticks.windows(2).all(|pair| end(&pair[0]) + 10.0 <= end(&pair[1]) - width(&pair[1].label, SMALL, false))
}

/// Pixels from one label to the next such that they do not touch.
fn room(unit: TickUnit) -> f64 {
    match unit {
        TickUnit::Second(_) => 72.0,
        TickUnit::Minute(_) | TickUnit::Hour(_) | TickUnit::Day | TickUnit::Week => 58.0,
        TickUnit::Month(_) | TickUnit::Year(_) => 46.0,
    }
}

/// The round time at or before `from`.
fn floor(from: DateTime, unit: TickUnit) -> Option<DateTime> {
    let (date, time) = (from.date(), from.time());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    let down = |value: i8, by: i64| value - (i64::from(value) % by) as i8;
    let at =
        |hour, minute, second| Time::new(hour, minute, second, 0).ok().map(|time| DateTime::from_parts(date, time));
    let day = |date: Date| DateTime::from_parts(date, Time::midnight());
    match unit {
        TickUnit::Second(by) => at(hour, minute, down(second, by)),
        TickUnit::Minute(by) => at(hour, down(minute, by), 0),
        TickUnit::Hour(by) => at(down(hour, by), 0, 0),
        TickUnit::Day => Some(day(date)),
        TickUnit::Week => date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days()).ok().map(day),
        TickUnit::Month(by) => Date::new(date.year(), down(date.month() - 1, by) + 1, 1).ok().map(day),
        TickUnit::Year(by) => Date::new((i64::from(date.year()).div_euclid(by) * by) as i16, 1, 1).ok().map(day),
    }
}

fn step(unit: TickUnit) -> Span {
    match unit {
        TickUnit::Second(by) => by.seconds(),
        TickUnit::Minute(by) => by.minutes(),
        TickUnit::Hour(by) => by.hours(),
        TickUnit::Day => 1.day(),
        TickUnit::Week => 1.week(),
        TickUnit::Month(by) => by.months(),
        TickUnit::Year(by) => by.years(),
    }
}

fn tick(at: f64, when: &Zoned, unit: TickUnit) -> TimeTick {
    let (label, context) = match unit {
        TickUnit::Second(_) => ("%H:%M:%S", "%-d %b %Y"),
        TickUnit::Minute(_) | TickUnit::Hour(_) => ("%H:%M", "%-d %b %Y"),
        TickUnit::Day | TickUnit::Week => ("%-d %b", "%Y"),
        TickUnit::Month(_) => ("%b", "%Y"),
        TickUnit::Year(_) => ("%Y", ""),
    };
    TimeTick { at, label: when.strftime(label).to_string(), context: when.strftime(context).to_string() }
}

fn steps(low: f64, high: f64, width: f64) -> Vec<TimeTick> {
    let ticks = |count: usize| -> Vec<TimeTick> {
        let scale = ValueAxis::new(low, high, count, true);
        let tick = |&at: &f64| TimeTick { at, label: scale.label(at), context: String::new() };
        scale.ticks.iter().map(tick).collect()
    };
    let count = (width / 80.0) as usize;
    let enough = |ticks: &Vec<TimeTick>| {
        labels_inside(ticks, low, high, width) >= MIN_TIME_LABELS && apart(ticks, low, high, width)
    };
    let ticks = (count..=2 * count + 2).map(ticks).find(enough).unwrap_or_else(|| ticks(count));
    if ticks.is_empty() { vec![TimeTick { at: low, label: number(low), context: String::new() }] } else { ticks }
}

/// Keeps a tick's context only if it changes, and omits one that would run into the next.
pub(crate) fn contexts(ticks: &[TimeTick], place: impl Fn(f64) -> f64, size: f64) -> Vec<(f64, String)> {
    let mut changes: Vec<(f64, String)> = Vec::new();
    for tick in ticks {
        if !tick.context.is_empty() && changes.last().is_none_or(|(_, context)| *context != tick.context) {
            changes.push((place(tick.at), tick.context.clone()));
        }
    }
    let clear = |index: usize| match changes.get(index + 1) {
        Some((next, _)) => next - changes[index].0 > width(&changes[index].1, size, false) + 10.0,
        None => true,
    };
    (0..changes.len()).filter(|&index| clear(index)).map(|index| changes[index].clone()).collect()
}
