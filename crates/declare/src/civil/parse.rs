//! Dates and times of day as text: the few supported shapes, parsed by hand because every event has one.
//!
//! Measured against jiff 0.2.43, whose `DateTimeParser::parse_pieces` reads the same shapes (20,000 texts in one
//! thread, the best of 60 rounds, both sums of instants equal):
//!
//! | text | here | jiff |
//! |---|---|---|
//! | `2013-01-01` | 15 ns | 36 ns |
//! | `2013-01-01 00:05:17` | 23 ns | 48 ns |
//! | `2013-01-01T00:05:17Z` | 24 ns | 57 ns |
//! | `2013-01-01T00:05:17.123456+02:00` | 34 ns | 81 ns |
//!
//! A row of a CSV file takes 180 ns in total, from the file to its step: jiff would make that 11 to 26 % more. Nor
//! could its errors name the component of a time that no calendar has.

use super::error::TimeError;

pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(crate) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// The contents of a text, before a zone turns them into an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    /// Days since 1970-01-01.
    pub(crate) day: i64,
    /// Microseconds since midnight; `None` for a plain date.
    pub(crate) time: Option<i64>,
    /// Seconds east of UTC, if the text has an offset.
    pub(crate) offset: Option<i32>,
}

impl Civil {
    /// Microseconds since 1970-01-01T00:00 on the wall clock.
    pub(crate) fn micros(self) -> i64 {
        self.day * MICROS_PER_DAY + self.time.unwrap_or(0)
    }
}

/// The date that was read last. Most events are on the day of the event before them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastDate {
    text: [u8; 10],
    day: i64,
}

impl Default for LastDate {
    fn default() -> Self {
        Self { text: *b"1970-01-01", day: 0 }
    }
}

impl LastDate {
    /// Days since 1970-01-01.
    #[inline]
    fn day_of(&mut self, text: [u8; 10]) -> Result<i64, TimeError> {
        if text != self.text {
            *self = Self { text, day: parse_date(text)? };
        }
        Ok(self.day)
    }
}

/// Reads one text with [`parse_after`].
#[inline]
pub(crate) fn parse(text: &str) -> Result<Civil, TimeError> {
    parse_after(&mut LastDate::default(), text)
}

/// `YYYY-MM-DD`, then optionally `T` or a space, `HH:MM`, `:SS`, a fraction, and `Z` or an offset.
#[inline]
pub(crate) fn parse_after(last: &mut LastDate, text: &str) -> Result<Civil, TimeError> {
    let Some((date, rest)) = text.as_bytes().split_first_chunk() else { return Err(TimeError::Unrecognised) };
    let day = last.day_of(*date)?;
    let Some((separator, rest)) = rest.split_first() else {
        return Ok(Civil { day, time: None, offset: None });
    };
    if !matches!(separator, b'T' | b't' | b' ') {
        return Err(TimeError::Unrecognised);
    }
    let (time, rest) = parse_time_of_day(rest)?;
    let offset = match rest {
        [] => None,
        [b'Z' | b'z'] => Some(0),
        _ => Some(parse_offset(rest).ok_or(TimeError::Unrecognised)?),
    };
    Ok(Civil { day, time: Some(time), offset })
}

/// `YYYY-MM-DDTHH:MM:SSZ` in microseconds since 1970; `None` for other texts, which [`parse_after`] may read.
#[inline]
pub(crate) fn parse_usual(last: &mut LastDate, text: &str) -> Option<i64> {
    let (date, rest) = text.as_bytes().split_first_chunk()?;
    let (separator, rest) = rest.split_first()?;
    let (clock, zone) = rest.split_first_chunk()?;
    if !matches!(separator, b'T' | b't' | b' ') || !matches!(zone, b"Z" | b"z") {
        return None;
    }
    let (seconds, day) = (whole_seconds(*clock)?, last.day_of(*date).ok()?);
    Some(day * MICROS_PER_DAY + i64::from(seconds) * MICROS_PER_SECOND)
}

/// `YYYY-MM-DD` as days since 1970-01-01.
fn parse_date(text: [u8; 10]) -> Result<i64, TimeError> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text else { return Err(TimeError::Unrecognised) };
    let (year, month, day) = (i64::from(number(&[y0, y1, y2, y3])?), number(&[m0, m1])?, number(&[d0, d1])?);
    if !(1..=12).contains(&month) {
        return Err(TimeError::NoSuch("month", month));
    }
    if day == 0 || day > days_in_month(year, month) {
        return Err(TimeError::NoSuch("day of that month", day));
    }
    Ok(days_since_1970(year, month, day))
}

/// Microseconds since midnight, and the remaining bytes.
#[inline]
fn parse_time_of_day(bytes: &[u8]) -> Result<(i64, &[u8]), TimeError> {
    let usual = bytes.split_first_chunk().and_then(|(clock, rest)| Some((whole_seconds(*clock)?, rest, true)));
    let (seconds, rest, has_seconds) = match usual {
        Some(parts) => parts,
        None => parse_clock_parts(bytes)?,
    };
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] if has_seconds => parse_fraction(rest)?,
        _ => (0, rest),
    };
    Ok((i64::from(seconds) * MICROS_PER_SECOND + fraction, rest))
}

