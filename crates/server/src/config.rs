//! `serve.toml`: the folder, the key, the listeners and the streams.

mod aside;
mod clock;
mod consistency;
mod feed;
mod identity;
mod keeping;
mod limits;
mod listener;
mod replica;
mod scheme;
mod sink;
mod standby;
mod stream;
mod syslog;
mod time_span;
mod toml_file;
mod webhook;

pub(crate) use aside::check_aside;
pub use clock::ClockConfig;
pub use feed::FeedConfig;
pub(crate) use identity::is_protected;
pub use identity::{IdentityConfig, RoleRule};
pub use keeping::{BackupSchedule, RetentionConfig};
pub use limits::LimitsConfig;
pub use listener::{ClientConfig, ListenAddress, Listener};
pub use replica::ReplicaConfig;
use scheme::check_scheme;
pub use sink::SinkConfig;
pub use standby::StandbyConfig;
pub use stream::{Closer, Extend, StreamConfig};
pub use syslog::SyslogConfig;
pub use time_span::TimeSpan;
pub use webhook::WebhookConfig;

use crate::cors::Cors;
use evertally_declare::error::{Context, Result, usage};
use evertally_declare::url::{is_url, without_secrets};
use evertally_ledger::protected::is_inside;
use evertally_tables::input::is_object;
use keeping::{MIN_BACKUP_INTERVAL, MIN_RETENTION};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml_file::read_toml;

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
    /// The machines that are known by their certificates.
    #[serde(default, rename = "client")]
    pub clients: Vec<ClientConfig>,
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
    /// Listeners for messages of syslog.
    #[serde(default)]
    pub syslog: Vec<SyslogConfig>,
    /// Issuers whose tokens are accepted, too.
    #[serde(default, rename = "identity")]
    pub identities: Vec<IdentityConfig>,
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
    /// How the service learns whether the machine's clock is synchronised.
    #[serde(default)]
    pub clock: ClockConfig,
    /// The budgets of data sources: files created by `evertally budget`.
    #[serde(default)]
    pub sources: BTreeMap<String, PathBuf>,
    /// The streams.
    #[serde(default, rename = "stream")]
    pub streams: Vec<StreamConfig>,
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

