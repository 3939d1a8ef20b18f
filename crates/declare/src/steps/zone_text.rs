//! Time zones that are written next to a time: offsets, names and abbreviations.

use super::Zone;
use crate::civil::{TimeError, parse_offset};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// A zone as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ZoneText {
    /// Seconds east of UTC.
    Offset(i32),
    /// A name of the time zone database, such as America/New_York.
    Named(Zone),
    /// An abbreviation such as EST, in capitals. Which offset it means depends on the country.
    Abbreviation(String),
}

/// Abbreviations with the offset in minutes that they have almost everywhere, and a zone that uses them.
const ABBREVIATIONS: [(&str, i32, &str); 33] = [
    ("EST", -300, "America/New_York"),
    ("EDT", -240, "America/New_York"),
    ("CST", -360, "America/Chicago"),
    ("CDT", -300, "America/Chicago"),
    ("MST", -420, "America/Denver"),
    ("MDT", -360, "America/Denver"),
    ("PST", -480, "America/Los_Angeles"),
    ("PDT", -420, "America/Los_Angeles"),
    ("AKST", -540, "America/Anchorage"),
    ("AKDT", -480, "America/Anchorage"),
    ("HST", -600, "Pacific/Honolulu"),
    ("AST", -240, "America/Halifax"),
    ("ADT", -180, "America/Halifax"),
    ("NST", -210, "America/St_Johns"),
    ("NDT", -150, "America/St_Johns"),
    ("BST", 60, "Europe/London"),
    ("WET", 0, "Europe/Lisbon"),
    ("WEST", 60, "Europe/Lisbon"),
    ("CET", 60, "Europe/Berlin"),
    ("CEST", 120, "Europe/Berlin"),
    ("EET", 120, "Europe/Athens"),
    ("EEST", 180, "Europe/Athens"),
    ("MSK", 180, "Europe/Moscow"),
    ("SAST", 120, "Africa/Johannesburg"),
    ("IST", 330, "Asia/Kolkata"),
    ("JST", 540, "Asia/Tokyo"),
    ("KST", 540, "Asia/Seoul"),
    ("HKT", 480, "Asia/Hong_Kong"),
    ("AWST", 480, "Australia/Perth"),
    ("AEST", 600, "Australia/Sydney"),
    ("AEDT", 660, "Australia/Sydney"),
    ("NZST", 720, "Pacific/Auckland"),
    ("NZDT", 780, "Pacific/Auckland"),
];

/// Longest abbreviation, in letters.
const MAX_ABBREVIATION: usize = 5;

/// A zone that uses an abbreviation, if it is a common one.
pub(super) fn zone_of_abbreviation(text: &str) -> Option<&'static str> {
    ABBREVIATIONS.iter().find(|(known, ..)| *known == text).map(|(.., zone)| *zone)
}

/// The offset that an abbreviation usually has, as a zone: `-05:00`.
fn offset_of_abbreviation(text: &str) -> Option<i32> {
    ABBREVIATIONS.iter().find(|(known, ..)| *known == text).map(|(_, minutes, _)| minutes * 60)
}

