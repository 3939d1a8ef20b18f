//! Steps, periods and publications around every transition of every zone of the time zone database.
//!
//! The oracle shares nothing with the code but the offset of a zone at an instant: it scans the offsets around a
//! midnight, and finds the first instant whose local date is not earlier by arithmetic.

use std::collections::{BTreeSet, HashMap};

use jiff::civil::{Date, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Span, Timestamp};

use crate::publication::{Publication, Slots};
use crate::steps::{Every, Horizon, Instant, Periods, StepCalendar, TimeFormat, TimeParser, Zone};

const DAY: i64 = 86_400;
const HOUR: i64 = 3600;
/// No offset and no gap moves a midnight farther than this, in hours.
const AROUND: i64 = 40;
/// Rules repeat from here on.
const LAST_YEAR: i16 = 2039;

/// Days since 1970.
fn day_of(date: Date) -> i64 {
    i64::from((date - Date::new(1970, 1, 1).unwrap()).get_days())
}

fn date_of(day: i64) -> Date {
    Date::new(1970, 1, 1).unwrap().checked_add(Span::new().days(day)).unwrap()
}

fn at(second: i64) -> Instant {
    Instant::from_micros(second * 1_000_000)
}

/// The dates of a zone, found by scanning its offsets.
struct Oracle {
    zone: TimeZone,
    found: HashMap<i64, (i64, bool)>,
}

impl Oracle {
    fn offset(&self, second: i64) -> i64 {
        i64::from(self.zone.to_offset(Timestamp::from_second(second).unwrap()).seconds())
    }

    /// The stretches of one offset around a midnight: first second, end, offset.
    fn stretches(&self, day: i64) -> Vec<(i64, i64, i64)> {
        let mut all = vec![];
        let mut from = day * DAY - AROUND * HOUR;
        let mut offset = self.offset(from);
        for hour in -AROUND + 1..=AROUND {
            let next = day * DAY + hour * HOUR;
            while self.offset(next) != offset {
                let (mut low, mut high) = (from.max(next - HOUR), next);
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if self.offset(middle) == offset { low = middle } else { high = middle }
                }
                all.push((from, high, offset));
                (from, offset) = (high, self.offset(high));
            }
        }
        all.push((from, day * DAY + AROUND * HOUR, offset));
        all
    }

    /// The first second with this local date or a later one, and whether the date exists.
    fn look(&mut self, day: i64) -> (i64, bool) {
        if let Some(found) = self.found.get(&day) {
            return *found;
        }
        let stretches = self.stretches(day);
        let first = |&(from, end, offset): &(i64, i64, i64)| Some(from.max(day * DAY - offset)).filter(|at| *at < end);
        let begins = stretches.iter().find_map(first).unwrap();
        let exists = stretches
            .iter()
            .any(|&(from, end, offset)| (from + offset).max(day * DAY) < (end + offset).min((day + 1) * DAY));
        self.found.insert(day, (begins, exists));
        (begins, exists)
    }

    fn begins(&mut self, day: i64) -> i64 {
        self.look(day).0
    }

    fn exists(&mut self, day: i64) -> bool {
        self.look(day).1
    }
}

/// Every zone with different transitions, and its transitions.
fn zones() -> Vec<(Zone, Vec<i64>)> {
    let end = Date::new(LAST_YEAR, 1, 1).unwrap().to_zoned(TimeZone::UTC).unwrap().timestamp();
    let mut seen = BTreeSet::new();
    let mut zones = vec![];
    for name in TimeZoneDatabase::bundled().available() {
        let zone: Zone = name.as_str().parse().unwrap();
        let changes = zone.time_zone().following(Timestamp::MIN).take_while(|change| change.timestamp() < end);
        let changes: Vec<_> =
            changes.map(|change| (change.timestamp().as_second(), change.offset().seconds())).collect();
        if seen.insert(changes.clone()) {
            zones.push((zone, changes.into_iter().map(|(second, _)| second).collect()));
        }
    }
    assert!(zones.len() > 250, "{}", zones.len());
    zones
}

fn steps(start: i64, horizon: Horizon, every: &str, zone: &Zone) -> StepCalendar {
    StepCalendar::new(at(start), horizon, every.parse().unwrap(), zone.clone()).unwrap()
}

