//! From a configuration to a running service.

use crate::clock::{Clock, SystemClock};
use crate::config::{Config, LimitsConfig, StreamConfig, WebhookConfig, WitnessConfig};
use crate::descriptors;
use crate::engine::{Core, Decoding, Opening, Refusal, Service, Setting, StreamInfo, StreamState, added_groups};
use crate::folder::{is_open_to_others, make_folder, store_path};
use crate::http::{App, AppSetting, BoundListener, Serving, Side};
use crate::store::Store;
use crate::supervisor::Supervisor;
use crate::tokens::Tokens;
use crate::webhook::Webhook;
use crate::witness::{FileWitness, HttpWitness, Witness};
use evertally::noise::SecretKey;
use evertally_declare::error::{Context, Result, failure, usage};
use evertally_declare::problem::Wording;
use evertally_ledger::keyfile;
use evertally_ledger::ledger::{assign_to_service, ledger_path};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A running service.
pub struct Running {
    /// The streams.
    pub service: Arc<Service>,
    /// The HTTP application.
    pub app: Arc<App>,
    serving: Serving,
    webhooks: Vec<std::thread::JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    /// The URLs for reading, and for writing and operating.
    pub urls: Vec<(Side, String)>,
}

impl Running {
    /// Starts a configured service with the machine's clock.
    ///
    /// # Errors
    /// If the folder or the key cannot be used, a stream cannot be opened, or an address is in use.
    pub async fn start(config: &Config) -> Result<Self> {
        Self::by(config, Arc::new(SystemClock::default())).await
    }

    /// The same with another clock.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn by(config: &Config, clock: Arc<dyn Clock>) -> Result<Self> {
        let limit = descriptors::raise();
        let of_config = config.clone();
        let opened = tokio::task::spawn_blocking(move || open(&of_config, clock)).await;
        let service = Arc::new(opened.map_err(failure)??);
        let tokens = Tokens::from_folder(&config.folder)?;
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
                listeners.push((side, BoundListener::new(side, listener).await?));
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

    /// The URL of one side.
    pub fn url(&self, side: Side) -> Option<&str> {
        self.urls.iter().find(|(of, _)| *of == side).map(|(_, url)| url.as_str())
    }

    /// Stops: requests under way are answered, and sessions are checkpointed.
    pub async fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.serving.stop().await;
        let (service, webhooks) = (self.service, self.webhooks);
        let stopped = tokio::task::spawn_blocking(move || {
            service.stop();
            // A webhook that waits for an answer delays the stop only briefly.
            let until = std::time::Instant::now() + Duration::from_secs(5);
            while webhooks.iter().any(|thread| !thread.is_finished()) && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
        })
        .await;
        drop(stopped);
    }
}

/// Computes in the background what readers request first of every stream.
fn compute_promises(streams: Vec<Arc<StreamInfo>>) {
    let computing = std::thread::Builder::new().name("promises".to_owned());
    let started = computing.spawn(move || streams.iter().for_each(|info| info.compute_promise()));
    drop(started); // otherwise the first request computes it
}

/// Opens the folder, and the streams of the configuration that are not open yet.
fn open(config: &Config, clock: Arc<dyn Clock>) -> Result<Service> {
    let store_file = store_path(&config.folder);
    make_folder(&config.folder)?;
    if is_open_to_others(&config.folder) {
        tracing::warn!("other users can read the data folder, which holds exact sums and events: chmod 700");
    }
    // Opening the store excludes other processes before anything is written.
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
        own.begin_with(&key_id)?; // only after the folder was opened successfully
    }
    for stream in &config.streams {
        open_stream(&service, config, stream).map_err(|error| {
            // Parameters have their names of the configuration file.
            let worded = error.worded(Wording::Toml);
            let error = if error.is_usage() { usage(worded) } else { failure(worded) };
            error.context(format_args!("stream `{}`", stream.name))
        })?;
    }
    Ok(service)
}

/// The key of the service: read, or created together with a new folder. A new folder has no record of earlier
/// publications with an existing key, and would publish again with the same noise.
fn key_of(config: &Config, store: &Store, is_new: bool) -> Result<SecretKey> {
    let shown = config.key.display();
    if !config.key.exists() {
        if !is_new {
            return Err(usage(format!(
                "the key {shown} is missing, but the folder {} was written with it; restore the key. Without it no \
                 step can be published: its noise would be different",
                config.folder.display()
            )));
        }
        if let Some(folder) = config.key.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            make_folder(folder)?;
        }
        let key = SecretKey::generate()?;
        // If this start is interrupted here, the next one recognizes the key as its own.
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
        "the key {shown} exists, but the folder {} is new: everything published with this key would be published \
         again, from other events with the same noise. Restore the folder from a backup; or name a key file that does \
         not exist, and it is created. If the ledger of the key shows that it was never used, start once with \
         --adopt-key",
        config.folder.display()
    )))
}

