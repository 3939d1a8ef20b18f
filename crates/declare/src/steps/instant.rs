//! A point in time.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Microseconds since 1970-01-01T00:00Z, leap seconds not counted.
///
/// Finer times are rounded down. This never moves an event to another step, as steps begin at whole microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(i64);

impl Instant {
    /// From microseconds since 1970 UTC.
    pub const fn from_micros(micros: i64) -> Self {
        Instant(micros)
    }

    /// Microseconds since 1970 UTC.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The calendar library's own type; `None` outside the years -9999 to 9999.
    pub fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.0).ok()
    }

    /// Appends the instant with the offset of a zone; `Z` for UTC itself.
    pub(super) fn write_in(self, zone: &TimeZone, out: &mut String) {
        use fmt::Write;
        let written = match self.timestamp() {
            Some(time) if *zone != TimeZone::UTC => write!(out, "{}", time.display_with_offset(zone.to_offset(time))),
            _ => write!(out, "{self}"),
        };
        written.expect("a String accepts every write");
    }
}

impl From<Timestamp> for Instant {
    fn from(time: Timestamp) -> Self {
        // `as_microsecond` rounds towards zero, so convert from nanoseconds.
        Instant(time.as_nanosecond().div_euclid(1000) as i64)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.timestamp() {
            Some(time) => write!(f, "{time}"),
            None => write!(f, "{} µs after 1970", self.0),
        }
    }
}
