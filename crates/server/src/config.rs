//! `serve.toml`: the folder, the key, the listeners and the streams.

mod feed;
mod sink;
mod stream;

pub use feed::FeedConfig;
pub use sink::SinkConfig;
pub use stream::{Closer, StreamConfig};

use crate::cors::Cors;
use crate::proxies::TrustedProxies;
use evertally_declare::error::{Context, Result, usage};
use evertally_declare::url::{is_url, without_secrets};
use evertally_ledger::protected::is_inside;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// The configuration of a service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The folder with the database and the tokens.
    pub folder: PathBuf,
    /// The key file, outside the folder. It is created if it does not exist and the folder is new.
    pub key: PathBuf,
    /// Whether a new folder may begin with an existing key. Never in the file: a flag of a single start.
    #[serde(skip)]
    pub adopts_key: bool,
    /// Whether a folder that had a witness begins with a new one, or none. A flag of a single start, too.
    #[serde(skip)]
    pub forgets_witness: bool,
    /// A file with the passphrase of the key, if the key is sealed.
    #[serde(default)]
    pub passphrase: Option<PathBuf>,
    /// The listener for readers.
    #[serde(default)]
    pub public: Option<Listener>,
    /// The listener for writers and operators.
    #[serde(default)]
    pub private: Option<Listener>,
    /// A record of every publication, outside the folder.
    #[serde(default)]
    pub witness: Option<WitnessConfig>,
    /// When steps are closed.
    #[serde(default)]
    pub steps: StepsConfig,
    /// Limits per request and per client.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// Webhooks: where publications are sent.
    #[serde(default, rename = "webhook")]
    pub webhooks: Vec<WebhookConfig>,
    /// Sources that the service follows itself.
    #[serde(default, rename = "feed")]
    pub feeds: Vec<FeedConfig>,
    /// Places to which the service writes publications itself.
    #[serde(default, rename = "sink")]
    pub sinks: Vec<SinkConfig>,
    /// Where copies of the folder are written when an operator requests one.
    #[serde(default)]
    pub backups: Option<PathBuf>,
    /// When copies are made without a request.
    #[serde(default)]
    pub backup_schedule: Option<BackupSchedule>,
    /// A second machine: where changes of the folder are shipped to.
    #[serde(default)]
    pub standby: Option<StandbyConfig>,
    /// How long records are kept that grow with the number of batches.
    #[serde(default)]
    pub retention: RetentionConfig,
    /// The budgets of data sources: files created by `evertally budget`.
    #[serde(default)]
    pub sources: BTreeMap<String, PathBuf>,
    /// The streams.
    #[serde(default, rename = "stream")]
    pub streams: Vec<StreamConfig>,
}

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Listener {
    /// Address and port; port 0 is any free port.
    pub listen: SocketAddr,
    /// The chain of certificates, as PEM; with it the connection is TLS.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// Its private key, as PEM.
    #[serde(default)]
    pub certificate_key: Option<PathBuf>,
    /// The reverse proxies that are believed about the addresses of their clients.
    #[serde(default)]
    pub trusted_proxies: TrustedProxies,
    /// The origins whose pages may read; for the public listener.
    #[serde(default)]
    pub cors: Cors,
}

/// A witness.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WitnessConfig {
    /// A file on another disk.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// A URL that answers GET and PUT.
    #[serde(default)]
    pub url: Option<String>,
    /// A file with the value of an `Authorization` header for the URL.
    #[serde(default)]
    pub authorization_file: Option<PathBuf>,
}

/// When copies of the folder are made, and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupSchedule {
    /// The time between two copies.
    pub every: TimeSpan,
    /// The number of copies that are kept, requested ones included; all of them if omitted.
    #[serde(default)]
    pub keep: Option<NonZero<usize>>,
}

/// A folder between two machines: the primary ships its changes there, and a follower reads them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StandbyConfig {
    /// A folder that both machines have mounted.
    pub folder: PathBuf,
    /// How often changes are shipped.
    #[serde(default = "every_second")]
    pub every: TimeSpan,
    /// How long a publication waits until it was shipped.
    #[serde(default = "hold")]
    pub hold: TimeSpan,
    /// After which time without a sign of life a follower takes over.
    #[serde(default = "takeover")]
    pub takeover: TimeSpan,
    /// For how long the database can be restored as it was at any time.
    #[serde(default = "keep")]
    pub keep: TimeSpan,
    /// How often the whole database is shipped again: the changes since have to be applied when it is restored.
    #[serde(default = "whole_every")]
    pub whole_every: TimeSpan,
}

