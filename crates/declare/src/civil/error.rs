//! Why a text is not a time.

use crate::parameter::Parameter;
use crate::problem::{Sentence, sentence};
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
    /// Not a number, though the declared format is a count of seconds or milliseconds.
    NotEpoch,
    /// A count of seconds or milliseconds beyond every calendar.
    TooFar,
}

impl TimeError {
    /// The problem and its remedy.
    pub fn sentence(self) -> Sentence {
        use Parameter::{TimeFormat, TimeZone};
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
