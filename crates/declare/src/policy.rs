//! Policies for events that do not fit, and for the coverage of intervals.

use crate::words::quoted;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::str::FromStr;

/// The coverage of intervals.
#[doc(alias = "Band")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coverage {
    /// Each interval holds with the confidence level; among many, some miss.
    #[default]
    Pointwise,
    /// All steps of the horizon at once, for each group.
    Simultaneous,
}

/// What to do with an event that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusable {
    /// Stop with an error that names the event.
    Refuse,
    /// Skip the event.
    Skip,
}

/// What to do with a row that cannot be read, while the rows around it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BadRows {
    /// Stop with an error that names the row.
    #[default]
    Refuse,
    /// Write it to a separate file.
    SideFile,
}

/// What to do with an event outside the horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outside {
    /// Stop with an error that names the event.
    Refuse,
    /// Skip the event, except where times seem to be misread: if it is decades away, or no event is inside.
    Skip,
    /// Skip the event, wherever it is.
    SkipAny,
}

impl Outside {
    /// Whether events outside the horizon are skipped.
    pub fn skips(self) -> bool {
        self != Self::Refuse
    }
}

/// What to do with a time that is a date without a time of day if its day is not within one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DateOnly {
    /// Stop with an error that names the event.
    #[default]
    Refuse,
    /// Use the beginning of the day.
    Midnight,
}

/// What to do with an event of a step that an earlier run has closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Late {
    /// Stop with an error that names the event.
    #[default]
    Refuse,
    /// Count it in the first open step.
    NextStep,
    /// Write it to a separate file.
    SideFile,
}

/// How many events wait for earlier ones while an unsorted input is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortLimit {
    /// At most this many, in memory; 0 refuses unsorted events.
    Events(usize),
    /// All of them, in a temporary file if they are many.
    All,
}

/// The word for [`SortLimit::All`].
const ALL: &str = "all";

impl Default for SortLimit {
    fn default() -> Self {
        Self::Events(0)
    }
}

impl FromStr for SortLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == ALL {
            return Ok(Self::All);
        }
        text.parse().map(Self::Events).map_err(|_| format!("{} is neither a whole number nor `{ALL}`", quoted(text)))
    }
}

impl Serialize for SortLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Events(count) => serializer.serialize_u64(*count as u64),
            Self::All => serializer.serialize_str(ALL),
        }
    }
}

impl<'de> Deserialize<'de> for SortLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a whole number or `all`")]
        enum Written {
            Count(usize),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Count(count) => Ok(Self::Events(count)),
            Written::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

/// What to do with a value outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutOfBounds {
    /// Use the nearer bound.
    Clamp,
    /// Stop with an error that names the event.
    Refuse,
}
