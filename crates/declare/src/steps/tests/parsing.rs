use jiff::Timestamp;
use jiff::civil::DateTime;
use proptest::prelude::*;

use crate::event::Field;
use crate::steps::{Instant, Precision, TimeError, TimeFormat, TimeParser, Zone};

fn parser(format: TimeFormat, zone: &str) -> TimeParser {
    TimeParser::new(format, zone.parse().unwrap())
}

fn auto(text: &str) -> Result<String, TimeError> {
    parser(TimeFormat::Auto, "UTC").parse_text(text).map(|i| i.to_string())
}

#[test]
fn auto_reads_the_usual_shapes() {
    for (text, expected) in [
        ("2024-05-01", "2024-05-01T00:00:00Z"),
        ("2024-05-01T12:30", "2024-05-01T12:30:00Z"),
        ("2024-05-01 12:30:15", "2024-05-01T12:30:15Z"),
        ("2024-05-01T12:30:15.25", "2024-05-01T12:30:15.25Z"),
        ("2024-05-01T12:30:15.123456789Z", "2024-05-01T12:30:15.123456Z"),
        ("2024-05-01t12:30:15z", "2024-05-01T12:30:15Z"),
        ("2024-05-01T12:30:15+02:00", "2024-05-01T10:30:15Z"),
        ("2024-05-01 00:30:00-0530", "2024-05-01T06:00:00Z"),
        ("2024-05-01 12:30:15+00", "2024-05-01T12:30:15Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.5Z"),
        ("0001-01-01", "0001-01-01T00:00:00Z"),
        (" 2024-02-29 ", "2024-02-29T00:00:00Z"),
        // Less usual shapes with one reading.
        ("2024-05-01T12:30:15 Z", "2024-05-01T12:30:15Z"),
        ("2024-05-01 12:30:15 UTC", "2024-05-01T12:30:15Z"),
        ("2024-05-01 12:30:15 +0200", "2024-05-01T10:30:15Z"),
        ("2024-05-01T12:30:15 GMT+02:00", "2024-05-01T10:30:15Z"),
        ("2024-05-01 12:30:15 America/New_York", "2024-05-01T16:30:15Z"),
        ("2024-05-01 12:30:15,250", "2024-05-01T12:30:15.25Z"),
        ("2024-05-01 9:05", "2024-05-01T09:05:00Z"),
        ("2024-05-01 9:05 PM", "2024-05-01T21:05:00Z"),
        ("2024-05-01 12:05:00.5 am", "2024-05-01T00:05:00.5Z"),
        ("2024/05/01", "2024-05-01T00:00:00Z"),
        ("2024/5/1 12:30", "2024-05-01T12:30:00Z"),
        ("2024.05.01", "2024-05-01T00:00:00Z"),
        ("2024-5-1", "2024-05-01T00:00:00Z"),
        ("2024-05", "2024-05-01T00:00:00Z"),
        ("2024/05", "2024-05-01T00:00:00Z"),
    ] {
        assert_eq!(auto(text).as_deref(), Ok(expected), "{text}");
    }
    // A common stand-in for "never" is a time like any other, far after every horizon.
    assert!(parser(TimeFormat::Auto, "America/New_York").parse_text("9999-12-31T23:59:59").is_ok());
}

