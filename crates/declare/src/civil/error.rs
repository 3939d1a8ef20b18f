//! Why a text is not a time.

use crate::parameter::Parameter;
use crate::problem::{Sentence, sentence};
use std::fmt;

/// Why a cell is not a time. Reads on from the cell's text: "`abc` is not a time…".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// There is no time.
    Missing,
    /// None of the shapes that are read.
    Unrecognised,
    /// A component that no calendar has, such as month 13.
    NoSuch(&'static str, u32),
    /// A number where the format does not say its unit.
    BareNumber,
    /// Eight digits that would do as a date, where the format does not say so.
    CompactDate,
    /// Day and month in an order that nobody has declared.
    OrderOpen,
    /// Not as the declared pattern has it.
    NotAsDeclared,
    /// No offset, though the declared format requires one.
    NoOffset,
    /// A time of day, though the declared format is plain dates.
    NotADate,
    /// Not a number, though the declared format is a count of seconds or milliseconds.
    NotEpoch,
    /// A count of seconds or milliseconds beyond every calendar.
    TooFar,
}

impl TimeError {
    /// What is wrong, and what to do.
    pub fn sentence(self) -> Sentence {
        use Parameter::{TimeFormat, TimeZone};
        match self {
            TimeError::Missing => "has no time; every event needs one".into(),
            TimeError::Unrecognised => sentence![
                "is not a time in a form that is read; write it as 2024-05-01, 2024-05-01T12:30:00 or 2024-05-01T12:30:00Z, \
                 or declare another ",
                TimeFormat
            ],
            TimeError::NoSuch(what, number) => format!("is not a time: there is no {what} {number}").into(),
            TimeError::BareNumber => sentence![
                "is a bare number, which does not say its unit; declare ",
                (TimeFormat, "epoch-seconds"),
                " or epoch-millis"
            ],
            TimeError::CompactDate => sentence![
                "is a bare number; if it is a date, declare ",
                (TimeFormat, "%Y%m%d"),
                ", and if it counts seconds or milliseconds, ",
                (TimeFormat, "epoch-seconds"),
                " or epoch-millis"
            ],
            TimeError::OrderOpen => sentence![
                "does not say whether the day or the month comes first; declare ",
                (TimeFormat, "%d/%m/%Y"),
                " or %m/%d/%Y, with %H:%M:%S or what else stands in the column"
            ],
            TimeError::NotAsDeclared => sentence!["is not a time as the pattern of ", TimeFormat, " has it"],
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
                sentence!["is not a number of seconds or milliseconds since 1970, though ", TimeFormat, " declares one"]
            }
            TimeError::TooFar => {
                "is too far from 1970 to be a time; check whether the unit is seconds or milliseconds".into()
            }
        }
    }
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sentence().fmt(f)
    }
}

impl std::error::Error for TimeError {}
