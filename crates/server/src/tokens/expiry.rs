//! When a token ends by itself.

use crate::config::TimeSpan;
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

/// The end of a token from a span such as `90d` from now on, a date (its first moment in UTC) or a time with its zone.
///
/// # Errors
/// If the text is something else.
pub fn expiry_from(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let span = TimeSpan::parse(text).and_then(|span| now.checked_add(SignedDuration::from_micros(span.0)).ok());
    let day = |date: Date| date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    // A date also reads the beginning of a time.
    let date = || (text.len() == "2027-01-31".len()).then(|| text.parse().ok()).flatten().and_then(day);
    let end = span.or_else(|| text.parse().ok()).or_else(date);
    end.ok_or_else(|| {
        format!(
            "`{text}` is not an expiry: write a span such as `90d` or `12h`, a date, or a time such as \
                 `2027-01-31T12:00:00Z`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_span_a_date_or_a_time() {
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("90d", "2026-04-01T10:00:00Z"),
            ("12h", "2026-01-01T22:00:00Z"),
            ("2027-01-31", "2027-01-31T00:00:00Z"),
            ("2027-01-31T12:00:00+02:00", "2027-01-31T10:00:00Z"),
        ] {
            assert_eq!(expiry_from(text, now).unwrap().to_string(), expected);
        }
        for text in ["", "soon", "90", "2027-01-31T12:00:00", "4294967295d", "2027-02-30"] {
            assert!(expiry_from(text, now).is_err(), "{text}");
        }
    }
}