#[test]
fn auto_refuses_the_rest_and_says_why() {
    for text in [
        "",
        "abc",
        "2024",
        "05/01/2024",
        "05/01/24",
        "2024.05",
        "2024-5",
        "2024/05-01",
        "2024-05-01T",
        "2024-05-01T12",
        "2024-05-01T12:3",
        "24-05-01",
        "2024-05-01T12:30:15.",
        "2024-05-01T12:30:15+2",
        "2024-05-01T12:30:15 +2",
        "2024-05-01Z",
        "2024-05-01 12:30:15 Z Z",
        "2024-05-01X12:30",
        "2024-05-01T12:30:15.1234567890",
        "２024-05-01",
        "2024-05-01T12:30:1",
    ] {
        let expected = match text {
            "2024" => TimeError::BareYear,
            "2024.05" => TimeError::BareNumber,
            "05/01/2024" => TimeError::OrderOpen,
            "05/01/24" | "24-05-01" => TimeError::ShortYear,
            _ => TimeError::Unrecognised,
        };
        assert_eq!(auto(text), Err(expected), "{text:?}");
    }
    for (text, what, number) in [
        ("2024-13-01", "month", 13),
        ("2024-00-01", "month", 0),
        ("2023-02-29", "day of that month", 29),
        ("1900-02-29", "day of that month", 29),
        ("2024-04-31", "day of that month", 31),
        ("2024-05-01T24:00", "hour", 24),
        ("2024-05-01T23:60", "minute", 60),
        ("2024-05-01T23:59:61", "second", 61),
    ] {
        let error = auto(text).unwrap_err();
        assert_eq!(error, TimeError::NoSuch(what, number), "{text}");
        assert!(error.to_string().contains(&format!("there is no {what} {number}")), "{error}");
    }
    for text in ["1700000000", "-5", "1.7e9", "1700000000.25"] {
        let error = auto(text).unwrap_err();
        assert_eq!(error, TimeError::BareNumber, "{text}");
        assert!(error.to_string().contains("--time-format epoch-seconds, epoch-millis"), "{error}");
    }
}

#[test]
fn declared_formats_hold() {
    let mut rfc = parser(TimeFormat::Rfc3339, "UTC");
    assert!(rfc.parse_text("2024-05-01T12:30:15Z").is_ok());
    assert_eq!(rfc.parse_text("2024-05-01T12:30:15"), Err(TimeError::NoOffset));
    assert_eq!(rfc.parse_text("2024-05-01"), Err(TimeError::NoOffset));
    let mut date = parser(TimeFormat::Date, "UTC");
    assert!(date.parse_text("2024-05-01").is_ok());
    assert_eq!(date.parse_text("2024-05-01T00:00"), Err(TimeError::NotADate));
    let mut seconds = parser("epoch-seconds".parse().unwrap(), "UTC");
    assert_eq!(seconds.parse_text("1700000000.0000019"), Ok(Instant::from_micros(1_700_000_000_000_001)));
    assert_eq!(seconds.parse_text("-0.5"), Ok(Instant::from_micros(-500_000)));
    assert_eq!(seconds.parse(Field::Float(0.1)), Ok(Instant::from_micros(100_000)));
    assert_eq!(seconds.parse(Field::Integer(2)), Ok(Instant::from_micros(2_000_000)));
    assert_eq!(seconds.parse_text("2024-05-01"), Err(TimeError::NotEpoch));
    assert_eq!(seconds.parse_text("NaN"), Err(TimeError::NotEpoch));
    assert_eq!(seconds.parse(Field::Float(f64::NAN)), Err(TimeError::NotEpoch));
    assert_eq!(seconds.parse_text("1e30"), Err(TimeError::TooFar));
    assert_eq!(seconds.parse(Field::Integer(i64::MAX)), Err(TimeError::TooFar));
    let mut millis = parser("epoch-millis".parse().unwrap(), "UTC");
    assert_eq!(millis.parse_text("1700000000123"), Ok(Instant::from_micros(1_700_000_000_123_000)));
    assert_eq!(millis.parse(Field::Integer(-1)), Ok(Instant::from_micros(-1000)));
    let mut micros = parser("epoch-micros".parse().unwrap(), "UTC");
    assert_eq!(micros.parse_text("1700000000123456.7"), Ok(Instant::from_micros(1_700_000_000_123_456)));
    assert_eq!(micros.parse(Field::Integer(i64::MIN)), Ok(Instant::from_micros(i64::MIN)));
    let mut nanos = parser("epoch-nanos".parse().unwrap(), "UTC");
    assert_eq!(nanos.parse_text("1700000000123456789"), Ok(Instant::from_micros(1_700_000_000_123_456)));
    assert_eq!(nanos.parse(Field::Integer(-1)), Ok(Instant::from_micros(-1)));
    assert_eq!(nanos.parse(Field::Float(-0.5)), Ok(Instant::from_micros(-1)));
    assert!(date.parse_text("2024/05/01").is_ok());
    for text in ["2024-05", "2024/05/01 12:30"] {
        assert_eq!(date.parse_text(text), Err(TimeError::NotADate), "{text}");
    }
    assert_eq!(rfc.parse_text("2024-05-01 12:30:15 UTC"), Err(TimeError::Unrecognised));
}

