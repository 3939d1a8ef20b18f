//! Sinks: places to which the service writes publications itself.
//!
//! Each has a thread that writes the publications of one stream in order, beginning with the first. Where it has to
//! continue is read from the sink, the store, or both, so that a publication is written once whatever crashes. A sink
//! that cannot be reached is a problem that its operator sees, and is tried again after growing pauses.

mod writing;

use crate::config::SinkConfig;
use crate::engine::{Service, StreamInfo};
use crate::workers::{WorkerConfig, WorkerTask, Workers};
use evertally_declare::error::{Result, usage};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Functions that write a publication in the formats of sinks.
#[derive(Clone, Copy)]
pub struct PublicationWriters {
    /// JSON lines.
    pub lines: fn(&Service, &StreamInfo, u64) -> Result<String>,
    /// One JSON document.
    pub message: fn(&Service, &StreamInfo, u64) -> Result<String>,
    /// A file of Parquet.
    pub parquet: fn(&Service, &StreamInfo, u64) -> Result<Vec<u8>>,
    /// Samples for Prometheus.
    pub samples: fn(&Service, &StreamInfo, u64) -> Result<Vec<u8>>,
}

/// All sinks of a service.
pub struct Sinks {
    writers: PublicationWriters,
    running: Workers<SinkConfig, SinkProgress>,
}

impl WorkerConfig for SinkConfig {
    const NAME: &str = "sink";

    fn is_same_work(&self, other: &Self) -> bool {
        self.is_same(other)
    }
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
    fn of(config: &SinkConfig) -> Result<Self> {
        Ok(Self {
            stream: config.stream.clone(),
            sink: config.open()?.shown(),
            last: AtomicU64::new(0),
            written: AtomicU64::new(0),
            problem: Mutex::default(),
        })
    }

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
        Self { writers, running: Workers::default() }
    }

    /// Starts the sinks of a configuration; those that run already with the same settings continue, and others stop.
    ///
    /// # Errors
    /// If a sink is invalid, or the system gives no thread.
    pub fn set(&self, configs: &[SinkConfig], service: &Arc<Service>) -> Result<()> {
        Self::check(configs)?;
        self.running.set(configs, |config| {
            let progress = Arc::new(SinkProgress::of(config)?);
            let writer = writing::SinkWriter::new(config, &progress, service, self.writers);
            let work: WorkerTask = Box::new(move |cancelled| writer.run(cancelled));
            Ok((progress, work))
        })
    }

    /// Checks sinks without connecting them; returns how messages name them.
    ///
    /// # Errors
    /// The first that is invalid.
    pub fn check(configs: &[SinkConfig]) -> Result<Vec<String>> {
        let all: Vec<String> =
            configs.iter().map(|config| Ok(config.open_checked()?.shown())).collect::<Result<_>>()?;
        let mut places = BTreeSet::new();
        for (config, place) in configs.iter().zip(&all) {
            if !places.insert((&config.stream, place)) {
                let stream = &config.stream;
                return Err(usage(format!("two [[sink]] of stream `{stream}` write to {place}: remove one of them")));
            }
        }
        Ok(all)
    }

    /// What an operator should know about the settings of sinks that were [checked](Self::check).
    pub fn warnings(configs: &[SinkConfig]) -> Vec<String> {
        let named = |config: &SinkConfig| {
            let warnings = config.open().map(|mut sink| sink.warnings()).unwrap_or_default();
            let what = format!("[[sink]] of stream `{}`", config.stream);
            warnings.into_iter().map(move |warning| format!("{what}: {warning}"))
        };
        configs.iter().flat_map(named).collect()
    }

    /// Ends all sinks, and waits for publications that are being written, but not longer than `most`.
    pub fn stop(&self, most: Duration) {
        self.running.stop(most);
    }

    /// The progress of all sinks.
    pub fn progress(&self) -> Vec<Arc<SinkProgress>> {
        self.running.progress()
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
