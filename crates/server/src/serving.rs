//! From a configuration to a running service.

mod checking;
mod comparison;
mod files;
mod follower;
mod opening;
mod preflight;
mod reload;
mod replica;
mod signals;
mod streams;
mod upkeep;

pub use checking::{check, check_follower, check_replica};
pub use follower::{Follower, Waited, follow};
pub(crate) use follower::{health_of as follower_health, wait};
pub use opening::verify;
pub(crate) use opening::witness_from;
pub use replica::{ReplicaRunning, replicate_until_shutdown};
pub(crate) use signals::ReloadSignal;
pub use signals::shutdown_signal;

use crate::audit::AuditEntry;
use crate::backup::Backups;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, StreamConfig};
use crate::descriptors;
use crate::engine::{Service, StreamInfo};
use crate::http::{App, AppParts, AppSettings, BoundListener, Serving, Side, feed_targets, publication_message};
use crate::supervisor::Supervisor;
use crate::syslog::SyslogContext;
use crate::tokens::Tokens;
use crate::webhook::Webhooks;
use evertally_declare::error::{Result, failure};
use jiff::Timestamp;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A running service.
pub struct Running {
    /// The streams.
    pub service: Arc<Service>,
    /// The HTTP application.
    pub app: Arc<App>,
    serving: Serving,
    config: Mutex<Config>,
    is_over: Arc<AtomicBool>,
    syslog: SyslogContext,
    upkeep: upkeep::Upkeep,
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
        let opened = tokio::task::spawn_blocking(move || opening::open(&of_config, clock)).await;
        let service = opened.map_err(failure)??;
        let tokens = Tokens::from_folder(&config.folder)?;
        let parts = AppParts {
            tokens,
            folder: config.folder.clone(),
            settings: app_settings(config),
            is_sealed: config.passphrase.is_some(),
            webhooks: Arc::new(Webhooks::new(publication_message)),
            backups: Arc::new(Backups::default()),
        };
        let app = App::new(Arc::clone(&service), parts);
        app.issuers.set(&config.identities)?;
        let mut listeners = Vec::new();
        for (side, listener) in [(Side::Public, &config.public), (Side::Private, &config.private)] {
            if let Some(listener) = listener {
                listeners.push((side, BoundListener::new(side, listener).await?));
            }
        }
        let urls = listeners.iter().map(|(side, bound)| (*side, bound.url())).collect();
        let mut descriptors = descriptors::for_clients(limit);
        let syslog = syslog_context(&app, descriptors / 4);
        if !config.syslog.is_empty() {
            descriptors -= syslog.descriptors;
        }
        let serving = Serving::start(&app, listeners.into_iter().map(|(_, bound)| bound).collect(), descriptors);
        compute_promises(service.streams());
        app.webhooks.set(&config.webhooks, &service)?;
        app.feeds.set(&config.feeds, &feed_targets(&app))?;
        app.syslog.set(&config.syslog, &syslog)?;
        app.sinks.set(&config.sinks, &service)?;
        app.backups.set(config.backups.as_deref(), config.backup_schedule.as_ref(), &service.folder_id);
        let is_over = Arc::<AtomicBool>::default();
        let (backups, copied, ends) = (Arc::clone(&app.backups), Arc::downgrade(&service), Arc::clone(&is_over));
        drop(std::thread::Builder::new().name("backups".to_owned()).spawn(move || backups.run(&copied, &ends))?);
        let upkeep = upkeep::Upkeep::start(&app, config, &is_over)?;
        let config = Mutex::new(config.clone());
        Ok(Self { service, app, serving, config, is_over, syslog, upkeep, urls })
    }

    /// The URL of one side.
    pub fn url(&self, side: Side) -> Option<&str> {
        self.urls.iter().find(|(of, _)| *of == side).map(|(_, url)| url.as_str())
    }

    /// Stops at once: sessions are checkpointed, requests under way are not answered.
    fn shut_down(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.service.stop();
        self.app.tokens.save_uses();
    }

    /// Stops: requests under way are answered, and sessions are checkpointed.
    pub async fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.app.webhooks.stop(Duration::ZERO);
        let (app, upkeep) = (Arc::clone(&self.app), self.upkeep);
        let stopped = tokio::task::spawn_blocking(move || {
            upkeep.stop();
            app.feeds.stop(BATCH_TIMEOUT);
            app.sinks.stop(BATCH_TIMEOUT);
        });
        drop(stopped.await);
        tokio::join!(self.serving.stop(), self.app.syslog.stop());
        let (service, app) = (self.service, self.app);
        let stopped = tokio::task::spawn_blocking(move || {
            service.stop();
            app.tokens.save_uses();
            app.webhooks.stop(WEBHOOK_TIMEOUT);
        })
        .await;
        drop(stopped);
    }

    /// What the extensions of streams cost, in words.
    pub fn extending(&self) -> Vec<String> {
        let config = self.config.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let line = |stream: &StreamConfig| {
            let info = self.service.stream(&stream.name)?;
            streams::extension_cost(stream, &info.stream)
        };
        config.streams.iter().filter_map(line).collect()
    }

    /// The names of open streams that the configuration does not name: they continue all the same.
    pub fn unconfigured(&self) -> Vec<String> {
        let config = self.config.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        streams::unconfigured(&self.service, &config)
    }
}