#[test]
fn typed_cells_say_what_they_are() {
    let mut parser = parser(TimeFormat::Auto, "America/New_York");
    assert_eq!(parser.parse(Field::Missing), Err(TimeError::Missing));
    assert_eq!(parser.parse(Field::Integer(5)), Err(TimeError::BareNumber));
    assert_eq!(parser.parse(Field::Float(5.0)), Err(TimeError::BareNumber));
    assert_eq!(parser.parse(Field::Instant(5)), Ok(Instant::from_micros(5)));
    assert_eq!(parser.parse(Field::Civil(0)), Ok(Instant::from_micros(5 * 3_600_000_000)));
    assert_eq!(parser.parse(Field::Date(1)), Ok(Instant::from_micros(29 * 3_600_000_000)));
    for extreme in [i64::MIN, i64::MAX] {
        assert!(parser.parse(Field::Civil(extreme)).is_ok() && parser.parse(Field::Instant(extreme)).is_ok());
    }
    assert!(parser.parse(Field::Date(i32::MIN)).is_ok());
}

#[test]
fn clock_changes_resolve_as_documented() {
    let mut parser = parser(TimeFormat::Auto, "America/New_York");
    let mut read = |text: &str| parser.parse_text(text).unwrap().to_string();
    // 02:30 does not occur: moved on by the hour that is skipped.
    assert_eq!(read("2024-03-10T02:30:00"), "2024-03-10T07:30:00Z");
    // 01:30 occurs twice: the first.
    assert_eq!(read("2024-11-03T01:30:00"), "2024-11-03T05:30:00Z");
    assert_eq!(read("2024-11-03T02:30:00"), "2024-11-03T07:30:00Z");
    assert_eq!(read("2024-11-04"), "2024-11-04T05:00:00Z");
    assert_eq!(read("2024-07-04"), "2024-07-04T04:00:00Z");
}

#[test]
fn zones_by_name_and_offset() {
    for (text, name) in
        [("utc", "UTC"), ("Z", "UTC"), ("europe/berlin", "Europe/Berlin"), ("+02:00", "+02:00"), ("-0530", "-0530")]
    {
        let zone: Zone = text.parse().unwrap();
        assert_eq!(zone.name(), name);
        assert_eq!(serde_json::from_str::<Zone>(&serde_json::to_string(&zone).unwrap()).unwrap(), zone);
    }
    assert_eq!("-0530".parse::<Zone>().unwrap().fixed_offset(), Some(-19_800));
    assert_eq!("Europe/Berlin".parse::<Zone>().unwrap().fixed_offset(), None);
    let message = "Mars/Base".parse::<Zone>().unwrap_err().to_string();
    assert!(message.contains("`Mars/Base` is not a time zone") && message.contains("Europe/Berlin"), "{message}");
}

