//! `[clock]`: how the service learns whether the machine's clock is synchronised.

use super::TimeSpan;
use serde::Deserialize;

/// How the service learns whether the machine's clock is synchronised, and when it is a problem that it is not.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClockConfig {
    /// A program with its arguments, which prints `yes` or `no`, and may print the estimated error in seconds after it.
    /// Nothing is run if it is empty.
    pub command: Vec<String>,
    /// How long the clock may be unsynchronised before that is a problem.
    pub unsynchronised: TimeSpan,
}

impl Default for ClockConfig {
    fn default() -> Self {
        let command = ["timedatectl", "show", "--property=NTPSynchronized", "--value"];
        Self { command: command.map(str::to_owned).to_vec(), unsynchronised: TimeSpan(15 * 60_000_000) }
    }
}
