//! From a configuration to a service that answers.

use crate::clock::{Clock, SystemClock};
use crate::config::{Config, LimitsConfig, StreamConfig, WebhookConfig, WitnessConfig};
use crate::descriptors;
use crate::engine::{Core, Decoding, Opening, Refusal, Service, Setting, State, StreamInfo, groups_behind};
use crate::folder::{is_open_to_others, make_folder, store_path};
use crate::http::{App, AppSetting, Bound, Serving, Side};
use crate::store::Store;
use crate::supervisor::Supervisor;
use crate::tokens::Tokens;
use crate::webhook::Webhook;
use crate::witness::{FileWitness, HttpWitness, Witness};
use evertally::noise::SecretKey;
use evertally_declare::error::{Context, Result, failure, usage};
use evertally_declare::problem::Wording;
use evertally_ledger::keyfile;
use evertally_ledger::ledger::{give_to_service, ledger_path};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A service that answers.
pub struct Running {
    /// The streams.
    pub service: Arc<Service>,
    /// What answers.
    pub app: Arc<App>,
    serving: Serving,
    webhooks: Vec<std::thread::JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    /// Where it is read, and where it is written and operated, for people.
    pub urls: Vec<(Side, String)>,
}

impl Running {
    /// Starts what a configuration says, by the machine's clock.
    ///
    /// # Errors
    /// If the folder or the key cannot be used, a stream cannot be opened, or an address is taken.
    pub async fn start(config: &Config) -> Result<Self> {
        Self::by(config, Arc::new(SystemClock::default())).await
    }

    /// The same by another clock.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn by(config: &Config, clock: Arc<dyn Clock>) -> Result<Self> {
        let limit = descriptors::raise();
        let of_config = config.clone();
        let opened = tokio::task::spawn_blocking(move || open(&of_config, clock)).await;
        let service = Arc::new(opened.map_err(failure)??);
        let tokens = Tokens::of_folder(&config.folder)?;
        let (folder, limits, steps) = (config.folder.clone(), config.limits.clone(), config.steps.clone());
        let is_sealed = config.passphrase.is_some();
        let hooks = config.webhooks.iter().map(webhook_of).collect::<Result<Vec<Webhook>>>()?;
        let troubles = hooks.iter().map(Webhook::problem).collect();
        let setting =
            AppSetting { tokens, folder, limits, steps, is_sealed, backups: config.backups.clone(), troubles };
        let app = App::new(Arc::clone(&service), setting);
        let mut listeners = Vec::new();
        for (side, listener) in [(Side::Public, &config.public), (Side::Private, &config.private)] {
            if let Some(listener) = listener {
                listeners.push((side, Bound::new(side, listener).await?));
            }
        }
        let urls = listeners.iter().map(|(side, bound)| (*side, bound.url())).collect();
        let descriptors = descriptors::for_clients(limit);
        let serving = Serving::start(&app, listeners.into_iter().map(|(_, bound)| bound).collect(), descriptors);
        compute_promises(service.streams());
        let is_over = Arc::<AtomicBool>::default();
        let send = |hook: Webhook| {
            let (service, is_over) = (Arc::clone(&service), Arc::clone(&is_over));
            std::thread::spawn(move || hook.run(&service, &is_over))
        };
        let webhooks = hooks.into_iter().map(send).collect();
        Ok(Self { service, app, serving, webhooks, is_over, urls })
    }

    /// Where one side answers.
    pub fn url(&self, side: Side) -> Option<&str> {
        self.urls.iter().find(|(of, _)| *of == side).map(|(_, url)| url.as_str())
    }

    /// Stops: requests under way are answered, and what sessions remember is put by.
    pub async fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.serving.stop().await;
        let (service, webhooks) = (self.service, self.webhooks);
        let stopped = tokio::task::spawn_blocking(move || {
            service.stop();
            // One that waits for an answer is not waited for long.
            let until = std::time::Instant::now() + Duration::from_secs(5);
            while webhooks.iter().any(|thread| !thread.is_finished()) && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
        })
        .await;
        drop(stopped);
    }
}

/// What readers ask for first of every stream is computed before they ask; nobody waits for it.
fn compute_promises(streams: Vec<Arc<StreamInfo>>) {
    let computing = std::thread::Builder::new().name("promises".to_owned());
    let started = computing.spawn(move || streams.iter().for_each(|info| info.compute_promise()));
    drop(started); // otherwise whoever asks first computes it
}

