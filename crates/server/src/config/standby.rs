//! `[standby]`: a second machine.

use super::TimeSpan;
use evertally_tables::input::is_object;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// A folder between two machines: the primary ships its changes there, and a follower reads them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StandbyConfig {
    /// A folder that both machines have mounted, or the URL of a folder in an object store.
    pub folder: PathBuf,
    /// How often changes are shipped.
    #[serde(default = "every_second")]
    pub every: TimeSpan,
    /// How long a publication waits until it was shipped.
    #[serde(default = "hold")]
    pub hold: TimeSpan,
    /// After which time without a sign of life a follower takes over. The default depends on the folder.
    #[serde(default)]
    takeover: Option<TimeSpan>,
    /// For how long the database can be restored as it was at any time.
    #[serde(default = "keep")]
    pub keep: TimeSpan,
    /// How often the whole database is shipped again: the changes since have to be applied when it is restored.
    #[serde(default = "whole_every")]
    pub whole_every: TimeSpan,
}

/// Signs of life that are given until a follower takes over.
const SIGNS_PER_TAKEOVER: u32 = 12;

impl StandbyConfig {
    /// After which time without a sign of life a follower takes over.
    pub fn takeover(&self) -> TimeSpan {
        // Each sign in a store is a request that costs money.
        let unless = if is_object(&self.folder) { 30_000_000 } else { 6_000_000 };
        self.takeover.unwrap_or(TimeSpan(unless))
    }

    /// The time between two signs of life.
    pub fn sign_interval(&self) -> Duration {
        self.takeover().duration() / SIGNS_PER_TAKEOVER
    }
}

/// The shortest time until a takeover: signs of life are given four times a second.
pub(super) const MIN_TAKEOVER: TimeSpan = TimeSpan(3_000_000);

fn every_second() -> TimeSpan {
    TimeSpan(1_000_000)
}

fn hold() -> TimeSpan {
    TimeSpan(10_000_000)
}

fn keep() -> TimeSpan {
    TimeSpan(7 * 86_400_000_000)
}

fn whole_every() -> TimeSpan {
    TimeSpan(86_400_000_000)
}