/// The date after `index` widths of days or months.
fn later(date: Date, every: &str, index: i64) -> Date {
    let count = i64::from(every.parse::<Every>().unwrap().count()) * index;
    let span = match every.trim_start_matches(|c: char| c.is_ascii_digit()) {
        "d" => Span::new().days(count),
        "w" => Span::new().weeks(count),
        "mo" => Span::new().months(count),
        _ => Span::new().years(count),
    };
    date.checked_add(span).unwrap()
}

/// The boundaries of the first steps after a date that exists.
fn expected(oracle: &mut Oracle, first: Date, every: &str, steps: usize) -> Vec<i64> {
    let mut all = vec![oracle.begins(day_of(first))];
    for index in 1.. {
        let begins = oracle.begins(day_of(later(first, every, index)));
        if begins != *all.last().unwrap() {
            all.push(begins);
        }
        if all.len() > steps {
            break;
        }
    }
    all
}

fn check_steps(oracle: &mut Oracle, zone: &Zone, first: Date, every: &str, count: usize) {
    let boundaries = expected(oracle, first, every, count);
    let calendar = steps(boundaries[0], Horizon::Steps(count as u64), every, zone);
    let case = format!("{every} from {first} in {zone}");
    let found: Vec<Instant> =
        (1..=calendar.steps()).map(|step| calendar.start_of(step)).chain([calendar.end()]).collect();
    assert_eq!(found, boundaries.iter().map(|second| at(*second)).collect::<Vec<_>>(), "{case}");
    for (step, begins) in (1..).zip(&boundaries[..count]) {
        assert_eq!(calendar.step_of(at(*begins)), Some(step), "{case}");
        assert_eq!(
            calendar.step_of(Instant::from_micros(at(*begins).micros() - 1)),
            (step > 1).then(|| step - 1),
            "{case}"
        );
    }
    assert!(calendar.is_date_only(), "{case}");
    let until = Horizon::Until(calendar.end());
    assert_eq!(StepCalendar::new(calendar.start(), until, calendar.every(), zone.clone()).unwrap(), calendar, "{case}");
    if every == "1d" {
        let shown: Vec<String> = (1..=calendar.steps()).map(|step| calendar.format(calendar.start_of(step))).collect();
        let exist = (day_of(first)..).filter(|day| oracle.exists(*day)).take(count);
        assert_eq!(shown, exist.map(|day| date_of(day).to_string()).collect::<Vec<_>>(), "{case}");
    }
}

/// Whether a date begins a period.
fn begins_period(date: Date, period: &str) -> bool {
    match period {
        "day" => true,
        "week" => date.weekday() == Weekday::Monday,
        "month" => date.day() == 1,
        _ => date.day() == 1 && date.month() == 1,
    }
}

/// Periods of a horizon from `start` to `end`, in steps of a second and of more.
fn check_periods(oracle: &mut Oracle, zone: &Zone, (start, end): (i64, i64), days: std::ops::Range<i64>) {
    for period in ["day", "week", "month", "year"] {
        let begins = days.clone().filter(|day| begins_period(date_of(*day), period)).map(|day| oracle.begins(day));
        let begins: BTreeSet<i64> = begins.filter(|second| start < *second && *second < end).collect();
        for (every, width) in [("1s", 1), ("30m", 1800), ("1h", HOUR)] {
            let count = (end - start) / width;
            let calendar = steps(start, Horizon::Steps(count as u64), every, zone);
            let periods = Periods::new(&calendar, period.parse().unwrap());
            let case = format!("{period} in steps of {every} from {} in {zone}", calendar.start());
            let inside = |second: &&i64| **second < start + count * width;
            let is_whole = begins.iter().filter(inside).all(|second| (second - start) % width == 0);
            assert_eq!(periods.is_ok(), is_whole, "{case}");
            let Ok(periods) = periods else { continue };
            let firsts: Vec<u64> =
                begins.iter().filter(inside).map(|second| ((second - start) / width) as u64 + 1).collect();
            assert_eq!(periods.count(calendar.steps()), firsts.len() as u64 + 1, "{case}");
            let mut first = 1;
            for next in firsts.iter().copied().chain([u64::MAX]) {
                assert_eq!((periods.of(first), periods.of(next - 1)), (first..next, first..next), "{case}");
                let length = next.min(calendar.steps() + 1) - first;
                assert!(periods.longest().unwrap() >= length, "{case}");
                first = next;
            }
        }
    }
}

