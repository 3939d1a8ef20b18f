//! How a stream continues from an earlier stream that has ended.

use serde::{Deserialize, Serialize};

/// The starting point of a stream that began when the horizon of another ended, with all steps of the other released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follows {
    /// The previous stream.
    pub stream: String,
    /// When the first of the streams began, in words.
    pub since: String,
    /// The number of steps before this stream.
    pub steps: u64,
    /// The last releases of the previous stream.
    pub carried: Vec<CarriedSum>,
}

/// The last release of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarriedSum {
    /// The group's name, one text per group column.
    pub group: Vec<String>,
    /// The value in units of the release, as decimal text.
    pub exact: String,
    /// The number of streams that the value adds up, each with its own noise.
    pub streams: u32,
}

impl CarriedSum {
    /// The value in units of the release.
    pub fn exact(&self) -> Option<i128> {
        self.exact.parse().ok()
    }
}
