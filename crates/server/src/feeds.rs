//! Feeds: sources that the service follows itself.
//!
//! Each has a thread that takes batches and has them accepted, together with the position after them. One that cannot
//! continue, because of a row that is refused or a source that changed, is a problem that its operator sees; it is
//! tried again from the stored position, so that nothing else needs to be done once the cause is gone.

use crate::config::{FeedConfig, check_aside};
use crate::workers::{WorkerConfig, WorkerTask, Workers};
use evertally_declare::error::{Result, usage};
use evertally_feeds::{CancellationToken, FeedTarget, Observer, Sent, run};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The pause before a feed that stopped is tried again.
const PAUSE: Duration = Duration::from_secs(30);

/// Gives the stream of a name as a target.
pub(crate) type TargetOf = Arc<dyn Fn(&str) -> Box<dyn FeedTarget> + Send + Sync>;

/// All feeds of a service.
#[derive(Default)]
pub struct Feeds(Workers<FeedConfig, FeedProgress>);

impl WorkerConfig for FeedConfig {
    const NAME: &str = "feed";

    fn is_same_work(&self, other: &Self) -> bool {
        let place = |own: &Self| (own.stream.clone(), own.from.clone(), own.file.clone(), own.folder.clone());
        place(self) == place(other)
    }
}

/// How a feed gets on.
pub struct FeedProgress {
    /// Its stream.
    pub stream: String,
    /// Its source, without secrets.
    pub source: String,
    /// The name under which positions are stored.
    pub name: String,
    rows: AtomicU64,
    aside: AtomicU64,
    problem: Mutex<Option<String>>,
}

impl FeedProgress {
    fn of(config: &FeedConfig) -> Result<Self> {
        Ok(Self {
            stream: config.stream.clone(),
            source: config.open()?.shown(),
            name: config.source_name()?,
            rows: AtomicU64::new(0),
            aside: AtomicU64::new(0),
            problem: Mutex::default(),
        })
    }

    /// Rows that were accepted since the start, and rows that were set aside.
    pub fn rows(&self) -> (u64, u64) {
        (self.rows.load(Ordering::Relaxed), self.aside.load(Ordering::Relaxed))
    }

    /// Why nothing is accepted from it now.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

impl Feeds {
    /// Starts the feeds of a configuration; those that run already with the same settings continue, and others stop.
    ///
    /// # Errors
    /// If a source is invalid, or the system gives no thread.
    pub(crate) fn set(&self, configs: &[FeedConfig], target_of: &TargetOf) -> Result<()> {
        Self::check(configs)?;
        self.0.set(configs, |config| {
            let progress = Arc::new(FeedProgress::of(config)?);
            let (config, own, target) = (config.clone(), Arc::clone(&progress), target_of(&config.stream));
            let work: WorkerTask = Box::new(move |cancelled| keep_following(&config, &own, cancelled, &*target));
            Ok((progress, work))
        })
    }

    /// Checks sources without connecting them; returns how messages name them.
    ///
    /// # Errors
    /// The first that is invalid.
    pub fn check(configs: &[FeedConfig]) -> Result<Vec<String>> {
        let shown = |config: &FeedConfig| {
            let checked = config.aside.iter().try_for_each(|path| check_aside(path));
            let source = checked.and_then(|()| config.open_checked());
            let source = source.map_err(|e| e.context(format_args!("[[feed]] of stream `{}`", config.stream)))?;
            Ok(source.shown())
        };
        let all: Vec<String> = configs.iter().map(shown).collect::<Result<_>>()?;
        let mut names = BTreeSet::new();
        for config in configs {
            let name = config.source_name()?;
            if !names.insert((&config.stream, name.clone())) {
                return Err(usage(format!(
                    "two [[feed]] of stream `{}` have the name `{name}`, under which positions are stored: give one of \
                     them another `name`",
                    config.stream
                )));
            }
        }
        Ok(all)
    }

    /// What an operator should know about the settings of feeds that were [checked](Self::check).
    pub fn warnings(configs: &[FeedConfig]) -> Vec<String> {
        let named = |config: &FeedConfig| {
            let warnings = config.open().map(|mut source| source.warnings()).unwrap_or_default();
            let what = format!("[[feed]] of stream `{}`", config.stream);
            warnings.into_iter().map(move |warning| format!("{what}: {}", warning.text()))
        };
        configs.iter().flat_map(named).collect()
    }

    /// Ends all feeds, and waits for batches under way, but not longer than `most`.
    pub fn stop(&self, most: Duration) {
        self.0.stop(most);
    }

    /// How all feeds get on.
    pub fn progress(&self) -> Vec<Arc<FeedProgress>> {
        self.0.progress()
    }

    /// The files for refused rows of a stream.
    pub(crate) fn asides(&self, stream: &str) -> Vec<PathBuf> {
        self.0.configs().into_iter().filter(|own| own.stream == stream).filter_map(|own| own.aside).collect()
    }

    /// The problems of feeds, in words.
    pub fn problems(&self) -> Vec<String> {
        let named = |feed: Arc<FeedProgress>| {
            let problem = feed.problem()?;
            Some(format!("the feed of stream `{}` from {}: {problem}", feed.stream, feed.source))
        };
        self.progress().into_iter().filter_map(named).collect()
    }
}

/// Follows a source until it is cancelled, whatever happens meanwhile.
fn keep_following(
    config: &FeedConfig,
    progress: &Arc<FeedProgress>,
    cancelled: &CancellationToken,
    target: &dyn FeedTarget,
) {
    let mut last = None;
    while !cancelled.is_cancelled() {
        let mut report = FeedReport { progress: Arc::clone(progress), before: progress.rows() };
        let followed =
            config.open().and_then(|mut source| run(&mut *source, target, &config.options(), cancelled, &mut report));
        if let Err(error) = followed {
            let problem = error.to_string();
            if last.as_ref() != Some(&problem) {
                let (stream, source) = (&progress.stream, &progress.source);
                tracing::error!(stream, source, problem, "a feed cannot continue; it is tried again every {PAUSE:?}");
            }
            progress.set_problem(Some(problem.clone()));
            last = Some(problem);
        }
        let until = Instant::now() + PAUSE;
        while !cancelled.is_cancelled() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

struct FeedReport {
    progress: Arc<FeedProgress>,
    /// The rows of earlier attempts.
    before: (u64, u64),
}

impl Observer for FeedReport {
    fn message(&mut self, text: &str) {
        tracing::warn!(stream = self.progress.stream, source = self.progress.source, "{text}");
    }

    fn away(&mut self, why: Option<&str>) {
        self.progress.set_problem(why.map(str::to_owned));
    }

    fn progress(&mut self, sent: Sent) {
        self.progress.rows.store(self.before.0 + sent.rows, Ordering::Relaxed);
        self.progress.aside.store(self.before.1 + sent.aside, Ordering::Relaxed);
    }
}