/// Rows of days from a date, over steps of a second; rows of several days over days; and slots of months.
fn check_publications(oracle: &mut Oracle, zone: &Zone, first: Date) {
    let boundaries = expected(oracle, first, "1d", 6);
    let case = format!("from {first} in {zone}");
    let seconds = steps(boundaries[0], Horizon::Until(at(boundaries[6])), "1s", zone);
    let daily = Publication::new(&seconds, "1d".parse().unwrap()).unwrap();
    assert_eq!(daily.rows().steps(), 6, "{case}");
    let days = steps(boundaries[0], Horizon::Steps(6), "1d", zone);
    for row in 1..=6u64 {
        let last = (boundaries[row as usize] - boundaries[0]) as u64;
        assert_eq!((daily.last_step_of(row), daily.row_ending(last)), (last, Some(row)), "{case}");
        assert_eq!(daily.rows().start_of(row), days.start_of(row), "{case}");
    }
    let (monthly, _) = Slots::from_months(&days, "1mo".parse().unwrap()).unwrap();
    let slots = Publication::all_steps(&days, monthly);
    let place = |date: Date| (i64::from(date.year()) * 12 + i64::from(date.month())) * 31 + i64::from(date.day());
    let exist: Vec<i64> = (day_of(first)..).filter(|day| oracle.exists(*day)).take(6).collect();
    for (step, day) in (1..).zip(exist) {
        let slot = place(date_of(day)) - place(first) + 1;
        assert_eq!(slots.slot_ending(step), Some(slot as u64), "{case}");
    }
    for publish in ["2d", "1w"] {
        let ends = expected(oracle, first, publish, 2);
        let days = steps(boundaries[0], Horizon::Until(at(ends[2])), "1d", zone);
        let rows = Publication::new(&days, publish.parse().unwrap()).unwrap();
        assert_eq!(rows.rows().steps(), 2, "{case}");
        let last = days.step_of(at(ends[1])).unwrap() - 1;
        assert_eq!((rows.last_step_of(1), rows.row_ending(last)), (last, Some(1)), "{case}, {publish}");
    }
}

#[test]
fn dates_begin_at_their_first_instant_in_every_zone() {
    for (zone, changes) in zones() {
        let mut oracle = Oracle { zone: zone.time_zone().clone(), found: HashMap::new() };
        for change in changes {
            let day = (change + oracle.offset(change - 1)).div_euclid(DAY);
            for first in (day - 1..=day + 1).filter(|day| oracle.exists(*day)).collect::<Vec<_>>() {
                check_steps(&mut oracle, &zone, date_of(first), "1d", 4);
                check_steps(&mut oracle, &zone, date_of(first), "2d", 2);
            }
            let first = (day - 2..).find(|day| oracle.exists(*day)).unwrap();
            check_publications(&mut oracle, &zone, date_of(first));
            for day in day..=day + 1 {
                for every in ["1w", "1mo", "1y"] {
                    let first = later(date_of(day), every, -1);
                    if later(first, every, 1) == date_of(day) && oracle.exists(day_of(first)) {
                        check_steps(&mut oracle, &zone, first, every, 1);
                    }
                }
            }
            let (start, end) = (oracle.begins(day - 2) + 7 * HOUR, oracle.begins(day + 3));
            check_periods(&mut oracle, &zone, (start, end), day - 2..day + 3);
        }
    }
}

fn daily(start: &str, days: u64, zone: &str) -> (StepCalendar, TimeParser) {
    let mut parser = TimeParser::new(TimeFormat::Auto, zone.parse().unwrap());
    let start = parser.parse_text(start).unwrap();
    let calendar = StepCalendar::new(start, Horizon::Steps(days), "1d".parse().unwrap(), zone.parse().unwrap());
    (calendar.unwrap(), parser)
}