proptest! {
    #[test]
    fn agrees_with_the_calendar_library(
        micros in -62_135_596_800_000_000i64..253_402_207_200_000_000, hours in -23i32..24, minutes in 0i32..60,
    ) {
        let time = Timestamp::from_microsecond(micros).unwrap();
        let mut parser = parser(TimeFormat::Auto, "UTC");
        prop_assert_eq!(parser.parse_text(&time.to_string()), Ok(Instant::from_micros(micros)));
        let offset = jiff::tz::Offset::from_seconds((hours * 60 + minutes * hours.signum()) * 60).unwrap();
        let text = time.display_with_offset(offset).to_string();
        if !text.starts_with('-') && text.len() >= 25 && text.as_bytes()[4] == b'-' {
            prop_assert_eq!(parser.parse_text(&text), Ok(Instant::from_micros(micros)));
        }
    }

    #[test]
    fn remembered_offsets_agree_with_the_calendar_library(
        start in 0i64..2_500_000_000, steps in prop::collection::vec(-90_000i64..90_000, 20),
        zone in prop::sample::select(vec![
            "America/New_York", "Europe/London", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo",
        ]),
    ) {
        let mut parser = parser(TimeFormat::Auto, zone);
        let zone: Zone = zone.parse().unwrap();
        let mut second = start;
        for step in steps {
            second += step;
            let civil: DateTime = jiff::tz::TimeZone::UTC.to_datetime(Timestamp::from_second(second).unwrap());
            let expected = zone.time_zone().to_ambiguous_timestamp(civil).compatible().unwrap();
            prop_assert_eq!(parser.parse_text(&civil.to_string()), Ok(Instant::from(expected)), "{}", civil);
        }
    }

    #[test]
    fn never_panics(text in "[-+0-9TZtz:. ]{0,32}", other in ".{0,12}") {
        for format in ["auto", "rfc3339", "date", "epoch-seconds", "epoch-nanos", "%Y-%m-%d %H:%M %Z", "%d%m%y"] {
            let mut parser = parser(format.parse().unwrap(), "America/New_York");
            let _ = parser.parse_text(&text);
            let _ = parser.parse_text(&other);
        }
    }
}

#[test]
fn patterns_read_what_they_say() {
    let read = |pattern: &str, zone: &str, field: Field<'_>| {
        parser(pattern.parse().unwrap(), zone).parse(field).map(|instant| instant.to_string())
    };
    for (pattern, text, expected) in [
        ("%d/%m/%Y", "05/01/2024", "2024-01-05T00:00:00Z"),
        ("%m/%d/%Y", "05/01/2024", "2024-05-01T00:00:00Z"),
        ("%d/%m/%Y %H:%M", " 5/1/2024 23:05 ", "2024-01-05T23:05:00Z"),
        ("%d.%m.%y", "05.01.97", "1997-01-05T00:00:00Z"),
        ("%Y%m%d", "19970101", "1997-01-01T00:00:00Z"),
        ("%Y%m%d%H%M%S", "19970101123059", "1997-01-01T12:30:59Z"),
        ("%d %b %Y %I:%M %p", "05 Jan 2024 11:30 PM", "2024-01-05T23:30:00Z"),
        ("%d/%b/%Y:%H:%M:%S %z", "05/Jan/2024:23:30:00 +0200", "2024-01-05T21:30:00Z"),
        ("%Y-%m-%d %H:%M:%S%.f", "2024-01-05 01:02:03.123456789", "2024-01-05T01:02:03.123456Z"),
        ("%s", "1714566645", "2024-05-01T12:30:45Z"),
    ] {
        assert_eq!(read(pattern, "UTC", Field::Text(text)).as_deref(), Ok(expected), "{pattern}");
    }
    assert_eq!(read("%Y%m%d", "UTC", Field::Integer(19_970_101)).as_deref(), Ok("1997-01-01T00:00:00Z"));
    assert_eq!(read("%Y%m%d", "UTC", Field::Float(19_970_101.0)).as_deref(), Ok("1997-01-01T00:00:00Z"));
    // On the wall clock of the zone, with its gaps and its hours that occur twice.
    for (text, expected) in [
        ("27/10/2024 02:30", "2024-10-27T00:30:00Z"),
        ("31/03/2024 02:30", "2024-03-31T01:30:00Z"),
        ("01/07/2024 12:00", "2024-07-01T10:00:00Z"),
    ] {
        assert_eq!(read("%d/%m/%Y %H:%M", "Europe/Berlin", Field::Text(text)).as_deref(), Ok(expected), "{text}");
    }
    for (pattern, text) in [("%d/%m/%Y", "13/13/2024"), ("%d/%m/%Y", "2024-01-05"), ("%d/%m/%Y", "05/01/2024 1")] {
        assert_eq!(read(pattern, "UTC", Field::Text(text)), Err(TimeError::NotAsDeclared), "{text}");
    }
}