/// The shortest time until a takeover: signs of life are given twice a second.
const MIN_TAKEOVER: TimeSpan = TimeSpan(3_000_000);

fn every_second() -> TimeSpan {
    TimeSpan(1_000_000)
}

fn hold() -> TimeSpan {
    TimeSpan(10_000_000)
}

fn takeover() -> TimeSpan {
    TimeSpan(6_000_000)
}

fn keep() -> TimeSpan {
    TimeSpan(7 * 86_400_000_000)
}

fn whole_every() -> TimeSpan {
    TimeSpan(86_400_000_000)
}

/// How long records are kept that grow with the number of batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RetentionConfig {
    /// How long the ids of batches are remembered; as long as the stream exists if omitted.
    #[serde(default)]
    pub batch_ids: Option<TimeSpan>,
}

/// The shortest retention.
const MIN_RETENTION: TimeSpan = TimeSpan(86_400_000_000);

/// When steps are closed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct StepsConfig {
    /// How long a step stays open after its end, for events under way.
    pub grace: TimeSpan,
    /// How long rows are ready before they are shown.
    pub delay: TimeSpan,
    /// By how much the clocks of senders may be ahead.
    pub ahead: TimeSpan,
    /// How long after a start no step is closed, for events queued elsewhere.
    pub catch_up: TimeSpan,
}

impl Default for StepsConfig {
    fn default() -> Self {
        let seconds = |seconds: i64| TimeSpan(seconds * 1_000_000);
        Self { grace: seconds(60), delay: seconds(5), ahead: seconds(60), catch_up: seconds(60) }
    }
}

/// The shortest time between two copies.
const MIN_BACKUP_INTERVAL: TimeSpan = TimeSpan(60_000_000);

/// A time such as `90s`, `5m`, `2h`, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan(pub i64);

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| {
            let problem = format!("`{text}` is not a duration: write `0s`, `500ms`, `90s`, `5m`, `2h` or `1d`");
            serde::de::Error::custom(problem)
        })
    }
}

impl TimeSpan {
    /// The span as a `Duration`, for timers.
    pub fn duration(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0.unsigned_abs())
    }

    /// The span in a text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "ms" => 1000,
            "s" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return None,
        };
        let number: u32 = digits.parse().ok()?;
        i64::from(number).checked_mul(unit).map(TimeSpan)
    }
}

/// Limits per request and per client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LimitsConfig {
    /// Bytes of a batch as it is sent.
    pub body_bytes: u64,
    /// Bytes of a batch after decompression.
    pub decoded_bytes: u64,
    /// Bytes of memory for decoding one batch, approximately.
    pub decoding_bytes: u64,
    /// Bytes of memory for all batches together while they are read, approximately.
    pub all_decoding_bytes: u64,
    /// Ids of rows in the open steps of one stream.
    pub ids: u64,
    /// Batches of Parquet and Arrow that are decoded at the same time.
    pub decoders: usize,
    /// Open connections per listener, as far as the limit of open files allows.
    pub connections: usize,
    /// Open connections per address. Connections from this machine have no such limit: a proxy may be in front.
    pub connections_per_address: usize,
    /// Open connections per network: the 2^64 IPv6 addresses that share their first half.
    pub connections_per_network: usize,
    /// How long a connection may be open without a request: before the first, between two, and until a head is
    /// complete.
    pub idle: TimeSpan,
    /// Requests per second and address or token, on average.
    pub requests_per_second: u32,
    /// Watchers per stream.
    pub watchers: usize,
    /// Bytes that stay free on the disk of the folder.
    pub free_bytes: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            decoded_bytes: 256 << 20,
            decoding_bytes: 64 << 20,
            all_decoding_bytes: 512 << 20,
            ids: 4_000_000,
            decoders: 4,
            connections: 20_000,
            connections_per_address: 2000,
            connections_per_network: 4000,
            idle: TimeSpan(20_000_000),
            requests_per_second: 1000,
            watchers: 10_000,
            free_bytes: 256 << 20,
        }
    }
}

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

