//! Sinks: places to which the service writes publications itself.
//!
//! Each has a thread that writes the publications of one stream in order, beginning with the first. Where it has to
//! continue is read from the sink, the store, or both, so that a publication is written once whatever crashes. A sink
//! that cannot be reached is a problem that its operator sees, and is tried again after growing pauses.

mod writing;

use crate::config::SinkConfig;
use crate::engine::{Service, StreamInfo};
use evertally_declare::error::{Result, usage};
use evertally_feeds::CancellationToken;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a stop waits for publications that are being written.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Functions that write a publication in the formats of sinks.
#[derive(Clone, Copy)]
pub struct PublicationWriters {
    /// JSON lines.
    pub lines: fn(&Service, &StreamInfo, u64) -> Result<String>,
    /// One JSON document.
    pub message: fn(&Service, &StreamInfo, u64) -> Result<String>,
    /// A file of Parquet.
    pub parquet: fn(&Service, &StreamInfo, u64) -> Result<Vec<u8>>,
}

/// All sinks of a service.
pub struct Sinks {
    writers: PublicationWriters,
    running: RwLock<Vec<RunningSink>>,
}

struct RunningSink {
    config: SinkConfig,
    progress: Arc<SinkProgress>,
    cancelled: CancellationToken,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The progress of a sink.
pub struct SinkProgress {
    /// Its stream.
    pub stream: String,
    /// Its place, without secrets.
    pub sink: String,
    last: AtomicU64,
    written: AtomicU64,
    problem: Mutex<Option<String>>,
}

impl SinkProgress {
    /// The last publication that is known to be written; 0 if none is.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Publications written since the start.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Why nothing is written now.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

impl Sinks {
    /// No sinks yet.
    pub fn new(writers: PublicationWriters) -> Self {
        Self { writers, running: RwLock::default() }
    }

    /// Starts the sinks of a configuration; those that run already with the same settings continue, and others stop.
    ///
    /// # Errors
    /// If a sink is invalid, or the system gives no thread.
    pub fn set(&self, configs: &[SinkConfig], service: &Arc<Service>) -> Result<()> {
        Self::check(configs)?;
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        let (kept, ended): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *running).into_iter().partition(|own| configs.contains(&own.config));
        *running = kept;
        end(&ended);
        for config in configs {
            if !running.iter().any(|own| own.config == *config) {
                running.push(RunningSink::start(config, service, self.writers)?);
            }
        }
        Ok(())
    }

    /// Checks sinks without connecting them; returns how messages name them.
    ///
    /// # Errors
    /// The first that is invalid.
    pub fn check(configs: &[SinkConfig]) -> Result<Vec<String>> {
        let all: Vec<String> = configs.iter().map(|config| Ok(config.open()?.shown())).collect::<Result<_>>()?;
        let mut places = BTreeSet::new();
        for (config, place) in configs.iter().zip(&all) {
            if !places.insert((&config.stream, place)) {
                let stream = &config.stream;
                return Err(usage(format!("two [[sink]] of stream `{stream}` write to {place}: remove one of them")));
            }
        }
        Ok(all)
    }

    /// Ends all sinks, and waits briefly for publications that are being written.
    pub fn stop(&self) {
        end(&self.running.read().unwrap_or_else(PoisonError::into_inner));
    }

    /// The progress of all sinks.
    pub fn progress(&self) -> Vec<Arc<SinkProgress>> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        running.iter().map(|own| Arc::clone(&own.progress)).collect()
    }

    /// The problems of sinks, in words.
    pub fn problems(&self) -> Vec<String> {
        let named = |own: Arc<SinkProgress>| {
            let problem = own.problem()?;
            Some(format!("the sink {} of stream `{}`: {problem}", own.sink, own.stream))
        };
        self.progress().into_iter().filter_map(named).collect()
    }
}

fn end(sinks: &[RunningSink]) {
    sinks.iter().for_each(|sink| sink.cancelled.cancel());
    let until = Instant::now() + STOP_TIMEOUT;
    for sink in sinks {
        let thread = sink.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { continue };
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        if thread.is_finished() {
            drop(thread.join());
        }
    }
}

impl RunningSink {
    fn start(config: &SinkConfig, service: &Arc<Service>, writers: PublicationWriters) -> Result<Self> {
        let progress = Arc::new(SinkProgress {
            stream: config.stream.clone(),
            sink: config.open()?.shown(),
            last: AtomicU64::new(0),
            written: AtomicU64::new(0),
            problem: Mutex::default(),
        });
        let cancelled = CancellationToken::new();
        let writer = writing::Writer::new(config, &progress, service, writers);
        let (thread, over) = (std::thread::Builder::new().name("sink".to_owned()), cancelled.clone());
        let thread = thread.spawn(move || writer.run(&over))?;
        Ok(Self { config: config.clone(), progress, cancelled, thread: Mutex::new(Some(thread)) })
    }
}