#[test]
fn formats_are_words_or_patterns() {
    let words = ["auto", "rfc3339", "date", "epoch-seconds", "epoch-millis", "epoch-micros", "epoch-nanos"];
    for text in words.into_iter().chain(["%d/%m/%Y", "%Y-%m", "%m/%Y", "%Y", "%Y-%m-%dT%H:%M:%SZ"]) {
        let format: TimeFormat = text.parse().unwrap();
        assert_eq!(format.to_string(), text);
        assert_eq!(serde_json::to_value(&format).unwrap(), text);
        assert_eq!(serde_json::from_value::<TimeFormat>(text.into()).unwrap(), format);
    }
    for (text, says) in [
        ("dd/mm/yyyy", "%d/%m/%Y"),
        ("Auto", "auto"),
        ("%H:%M", "needs a year"),
        ("%d/%m", "needs a year"),
        ("%m-%d %H:%M", "needs a year"),
        ("%Y-%m %H", "needs a year"),
        ("%Y %U", "needs a year"),
        ("%d/%m/%Y %I:%M", "needs %p"),
        ("%d/%m/%Y %-", "incomplete conversion"),
        ("%Y-%m-%d %H:%M:%S EST", "America/New_York"),
        ("%Y-%m-%d %H:%M:%S WIB", "write %Z in its place"),
        ("%Y-%m-%d %H:%M:%S UTC+00:00 +01:00", "contradict each other"),
        ("%d/%m/%Y %J", "is not a time pattern"),
        ("%", "is not a time pattern"),
    ] {
        let problem = text.parse::<TimeFormat>().unwrap_err();
        assert!(problem.contains(says), "{text}: {problem}");
    }
}

#[test]
fn other_shapes_are_recognised_and_not_guessed() {
    for (text, expected) in [
        ("19970101", TimeError::CompactDate),
        ("19971301", TimeError::BareNumber),
        ("01/02/2024 12:00", TimeError::OrderOpen),
        ("1.2.2024", TimeError::OrderOpen),
        ("31-12-2024T10:00", TimeError::OrderOpen),
        ("2024/13/31", TimeError::NoSuch("month", 13)),
        ("2024-05-01 13:30 PM", TimeError::NoSuch("hour of twelve", 13)),
        ("2024-05-01 12:30 Mars/Base", TimeError::UnknownZone),
        ("2024-05-01 12:30 EST", TimeError::Abbreviation("America/New_York")),
        ("1/2/24", TimeError::ShortYear),
    ] {
        assert_eq!(auto(text), Err(expected), "{text}");
    }
    let typed = parser(TimeFormat::Auto, "UTC").parse(Field::Integer(19_970_101));
    assert_eq!(typed, Err(TimeError::CompactDate));
}

