//! `replica.toml`: a machine that serves readers with copies of the public streams of a service.

use super::toml_file::read_toml;
use super::{LimitsConfig, Listener, TimeSpan};
use evertally_declare::error::{Result, usage};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The configuration of a replica.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReplicaConfig {
    /// The folder for the copies.
    pub folder: PathBuf,
    /// The URL of the service's public listener.
    pub from: String,
    /// How often it is asked for news.
    #[serde(default = "every_second")]
    pub every: TimeSpan,
    /// How long the service may not answer until the replica is not ready; without it, the replica stays ready.
    #[serde(default)]
    pub max_lag: Option<TimeSpan>,
    /// The listener for readers.
    pub public: Listener,
    /// Limits per request and per client.
    #[serde(default)]
    pub limits: LimitsConfig,
}

fn every_second() -> TimeSpan {
    TimeSpan(1_000_000)
}

/// The shortest time between two requests for news.
const MIN_INTERVAL: TimeSpan = TimeSpan(50_000);

impl ReplicaConfig {
    /// Reads a configuration. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it cannot be read or is invalid; the message names the line and the setting.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let (mut config, _): (Self, String) = read_toml(path)?;
        let base = path.parent().unwrap_or(Path::new(""));
        config.public.paths().chain([&mut config.folder]).for_each(|path| *path = base.join(&*path));
        let is_url = config.from.starts_with("http://") || config.from.starts_with("https://");
        if !is_url {
            return Err(usage(format!("{shown}: `from` is the URL of a service: https://HOST or http://HOST:PORT")));
        }
        config.public.check().map_err(|problem| usage(format!("{shown}: [public]: {problem}")))?;
        if config.every.0 < MIN_INTERVAL.0 {
            return Err(usage(format!("{shown}: `every` is at least `50ms`")));
        }
        config.from = config.from.trim_end_matches('/').to_owned();
        Ok(config)
    }
}
