//! A replica: serves readers with copies of the public streams of a service, which it asks for news. It has no key, no
//! events, and no exact number.

use super::shutdown_signal;
use crate::backup::Backups;
use crate::clock::SystemClock;
use crate::config::{ReplicaConfig, StepsConfig};
use crate::descriptors;
use crate::engine::{Service, StreamCopy};
use crate::folder::{make_folder, store_path};
use crate::http::{App, AppParts, AppSettings, BoundListener, ReplicaState, Serving, Side, publication_message};
use crate::store::Store;
use crate::supervisor::Supervisor;
use crate::tokens::Tokens;
use crate::webhook::Webhooks;
use evertally_declare::error::{Context, PipelineError, Result, failure, usage};
use evertally_declare::url::without_secrets;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of an answer.
const MAX_ANSWER_BYTES: u64 = 256 << 20;
/// The key of the note of the time when everything was last known to be current.
const CURRENT: &str = "replica current";
/// How often that time is noted while nothing else changes.
const NOTE_INTERVAL: Duration = Duration::from_secs(60);
/// How long a stop waits for an answer of the service.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two looks at whether the replica stops.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// A running replica.
pub struct ReplicaRunning {
    service: Arc<Service>,
    serving: Serving,
    is_over: Arc<AtomicBool>,
    following: JoinHandle<()>,
    /// The URL for readers.
    pub url: String,
}

impl ReplicaRunning {
    /// Starts a replica: it serves its stored copies at once.
    ///
    /// # Errors
    /// If its folder cannot be used, or its address is in use.
    pub async fn start(config: &ReplicaConfig) -> Result<Self> {
        let limit = descriptors::raise();
        let folder = config.folder.clone();
        let opened = tokio::task::spawn_blocking(move || {
            make_folder(&folder)?;
            let store = Store::open(&store_path(&folder))?;
            if !store.is_unused()? {
                return Err(of_service(&folder));
            }
            let current = store.noted(CURRENT)?.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
            Ok((Service::replica(store.clone(), Arc::new(SystemClock::default()))?, store, current))
        });
        let (service, store, current) = opened.await.map_err(failure)??;
        let service = Arc::new(service);
        let parts = AppParts {
            tokens: Tokens::from_folder(&config.folder)?,
            folder: config.folder.clone(),
            settings: AppSettings { limits: config.limits.clone(), steps: StepsConfig::default(), clients: Vec::new() },
            is_sealed: false,
            webhooks: Arc::new(Webhooks::new(publication_message)),
            backups: Arc::new(Backups::default()),
        };
        let app = App::new(Arc::clone(&service), parts);
        let state = Arc::new(ReplicaState::new(current, config.max_lag.map(|most| most.duration())));
        app.set_replica(&state);
        let listener = BoundListener::new(Side::Public, &config.public).await?;
        let url = listener.url();
        let serving = Serving::start(&app, vec![listener], descriptors::for_clients(limit));
        let is_over = Arc::<AtomicBool>::default();
        let mut following = Following::new(&service, store, &config.from);
        let (every, ends) = (config.every.duration(), Arc::clone(&is_over));
        let follow = move || following.run(every, &state, &ends);
        let following = std::thread::Builder::new().name("replica".to_owned()).spawn(follow)?;
        Ok(Self { service, serving, is_over, following, url })
    }

    /// Stops: requests under way are answered.
    pub async fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.serving.stop().await;
        let (following, service) = (self.following, self.service);
        // It may wait for an answer.
        let ended = tokio::task::spawn_blocking(move || {
            drop(following.join());
            drop(service);
        });
        drop(tokio::time::timeout(STOP_TIMEOUT, ended).await);
    }
}

/// The message about a folder that is not one of a replica.
pub(super) fn of_service(folder: &Path) -> PipelineError {
    usage(format!("{} is the folder of a service, not of a replica; name another folder", folder.display()))
}

/// Runs a replica until the process receives a signal to end.
///
/// # Errors
/// As [`ReplicaRunning::start`].
pub async fn replicate_until_shutdown(config: &ReplicaConfig, started: impl FnOnce(&ReplicaRunning)) -> Result<()> {
    let supervisor = Supervisor::from_env();
    let running = ReplicaRunning::start(config).await?;
    let shutdown = shutdown_signal()?;
    started(&running);
    supervisor.is_ready(&running.service);
    let ended = shutdown.await;
    supervisor.is_stopping();
    running.stop().await;
    ended
}