/// Seconds since midnight of `HH:MM:SS`; `None` for other texts, for a time that no day has, and for a leap second.
#[inline]
fn whole_seconds(clock: [u8; 8]) -> Option<u32> {
    // All digits at once, one in each byte. The exclusive or maps digits to 0..=9, and colons to 0.
    const DIGITS: u64 = u64::from_le_bytes(*b"00:00:00");
    const COLONS: u64 = 0x0000_ff00_00ff_0000;
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    const TO_HIGH_BIT: u64 = 0x7676_7676_7676_7676; // added to 10 or more, it sets the high bit
    let digits = u64::from_le_bytes(clock) ^ DIGITS;
    if digits & COLONS != 0 || (digits | digits.wrapping_add(TO_HIGH_BIT)) & HIGH_BITS != 0 {
        return None;
    }
    let pairs = (digits * 10 + (digits >> 8)).to_le_bytes(); // fits: at most 99 in each byte
    let [hour, minute, second] = [0, 3, 6].map(|first| u32::from(pairs[first]));
    (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Seconds since midnight of `HH:MM` or `HH:MM:SS`, the remaining bytes, and whether there are seconds.
fn parse_clock_parts(bytes: &[u8]) -> Result<(u32, &[u8], bool), TimeError> {
    if at(bytes, 2) != b':' {
        return Err(TimeError::Unrecognised);
    }
    let (hour, minute) = (number(bytes.get(..2).unwrap_or(b"-"))?, number(bytes.get(3..5).unwrap_or(b"-"))?);
    if hour > 23 {
        return Err(TimeError::NoSuch("hour", hour));
    }
    if minute > 59 {
        return Err(TimeError::NoSuch("minute", minute));
    }
    let (minutes, rest) = ((hour * 60 + minute) * 60, &bytes[5..]);
    if rest.first() != Some(&b':') {
        return Ok((minutes, rest, false));
    }
    let second = number(rest.get(1..3).unwrap_or(b"-"))?;
    if second > 60 {
        return Err(TimeError::NoSuch("second", second));
    }
    // A leap second counts with the second before it, as in the calendar library.
    Ok((minutes + second.min(59), &rest[3..], true))
}

/// One to nine digits of a fraction of a second as microseconds, rounded down.
pub(super) fn parse_fraction(bytes: &[u8]) -> Result<(i64, &[u8]), TimeError> {
    let len = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    if len == 0 || len > 9 {
        return Err(TimeError::Unrecognised);
    }
    let micros = (0..6).fold(0, |n, i| n * 10 + if i < len { i64::from(bytes[i] - b'0') } else { 0 });
    Ok((micros, &bytes[len..]))
}

/// `±HH:MM`, `±HHMM` or `±HH` in seconds.
pub(crate) fn parse_offset(bytes: &[u8]) -> Option<i32> {
    let (sign, digits) = match bytes.split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes): (&[u8], &[u8]) = match digits.len() {
        5 if digits[2] == b':' => (&digits[..2], &digits[3..]),
        4 => (&digits[..2], &digits[2..]),
        2 => (digits, b"00"),
        _ => return None,
    };
    let (hours, minutes) = (number(hours).ok()?, number(minutes).ok()?);
    (hours <= 23 && minutes <= 59).then(|| sign * (hours * 3600 + minutes * 60) as i32)
}

#[inline]
fn at(bytes: &[u8], index: usize) -> u8 {
    bytes.get(index).copied().unwrap_or(0)
}

#[inline]
fn number(digits: &[u8]) -> Result<u32, TimeError> {
    digits.iter().try_fold(0u32, |n, b| match b {
        b'0'..=b'9' => Ok(n * 10 + u32::from(b - b'0')),
        _ => Err(TimeError::Unrecognised),
    })
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 => 28 + u32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, counting years from March so that leap days come last.
pub(crate) fn days_since_1970(year: i64, month: u32, day: u32) -> i64 {
    let march_year = if month > 2 { year } else { year - 1 };
    let era = march_year.div_euclid(400);
    let year_of_era = march_year.rem_euclid(400);
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day from a number of days since 1970-01-01: the reverse of [`days_since_1970`].
pub(crate) fn date_of(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * march_month + 2) / 5 + 1, (march_month + 2) % 12 + 1);
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// All digits at once are read as one by one, also next to the digits and colons of ASCII.
        #[test]
        fn clocks_are_read_at_once_as_by_parts(
            parts in prop::array::uniform3(0..100u32), changed in 0..12usize, byte in prop::num::u8::ANY,
        ) {
            let [hour, minute, second] = parts;
            let mut clock = *format!("{hour:02}:{minute:02}:{second:02}").as_bytes().first_chunk().unwrap();
            clock.get_mut(changed).into_iter().for_each(|place| *place = byte);
            let by_parts = parse_clock_parts(&clock).ok().filter(|parts| parts.2 && &clock[6..] != b"60");
            prop_assert_eq!(whole_seconds(clock).map(|seconds| (seconds, &b""[..], true)), by_parts);
        }

        /// A parser reads a text in the same way after any other texts.
        #[test]
        fn texts_are_read_alike_after_others(
            texts in prop::collection::vec(
                "20(13|12)-0[0-3]-(28|29|3[01]|01)([T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9]Z?)?)?", 2..8,
            ),
        ) {
            let mut last = LastDate::default();
            for text in &texts {
                let usual = parse_usual(&mut last, text);
                prop_assert_eq!(parse_after(&mut last, text), parse(text), "{:?}", texts);
                prop_assert!(usual.is_none_or(|micros| parse(text).map(Civil::micros) == Ok(micros)), "{text}");
                let is_usual = text.len() == 20 && parse(text).is_ok() && !text.ends_with("60Z");
                prop_assert_eq!(usual.is_some(), is_usual, "{}", text);
            }
        }
    }

    #[test]
    fn bytes_of_zero_are_no_date() {
        assert_eq!(parse("\0\0\0\0\0\0\0\0\0\0"), Err(TimeError::Unrecognised));
        assert_eq!(parse("1970-01-01").map(|civil| civil.day), Ok(0));
    }
}
