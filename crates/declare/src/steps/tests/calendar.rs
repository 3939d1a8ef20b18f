use proptest::prelude::*;

use crate::steps::{
    CalendarError, CalendarSpec, Every, Horizon, Instant, MAX_STEPS, StepCalendar, TimeFormat, TimeParser, Zone,
};

const HOUR: i64 = 3_600_000_000;

fn instant(text: &str, zone: &str) -> Instant {
    TimeParser::new(TimeFormat::Auto, zone.parse().unwrap()).parse_text(text).unwrap()
}

fn until(start: &str, end: &str, every: &str, zone: &str) -> Result<StepCalendar, CalendarError> {
    let end = Horizon::Until(instant(end, zone));
    StepCalendar::new(instant(start, zone), end, every.parse().unwrap(), zone.parse().unwrap())
}

fn steps(start: &str, steps: u64, every: &str, zone: &str) -> StepCalendar {
    let every = every.parse().unwrap();
    StepCalendar::new(instant(start, zone), Horizon::Steps(steps), every, zone.parse().unwrap()).unwrap()
}

fn starts(calendar: &StepCalendar) -> Vec<String> {
    (1..=calendar.steps()).map(|k| calendar.format(calendar.start_of(k))).collect()
}

#[test]
fn widths_parse_and_print() {
    for (text, printed) in [
        ("90s", "90s"),
        ("15m", "15m"),
        ("1h", "1h"),
        ("1d", "1d"),
        ("2w", "2w"),
        ("1mo", "1mo"),
        ("1q", "3mo"),
        ("2 quarters", "6mo"),
        ("1y", "1y"),
        ("second", "1s"),
        ("minute", "1m"),
        ("Hour", "1h"),
        ("day", "1d"),
        ("week", "1w"),
        ("month", "1mo"),
        ("year", "1y"),
        ("3 days", "3d"),
    ] {
        let every: Every = text.parse().unwrap();
        assert_eq!(every.to_string(), printed, "{text}");
        assert_eq!(printed.parse(), Ok(every));
    }
    for text in ["", "d", "0d", "1", "-1d", "1.5h", "1M", "1 fortnight", "99999999999d", "4294967295q", "1d2h"] {
        let message = text.parse::<Every>().unwrap_err().to_string();
        assert!(message.contains(&format!("`{text}` is not a step width")) && message.contains("1mo"), "{message}");
    }
}

#[test]
fn plain_days() {
    let calendar = until("2013-01-01", "2014-01-01", "1d", "UTC").unwrap();
    assert_eq!(calendar.steps(), 365);
    assert_eq!(calendar.step_of(instant("2013-01-01", "UTC")), Some(1));
    assert_eq!(calendar.step_of(instant("2013-01-01T23:59:59.999999", "UTC")), Some(1));
    assert_eq!(calendar.step_of(instant("2013-12-31T12:00", "UTC")), Some(365));
    assert_eq!(calendar.step_of(instant("2014-01-01", "UTC")), None);
    assert_eq!(calendar.step_of(instant("2012-12-31T23:59:59", "UTC")), None);
    assert_eq!(calendar.step_of(Instant::from_micros(i64::MAX)), None);
    assert_eq!(calendar.step_of(Instant::from_micros(i64::MIN)), None);
    assert_eq!(calendar.format(calendar.start_of(365)), "2013-12-31");
    assert_eq!(calendar.format(calendar.end_of(365)), "2014-01-01");
}

#[test]
fn days_of_23_and_25_hours() {
    let zone = "America/New_York";
    let calendar = until("2024-03-09", "2024-11-05", "1d", zone).unwrap();
    assert_eq!(calendar.steps(), 241);
    let hours = |k| (calendar.end_of(k).micros() - calendar.start_of(k).micros()) / HOUR;
    assert_eq!((hours(1), hours(2), hours(3)), (24, 23, 24));
    let november_3 = calendar.step_of(instant("2024-11-03T12:00", zone)).unwrap();
    assert_eq!((hours(november_3), hours(november_3 + 1)), (25, 24));
    assert_eq!(calendar.format(calendar.start_of(november_3)), "2024-11-03");
    assert_eq!(calendar.step_of(instant("2024-03-10T23:59:59", zone)), Some(2));
    assert_eq!(calendar.step_of(instant("2024-03-11", zone)), Some(3));
}