/// Reserves the key for this service: everything else refuses it from here on. An existing folder has its own record of
/// what the key has issued, so the ledger next to the key is created again if it is lost.
fn give_key(config: &Config, store: &Store, key: &SecretKey, is_new: bool) -> Result<()> {
    let may_make = !is_new || store.making()?.is_some_and(|id| id == key.id().to_string());
    let folder = config.folder.canonicalize().unwrap_or_else(|_| config.folder.clone());
    assign_to_service(key, &ledger_path(&config.key), may_make, &store.identity()?, &folder)
}

fn witness_of(config: &WitnessConfig) -> Result<Box<dyn Witness>> {
    let authorization = config.authorization_file.as_deref().map(secret_of).transpose()?;
    match (&config.file, &config.url) {
        (Some(file), _) => Ok(Box::new(FileWitness::new(file))),
        (None, Some(url)) => Ok(Box::new(HttpWitness::new(url, authorization))),
        (None, None) => Err(usage("[witness] needs a file or a url")),
    }
}

fn webhook_of(config: &WebhookConfig) -> Result<Webhook> {
    let authorization = config.authorization_file.as_deref().map(secret_of).transpose()?;
    Ok(Webhook::new(&config.url, &config.streams, authorization))
}

/// A secret in a one-line file.
pub(crate) fn secret_of(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).context(format_args!("cannot read {}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Opens a stream of the configuration, unless it is open with the same declaration.
fn open_stream(service: &Service, config: &Config, stream: &StreamConfig) -> Result<()> {
    if let Some(info) = service.stream(&stream.name) {
        let record = info.record();
        let (same_source, is_recovering) =
            (record.source == stream.source, matches!(info.progress().state, StreamState::Recovering(_)));
        let joining = added_groups(&record.declaration, &stream.declaration);
        if let Some(groups) = joining.filter(|_| same_source) {
            if is_recovering {
                // They must join after the same step as before, which only the operator knows.
                tracing::warn!(stream = %stream.name, groups = groups.len(), "groups wait until the stream has \
                    recovered");
            } else {
                service.join_groups(&stream.name, groups).map_err(refused)?;
            }
        } else if same_source && added_groups(&stream.declaration, &record.declaration).is_some() {
            // Some groups were added over the API.
        } else if let Some(differing) = differing(&record.declaration, &stream.declaration, !same_source) {
            return Err(usage(format!(
                "the configuration differs from the open stream in {differing}, and open streams do not change: \
                 restore the previous settings, or retire the stream and choose another name for the new one"
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

/// The names of the parameters that differ between two declarations; `None` if there are none.
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

fn refused(refusal: Refusal) -> evertally_declare::error::PipelineError {
    match refusal {
        Refusal::Other(error) => error,
        refusal => usage(refusal.to_string()),
    }
}

fn decoding_of(limits: &LimitsConfig) -> Decoding {
    Decoding::new(limits.decoding_bytes, limits.decoded_bytes, limits.decoders, limits.all_decoding_bytes)
}

/// Checks a folder that no service has open, and returns the findings.
///
/// # Errors
/// If something differs from the published steps.
pub fn verify(config: &Config) -> Result<Vec<String>> {
    let path = store_path(&config.folder);
    if !path.exists() {
        return Err(usage(format!("there is no service folder at {}", config.folder.display())));
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
    found.push("everything is as it was published".to_owned());
    Ok(found)
}

/// Runs a service until the process receives a signal to end.
///
/// # Errors
/// As [`Running::start`].
pub async fn serve_until_shutdown(config: &Config, started: impl FnOnce(&Running)) -> Result<()> {
    let supervisor = Supervisor::from_env();
    let running = Running::start(config).await?;
    let shutdown = shutdown_signal()?;
    started(&running);
    supervisor.is_ready(&running.service);
    let signal = tokio::select! {
        signal = shutdown => signal,
        lost = lost(&running.service) => lost,
    };
    supervisor.is_stopping();
    running.stop().await;
    signal
}

/// Waits until the disk of the service has failed.
async fn lost(service: &Service) -> Result<()> {
    while !service.has_ended() {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Err(failure(
        "the service ends because it could not write to the data folder: nothing that was acknowledged is lost. Check \
         the disk, then start the service again",
    ))
}

/// Handles Ctrl-C and the signal of a service manager from now on. The future waits for one of them. Call this before
/// anything tells people that the service runs.
///
/// # Errors
/// If signal handlers cannot be installed.
#[cfg(unix)]
pub fn shutdown_signal() -> Result<impl Future<Output = Result<()>>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

/// Waits for Ctrl-C.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn shutdown_signal() -> Result<impl Future<Output = Result<()>>> {
    Ok(async { Ok(tokio::signal::ctrl_c().await?) })
}
