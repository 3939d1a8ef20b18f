//! Errors of times in a declaration. Declared times are not in the format of the events, so no other format
//! helps.

use super::error::TimeError;
use super::parse::parse;
use crate::problem::Sentence;

impl TimeError {
    /// The problem of a time in a declaration, and its remedy. Declared times are not in the format of the events.
    pub fn sentence_of_declared(self, text: &str) -> Sentence {
        let not_as_events = |written: &str| {
            let how = format!("; write {written}, whatever the format of the events");
            Sentence::from(how)
        };
        match self {
            TimeError::OrderOpen => {
                let parts: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).collect();
                let date = |year: &str, month: &str, day: &str| format!("{year}-{month:0>2}-{day:0>2}");
                let both = match parts[..] {
                    [first, second, year, ..] if first != second => {
                        let possible = [date(year, second, first), date(year, first, second)];
                        let possible = possible.iter().filter(|date| parse(date).is_ok());
                        possible.map(String::as_str).collect::<Vec<_>>().join(" or ")
                    }
                    [first, _, year, ..] => date(year, first, first),
                    _ => String::new(),
                };
                let both = if both.is_empty() { "2024-05-01".to_owned() } else { both };
                Sentence::from("does not say whether the day or the month comes first").then(not_as_events(&both))
            }
            TimeError::CompactDate if text.len() == 8 => {
                let dashed = format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]);
                Sentence::from("is a bare number").then(not_as_events(&dashed))
            }
            TimeError::BareNumber | TimeError::BareYear | TimeError::CompactDate | TimeError::TooFar => {
                let written = not_as_events("2024-05-01 or 2024-05-01T12:30:00Z");
                Sentence::from("is a bare number, which is not a time").then(written)
            }
            TimeError::ShortYear => {
                Sentence::from("has a year of two digits").then(not_as_events("four, as in 2024-05-01"))
            }
            TimeError::Unrecognised => {
                let written = not_as_events("2024-05-01, 2024-05-01T12:30:00 or 2024-05-01T12:30:00Z");
                Sentence::from("is not a time in a supported form").then(written)
            }
            other => other.sentence(),
        }
    }
}
