//! Further shapes of times: what logs, spreadsheets and databases write and only one reading fits. They are tried only
//! for texts that are not in one of the [usual shapes](super::parse), so they cost usual texts nothing.

use super::error::TimeError;
use super::parse::{MICROS_PER_SECOND, days_in_month, days_since_1970, parse_fraction};

/// The contents of a text, before a zone turns them into an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WideTime<'t> {
    /// Days since 1970-01-01: of the first day if the text is a month.
    pub(crate) day: i64,
    /// Whether the text is a month without a day.
    pub(crate) is_month: bool,
    /// The time of day.
    pub(crate) clock: Option<TimeOfDay<'t>>,
}

/// A time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeOfDay<'t> {
    /// Microseconds since midnight.
    pub(crate) micros: i64,
    /// The zone that follows, as text; empty without one.
    pub(crate) zone: &'t str,
}

/// `2024/5/1`, `2024-05`, `2024-05-01 9:30 PM`, `2024-05-01 12:30:00,123 UTC` and the like: the year first, then month
/// and day with the same separator, then perhaps a time of day. Also the times of web servers,
/// `17/May/2015:10:05:03 +0000`.
///
/// # Errors
/// If it has another shape, or if no calendar has the date.
pub(crate) fn parse_wide(text: &str) -> Result<WideTime<'_>, TimeError> {
    let Ok((year, rest)) = number(text, 4, 4) else { return parse_log_time(text) };
    let separator = rest.chars().next().filter(|c| "-/.".contains(*c)).ok_or(TimeError::Unrecognised)?;
    let (month, rest) = number(&rest[1..], 1, 2)?;
    let Some(rest) = rest.strip_prefix(separator) else {
        // A number such as 2015.05 is not a month.
        if !rest.is_empty() || separator == '.' || text.len() != 7 {
            return Err(TimeError::Unrecognised);
        }
        let day = day_of(i64::from(year), month, 1)?;
        return Ok(WideTime { day, is_month: true, clock: None });
    };
    let (day, rest) = number(rest, 1, 2)?;
    let day = day_of(i64::from(year), month, day)?;
    if rest.is_empty() {
        return Ok(WideTime { day, is_month: false, clock: None });
    }
    let clock = rest.strip_prefix(['T', 't', ' ']).ok_or(TimeError::Unrecognised)?;
    Ok(WideTime { day, is_month: false, clock: Some(parse_clock(clock.trim_ascii_start())?) })
}

/// `17/May/2015:10:05:03 +0000`, as web servers log times.
fn parse_log_time(text: &str) -> Result<WideTime<'_>, TimeError> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (day, rest) = number(text, 1, 2)?;
    let mut parts = rest.strip_prefix('/').ok_or(TimeError::Unrecognised)?.splitn(2, '/');
    let (name, rest) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let month = MONTHS.iter().zip(1..).find(|(month, _)| **month == name).ok_or(TimeError::Unrecognised)?.1;
    let (year, rest) = number(rest, 4, 4)?;
    let clock = rest.strip_prefix(':').ok_or(TimeError::Unrecognised)?;
    let day = day_of(i64::from(year), month, day)?;
    Ok(WideTime { day, is_month: false, clock: Some(parse_clock(clock)?) })
}

/// `9:30`, `09:30:15.25`, `09:30:15,250`, `9:30 PM` or `9 p.m.`, and perhaps a zone.
///
/// # Errors
/// If it has another shape, or if no clock shows that time.
pub(crate) fn parse_clock(text: &str) -> Result<TimeOfDay<'_>, TimeError> {
    let (mut hour, mut rest) = number(text, 1, 2)?;
    let (mut minute, mut second, mut fraction) = (0, 0, 0);
    let has_minute = rest.starts_with(':');
    if has_minute {
        (minute, rest) = number(&rest[1..], 2, 2)?;
        if rest.starts_with(':') {
            (second, rest) = number(&rest[1..], 2, 2)?;
            if rest.starts_with(['.', ',']) {
                let (micros, left) = parse_fraction(&rest.as_bytes()[1..])?;
                (fraction, rest) = (micros, &rest[rest.len() - left.len()..]);
            }
        }
    }
    rest = rest.trim_ascii_start();
    let half = half_of_day(rest);
    if let Some((is_afternoon, len)) = half {
        if !(1..=12).contains(&hour) {
            return Err(TimeError::NoSuch("hour of twelve", hour));
        }
        hour = hour % 12 + 12 * u32::from(is_afternoon);
        rest = rest[len..].trim_ascii_start();
    }
    if !has_minute && half.is_none() {
        return Err(TimeError::Unrecognised);
    }
    for (what, found, most) in [("hour", hour, 23), ("minute", minute, 59), ("second", second, 60)] {
        if found > most {
            return Err(TimeError::NoSuch(what, found));
        }
    }
    // A leap second counts with the second before it.
    let seconds = i64::from(hour * 3600 + minute * 60 + second.min(59));
    Ok(TimeOfDay { micros: seconds * MICROS_PER_SECOND + fraction, zone: rest })
}

