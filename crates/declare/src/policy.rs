//! Policies for events that do not fit, and for the coverage of intervals.

use serde::{Deserialize, Serialize};

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

/// What to do with a value outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutOfBounds {
    /// Use the nearer bound.
    Clamp,
    /// Stop with an error that names the event.
    Refuse,
}
