//! Durations in a configuration.

use super::toml_file::text_of;
use serde::Deserialize;

/// A time such as `90s`, `5m`, `2h`, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan(pub i64);

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = text_of(from, "a duration in quotes, such as \"90s\", \"5m\" or \"2h\"")?;
        Self::parse(&text).ok_or_else(|| {
            let problem = format!("`{text}` is not a duration: write `0s`, `500ms`, `90s`, `5m`, `2h` or `1d`");
            serde::de::Error::custom(problem)
        })
    }
}

impl TimeSpan {
    /// The span as a `Duration`, for timers.
    pub fn duration(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0.unsigned_abs())
    }

    /// The span in a text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "ms" => 1000,
            "s" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return None,
        };
        let number: u32 = digits.parse().ok()?;
        i64::from(number).checked_mul(unit).map(TimeSpan)
    }
}