#[test]
fn hours_are_elapsed_time_and_show_their_offset() {
    let zone = "America/New_York";
    let calendar = until("2024-03-10", "2024-03-11", "1h", zone).unwrap();
    assert_eq!(calendar.steps(), 23);
    let times = starts(&calendar);
    assert_eq!(times[1..3], ["2024-03-10T01:00:00-05:00", "2024-03-10T03:00:00-04:00"]);
    let calendar = steps("2024-03-10T06:00:00Z", 2, "15m", "UTC");
    assert_eq!(starts(&calendar), ["2024-03-10T06:00:00Z", "2024-03-10T06:15:00Z"]);
    assert_eq!(
        steps("2024-03-10", 1, "1h", "+02:00").format(instant("2024-03-10", "+02:00")),
        "2024-03-10T00:00:00+02:00"
    );
}

#[test]
fn months_and_years_keep_their_day() {
    let calendar = steps("2024-01-31", 5, "1mo", "UTC");
    assert_eq!(starts(&calendar), ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31"]);
    let calendar = steps("2020-02-29", 5, "1y", "UTC");
    assert_eq!(starts(&calendar), ["2020-02-29", "2021-02-28", "2022-02-28", "2023-02-28", "2024-02-29"]);
    assert_eq!(until("2013-01-01", "2014-01-01", "1q", "Europe/Berlin").unwrap().steps(), 4);
    assert_eq!(until("2000-01-01", "2400-01-01", "1mo", "UTC").unwrap().steps(), 4800);
    let noon = steps("2024-01-01T12:00", 2, "1d", "UTC");
    assert!(!noon.is_date_only());
    assert_eq!(starts(&noon), ["2024-01-01T12:00:00Z", "2024-01-02T12:00:00Z"]);
}

#[test]
fn a_day_that_a_zone_skipped_has_no_step() {
    // Samoa went from the 29th to the 31st of December 2011.
    let zone = "Pacific/Apia";
    let calendar = until("2011-12-28", "2012-01-02", "1d", zone).unwrap();
    assert_eq!(starts(&calendar), ["2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01"]);
    assert_eq!(calendar.step_of(instant("2011-12-29T23:59", zone)), Some(2));
    assert_eq!(calendar.step_of(instant("2011-12-31", zone)), Some(3));
}

#[test]
fn horizons_that_make_no_sense() {
    let message = |r: Result<StepCalendar, CalendarError>| r.unwrap_err().to_string();
    let error = message(until("2013-01-02", "2013-01-01", "1d", "UTC"));
    assert!(error.contains("ends at 2013-01-01T00:00:00Z, which is not after its start 2013-01-02"), "{error}");
    assert!(message(until("2013-01-01", "2013-01-01", "1d", "UTC")).contains("not after"));
    let error = message(until("2013-01-01", "2013-01-10T12:00", "1w", "America/New_York"));
    assert!(error.contains("2013-01-10T12:00:00-05:00, in the middle of a step"), "{error}");
    assert!(error.contains("2013-01-08T00:00:00-05:00 and 2013-01-15T00:00:00-05:00"), "{error}");
    let error = message(until("2013-01-01", "2013-01-05", "1mo", "UTC"));
    assert!(error.ends_with("the nearest ends of steps are 2013-02-01T00:00:00Z"), "{error}");
    let new = |count, every: &str| {
        StepCalendar::new(Instant::from_micros(0), Horizon::Steps(count), every.parse().unwrap(), Zone::utc())
            .map(|_| ())
    };
    assert_eq!(new(0, "1d"), Err(CalendarError::NoSteps));
    assert_eq!(new(MAX_STEPS + 1, "1s"), Err(CalendarError::TooMany(MAX_STEPS + 1)));
    assert_eq!(new(MAX_STEPS, "1s"), Err(CalendarError::BeyondCalendar));
    assert_eq!(new(MAX_STEPS, "4294967295y"), Err(CalendarError::BeyondCalendar));
    assert_eq!(new(10_000, "1y"), Err(CalendarError::BeyondCalendar));
    assert_eq!(new(200_000_000_000, "1s"), Ok(()));
    let far = Instant::from_micros(i64::MAX);
    let error = StepCalendar::new(Instant::from_micros(0), Horizon::Until(far), "1mo".parse().unwrap(), Zone::utc());
    assert_eq!(error.unwrap_err(), CalendarError::BeyondCalendar);
    assert_eq!(
        StepCalendar::new(far, Horizon::Steps(1), "1d".parse().unwrap(), Zone::utc()).unwrap_err(),
        CalendarError::BeyondCalendar
    );
}

#[test]
fn the_description_makes_the_same_steps() {
    for calendar in [
        until("2013-01-01", "2014-01-01", "1mo", "America/New_York").unwrap(),
        steps("2013-01-01T00:30", 100, "90s", "+05:30"),
    ] {
        let json = serde_json::to_string(&calendar.spec()).unwrap();
        let spec: CalendarSpec = serde_json::from_str(&json).unwrap();
        assert_eq!(StepCalendar::from_spec(&spec).unwrap(), calendar);
    }
    let spec = steps("2013-01-01", 31, "1d", "Europe/Berlin").spec();
    assert_eq!(
        serde_json::to_string(&spec).unwrap(),
        r#"{"start":"2012-12-31T23:00:00Z","steps":31,"every":"1d","zone":"Europe/Berlin"}"#
    );
}

#[test]
#[should_panic(expected = "step 0 of 31")]
fn there_is_no_step_zero() {
    steps("2013-01-01", 31, "1d", "UTC").start_of(0);
}

fn any_calendar() -> impl Strategy<Value = StepCalendar> {
    let zones = vec!["UTC", "America/New_York", "Europe/London", "Australia/Lord_Howe", "+05:45"];
    let widths = vec!["7s", "15m", "1h", "1d", "3d", "1w", "1mo", "1q", "1y"];
    (
        -1_000_000_000_000_000i64..3_000_000_000_000_000,
        1u64..300,
        prop::sample::select(widths),
        prop::sample::select(zones),
    )
        .prop_map(|(start, count, every, zone)| {
            let (every, zone) = (every.parse().unwrap(), zone.parse().unwrap());
            StepCalendar::new(Instant::from_micros(start), Horizon::Steps(count), every, zone).unwrap()
        })
}

proptest! {
    #[test]
    fn steps_tile_the_horizon(calendar in any_calendar()) {
        prop_assert_eq!(calendar.start_of(1), calendar.start());
        prop_assert_eq!(calendar.end_of(calendar.steps()), calendar.end());
        for k in 1..=calendar.steps() {
            let (start, end) = (calendar.start_of(k), calendar.end_of(k));
            prop_assert!(start < end);
            prop_assert_eq!(calendar.step_of(start), Some(k));
            prop_assert_eq!(calendar.step_of(Instant::from_micros(end.micros() - 1)), Some(k));
            let after = if k < calendar.steps() { Some(k + 1) } else { None };
            prop_assert_eq!(calendar.step_of(end), after);
        }
        prop_assert_eq!(calendar.step_of(Instant::from_micros(calendar.start().micros() - 1)), None);
    }

    #[test]
    fn an_end_on_a_boundary_gives_the_number_of_steps(calendar in any_calendar()) {
        let again = StepCalendar::new(
            calendar.start(), Horizon::Until(calendar.end()), calendar.every(), calendar.zone().clone()).unwrap();
        prop_assert_eq!(again, calendar);
    }

    #[test]
    fn later_instants_are_in_later_steps(calendar in any_calendar(), mut at in prop::collection::vec(0.0f64..1.0, 20)) {
        at.sort_by(f64::total_cmp);
        let start = calendar.start().micros();
        let length = (calendar.end().micros() - start) as f64;
        let found: Vec<Option<u64>> =
            at.iter().map(|x| calendar.step_of(Instant::from_micros(start + (x * length) as i64))).collect();
        prop_assert!(found.windows(2).all(|pair| pair[0] <= pair[1] || pair[1].is_none()));
    }
}
