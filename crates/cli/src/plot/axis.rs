//! Where the ticks of an axis stand and what they say.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};

use super::text::{grouped, number, superscript, width};

/// How the horizontal axis is labelled.
#[derive(Clone, Debug)]
pub enum TimeLabels {
    /// Times are seconds since 1970; dates and hours are those of this time zone.
    Calendar(TimeZone),
    /// Times are numbers of steps.
    Steps,
}

/// A tick of the time axis: where, what it says, and what holds from here on (the day of an hour, the year of a month).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeTick {
    pub(super) at: f64,
    pub(super) label: String,
    pub(super) context: String,
}

/// The unit of ticks of a calendar axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Second(i64),
    Minute(i64),
    Hour(i64),
    Day,
    Week,
    Month(i64),
    Year(i64),
}

/// Units that divide the next larger one, with their rough lengths in seconds.
const UNITS: [(f64, Unit); 25] = [
    (1.0, Unit::Second(1)),
    (5.0, Unit::Second(5)),
    (15.0, Unit::Second(15)),
    (30.0, Unit::Second(30)),
    (60.0, Unit::Minute(1)),
    (300.0, Unit::Minute(5)),
    (900.0, Unit::Minute(15)),
    (1_800.0, Unit::Minute(30)),
    (3_600.0, Unit::Hour(1)),
    (10_800.0, Unit::Hour(3)),
    (21_600.0, Unit::Hour(6)),
    (43_200.0, Unit::Hour(12)),
    (86_400.0, Unit::Day),
    (604_800.0, Unit::Week),
    (2_629_746.0, Unit::Month(1)),
    (7_889_238.0, Unit::Month(3)),
    (15_778_476.0, Unit::Month(6)),
    (31_556_952.0, Unit::Year(1)),
    (63_113_904.0, Unit::Year(2)),
    (157_784_760.0, Unit::Year(5)),
    (315_569_520.0, Unit::Year(10)),
    (631_139_040.0, Unit::Year(20)),
    (1_577_847_600.0, Unit::Year(50)),
    (3_155_695_200.0, Unit::Year(100)),
    (31_556_952_000.0, Unit::Year(1_000)),
];

impl TimeLabels {
    /// As many ticks from `low` to `high` as have room on `width` pixels; at least one.
    pub(super) fn ticks(&self, low: f64, high: f64, width: f64) -> Vec<TimeTick> {
        match self {
            Self::Calendar(zone) => calendar(low, high, width, zone).unwrap_or_else(|| steps(low, high, width)),
            Self::Steps => steps(low, high, width),
        }
    }

    /// What the axis counts: the time zone, or steps.
    pub(super) fn caption(&self) -> String {
        match self {
            Self::Calendar(zone) if *zone == TimeZone::UTC => "UTC".into(),
            Self::Calendar(zone) => zone.iana_name().unwrap_or("local time").replace('_', " "),
            Self::Steps => "step".into(),
        }
    }

    /// One instant in words.
    pub(super) fn instant(&self, at: f64) -> String {
        match self {
            Self::Calendar(zone) => zoned(at, zone).map_or_else(|| number(at), |when| full(&when)),
            Self::Steps => format!("step {}", number(at)),
        }
    }
}

fn zoned(at: f64, zone: &TimeZone) -> Option<Zoned> {
    // A cast saturates; what lies outside the calendar's range is refused by the conversion.
    Timestamp::from_second(at.floor() as i64).ok().map(|instant| instant.to_zoned(zone.clone()))
}

fn full(when: &Zoned) -> String {
    let format = if when.second() == 0 { "%-d %b %Y %H:%M" } else { "%-d %b %Y %H:%M:%S" };
    when.strftime(format).to_string()
}

/// Ticks at round civil times; nothing if a time is outside the calendar.
fn calendar(low: f64, high: f64, width: f64, zone: &TimeZone) -> Option<Vec<TimeTick>> {
    let (first, last) = (zoned(low, zone)?, zoned(high, zone)?);
    let span = high - low;
    if span <= 0.0 {
        return Some(vec![TimeTick { at: low, label: full(&first), context: String::new() }]);
    }
    let fits = |(length, unit): &&(f64, Unit)| span / length * room(*unit) <= width;
    let unit = UNITS.iter().find(fits).map_or(Unit::Year(1_000), |unit| unit.1);
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
    if ticks.is_empty() {
        let label = full(&first);
        ticks.push(TimeTick { at: low, label, context: String::new() });
    }
    Some(ticks)
}

/// Pixels from one label to the next, so that they do not touch.
fn room(unit: Unit) -> f64 {
    match unit {
        Unit::Second(_) => 72.0,
        Unit::Minute(_) | Unit::Hour(_) | Unit::Day | Unit::Week => 58.0,
        Unit::Month(_) | Unit::Year(_) => 46.0,
    }
}

