//! Periods against dates.

use crate::steps::{Horizon, Instant, Period, Periods, StepCalendar, TimeFormat, TimeParser};

fn calendar(start: &str, steps: u64, every: &str, zone: &str) -> StepCalendar {
    let start: Instant = TimeParser::new(TimeFormat::Auto, zone.parse().unwrap()).parse_text(start).unwrap();
    StepCalendar::new(start, Horizon::Steps(steps), every.parse().unwrap(), zone.parse().unwrap()).unwrap()
}

fn periods(calendar: &StepCalendar, period: &str) -> Result<Periods, String> {
    Periods::new(calendar, period.parse().unwrap()).map_err(|problem| problem.to_string())
}

/// The beginnings of all periods of a horizon, as output writes them.
fn beginnings(calendar: &StepCalendar, period: &str) -> Vec<String> {
    let periods = periods(calendar, period).unwrap();
    let mut firsts: Vec<u64> = (1..=calendar.steps()).map(|step| periods.of(step).start).collect();
    for (step, first) in (1..).zip(&firsts) {
        let of = periods.of(step);
        assert!(of.contains(&step) && of.start == *first && periods.of(of.start) == of);
        assert!(of.end == u64::MAX || periods.of(of.end).start == of.end);
    }
    firsts.dedup();
    assert_eq!(periods.count(calendar.steps()), firsts.len() as u64);
    firsts.iter().map(|step| calendar.format(calendar.start_of(*step))).collect()
}

#[test]
fn periods_parse_and_print() {
    for (text, printed, words, several) in [
        ("day", "1d", "one calendar day", "7 calendar days"),
        ("1w", "1w", "one calendar week", "7 calendar weeks"),
        ("month", "1mo", "one calendar month", "7 calendar months"),
        ("quarter", "3mo", "one calendar quarter", "7 calendar quarters"),
        ("year", "1y", "one calendar year", "7 calendar years"),
        ("2w", "2w", "2 weeks", "7 times 2 weeks"),
        ("36h", "36h", "36 hours", "7 times 36 hours"),
        ("30", "30 steps", "30 steps", "7 times 30 steps"),
        (" 30 steps", "30 steps", "30 steps", "7 times 30 steps"),
    ] {
        let period: Period = text.parse().unwrap();
        assert_eq!((period.to_string().as_str(), period.in_words().as_str()), (printed, words), "{text}");
        assert_eq!(period.several_in_words(7), several);
        assert_eq!(printed.parse(), Ok(period));
        let json = serde_json::to_string(&period).unwrap();
        assert_eq!(serde_json::from_str::<Period>(&json).unwrap(), period, "{json}");
    }
    for text in ["", "0", "fortnight", "-3", "0 steps", "steps", "1.5d", "99999999999999999999"] {
        let problem = text.parse::<Period>().unwrap_err().to_string();
        assert!(problem.contains("is not a period: give day, week"), "{problem}");
    }
}

#[test]
fn calendar_periods_begin_with_the_calendar() {
    // 2024-01-10 is a Wednesday.
    let days = calendar("2024-01-10", 90, "1d", "UTC");
    assert_eq!(beginnings(&days, "month"), ["2024-01-10", "2024-02-01", "2024-03-01", "2024-04-01"]);
    assert_eq!(beginnings(&days, "week")[..3], ["2024-01-10", "2024-01-15", "2024-01-22"]);
    assert_eq!(beginnings(&days, "quarter"), ["2024-01-10", "2024-04-01"]);
    assert_eq!(beginnings(&days, "2mo"), ["2024-01-10", "2024-03-01"]);
    assert_eq!(beginnings(&days, "year"), ["2024-01-10"]);
    assert_eq!(beginnings(&days, "day").len(), 90);
    // Others count from the beginning.
    assert_eq!(beginnings(&days, "2w")[..2], ["2024-01-10", "2024-01-24"]);
    assert_eq!(beginnings(&days, "30"), ["2024-01-10", "2024-02-09", "2024-03-10"]);
    let months = calendar("2023-11-01", 20, "1mo", "UTC");
    assert_eq!(beginnings(&months, "year"), ["2023-11-01", "2024-01-01", "2025-01-01"]);
}

/// Days of 23 and 25 hours, and a zone whose clock is set at midnight.
#[test]
fn periods_follow_the_zone() {
    let hours = calendar("2024-10-26T12:00", 60, "1h", "Europe/Berlin");
    let days = periods(&hours, "day").unwrap();
    assert_eq!((days.of(1), days.of(13), days.longest()), (1..13, 13..38, Some(25)));
    let spring = calendar("2024-03-30", 72, "1h", "Europe/Berlin");
    assert_eq!(periods(&spring, "day").unwrap().of(30), 25..48);
    let santiago = calendar("2024-09-07", 72, "1h", "America/Santiago");
    assert_eq!(periods(&santiago, "day").unwrap().of(30), 25..48);
    let zoned = calendar("2024-10-01", 62, "1d", "Europe/Berlin");
    assert_eq!(beginnings(&zoned, "month"), ["2024-10-01", "2024-11-01", "2024-12-01"]);
}