/// The list of public streams, as the service answers.
#[derive(Deserialize)]
struct PublicStreams {
    streams: Vec<Value>,
}

/// Asks a service for news.
struct Following {
    service: Arc<Service>,
    store: Store,
    agent: ureq::Agent,
    from: String,
    /// How messages name it.
    place: String,
    /// The descriptions of the streams at the time of their last copies.
    seen: BTreeMap<String, Value>,
    noted: Option<Instant>,
    /// The last problem that was logged.
    logged: Option<String>,
}

impl Following {
    fn new(service: &Arc<Service>, store: Store, from: &str) -> Self {
        let agent = ureq::Agent::config_builder().timeout_global(Some(ANSWER_TIMEOUT)).build();
        let (service, from, place) = (Arc::clone(service), from.to_owned(), without_secrets(Path::new(from)));
        Self { service, store, agent: agent.into(), from, place, seen: BTreeMap::new(), noted: None, logged: None }
    }

    fn run(&mut self, every: Duration, state: &ReplicaState, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            let asked = Timestamp::now();
            let problem = match self.ask() {
                Ok(has_changed) => {
                    state.is_current(asked);
                    self.note(asked, has_changed).err()
                }
                Err(error) => Some(error),
            };
            self.log(problem);
            self.service.beat();
            let until = Instant::now() + every;
            while Instant::now() < until && !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(STOP_INTERVAL.min(every));
            }
        }
    }

    fn note(&mut self, at: Timestamp, has_changed: bool) -> Result<()> {
        if has_changed || self.noted.is_none_or(|noted| noted.elapsed() > NOTE_INTERVAL) {
            self.store.note(CURRENT, at.to_string().as_bytes())?;
            self.noted = Some(Instant::now());
        }
        Ok(())
    }

    /// Logs a problem once.
    fn log(&mut self, problem: Option<PipelineError>) {
        let problem = problem.map(|problem| problem.to_string());
        if let Some(problem) = problem.as_ref().filter(|problem| self.logged.as_ref() != Some(problem)) {
            tracing::warn!(%problem, "cannot follow the service; the shown publications stay");
        }
        self.logged = problem;
    }

    fn get(&self, path: &str) -> Result<Vec<u8>> {
        let url = format!("{}{path}", self.from);
        let read = || self.agent.get(&url).call()?.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        read().map_err(|error| {
            // Some errors contain the URL.
            failure(format!("{}{path}: {}", self.place, error.to_string().replace(&self.from, &self.place)))
        })
    }

    /// Asks for news; returns whether there were any.
    ///
    /// # Errors
    /// The first problem. Streams without a problem are current all the same.
    fn ask(&mut self) -> Result<bool> {
        let list: PublicStreams = serde_json::from_slice(&self.get("/v1/streams")?)
            .map_err(|_| usage(format!("{} is not the public listener of a service", self.place)))?;
        let (mut public, mut has_changed, mut problem) = (BTreeSet::new(), false, None);
        for described in list.streams {
            let Some(name) = described["name"].as_str().map(str::to_owned) else { continue };
            public.insert(name.clone());
            if self.seen.get(&name) == Some(&described) {
                continue;
            }
            match self.copy(&name) {
                Ok(()) => {
                    has_changed = true;
                    self.seen.insert(name, described);
                }
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        for info in self.service.streams() {
            if info.is_public() && !public.contains(info.name()) {
                self.service.hide(&info)?;
                self.seen.remove(info.name());
                has_changed = true;
            }
        }
        if has_changed || self.service.copied_sources()?.is_none() {
            self.service.take_sources(&self.get("/v1/sources")?)?;
        }
        problem.map_or(Ok(has_changed), Err)
    }

    /// Copies the new publications of a stream.
    fn copy(&self, name: &str) -> Result<()> {
        loop {
            let (after, names) = self.service.known_of(name);
            let encoded: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
            let path = format!("/v1/streams/{}/copy?after={after}&names={names}", encoded.replace('+', "%20"));
            let copy = StreamCopy::from_bytes(&self.get(&path)?).context(&self.place)?;
            if self.service.take_copy(copy)? {
                return Ok(());
            }
        }
    }
}