impl Config {
    /// Reads a configuration. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it cannot be read or is invalid; the message names the line and the setting.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| usage(format!("cannot read {shown}: {e}")))?;
        let mut config: Self = toml::from_str(&text).map_err(|e| usage(format!("{shown}: {e}")))?;
        let base = path.parent().unwrap_or(Path::new("")).to_owned();
        config.from(&base).and_then(|()| config.check()).map_err(|problem| usage(format!("{shown}: {problem}")))?;
        Ok(config)
    }

    /// Makes paths relative to `base`, so that they do not depend on the working directory. Refuses URLs.
    fn from(&mut self, base: &Path) -> Result<(), String> {
        let witness = self.witness.iter_mut().flat_map(|w| w.file.iter_mut().chain(&mut w.authorization_file));
        let listeners = [&mut self.public, &mut self.private].into_iter().flatten();
        let certificates = listeners.flat_map(|l| l.certificate.iter_mut().chain(&mut l.certificate_key));
        let hooks = self.webhooks.iter_mut();
        let hooks = hooks.flat_map(|hook| hook.authorization_file.iter_mut().chain(&mut hook.secret_file));
        let feeds = self.feeds.iter_mut().flat_map(FeedConfig::paths);
        let feeds = feeds.chain(self.sinks.iter_mut().flat_map(SinkConfig::paths));
        let own = [&mut self.folder, &mut self.key].into_iter().chain(&mut self.passphrase).chain(&mut self.backups);
        let own = own.chain(self.standby.iter_mut().map(|standby| &mut standby.folder));
        for path in own.chain(witness).chain(certificates).chain(hooks).chain(feeds).chain(self.sources.values_mut()) {
            if is_url(path) {
                let shown = without_secrets(path);
                return Err(format!("{shown}: the service keeps its files on this machine; give a path, not a URL"));
            }
            *path = base.join(&*path);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.public.is_none() && self.private.is_none() {
            return Err(
                "nobody can reach the service: give [private] or [public] with listen = \"127.0.0.1:8800\"".into()
            );
        }
        for listener in [&self.public, &self.private].into_iter().flatten() {
            if listener.certificate.is_some() != listener.certificate_key.is_some() {
                return Err("certificate and certificate-key go together".into());
            }
        }
        if self.private.as_ref().is_some_and(|private| private.cors != Cors::SameOrigin) {
            return Err("cors is for readers: move it from [private] to [public]".into());
        }
        if self.passphrase.is_none() && is_inside(&self.key, &self.folder) {
            return Err(format!(
                "the key {} is inside the folder: anyone with a backup of the folder could remove all noise. Keep the \
                 key elsewhere, or seal it with a passphrase",
                self.key.display()
            ));
        }
        if let Some(witness) = &self.witness {
            match (&witness.file, &witness.url) {
                (Some(_), Some(_)) | (None, None) => return Err("[witness] needs either a file or a url".into()),
                (Some(file), None) if is_inside(file, &self.folder) => {
                    return Err(
                        "the witness is inside the folder, and would be rolled back with it; keep it elsewhere".into(),
                    );
                }
                _ => {}
            }
        }
        let mut names = BTreeSet::new();
        for stream in &self.streams {
            if !names.insert(stream.name.as_str()) {
                return Err(format!(
                    "stream `{}` is configured twice; choose another name for one of them",
                    stream.name
                ));
            }
            if let Some(source) = stream.source.as_ref().filter(|source| !self.sources.contains_key(*source)) {
                return Err(format!(
                    "stream `{}` spends from `{source}`, which is not in [sources]; add {source} = \"{source}.budget\" \
                     there",
                    stream.name
                ));
            }
        }
        if let Some(schedule) = &self.backup_schedule {
            if self.backups.is_none() {
                return Err(
                    "[backup-schedule] needs a folder: add backups = \"/mnt/other-disk/evertally\" at the top".into()
                );
            }
            if schedule.every.0 < MIN_BACKUP_INTERVAL.0 {
                return Err("`every` of [backup-schedule] is at least 1 minute".into());
            }
        }
        if let Some(standby) = &self.standby {
            if self.witness.is_none() {
                return Err("[standby] needs a witness that both machines reach, since it decides which of them may \
                            publish: add [witness]"
                    .into());
            }
            if is_inside(&standby.folder, &self.folder) {
                return Err("the standby folder is inside the folder of the service: the other machine needs it when \
                            this one is lost"
                    .into());
            }
            if standby.takeover.0 < MIN_TAKEOVER.0 {
                return Err("`takeover` of [standby] is at least `3s`".into());
            }
        }
        if self.retention.batch_ids.is_some_and(|kept| kept.0 < MIN_RETENTION.0) {
            return Err("`batch-ids` of [retention] is at least `1d`: clients send batches again".into());
        }
        for (index, feed) in self.feeds.iter().enumerate() {
            feed.check()?;
            if self.feeds[..index].contains(feed) {
                return Err(format!("a [[feed]] of stream `{}` is configured twice", feed.stream));
            }
        }
        for (index, sink) in self.sinks.iter().enumerate() {
            if self.sinks[..index].iter().any(|other| other.is_same(sink)) {
                return Err(format!("a [[sink]] of stream `{}` is configured twice", sink.stream));
            }
        }
        let mut urls = BTreeSet::new();
        for hook in &self.webhooks {
            let is_url = hook.url.starts_with("http://") || hook.url.starts_with("https://");
            if !is_url {
                return Err(format!("the url `{}` of a webhook does not begin with http:// or https://", hook.url));
            }
            if !urls.insert(hook.url.as_str()) {
                return Err(format!("there are two webhooks with the url `{}`: name all streams in one", hook.url));
            }
        }
        Ok(())
    }
}