/// Opens the folder, and the streams of the configuration that are not open yet.
fn open(config: &Config, clock: Arc<dyn Clock>) -> Result<Service> {
    let store_file = store_path(&config.folder);
    make_folder(&config.folder)?;
    if is_open_to_others(&config.folder) {
        tracing::warn!("others can look into the folder, which holds exact sums and events: chmod 700");
    }
    // Whoever has the folder open keeps others out, before anything is written.
    let store = Store::open(&store_file)?;
    let is_new = store.is_unused()?;
    let key = key_of(config, &store, is_new)?;
    give_key(config, &store, &key, is_new)?;
    if config.forgets_witness {
        store.forget_witness()?;
    }
    let setting = Setting {
        store,
        key,
        clock,
        witness: config.witness.as_ref().map(witness_of).transpose()?,
        sources: config.sources.clone(),
        ahead: config.steps.ahead.0,
        decoding: Arc::new(decoding_of(&config.limits)),
        catch_up: if is_new { 0 } else { config.steps.catch_up.0 },
    };
    let (own, key_id) = (setting.store.clone(), setting.key.id().to_string());
    let service = Service::start(setting)?;
    if is_new {
        own.begin_with(&key_id)?; // now that nothing speaks against it
    }
    for stream in &config.streams {
        open_stream(&service, config, stream).map_err(|error| {
            // Parameters are named as the file names them.
            let worded = error.worded(Wording::Toml);
            let error = if error.is_usage() { usage(worded) } else { failure(worded) };
            error.context(format_args!("stream `{}`", stream.name))
        })?;
    }
    Ok(service)
}

/// The key of the service: read, or made together with a new folder. A new folder knows nothing of what was published with a
/// key that is there already, and would publish it again with the same noise.
fn key_of(config: &Config, store: &Store, is_new: bool) -> Result<SecretKey> {
    let shown = config.key.display();
    if !config.key.exists() {
        if !is_new {
            return Err(usage(format!(
                "the key {shown} is not there, and the folder {} was written with it; put it back. Without it no step can be \
                 published: its noise would be another",
                config.folder.display()
            )));
        }
        if let Some(folder) = config.key.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            make_folder(folder)?;
        }
        let key = SecretKey::generate()?;
        // A start that is cut off here knows the key again for its own.
        store.note_making(&key.id().to_string())?;
        match &config.passphrase {
            Some(passphrase) => crate::sealed::write(&config.key, &key, passphrase)?,
            None => keyfile::write_new(&config.key, &key)?,
        }
        return Ok(key);
    }
    let key = match &config.passphrase {
        Some(passphrase) => crate::sealed::read(&config.key, passphrase)?,
        None => keyfile::read(&config.key)?,
    };
    let is_own = !is_new || store.making()?.is_some_and(|id| id == key.id().to_string());
    if is_own || config.adopts_key {
        return Ok(key);
    }
    Err(usage(format!(
        "the key {shown} is there already, and the folder {} is new: whatever was published with this key would be published \
         again, of other events with the same noise. Put the folder back, from a backup; or name a key that is not there, \
         and it is made. A key whose ledger says that it was never used is taken with --adopt-key",
        config.folder.display()
    )))
}

/// Makes the key this service's own: everything else refuses it from here on. A folder that was begun has its own record of
/// what the key has issued, so that a ledger is made anew beside the key if it is lost.
fn give_key(config: &Config, store: &Store, key: &SecretKey, is_new: bool) -> Result<()> {
    let may_make = !is_new || store.making()?.is_some_and(|id| id == key.id().to_string());
    let folder = config.folder.canonicalize().unwrap_or_else(|_| config.folder.clone());
    give_to_service(key, &ledger_path(&config.key), may_make, &store.identity()?, &folder)
}

fn witness_of(config: &WitnessConfig) -> Result<Box<dyn Witness>> {
    let authorization = config.authorization_file.as_deref().map(secret_of).transpose()?;
    match (&config.file, &config.url) {
        (Some(file), _) => Ok(Box::new(FileWitness::new(file))),
        (None, Some(url)) => Ok(Box::new(HttpWitness::new(url, authorization))),
        (None, None) => Err(usage("[witness] has a file or a url")),
    }
}

fn webhook_of(config: &WebhookConfig) -> Result<Webhook> {
    let authorization = config.authorization_file.as_deref().map(secret_of).transpose()?;
    Ok(Webhook::new(&config.url, &config.streams, authorization))
}

