//! What a stream goes on from that begins where another ended.

use serde::{Deserialize, Serialize};

/// What a stream goes on from that began where the horizon of another ended: all of it was released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follows {
    /// The stream before it.
    pub stream: String,
    /// When the first of them began, in words.
    pub since: String,
    /// How many steps were before it.
    pub steps: u64,
    /// The last releases before it.
    pub carried: Vec<Carried>,
}

/// The last release of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// Its name, one text for each group column.
    pub group: Vec<String>,
    /// The value in units of the release, in decimal.
    pub exact: String,
    /// How many streams it adds up, each with noise of its own.
    pub streams: u32,
}

impl Carried {
    /// The value in units of the release.
    pub fn exact(&self) -> Option<i128> {
        self.exact.parse().ok()
    }
}