#[test]
fn zones_in_a_cell_are_used() {
    let read = |pattern: &str, text: &str| {
        let mut parser = parser(pattern.parse().unwrap(), "America/New_York");
        parser.parse_text(text).map(|instant| instant.to_string())
    };
    for (pattern, text, expected) in [
        ("%Y-%m-%d %H:%M:%S %Q", "2015-05-17 12:00:00 Europe/Berlin", "2015-05-17T10:00:00Z"),
        ("%Y-%m-%d %H:%M:%S %Q", "2015-05-17 12:00:00 +02:00", "2015-05-17T10:00:00Z"),
        ("%Y-%m-%d %H:%M:%S %:Q", "2015-05-17 12:00:00 UTC", "2015-05-17T12:00:00Z"),
        ("%Y-%m-%dT%H:%M:%SZ", "2015-05-17T12:00:00Z", "2015-05-17T12:00:00Z"),
        ("%Y-%m-%dT%H:00:00Z", "2015-05-17T12:00:00Z", "2015-05-17T12:00:00Z"),
        ("%Y-%m-%dT%H:%M:%S%.fZ", "2015-05-17T12:00:00.25Z", "2015-05-17T12:00:00.25Z"),
        ("%d/%m/%Y %H:%M UTC", "17/05/2015 12:00 UTC", "2015-05-17T12:00:00Z"),
        ("%d/%m/%Y %H:%M (GMT)", "17/05/2015 12:00 (GMT)", "2015-05-17T12:00:00Z"),
        ("%Y-%m-%dT%H:%M:%S+00:00", "2015-05-17T12:00:00+00:00", "2015-05-17T12:00:00Z"),
        ("%Y-%m-%d %H:%M:%S-0500", "2015-05-17 12:00:00-0500", "2015-05-17T17:00:00Z"),
        ("%Y-%m-%d %H:%M [Asia/Tokyo]", "2015-05-17 12:00 [Asia/Tokyo]", "2015-05-17T03:00:00Z"),
        ("%a %b %d %H:%M:%S UTC %Y", "Sun May 17 12:00:00 UTC 2015", "2015-05-17T12:00:00Z"),
        ("%a %b %d %H:%M:%S %Z %Y", "Sun May 17 12:00:00 EDT 2015", "2015-05-17T16:00:00Z"),
        ("%a %b %d %H:%M:%S %z %Y", "Sun May 17 12:00:00 +0000 2015", "2015-05-17T12:00:00Z"),
        ("%Y-%m-%d %H:%M:%S%z", "2015-05-17 12:00:00Z", "2015-05-17T12:00:00Z"),
        ("%Y-%m-%d %H:%M:%S%z", "2015-05-17 12:00:00 +01:00", "2015-05-17T11:00:00Z"),
        ("%Y-%m-%d %H:%M:%S GMT%z", "2015-05-17 12:00:00 GMT+0100", "2015-05-17T11:00:00Z"),
        ("%Y-%m-%d %H:%M:%S %z %Z", "2015-05-17 12:00:00 -0400 EDT", "2015-05-17T16:00:00Z"),
        ("%Y-%m-%dT%H:%M%z[%Q]", "2015-05-17T12:00+02:00[Europe/Berlin]", "2015-05-17T10:00:00Z"),
        ("%Y-%m-%d %H:%M %Z", "2015-05-17 12:00 GMT", "2015-05-17T12:00:00Z"),
        // Without a zone in the cell, the declared one.
        ("%Y-%m-%dT%H:%M:%S", "2015-05-17T12:00:00", "2015-05-17T16:00:00Z"),
    ] {
        assert_eq!(read(pattern, text).as_deref(), Ok(expected), "{pattern}: {text}");
    }
    for (pattern, text, problem) in [
        ("%Y-%m-%d %H:%M %Q", "2015-05-17 12:00 Mars/Base", TimeError::UnknownZone),
        ("%Y-%m-%d %H:%M %Z", "2015-05-17 12:00 PST", TimeError::Abbreviation("America/Los_Angeles")),
        ("%Y-%m-%d %H:%M %Z", "2015-05-17 12:00 EST", TimeError::Abbreviation("America/New_York")),
        ("%Y-%m-%dT%H:%M%z[%Q]", "2015-05-17T12:00+01:00[Europe/Berlin]", TimeError::TwoZones),
        ("%Y-%m-%d %H:%M %z", "2015-05-17 12:00", TimeError::NotAsDeclared),
        ("%Y-%m-%d %H:%M %z", "2015-05-17 12:00 +1", TimeError::NotAsDeclared),
        ("%Y-%m-%d %H:%M UTC", "2015-05-17 12:00 +01", TimeError::NotAsDeclared),
    ] {
        assert_eq!(read(pattern, text), Err(problem), "{pattern}: {text}");
    }
    // The first of the hours that occur twice, unless the abbreviation tells them apart.
    assert_eq!(read("%Y-%m-%d %H:%M %Q", "2015-11-01 01:30 America/New_York").unwrap(), "2015-11-01T05:30:00Z");
    assert_eq!(read("%Y-%m-%d %H:%M %Z", "2015-11-01 01:30 EST").unwrap(), "2015-11-01T06:30:00Z");
}