/// A secret in a file of one line.
pub(crate) fn secret_of(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).context(format_args!("cannot read {}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Opens a stream of the configuration, unless it is open as it is declared.
fn open_stream(service: &Service, config: &Config, stream: &StreamConfig) -> Result<()> {
    if let Some(info) = service.stream(&stream.name) {
        let record = info.record();
        let (same_source, is_recovering) =
            (record.source == stream.source, matches!(info.progress().state, State::Recovering(_)));
        let joining = groups_behind(&record.declaration, &stream.declaration);
        if let Some(groups) = joining.filter(|_| same_source) {
            if is_recovering {
                // They join behind the step behind which they did before, which its operator knows.
                tracing::warn!(stream = %stream.name, groups = groups.len(), "groups wait until the stream has recovered");
            } else {
                service.join_groups(&stream.name, groups).map_err(refused)?;
            }
        } else if same_source && groups_behind(&stream.declaration, &record.declaration).is_some() {
            // Some have joined over the API.
        } else if let Some(differing) = differing(&record.declaration, &stream.declaration, !same_source) {
            return Err(usage(format!(
                "the configuration declares it otherwise than it was opened: {differing} differ; what is open stays as it \
                 is: put back what it was, or retire it and give the new one another name"
            )));
        }
        if record.public != stream.public {
            let (name, public) = (stream.name.clone(), stream.public);
            service.ask(move |core| core.set_public(&name, public)).map_err(refused)?;
        }
        return Ok(());
    }
    let opening = Opening {
        declaration: stream.declaration.clone(),
        public: stream.public,
        source: stream.source.clone(),
        closing: stream.closing(&config.steps),
    };
    service.open(opening).map_err(refused)?;
    Ok(())
}

/// The names of what two declarations say otherwise; `None` where that is nothing.
fn differing(a: &str, b: &str, source_differs: bool) -> Option<String> {
    type Declared = serde_json::Map<String, serde_json::Value>;
    let [a, b] = [a, b].map(|text| serde_json::from_str::<Declared>(text).unwrap_or_default());
    let mut names: Vec<&str> =
        a.keys().chain(b.keys()).map(String::as_str).filter(|name| a.get(*name) != b.get(*name)).collect();
    names.extend(source_differs.then_some("source"));
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
}

fn refused(refusal: Refusal) -> evertally_declare::error::Error {
    match refusal {
        Refusal::Other(error) => error,
        refusal => usage(refusal.to_string()),
    }
}

fn decoding_of(limits: &LimitsConfig) -> Decoding {
    Decoding::new(limits.decoding_bytes, limits.decoded_bytes, limits.decoders, limits.all_decoding_bytes)
}

/// Checks a folder that no service has open, and says what was found.
///
/// # Errors
/// If something is not as it was published.
pub fn verify(config: &Config) -> Result<Vec<String>> {
    let path = store_path(&config.folder);
    if !path.exists() {
        return Err(usage(format!("there is no folder of a service at {}", config.folder.display())));
    }
    let store = Store::open(&path)?;
    let setting = Setting {
        key: key_of(config, &store, false)?,
        store,
        clock: Arc::new(SystemClock::default()),
        witness: config.witness.as_ref().map(witness_of).transpose()?,
        sources: config.sources.clone(),
        ahead: 0,
        decoding: Arc::default(),
        catch_up: 0,
    };
    let core = Core::open(setting, Arc::new(|_| ()))?;
    let mut found = core.verify()?;
    let problems = core.problems();
    if !problems.is_empty() {
        return Err(usage(problems.join("; ")));
    }
    found.push("all is as it was published".to_owned());
    Ok(found)
}

/// Runs a service until the process is told to end.
///
/// # Errors
/// As [`Running::start`].
pub async fn until_told(config: &Config, started: impl FnOnce(&Running)) -> Result<()> {
    let supervisor = Supervisor::from_env();
    let running = Running::start(config).await?;
    started(&running);
    supervisor.is_ready(&running.service);
    let told = tokio::select! {
        told = told_to_end() => told,
        lost = lost(&running.service) => lost,
    };
    supervisor.is_stopping();
    running.stop().await;
    told
}

/// Waits until the disk has failed the service.
async fn lost(service: &Service) -> Result<()> {
    while !service.has_ended() {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Err(failure(
        "the folder could not be written, so that the service ends: nothing that was acknowledged is lost. See to the disk, and \
         start it again",
    ))
}

/// Waits for Ctrl-C, or for the service manager.
///
/// # Errors
/// If signals cannot be heard.
pub async fn told_to_end() -> Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await?;
    Ok(())
}