impl ZoneText {
    /// Reads a zone at the front of a text, and returns the length of it.
    ///
    /// # Errors
    /// If the text does not begin with an offset, or with the name or abbreviation of a zone.
    pub(super) fn read(text: &str) -> Result<(Self, usize), TimeError> {
        let bytes = text.as_bytes();
        if matches!(bytes.first(), Some(b'+' | b'-')) {
            let len = 1 + length_of(&bytes[1..], |b| b.is_ascii_digit() || b == b':');
            return parse_offset(&bytes[..len]).map(|s| (Self::Offset(s), len)).ok_or(TimeError::Unrecognised);
        }
        let letters = length_of(bytes, |b| b.is_ascii_alphabetic());
        let word = &text[..letters];
        if ["UTC", "GMT", "UT"].iter().any(|utc| utc.eq_ignore_ascii_case(word)) {
            let rest = &text[letters..];
            return match Self::read(rest) {
                Ok((offset, len)) if rest.starts_with(['+', '-']) => Ok((offset, letters + len)),
                _ if rest.starts_with(['+', '-']) => Err(TimeError::Unrecognised),
                _ => Ok((Self::Offset(0), letters)),
            };
        }
        if word.eq_ignore_ascii_case("z") {
            return Ok((Self::Offset(0), letters));
        }
        let in_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'/' | b'-' | b'+');
        let name = &text[..length_of(bytes, in_name)];
        let is_of_one_case =
            |word: &str| word.bytes().all(|b| b.is_ascii_uppercase()) || word.bytes().all(|b| b.is_ascii_lowercase());
        if name.len() == letters && letters > 1 && letters <= MAX_ABBREVIATION && is_of_one_case(word) {
            return Ok((Self::Abbreviation(word.to_ascii_uppercase()), letters));
        }
        if letters == 0 {
            return Err(TimeError::Unrecognised);
        }
        name.parse().map(|zone| (Self::Named(zone), name.len())).map_err(|_| TimeError::UnknownZone)
    }
}

fn length_of(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|b| belongs(**b)).count()
}

/// The zones that are written with one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ZoneTexts {
    offset: Option<i32>,
    named: Option<Zone>,
    abbreviation: Option<String>,
}