/// Horizons that begin on a day without a midnight: later days begin at midnight.
#[test]
fn a_day_without_a_midnight_does_not_move_later_days() {
    for (zone, first, begins, second) in [
        ("Africa/Cairo", "2024-04-26", "2024-04-26T01:00:00+03:00", "2024-04-27"),
        ("Asia/Beirut", "2024-03-31", "2024-03-31T01:00:00+03:00", "2024-04-01"),
        ("America/Havana", "2024-03-10", "2024-03-10T01:00:00-04:00", "2024-03-11"),
        ("America/Santiago", "2024-09-08", "2024-09-08T01:00:00-03:00", "2024-09-09"),
        ("America/Toronto", "1919-03-31", "1919-03-31T00:30:00-04:00", "1919-04-01"),
    ] {
        let (calendar, mut parser) = daily(first, 3, zone);
        assert_eq!(calendar.start(), parser.parse_text(begins).unwrap(), "{zone}");
        assert_eq!(calendar.format(calendar.start_of(1)), first, "{zone}");
        let step = |parser: &mut TimeParser, text: String| calendar.step_of(parser.parse_text(&text).unwrap());
        assert_eq!(step(&mut parser, format!("{second}T00:00:00")), Some(2), "{zone}");
        assert_eq!(step(&mut parser, format!("{second}T00:30:00")), Some(2), "{zone}");
        assert_eq!(step(&mut parser, format!("{first}T23:59:59.999999")), Some(1), "{zone}");
        assert_eq!(step(&mut parser, first.to_owned()), Some(1), "{zone}");
    }
}

#[test]
fn a_date_that_a_zone_skipped_has_no_step() {
    for (zone, before, skipped, after) in [
        ("Pacific/Apia", "2011-12-29", "2011-12-30", "2011-12-31"),
        ("Pacific/Kwajalein", "1993-08-20", "1993-08-21", "1993-08-22"),
        ("Pacific/Kiritimati", "1994-12-30", "1994-12-31", "1995-01-01"),
    ] {
        let (calendar, mut parser) = daily(before, 2, zone);
        assert_eq!(calendar.format(calendar.start_of(2)), after, "{zone}");
        // A cell with the skipped date counts on the next one.
        assert_eq!(calendar.step_of(parser.parse_text(skipped).unwrap()), Some(2), "{zone}");
        assert_eq!(daily(skipped, 2, zone).0.start(), parser.parse_text(after).unwrap(), "{zone}");
    }
}

/// Days that begin at another time than midnight keep it, and days that begin in a gap are moved by it.
#[test]
fn days_from_noon_keep_their_time() {
    let (calendar, mut parser) = daily("2024-04-25T12:00", 3, "Africa/Cairo");
    assert_eq!(calendar.start_of(2), parser.parse_text("2024-04-26T12:00").unwrap());
    assert!(!calendar.is_date_only());
    let (calendar, mut parser) = daily("2024-04-25T00:30", 3, "Africa/Cairo");
    assert_eq!(calendar.start_of(2), parser.parse_text("2024-04-26T01:30").unwrap());
    assert_eq!(calendar.start_of(3), parser.parse_text("2024-04-27T00:30").unwrap());
}

/// Midnight occurs twice where the clock is set back over it. A date has one step, one period and one row.
#[test]
fn a_date_that_begins_twice_is_one_step_and_one_period() {
    // At 00:01 on 7 November 2010 the clocks of St. John's were set back to 23:01 of the day before.
    let zone = "America/St_Johns";
    let (calendar, mut parser) = daily("2010-11-06", 3, zone);
    let first = parser.parse_text("2010-11-07T00:00:00-02:30").unwrap();
    assert_eq!(calendar.start_of(2), first);
    assert_eq!(calendar.step_of(parser.parse_text("2010-11-06T23:30:00-03:30").unwrap()), Some(2));
    let minutes = steps(calendar.start().micros() / 1_000_000, Horizon::Steps(3 * 1500), "1m", &zone.parse().unwrap());
    let periods = Periods::new(&minutes, "day".parse().unwrap()).unwrap();
    let step = minutes.step_of(first).unwrap();
    assert_eq!(periods.of(step), step..step + 1500);
}