/// How long a stop waits for a batch of a feed, or a publication of a sink, that is under way.
const BATCH_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a stop waits for webhooks that wait for an answer.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings for HTTP that may change while the service runs.
fn app_settings(config: &Config) -> AppSettings {
    AppSettings { limits: config.limits.clone(), steps: config.steps.clone(), clients: config.clients.clone() }
}

/// What listeners for syslog need of a service.
fn syslog_context(app: &Arc<App>, descriptors: usize) -> SyslogContext {
    let service = Arc::downgrade(&app.service);
    let now = move || {
        let micros = service.upgrade().map(|service| service.now().micros());
        micros.and_then(|micros| Timestamp::from_microsecond(micros).ok()).unwrap_or_else(Timestamp::now)
    };
    SyslogContext { target_of: feed_targets(app), now: Arc::new(now), handle: Handle::current(), descriptors }
}

/// Computes in the background what readers request first of every stream.
fn compute_promises(streams: Vec<Arc<StreamInfo>>) {
    let computing = std::thread::Builder::new().name("promises".to_owned());
    let started = computing.spawn(move || streams.iter().for_each(|info| info.compute_promise()));
    drop(started); // otherwise the first request computes it
}

/// Runs a service until the process receives a signal to end. `reload` waits for signals to read its configuration
/// again from `file`: its handler is installed already, since a signal during the start must not end the process.
///
/// # Errors
/// As [`Running::start`].
pub(crate) async fn serve_until_shutdown(
    config: &Config,
    file: &Path,
    mut reload: ReloadSignal,
    started: impl FnOnce(&Running),
) -> Result<()> {
    let supervisor = Supervisor::from_env();
    let running = Arc::new(Running::start(config).await?);
    let shutdown = shutdown_signal()?;
    started(&running);
    supervisor.is_ready(&running.service);
    tokio::pin!(shutdown);
    let mut reloading: Option<JoinHandle<()>> = None;
    let signal = loop {
        tokio::select! {
            signal = &mut shutdown => break signal,
            lost = lost(&running.service) => break lost,
            () = reload.next(), if reloading.is_none() => {
                supervisor.is_reloading();
                reloading = Some(reload_from(&running, config, file));
            }
            () = finished(&mut reloading) => supervisor.is_reloaded(),
        }
    };
    supervisor.is_stopping();
    match Arc::try_unwrap(running) {
        Ok(running) => running.stop().await,
        // A reload is under way, and may wait for a file.
        Err(running) => running.shut_down(),
    }
    signal
}

/// Waits for the end of a reload; forever if there is none.
async fn finished(reloading: &mut Option<JoinHandle<()>>) {
    match reloading {
        Some(handle) => drop(handle.await),
        None => std::future::pending().await,
    }
    *reloading = None;
}

/// Reads the configuration again, in a thread. If it is invalid, or part of it cannot be taken up, the service
/// continues as it was.
fn reload_from(running: &Arc<Running>, config: &Config, file: &Path) -> JoinHandle<()> {
    let (own, file) = (Arc::clone(running), file.to_owned());
    let (adopts_key, forgets_witness) = (config.adopts_key, config.forgets_witness);
    tokio::task::spawn_blocking(move || {
        let new = Config::read(&file).map(|new| Config { adopts_key, forgets_witness, ..new });
        let reloaded = new.and_then(|new| own.reload(&new));
        let mut entry = AuditEntry::done("service", "reload", "");
        match reloaded {
            Ok(()) => tracing::info!("the configuration was read again and taken up"),
            Err(error) => {
                entry.outcome = "refused".to_owned();
                tracing::error!(%error, "the changed configuration was not taken up");
            }
        }
        own.app.audit.record(&entry);
    })
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