/// A secret in a one-line file.
pub(crate) fn secret_of(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).context(format_args!("cannot read {}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ClosedBy;

    const WHOLE: &str = r#"
folder = "data"
key = "keys/serve.key"
[public]
listen = "127.0.0.1:0"
[witness]
file = "other/witness.json"
[steps]
grace = "2m"
[sources]
shop = "shop.budget"
[[stream]]
stream = "visits"
public = true
source = "shop"
grace = "10s"
time = "time"
start = "2026-01-01"
every = "1h"
steps = 100
epsilon = 1
"#;

    fn read(text: &str) -> Result<Config> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, text)?;
        Config::read(&path)
    }

    #[test]
    fn a_configuration_is_read() {
        let config = read(WHOLE).unwrap();
        assert!(config.folder.is_absolute() && config.sources["shop"].is_absolute());
        let stream = &config.streams[0];
        assert_eq!((stream.name.as_str(), stream.public), ("visits", true));
        assert!(!stream.declaration.contains("grace") && stream.declaration.contains("\"every\":\"1h\""));
        assert_eq!(stream.closing(&config.steps), ClosedBy::Schedule { grace: 10_000_000, delay: 5_000_000 });
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (from, to, expected) in [
            ("keys/serve.key", "data/serve.key", "inside the folder"),
            ("other/witness.json", "data/witness.json", "rolled back"),
            ("file = \"other/witness.json\"", "", "either a file or a url"),
            ("source = \"shop\"", "source = \"stop\"", "not in [sources]"),
            ("grace = \"2m\"", "grace = \"two\"", "is not a duration"),
            ("grace = \"2m\"", "grave = \"2m\"", "grave"),
            ("[public]\nlisten = \"127.0.0.1:0\"", "", "nobody can reach"),
            ("stream = \"visits\"", "", "needs a name"),
            ("\"data\"", "\"s3://bucket/data\"", "s3://bucket/data: the service keeps its files on this machine"),
            ("\"shop.budget\"", "\"gs://bucket/shop.budget\"", "gs://bucket/shop.budget: the service keeps"),
            ("[public]\n", "[private]\ncors = \"*\"\n", "[public]"),
            ("[public]\n", "[public]\ntrusted-proxies = [\"10.0.0.0/33\"]\n", "`10.0.0.0/33` is not an address"),
            ("[public]\n", "[public]\ncors = [\"https://a.example/\"]\n", "is not an origin"),
        ] {
            let refused = read(&WHOLE.replace(from, to)).unwrap_err().to_string();
            assert!(refused.contains(expected) && refused.contains("serve.toml"), "{refused}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_into_the_folder_are_followed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("serve.toml");
        std::fs::create_dir_all(base.path().join("data/inner")).unwrap();
        std::os::unix::fs::symlink("data/inner", base.path().join("link")).unwrap();
        std::os::unix::fs::symlink(base.path(), base.path().join("data/out")).unwrap();
        for (key, is_refused) in
            [("link/serve.key", true), ("keys/../link/new/serve.key", true), ("data/out/serve.key", false)]
        {
            std::fs::write(&path, WHOLE.replace("keys/serve.key", key)).unwrap();
            let read = Config::read(&path).map_err(|error| error.to_string());
            assert_eq!(read.is_err_and(|error| error.contains("inside the folder")), is_refused, "{key}");
        }
        std::fs::write(&path, WHOLE.replace("other/witness.json", "link/witness.json")).unwrap();
        assert!(Config::read(&path).unwrap_err().to_string().contains("rolled back"));
    }
}
