//! Times of messages.

/// A time as text (RFC 3339, UTC, microseconds), from microseconds since 1970; `None` outside the years 1 to 9999.
pub(crate) fn rfc3339(micros: i64) -> Option<String> {
    const DAY: i64 = 86_400_000_000;
    let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    // Days since 1 March of the year 0, in periods of 400 years: leap days are the last days of years.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year + i64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    let (seconds, micros) = (rest / 1_000_000, rest % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let text = || format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z");
    (1..=9999).contains(&year).then(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_text() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_827_696_000_000, "2000-02-29T12:34:56.000000Z"),
            (1_709_251_199_123_456, "2024-02-29T23:59:59.123456Z"),
            (1_709_251_200_000_000, "2024-03-01T00:00:00.000000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (-11_644_473_600_000_000, "1601-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc3339(micros).as_deref(), Some(text));
        }
        assert_eq!(rfc3339(i64::MAX), None);
    }
}