/// The round time at or before `from`.
fn floor(from: DateTime, unit: Unit) -> Option<DateTime> {
    let (date, time) = (from.date(), from.time());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    let down = |value: i8, by: i64| value - (i64::from(value) % by) as i8;
    let at =
        |hour, minute, second| Time::new(hour, minute, second, 0).ok().map(|time| DateTime::from_parts(date, time));
    let day = |date: Date| DateTime::from_parts(date, Time::midnight());
    match unit {
        Unit::Second(by) => at(hour, minute, down(second, by)),
        Unit::Minute(by) => at(hour, down(minute, by), 0),
        Unit::Hour(by) => at(down(hour, by), 0, 0),
        Unit::Day => Some(day(date)),
        Unit::Week => date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days()).ok().map(day),
        Unit::Month(by) => Date::new(date.year(), down(date.month() - 1, by) + 1, 1).ok().map(day),
        Unit::Year(by) => Date::new((i64::from(date.year()).div_euclid(by) * by) as i16, 1, 1).ok().map(day),
    }
}

fn step(unit: Unit) -> Span {
    match unit {
        Unit::Second(by) => by.seconds(),
        Unit::Minute(by) => by.minutes(),
        Unit::Hour(by) => by.hours(),
        Unit::Day => 1.day(),
        Unit::Week => 1.week(),
        Unit::Month(by) => by.months(),
        Unit::Year(by) => by.years(),
    }
}

fn tick(at: f64, when: &Zoned, unit: Unit) -> TimeTick {
    let (label, context) = match unit {
        Unit::Second(_) => ("%H:%M:%S", "%-d %b %Y"),
        Unit::Minute(_) | Unit::Hour(_) => ("%H:%M", "%-d %b %Y"),
        Unit::Day | Unit::Week => ("%-d %b", "%Y"),
        Unit::Month(_) => ("%b", "%Y"),
        Unit::Year(_) => ("%Y", ""),
    };
    TimeTick { at, label: when.strftime(label).to_string(), context: when.strftime(context).to_string() }
}

fn steps(low: f64, high: f64, width: f64) -> Vec<TimeTick> {
    let scale = ValueAxis::new(low, high, (width / 80.0) as usize, true);
    let tick = |&at: &f64| TimeTick { at, label: scale.label(at), context: String::new() };
    let ticks: Vec<TimeTick> = scale.ticks.iter().map(tick).collect();
    if ticks.is_empty() { vec![TimeTick { at: low, label: number(low), context: String::new() }] } else { ticks }
}

/// Keeps a tick's context only where it changes, and leaves out one that would run into the next.
pub(super) fn contexts(ticks: &[TimeTick], place: impl Fn(f64) -> f64, size: f64) -> Vec<(f64, String)> {
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

/// Ticks of a value axis, with labels short enough to read.
///
/// Large values are counted in millions or powers of ten, said once above the axis. Where the range is a sliver far
/// from zero, labels count from a round value, said there too.
#[derive(Clone, Debug)]
pub(super) struct ValueAxis {
    pub(super) ticks: Vec<f64>,
    origin: f64,
    exponent: i32,
    decimals: usize,
}

impl ValueAxis {
    /// About `room` ticks from `low` to `high`; only whole numbers if `whole`.
    pub(super) fn new(low: f64, high: f64, room: usize, whole: bool) -> Self {
        let step = nice_step((high - low) / room.max(1) as f64);
        let step = if whole { step.max(1.0).ceil() } else { step };
        let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
        let count = (last - first).clamp(-1.0, 50.0) as i32 + 1;
        let mut ticks: Vec<f64> = (0..count).map(|index| (first + f64::from(index)) * step).collect();
        // Far from zero neighbouring ticks may be the same number.
        ticks.dedup();
        let largest = low.abs().max(high.abs());
        let sliver = largest / step > 1e6;
        let origin = if sliver { ticks.first().copied().unwrap_or(low) } else { 0.0 };
        let exponent = exponent(if sliver { high - low } else { largest });
        let decimals = (f64::from(exponent) - (step * 1.000_001).log10().floor()).clamp(0.0, 9.0) as usize;
        // A step of 2.5 needs one decimal more than a step of 2.
        let decimals = if is_multiple(step, 10f64.powi(exponent - decimals as i32)) { decimals } else { decimals + 1 };
        Self { ticks, origin, exponent, decimals }
    }

    pub(super) fn label(&self, value: f64) -> String {
        let label = grouped((value - self.origin) / 10f64.powi(self.exponent), self.decimals);
        if self.origin != 0.0 && value > self.origin { format!("+{label}") } else { label }
    }

    /// What the labels count in, for the caption; empty if they are plain.
    pub(super) fn unit(&self) -> String {
        let mut parts = Vec::new();
        match self.exponent {
            0 => {}
            6 => parts.push("in millions".into()),
            exponent => parts.push(format!("× 10{}", superscript(exponent))),
        }
        if self.origin != 0.0 {
            parts.push(format!("counted from {}", grouped(self.origin, 0)));
        }
        parts.join(", ")
    }
}

/// The power of ten to count in: none up to ten million, then every third.
fn exponent(largest: f64) -> i32 {
    if (1e-3..1e7).contains(&largest) || largest == 0.0 {
        return 0;
    }
    (largest.log10() / 3.0).floor() as i32 * 3
}

/// 1, 2, 2.5 or 5 times a power of ten, at least as large as `raw`.
fn nice_step(raw: f64) -> f64 {
    if raw <= 0.0 || !raw.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * power >= raw * 0.999_999).unwrap_or(10.0);
    factor * power
}

fn is_multiple(value: f64, of: f64) -> bool {
    let ratio = value / of;
    (ratio - ratio.round()).abs() < 1e-6
}
