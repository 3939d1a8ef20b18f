//! Why a text is not a time.

use crate::parameter::Parameter;
use crate::problem::{Sentence, SentencePart, sentence};
use std::fmt;

/// Why a cell is not a time. Its message continues the cell's text: "`abc` is not a time…".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// There is no time.
    Missing,
    /// The text has no known shape.
    Unrecognised,
    /// A component that no calendar has, such as month 13.
    NoSuch(&'static str, u32),
    /// A number whose unit the format does not determine.
    BareNumber,
    /// Four digits, and no declared format.
    BareYear,
    /// Eight digits that could be a date, although the format does not allow them.
    CompactDate,
    /// Day and month in an undeclared order.
    OrderOpen,
    /// The text does not match the declared pattern.
    NotAsDeclared,
    /// No offset, though the declared format requires one.
    NoOffset,
    /// A time of day, though the declared format is plain dates.
    NotADate,
    /// Not a number, though the declared format is a count of units since 1970.
    NotEpoch,
    /// A number of units beyond every calendar.
    TooFar,
    /// A year of two digits, though the declared format has years of four, or none is declared.
    ShortYear,
    /// A name that is not in the time zone database.
    UnknownZone,
    /// Two zones that contradict each other.
    TwoZones,
    /// An abbreviation of a zone that the declared zone does not use at that time; a zone that uses it.
    Abbreviation(&'static str),
    /// Not a time of day, in a column of times of day.
    NotAClock,
    /// More than a date, in a column of dates whose times of day are in another column.
    NotADateAlone,
}

impl TimeError {
    /// The problem and its remedy.
    pub fn sentence(self) -> Sentence {
        use Parameter::{CenturyFrom, Date, Time, TimeFormat, TimeOfDay, TimeZone};
        match self {
            TimeError::Missing => "has no time; every event needs one".into(),
            TimeError::Unrecognised => sentence![
                "is not a time in a supported form; write it as 2024-05-01, 2024-05-01T12:30:00 or \
                 2024-05-01T12:30:00Z, or declare another ",
                TimeFormat
            ],
            TimeError::NoSuch(what, number) => format!("is not a time: there is no {what} {number}").into(),
            TimeError::BareNumber => sentence![
                "is a bare number, which does not say its unit; declare ",
                (TimeFormat, "epoch-seconds"),
                ", epoch-millis, epoch-micros or epoch-nanos"
            ],
            TimeError::BareYear => sentence![
                "is a bare number; if it is a year, declare ",
                (TimeFormat, "%Y"),
                ", and if it counts units since 1970, ",
                (TimeFormat, "epoch-seconds"),
                ", epoch-millis, epoch-micros or epoch-nanos"
            ],
            TimeError::CompactDate => sentence![
                "is a bare number; if it is a date, declare ",
                (TimeFormat, "%Y%m%d"),
                ", and if it counts units since 1970, ",
                (TimeFormat, "epoch-seconds"),
                ", epoch-millis, epoch-micros or epoch-nanos"
            ],
            TimeError::OrderOpen => sentence![
                "does not say whether the day or the month comes first; declare ",
                (TimeFormat, "%d/%m/%Y"),
                " or %m/%d/%Y, with %H:%M:%S or whatever else the column contains"
            ],
            TimeError::NotAsDeclared => sentence!["does not match the time pattern of ", TimeFormat],
            TimeError::NoOffset => sentence![
                "has no offset from UTC, as RFC 3339 requires; write it as 2024-05-01T12:30:00Z, or declare ",
                (TimeFormat, "auto"),
                " and the ",
                TimeZone,
                " it is in"
            ],
            TimeError::NotADate => {
                let declared = (TimeFormat, "date");
                sentence!["is not a plain date such as 2024-05-01, though ", declared, " was declared"]
            }
            TimeError::NotEpoch => {
                sentence!["is not a number of units since 1970, though ", TimeFormat, " declares one"]
            }
            TimeError::TooFar => sentence![
                "is too far from 1970 to be a time; check its unit, which ",
                TimeFormat,
                " declares: epoch-seconds, epoch-millis, epoch-micros or epoch-nanos"
            ],
            TimeError::ShortYear => sentence![
                "has a year of two digits; declare where it is with ",
                (TimeFormat, "%d/%m/%y"),
                " or %m/%d/%y, and the first of the hundred years that are meant with ",
                (CenturyFrom, "1969")
            ],
            TimeError::UnknownZone => sentence![
                "names a zone that is not in the time zone database; write a name such as America/New_York or an \
                 offset such as -05:00, or leave the zone out and declare ",
                TimeZone
            ],
            TimeError::TwoZones => "names two time zones that contradict each other; keep the right one".into(),
            TimeError::Abbreviation(zone) => sentence![
                "has the abbreviation of a time zone that ",
                TimeZone,
                " does not use at that time; declare the zone, such as ",
                (TimeZone, zone),
                ", or the offset that the abbreviation means, such as -05:00"
            ],
            TimeError::NotAClock => sentence![
                "is not a time of day in a supported form; write it as 9:05, 09:05:30 or 9:05 PM, or declare the \
                 format of date and time of day together, such as ",
                (TimeFormat, "%Y-%m-%d %H%M")
            ],
            TimeError::NotADateAlone => sentence![
                "is not a date alone, so no other column can have its time of day; name this column with ",
                Time,
                " instead of ",
                SentencePart::All(&[Date, TimeOfDay])
            ],
        }
    }
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sentence().fmt(f)
    }
}

impl std::error::Error for TimeError {}