/// Whether a text begins with PM instead of AM, and the length of that.
fn half_of_day(text: &str) -> Option<(bool, usize)> {
    let forms = [("a.m.", false), ("p.m.", true), ("am", false), ("pm", true)];
    let found = forms.iter().find(|(form, _)| {
        let begins = text.get(..form.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(form));
        begins && !text[form.len()..].starts_with(|c: char| c.is_alphanumeric())
    });
    found.map(|(form, is_afternoon)| (*is_afternoon, form.len()))
}

fn day_of(year: i64, month: u32, day: u32) -> Result<i64, TimeError> {
    if !(1..=12).contains(&month) {
        return Err(TimeError::NoSuch("month", month));
    }
    if day == 0 || day > days_in_month(year, month) {
        return Err(TimeError::NoSuch("day of that month", day));
    }
    Ok(days_since_1970(year, month, day))
}

/// A number of so few digits at the front, and the rest.
fn number(text: &str, least: usize, most: usize) -> Result<(u32, &str), TimeError> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    if !(least..=most).contains(&len) {
        return Err(TimeError::Unrecognised);
    }
    Ok((text[..len].parse().expect("at most four digits"), &text[len..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(text: &str) -> Result<(i64, &str), TimeError> {
        parse_clock(text).map(|clock| (clock.micros / 1000, clock.zone))
    }

    #[test]
    fn times_of_web_servers() {
        let time = parse_wide("17/May/2015:10:05:03 +0000").unwrap();
        assert_eq!((time.day, time.clock), (16572, parse_clock("10:05:03 +0000").ok()));
        assert_eq!(parse_wide("31/Feb/2015:10:05:03 +0000"), Err(TimeError::NoSuch("day of that month", 31)));
        for text in ["17/05/2015:10:05:03 +0000", "17/May/2015", "17/May/2015 10:05:03", "17/Mayo/2015:10:05:03"] {
            assert_eq!(parse_wide(text), Err(TimeError::Unrecognised), "{text}");
        }
    }

    #[test]
    fn times_of_day() {
        let at = |hour: i64, minute: i64| (hour * 60 + minute) * 60_000;
        for (text, millis, zone) in [
            ("9:05", at(9, 5), ""),
            ("09:05:30.25", at(9, 5) + 30_250, ""),
            ("09:05:30,123", at(9, 5) + 30_123, ""),
            ("12:00 AM", 0, ""),
            ("12:00pm", at(12, 0), ""),
            ("9:05:00 p.m.", at(21, 5), ""),
            ("9 PM", at(21, 0), ""),
            ("09:05:00 UTC", at(9, 5), "UTC"),
            ("09:05:00 -0500", at(9, 5), "-0500"),
            ("09:05 America/New_York", at(9, 5), "America/New_York"),
            ("9:05 AM EST", at(9, 5), "EST"),
        ] {
            assert_eq!(clock(text), Ok((millis, zone)), "{text}");
        }
        for text in ["", "9", "905", "9:5", "9:05:1", "9:05:00.", "x"] {
            assert_eq!(clock(text), Err(TimeError::Unrecognised), "{text}");
        }
        for (text, what, found) in [
            ("24:00", "hour", 24),
            ("9:60", "minute", 60),
            ("9:00:61", "second", 61),
            ("13:00 PM", "hour of twelve", 13),
            ("0:30 AM", "hour of twelve", 0),
        ] {
            assert_eq!(clock(text), Err(TimeError::NoSuch(what, found)), "{text}");
        }
    }
}
