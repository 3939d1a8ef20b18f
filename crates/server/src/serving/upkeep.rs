//! Work at regular times in a thread: extending streams, watching the clock, removing old side files.

use super::streams;
use crate::config::Config;
use crate::engine::Service;
use crate::http::App;
use evertally_declare::error::Result;
use evertally_feeds::remove_old_asides;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pause between two looks.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often old side files are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);

/// The thread.
pub(super) struct Upkeep {
    thread: Mutex<Option<JoinHandle<()>>>,
    parts: Arc<Mutex<PartsOfStreams>>,
    sweep: Arc<Mutex<Sweep>>,
    is_over: Arc<AtomicBool>,
}

/// The side files that are removed when they are old.
#[derive(Default)]
struct Sweep {
    files: Vec<PathBuf>,
    /// How long they are kept, in microseconds.
    kept: i64,
    last: Option<Instant>,
}

impl Upkeep {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn start(app: &Arc<App>, config: &Config, is_over: &Arc<AtomicBool>) -> Result<Self> {
        let parts = PartsOfStreams { config: config.clone(), known: BTreeMap::new() };
        let (thread, sweep, parts) = (Mutex::default(), Arc::default(), Arc::new(Mutex::new(parts)));
        let upkeep = Self { thread, parts, sweep, is_over: Arc::clone(is_over) };
        upkeep.set(app, config);
        let (of_app, ends, swept) = (Arc::downgrade(app), Arc::clone(is_over), Arc::clone(&upkeep.sweep));
        let parts = Arc::clone(&upkeep.parts);
        let thread = std::thread::Builder::new().name("upkeep".to_owned());
        let thread = thread.spawn(move || run(&of_app, &ends, &swept, &parts))?;
        *upkeep.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(upkeep)
    }

    /// Takes up a configuration.
    pub(super) fn set(&self, app: &App, config: &Config) {
        let extended = config.streams.iter().filter_map(|stream| Some((stream.name.clone(), stream.extend?)));
        app.extensions.set(extended.collect());
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).config = config.clone();
        app.synchronisation.set(&config.clock);
        let files = match config.retention.side_files {
            Some(_) => config.feeds.iter().filter_map(|feed| feed.aside.clone()).collect(),
            None => Vec::new(),
        };
        let kept = config.retention.side_files.map_or(i64::MAX, |kept| kept.0);
        *self.sweep.lock().unwrap_or_else(PoisonError::into_inner) = Sweep { files, kept, last: None };
    }

    /// Waits until the thread has ended: it may hold the service.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

fn run(app: &Weak<App>, is_over: &AtomicBool, sweep: &Mutex<Sweep>, parts: &Mutex<PartsOfStreams>) {
    while !is_over.load(Ordering::Relaxed) {
        {
            let Some(app) = app.upgrade() else { return };
            app.extensions.look(&app.service, &app.audit);
            parts.lock().unwrap_or_else(PoisonError::into_inner).look(&app.service);
            app.synchronisation.look();
            sweep.lock().unwrap_or_else(PoisonError::into_inner).look();
        }
        std::thread::park_timeout(INTERVAL);
    }
}

/// The parts of the streams of a configuration: a new one takes up what the ones before it could not, such as groups
/// that were added after their end.
struct PartsOfStreams {
    config: Config,
    /// The number of parts that have taken up the configuration.
    known: BTreeMap<String, usize>,
}

impl PartsOfStreams {
    fn look(&mut self, service: &Service) {
        for stream in &self.config.streams {
            let count = service.parts_of(&stream.name).len();
            if self.known.insert(stream.name.clone(), count) == Some(count) || count < 2 {
                continue;
            }
            if let Err(error) = streams::change_parts(service, &self.config, stream) {
                tracing::error!(stream = %stream.name, %error, "a part of a stream cannot take up its configuration");
            }
        }
    }
}

impl Sweep {
    /// Removes old files if it is time.
    fn look(&mut self) {
        if self.files.is_empty() || self.last.is_some_and(|last| last.elapsed() < SWEEP_INTERVAL) {
            return;
        }
        self.last = Some(Instant::now());
        let first_kept = Timestamp::now().as_microsecond().saturating_sub(self.kept);
        let Ok(first_kept) = Timestamp::from_microsecond(first_kept) else { return };
        for file in &self.files {
            let file = file.as_path();
            match remove_old_asides(file, first_kept) {
                Ok(0) => {}
                Ok(count) => tracing::info!(file = %file.display(), count, "old side files were removed"),
                Err(error) => tracing::error!(file = %file.display(), %error, "old side files cannot be removed"),
            }
        }
    }
}