/// The longest period is that of the whole calendar, never shorter than one of the horizon.
#[test]
fn the_longest_period_does_not_depend_on_the_horizon() {
    for (every, zone, period, longest) in [
        ("1d", "UTC", "month", 31),
        ("1d", "UTC", "week", 7),
        ("1d", "UTC", "quarter", 92),
        ("1d", "UTC", "year", 366),
        ("1d", "Europe/Berlin", "month", 31),
        ("1h", "UTC", "day", 24),
        ("1h", "Europe/Berlin", "day", 25),
        ("1h", "Europe/Berlin", "week", 169),
        ("15m", "UTC", "month", 31 * 96),
        ("1w", "UTC", "2w", 2),
        ("1mo", "UTC", "year", 12),
        ("1mo", "UTC", "quarter", 3),
        ("1y", "UTC", "4y", 4),
        ("1h", "UTC", "36h", 36),
        ("1d", "UTC", "9", 9),
    ] {
        for start in ["2024-01-01", "2023-02-01", "2024-11-01"] {
            let calendar = calendar(start, 24, every, zone);
            assert_eq!(periods(&calendar, period).unwrap().longest(), Some(longest), "{every} {period} {start}");
        }
    }
}

/// Whole periods are nearly as long as the longest, but where a zone leaves out a day: Samoa had no 30 December 2011.
#[test]
fn whole_periods_are_nearly_as_long_as_the_longest() {
    for (start, steps, every, zone, period) in [
        ("2023-01-31", 800, "1d", "UTC", "month"),
        ("2023-01-31", 2000, "1d", "UTC", "quarter"),
        ("2023-06-01", 3000, "1d", "UTC", "year"),
        ("2024-01-03", 5000, "1h", "Europe/Berlin", "day"),
        ("2024-01-03", 5000, "1h", "Europe/Berlin", "week"),
        ("2023-11-01", 50, "1mo", "UTC", "year"),
        ("2024-01-31", 50, "1d", "UTC", "5"),
    ] {
        assert!(
            periods(&calendar(start, steps, every, zone), period).unwrap().are_regular(),
            "{every} {zone} {period}"
        );
    }
    let samoa = calendar("2011-12-15", 1000, "1h", "Pacific/Apia");
    assert!(!periods(&samoa, "week").unwrap().are_regular());
    assert_eq!(beginnings(&samoa, "day")[14..16], ["2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"]);
}

#[test]
fn a_step_lies_within_one_period() {
    for (start, every, zone, period) in [
        ("2024-01-01", "1w", "UTC", "month"),
        ("2024-01-01", "1d", "UTC", "36h"),
        ("2024-01-01", "1mo", "UTC", "week"),
        ("2024-01-15", "1mo", "UTC", "year"),
        ("2024-01-01T00:30", "1h", "UTC", "day"),
        ("2024-01-01", "7h", "UTC", "day"),
        ("2024-03-01", "1d", "Europe/Berlin", "24h"),
        ("2024-01-01", "1h", "UTC", "30m"),
    ] {
        let problem = periods(&calendar(start, 40, every, zone), period).unwrap_err();
        assert!(problem.contains("would cut the step from") && problem.contains("--every"), "{problem}");
    }
}

/// The periods of a horizon of twice as many steps say whether one begins in its middle.
#[test]
fn a_later_horizon_begins_with_a_period_if_none_is_cut() {
    let mut found = [0; 2];
    for (zone, every, per) in [
        ("UTC", "1d", "5"),
        ("UTC", "1d", "2w"),
        ("UTC", "1h", "36h"),
        ("UTC", "1d", "month"),
        ("America/New_York", "1d", "2d"),
        ("America/New_York", "1d", "2mo"),
        ("America/New_York", "1h", "3d"),
        ("America/New_York", "1d", "week"),
        ("Pacific/Apia", "1d", "5d"),
    ] {
        let period: Period = per.parse().unwrap();
        for (start, steps) in ["2011-12-05", "2012-01-01", "2012-03-09"]
            .into_iter()
            .flat_map(|start| (1..75).map(move |days| (start, if every == "1h" { 12 * days } else { days })))
        {
            let [first, both] = [steps, 2 * steps].map(|steps| calendar(start, steps, every, zone));
            let truth = Periods::new(&both, period).unwrap().of(steps + 1).start == steps + 1;
            let is_multiple = matches!(period, Period::Steps(length) if steps % length == 0);
            let stated = period.begins_at(first.end(), Some(first.start()), first.zone(), is_multiple);
            assert_eq!(stated, truth, "{per} of {every} in {zone}: {steps} steps from {start}");
            found[usize::from(stated)] += 1;
        }
    }
    assert!(found.iter().all(|times| *times > 50), "{found:?}");
    let (of, fortnight): (_, Period) = (calendar("2012-01-01", 14, "1d", "UTC"), "2w".parse().unwrap());
    assert!(!fortnight.begins_at(of.end(), None, of.zone(), true), "unknown");
}
