//! What becomes of events that do not fit, and how often intervals hold.

use serde::{Deserialize, Serialize};

/// How often intervals hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Band {
    /// Each with the confidence; of many, some miss.
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
    /// Leave the event out.
    Skip,
}

/// What to do with an event of a step that an earlier run has closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Late {
    /// Stop with an error that names the event.
    #[default]
    Refuse,
    /// Count it in the first step that is open.
    NextStep,
    /// Put it into a file for itself.
    SideFile,
}

/// What to do with a value outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutOfBounds {
    /// Take the nearer bound.
    Clamp,
    /// Stop with an error that names the event.
    Refuse,
}
