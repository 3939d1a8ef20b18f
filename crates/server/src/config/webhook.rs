//! `[[webhook]]`: where publications are sent.

use super::TimeSpan;
use serde::Deserialize;
use std::path::PathBuf;

/// A webhook: where publications are sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WebhookConfig {
    /// The URL for a POST.
    pub url: String,
    /// The streams; if none are named, all public ones.
    #[serde(default)]
    pub streams: Vec<String>,
    /// A file with the value of an `Authorization` header.
    #[serde(default)]
    pub authorization_file: Option<PathBuf>,
    /// A file with the secrets that sign messages, one on each line.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// How long the content of a publication may be refused until it is set aside.
    #[serde(default = "give_up_after")]
    pub give_up_after: TimeSpan,
}

fn give_up_after() -> TimeSpan {
    TimeSpan(3_600_000_000)
}
