//! Times of messages.

/// A time as text (RFC 3339, UTC, microseconds), from microseconds since 1970; `None` outside the years 1 to 9999.
pub(crate) fn rfc3339(micros: i64) -> Option<String> {
    const YEAR_1: i64 = -62_135_596_800_000_000;
    let time = jiff::Timestamp::from_microsecond(micros).ok().filter(|_| micros >= YEAR_1)?;
    Some(format!("{time:.6}"))
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
            (-62_135_596_800_000_000, "0001-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc3339(micros).as_deref(), Some(text));
        }
        for micros in [i64::MIN, -62_135_596_800_000_001, 253_402_300_800_000_000, i64::MAX] {
            assert_eq!(rfc3339(micros), None);
        }
    }
}
