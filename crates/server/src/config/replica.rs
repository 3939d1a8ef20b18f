//! `replica.toml`: a machine that serves readers with copies of the public streams of a service.

use super::toml_file::read_toml;
use super::{LimitsConfig, Listener, TimeSpan};
use evertally_declare::error::{Result, usage};
use evertally_declare::url::without_secrets;
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
        if config.from.contains(['?', '#']) {
            return Err(usage(format!(
                "{shown}: `from` has a `?` or a `#`, and paths of the service follow it: write the URL without them"
            )));
        }
        config.public.check().map_err(|problem| usage(format!("{shown}: [public]: {problem}")))?;
        if config.every.0 < MIN_INTERVAL.0 {
            return Err(usage(format!("{shown}: `every` is at least `50ms`")));
        }
        config.from = config.from.trim_end_matches('/').to_owned();
        Ok(config)
    }

    /// How messages name the service: its URL without a password.
    pub fn place(&self) -> String {
        without_secrets(Path::new(&self.from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_the_url_of_the_service_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("replica.toml");
        let read = |from: &str| {
            let text = format!("folder = \"copies\"\nfrom = \"{from}\"\n[public]\nlisten = \"127.0.0.1:0\"\n");
            std::fs::write(&path, text).unwrap();
            ReplicaConfig::read(&path)
        };
        assert_eq!(read("http://u:SECRET@127.0.0.1:1/").unwrap().place(), "http://127.0.0.1:1");
        for from in ["http://127.0.0.1:1/?t=SECRET", "htp:u:SECRET@h"] {
            let refused = read(from).unwrap_err().to_string();
            assert!(refused.contains("`from`") && !refused.contains("SECRET"), "{refused}");
        }
    }
}