impl ZoneTexts {
    /// Adds a zone.
    ///
    /// # Errors
    /// If another zone of the same kind contradicts it.
    pub(super) fn add(&mut self, zone: ZoneText) -> Result<(), TimeError> {
        let contradicts = match zone {
            ZoneText::Offset(offset) => self.offset.replace(offset).is_some_and(|before| before != offset),
            ZoneText::Named(zone) => self.named.replace(zone.clone()).is_some_and(|before| before != zone),
            ZoneText::Abbreviation(text) => {
                self.abbreviation.replace(text.clone()).is_some_and(|before| before != text)
            }
        };
        if contradicts { Err(TimeError::TwoZones) } else { Ok(()) }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The offset from UTC in seconds of a time on the wall clock of these zones; `None` without any. An abbreviation
    /// has the offset that the declared zone gives it.
    ///
    /// # Errors
    /// If the zones contradict each other, or the declared zone does not use the abbreviation at that time.
    pub(super) fn offset_at(&self, time: DateTime, declared: &TimeZone) -> Result<Option<i32>, TimeError> {
        if let Some(seconds) = self.offset {
            let offset = Offset::from_seconds(seconds).map_err(|_| TimeError::Unrecognised)?;
            let agrees = |zone: &Zone| {
                let instant = offset.to_timestamp(time).ok();
                instant.is_none_or(|instant| zone.time_zone().to_offset(instant) == offset)
            };
            return if self.named.as_ref().is_none_or(agrees) { Ok(Some(seconds)) } else { Err(TimeError::TwoZones) };
        }
        if let Some(zone) = &self.named {
            return Ok(Some(match zone.time_zone().to_ambiguous_timestamp(time).offset() {
                AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
                AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before.seconds(),
            }));
        }
        let Some(text) = &self.abbreviation else { return Ok(None) };
        // An offset, and the offset that gives an instant at which the clock shows it.
        let offsets = match declared.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => [(offset, offset); 2],
            AmbiguousOffset::Fold { before, after } => [(before, before), (after, after)],
            AmbiguousOffset::Gap { before, after } => [(before, after), (after, before)],
        };
        let is_meant = |(offset, shown): &(Offset, Offset)| {
            let is_fixed = declared.to_fixed_offset().is_ok();
            shown.to_timestamp(time).is_ok_and(|instant| match is_fixed {
                true => offset_of_abbreviation(text) == Some(offset.seconds()),
                false => declared.to_offset_info(instant).abbreviation() == text,
            })
        };
        match offsets.iter().find(|candidate| is_meant(candidate)) {
            Some((offset, _)) => Ok(Some(offset.seconds())),
            None => Err(TimeError::Abbreviation(zone_of_abbreviation(text).unwrap_or("America/New_York"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(ZoneText, usize), TimeError> {
        ZoneText::read(text)
    }

    #[test]
    fn zones_at_the_front_of_a_text() {
        for (text, seconds, len) in [
            ("Z", 0, 1),
            ("z)", 0, 1),
            ("UTC", 0, 3),
            ("gmt 2015", 0, 3),
            ("+00:00", 0, 6),
            ("-0500 (EST)", -18_000, 5),
            ("+02 x", 7200, 3),
            ("UTC+02:00", 7200, 9),
            ("GMT-0530 (x)", -19_800, 8),
        ] {
            assert_eq!(read(text), Ok((ZoneText::Offset(seconds), len)), "{text}");
        }
        for name in ["America/New_York", "Etc/GMT+5", "America/Port-au-Prince", "Japan"] {
            assert_eq!(read(&format!("{name}]")), Ok((ZoneText::Named(name.parse().unwrap()), name.len())), "{name}");
        }
        assert_eq!(read("EST"), Ok((ZoneText::Abbreviation("EST".into()), 3)));
        assert_eq!(read("cest."), Ok((ZoneText::Abbreviation("CEST".into()), 4)));
        assert_eq!(read("Mars/Base"), Err(TimeError::UnknownZone));
        for wrong in ["", " Z", "+2", "+25:00", "UTC+", "1", "é"] {
            assert_eq!(read(wrong), Err(TimeError::Unrecognised), "{wrong}");
        }
    }

    #[test]
    fn abbreviations_are_those_of_the_declared_zone() {
        let offset = |abbreviation: &str, time: &str, zone: &str| {
            let mut zones = ZoneTexts::default();
            zones.add(read(abbreviation).unwrap().0).unwrap();
            zones.offset_at(time.parse().unwrap(), zone.parse::<Zone>().unwrap().time_zone())
        };
        assert_eq!(offset("EST", "2015-01-17T10:00", "America/New_York"), Ok(Some(-18_000)));
        assert_eq!(offset("EDT", "2015-07-17T10:00", "America/New_York"), Ok(Some(-14_400)));
        // The hour that occurs twice.
        assert_eq!(offset("EDT", "2015-11-01T01:30", "America/New_York"), Ok(Some(-14_400)));
        assert_eq!(offset("EST", "2015-11-01T01:30", "America/New_York"), Ok(Some(-18_000)));
        // The hour that does not occur.
        assert_eq!(offset("EST", "2015-03-08T02:30", "America/New_York"), Ok(Some(-18_000)));
        assert_eq!(offset("EDT", "2015-03-08T02:30", "America/New_York"), Ok(Some(-14_400)));
        assert_eq!(offset("EST", "2015-07-17T10:00", "-05:00"), Ok(Some(-18_000)));
        for (time, zone) in [
            ("2015-07-17T10:00", "America/New_York"),
            ("2015-01-17T10:00", "UTC"),
            ("2015-01-17T10:00", "Australia/Sydney"),
        ] {
            assert_eq!(offset("EST", time, zone), Err(TimeError::Abbreviation("America/New_York")), "{time} {zone}");
        }
    }

    #[test]
    fn zones_that_contradict_each_other_are_refused() {
        let time: DateTime = "2015-07-17T10:00".parse().unwrap();
        let zones = |texts: &[&str]| {
            let mut zones = ZoneTexts::default();
            texts.iter().try_for_each(|text| zones.add(read(text).unwrap().0))?;
            zones.offset_at(time, &TimeZone::UTC)
        };
        assert_eq!(zones(&[]), Ok(None));
        assert_eq!(zones(&["+02:00", "Europe/Berlin"]), Ok(Some(7200)));
        assert_eq!(zones(&["Europe/Berlin"]), Ok(Some(7200)));
        assert_eq!(zones(&["+0000", "UTC"]), Ok(Some(0)));
        assert_eq!(zones(&["-0400", "EDT"]), Ok(Some(-14_400)));
        assert_eq!(zones(&["+01:00", "Europe/Berlin"]), Err(TimeError::TwoZones));
        assert_eq!(zones(&["+01:00", "UTC"]), Err(TimeError::TwoZones));
    }
}