#[test]
fn numbers_without_separators_have_all_their_digits() {
    let read = |pattern: &str, text: &str| parser(pattern.parse().unwrap(), "UTC").parse_text(text).is_ok();
    for (pattern, right, wrong) in [
        ("%Y%m%d", "20150517", "2015517"),
        ("%m%d%Y", "01012015", "1012015"),
        ("%Y-%m-%d %H%M", "2015-05-17 0130", "2015-05-17 130"),
        ("%d/%m/%Y %H%M%S%.f", "1/5/2015 093000.5", "1/5/2015 93000.5"),
        ("20%y%m%d", "20150517", "2015517"),
    ] {
        assert!(read(pattern, right), "{pattern}: {right}");
        assert!(!read(pattern, wrong), "{pattern}: {wrong}");
    }
}

#[test]
fn hours_with_am_or_pm_are_of_twelve() {
    let read = |pattern: &str, text: &str| {
        parser(pattern.parse().unwrap(), "UTC").parse_text(text).map(|instant| instant.to_string())
    };
    for pattern in ["%d/%m/%Y %I:%M %p", "%d/%m/%Y %H:%M %p"] {
        assert_eq!(read(pattern, "17/05/2015 10:30 PM").as_deref(), Ok("2015-05-17T22:30:00Z"), "{pattern}");
        assert_eq!(read(pattern, "17/05/2015 12:30 am").as_deref(), Ok("2015-05-17T00:30:00Z"), "{pattern}");
        assert_eq!(read(pattern, "17/05/2015 13:30 AM"), Err(TimeError::NotAsDeclared), "{pattern}");
    }
}

#[test]
fn years_of_two_digits_are_of_the_declared_century() {
    let read = |first: Option<i16>, text: &str| {
        let mut parser = parser("%d/%m/%y".parse().unwrap(), "UTC").with_century(first);
        parser.parse_text(text).unwrap().to_string()[..4].to_owned()
    };
    for (first, text, year) in [
        (None, "17/05/68", "2068"),
        (None, "17/05/69", "1969"),
        (Some(1950), "17/05/49", "2049"),
        (Some(1950), "17/05/50", "1950"),
        (Some(1900), "17/05/15", "1915"),
        (Some(2000), "17/05/99", "2099"),
    ] {
        assert_eq!(read(first, text), year, "{first:?} {text}");
    }
    let full = parser("%d/%m/%Y".parse().unwrap(), "UTC").parse_text("17/05/15");
    assert_eq!(full, Err(TimeError::ShortYear));
}

#[test]
fn times_state_their_precision() {
    let last = |format: &str, zone: &str, field: Field<'_>| {
        let mut parser = parser(format.parse().unwrap(), zone);
        let time = parser.read(field).unwrap();
        (time.precision, parser.last_instant(&time).to_string())
    };
    let text = Field::Text;
    for (format, zone, field, precision, expected) in [
        ("auto", "UTC", text("2024-05-01"), Precision::Day, "2024-05-01T23:59:59.999999Z"),
        ("auto", "Europe/Berlin", text("2024-03-31"), Precision::Day, "2024-03-31T21:59:59.999999Z"),
        ("auto", "UTC", text("2024-12"), Precision::Month, "2024-12-31T23:59:59.999999Z"),
        ("%m/%Y", "UTC", text("02/2024"), Precision::Month, "2024-02-29T23:59:59.999999Z"),
        ("%Y", "UTC", Field::Integer(2024), Precision::Year, "2024-12-31T23:59:59.999999Z"),
        ("%d/%m/%Y", "UTC", text("01/05/2024"), Precision::Day, "2024-05-01T23:59:59.999999Z"),
        ("auto", "UTC", Field::Date(0), Precision::Day, "1970-01-01T23:59:59.999999Z"),
        ("auto", "UTC", text("2024-05-01 00:00"), Precision::Time, "2024-05-01T00:00:00Z"),
        ("auto", "UTC", Field::Civil(0), Precision::Time, "1970-01-01T00:00:00Z"),
        ("%Y-%m-%d%z", "America/New_York", text("2024-05-01Z"), Precision::Day, "2024-05-01T23:59:59.999999Z"),
    ] {
        assert_eq!(last(format, zone, field), (precision, expected.to_owned()), "{format} {zone} {field:?}");
    }
}
