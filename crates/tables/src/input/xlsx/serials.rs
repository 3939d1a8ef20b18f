//! Serial numbers: days since the beginning of a workbook's calendar, whose fractions are times of day.

use super::styles::CellFormat;

const MILLIS_PER_DAY: i64 = 86_400_000;
const MICROS_PER_MILLI: i64 = 1000;

/// Days from 1970-01-01 to day 0 of a workbook: 1899-12-30, or 1904-01-01. Excel counts a day 29 February 1900, which
/// did not exist: days before it are one later.
const ZERO_1900: i64 = -25_569;
const ZERO_1904: i64 = -24_107;
const LEAP_DAY_1900: i64 = 60;

/// The day 9999-12-31, since 1970-01-01.
const LAST_DAY: i64 = 2_932_896;

/// Longer durations are refused: a million days.
const MAX_DURATION_DAYS: f64 = 1e6;

/// The value of a cell whose format is that of a date, a time or a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SerialValue {
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01T00:00.
    DateTime(i64),
    /// A time of day or a duration, as text.
    Clock(String),
}

/// The value of a serial number, to the nearest millisecond, which is Excel's resolution; `None` if no date has that
/// number.
///
/// A whole day is a date unless its format shows the time of day. A number below 1 is a time of day, except in the
/// calendar of 1904, in which it may be on the first day.
pub(super) fn value_of(serial: f64, format: CellFormat, is_1904: bool) -> Option<SerialValue> {
    let last =
        if format == CellFormat::Duration { MAX_DURATION_DAYS } else { LAST_DAY as f64 - ZERO_1900 as f64 + 1.0 };
    if !(0.0..last).contains(&serial) {
        return None;
    }
    let millis = (serial * MILLIS_PER_DAY as f64).round() as i64; // fits: at most 3 million days
    let (day, of_day) = (millis / MILLIS_PER_DAY, millis % MILLIS_PER_DAY);
    let has_no_day = match format {
        CellFormat::Duration => true,
        CellFormat::Clock => day == 0,
        _ => day == 0 && !is_1904,
    };
    if has_no_day {
        return Some(SerialValue::Clock(clock(millis)));
    }
    let day = match is_1904 {
        true => ZERO_1904 + day,
        false if day == LEAP_DAY_1900 => return None,
        false if day < LEAP_DAY_1900 => ZERO_1900 + 1 + day,
        false => ZERO_1900 + day,
    };
    if day > LAST_DAY {
        return None;
    }
    Some(match format {
        CellFormat::Date | CellFormat::Number if of_day == 0 => SerialValue::Date(day as i32), // fits: to 9999
        _ => SerialValue::DateTime((day * MILLIS_PER_DAY + of_day) * MICROS_PER_MILLI),
    })
}

/// A number of milliseconds as hours, minutes and seconds.
fn clock(millis: i64) -> String {
    let seconds = millis / 1000;
    let text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match millis % 1000 {
        0 => text,
        fraction => format!("{text}.{fraction:03}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally_declare::event::Field;

    fn text(serial: f64, format: CellFormat, is_1904: bool) -> String {
        match value_of(serial, format, is_1904) {
            None => "refused".to_owned(),
            Some(SerialValue::Date(days)) => Field::Date(days).to_string(),
            Some(SerialValue::DateTime(micros)) => Field::Civil(micros).to_string(),
            Some(SerialValue::Clock(text)) => text,
        }
    }

    #[test]
    fn serials_are_dates_and_times() {
        use CellFormat::*;
        for (serial, format, expected) in [
            (45413.0, Date, "2024-05-01"),
            (45413.0, DateTime, "2024-05-01T00:00:00"),
            (45413.0, Clock, "2024-05-01T00:00:00"),
            (45413.541666666664, DateTime, "2024-05-01T13:00:00"),
            (45413.541666666664, Date, "2024-05-01T13:00:00"),
            (45413.54166666667, DateTime, "2024-05-01T13:00:00"),
            (45413.99999999999, DateTime, "2024-05-02T00:00:00"),
            (45413.541672453706, DateTime, "2024-05-01T13:00:00.5"),
            (0.541666666666667, Clock, "13:00:00"),
            (0.0, Date, "00:00:00"),
            (0.25, DateTime, "06:00:00"),
            (1.5, Duration, "36:00:00"),
            (0.000011574074, Duration, "00:00:01"),
            (0.00001157986, Duration, "00:00:01"),
            (1.0, Date, "1900-01-01"),
            (59.0, Date, "1900-02-28"),
            (60.0, Date, "refused"),
            (61.0, Date, "1900-03-01"),
            (2958465.0, Date, "9999-12-31"),
            (2958466.0, Date, "refused"),
            (2958465.9999999999, Date, "refused"),
            (-1.0, Date, "refused"),
            (-0.5, Duration, "refused"),
            (f64::NAN, Date, "refused"),
            (f64::INFINITY, Duration, "refused"),
        ] {
            assert_eq!(text(serial, format, false), expected, "{serial} {format:?}");
        }
        for (serial, format, expected) in [
            (43951.0, Date, "2024-05-01"),
            (43951.541666666664, DateTime, "2024-05-01T13:00:00"),
            (0.0, Date, "1904-01-01"),
            (0.5, DateTime, "1904-01-01T12:00:00"),
            (0.5, Clock, "12:00:00"),
            (60.0, Date, "1904-03-01"),
            (2957003.0, Date, "9999-12-31"),
            (2957004.0, Date, "refused"),
        ] {
            assert_eq!(text(serial, format, true), expected, "{serial} {format:?}");
        }
    }
}