impl Config {
    /// Reads a configuration. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it cannot be read or is invalid; the message names the line and the setting.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let (mut config, text): (Self, String) = read_toml(path)?;
        config.streams.iter_mut().for_each(|stream| stream.find_lines(&shown.to_string(), &text));
        let base = path.parent().unwrap_or(Path::new("")).to_owned();
        let by_day = config.retention.side_files.is_some();
        config.feeds.iter_mut().for_each(|feed| feed.aside_by_day = by_day);
        config.from(&base).and_then(|()| config.check()).map_err(|problem| usage(format!("{shown}: {problem}")))?;
        Ok(config)
    }

    /// Makes paths relative to `base`, so that they do not depend on the working directory. Refuses URLs.
    fn from(&mut self, base: &Path) -> Result<(), String> {
        if let Some(standby) = self.standby.as_ref().filter(|own| is_url(&own.folder) && !is_object(&own.folder)) {
            return Err(format!(
                "[standby] folder: {} is not in an object store; give s3://, gs:// or az://, or a folder that both \
                 machines have mounted",
                without_secrets(&standby.folder)
            ));
        }
        let witness = self.witness.iter_mut().flat_map(|w| w.file.iter_mut().chain(&mut w.authorization_file));
        let listeners = [&mut self.public, &mut self.private].into_iter().flatten();
        let certificates = listeners.flat_map(Listener::paths);
        let hooks = self.webhooks.iter_mut();
        let hooks = hooks.flat_map(|hook| hook.authorization_file.iter_mut().chain(&mut hook.secret_file));
        let feeds = self.feeds.iter_mut().flat_map(FeedConfig::paths);
        let feeds = feeds.chain(self.sinks.iter_mut().flat_map(SinkConfig::paths));
        let feeds = feeds.chain(self.syslog.iter_mut().flat_map(SyslogConfig::paths));
        let feeds = feeds.chain(self.identities.iter_mut().filter_map(|identity| identity.authority.as_mut()));
        let own = [&mut self.folder, &mut self.key].into_iter().chain(&mut self.passphrase).chain(&mut self.backups);
        let standby = self.standby.iter_mut().map(|standby| &mut standby.folder);
        let own = own.chain(standby.filter(|folder| !is_object(folder)));
        for path in own.chain(witness).chain(certificates).chain(hooks).chain(feeds).chain(self.sources.values_mut()) {
            check_scheme(path)?;
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
        for (name, listener) in [("public", &self.public), ("private", &self.private)] {
            listener.iter().try_for_each(Listener::check).map_err(|problem| format!("[{name}]: {problem}"))?;
        }
        self.check_addresses()?;
        self.check_clients()?;
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
        self.check_witness()?;
        let mut names = BTreeSet::new();
        for stream in &self.streams {
            if !names.insert(stream.name.as_str()) {
                return Err(format!(
                    "stream `{}` is configured twice; choose another name for one of them",
                    stream.name
                ));
            }
            stream.check_extension()?;
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
        self.check_standby()?;
        if self.retention.batch_ids.is_some_and(|kept| kept.0 < MIN_RETENTION.0) {
            return Err("`batch-ids` of [retention] is at least `1d`: clients send batches again".into());
        }
        if self.retention.side_files.is_some_and(|kept| kept.0 < MIN_RETENTION.0) {
            return Err("`side-files` of [retention] is at least `1d`: files are kept by whole days".into());
        }
        for (index, feed) in self.feeds.iter().enumerate() {
            feed.check()?;
            if self.feeds[..index].contains(feed) {
                return Err(format!("a [[feed]] of stream `{}` is configured twice", feed.stream));
            }
        }
        self.syslog.iter().try_for_each(SyslogConfig::check)?;
        self.check_asides()?;
        for (index, sink) in self.sinks.iter().enumerate() {
            if self.sinks[..index].iter().any(|other| other.is_same(sink)) {
                return Err(format!("a [[sink]] of stream `{}` is configured twice", sink.stream));
            }
        }
        IdentityConfig::check_all(&self.identities)?;
        let mut names = BTreeSet::new();
        for hook in &self.webhooks {
            hook.check()?;
            if self.webhooks.iter().filter(|other| other.url == hook.url).count() > 1 {
                return Err(format!("there are two webhooks with the url of {}: name all streams in one", hook.name()));
            }
            if !names.insert(hook.name()) {
                return Err(format!("there are two webhooks called {}: give one of them another `name`", hook.name()));
            }
        }
        Ok(())
    }

    /// Whether their folders exist is checked where they are used: requests for the health do not depend on them.
    fn check_asides(&self) -> Result<(), String> {
        let all = self.feeds.iter().filter_map(|feed| feed.aside.as_ref());
        let mut all = all.chain(self.syslog.iter().filter_map(|syslog| syslog.aside.as_ref()));
        match all.find(|path| is_inside(path, &self.folder)) {
            Some(path) => Err(format!(
                "{}, the file for `aside`, is inside the folder of the service, which is for its own files; choose \
                 another place",
                path.display()
            )),
            None => Ok(()),
        }
    }

    fn check_clients(&self) -> Result<(), String> {
        let mut listeners = [&self.public, &self.private].into_iter().flatten();
        if !self.clients.is_empty() && !listeners.any(|listener| listener.client_authority.is_some()) {
            return Err("a [[client]] is known by its certificate: give [private] a client-authority".into());
        }
        let mut names = BTreeSet::new();
        for client in &self.clients {
            client.check()?;
            if !names.insert(client.name.as_str()) {
                return Err(format!("[[client]] `{}` is configured twice: give one all roles", client.name));
            }
        }
        Ok(())
    }
}

/// A secret in a one-line file that a setting names. A name without a file may be the secret: it is not shown.
pub(crate) fn secret_of(path: &Path, setting: &str) -> Result<String> {
    let text = std::fs::read_to_string(path);
    let text = text.context(format_args!("the file that `{setting}` names cannot be read"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests;
