//! Syslog over TCP and TLS: listeners whose messages become events of a stream.
//!
//! The protocol has no acknowledgement. So a connection is read only as fast as its messages are committed: they wait
//! in a small queue, a committer takes them from there in batches, and while it cannot commit, the senders' own queues
//! fill. At shutdown, connections stop being read, and everything that was read is committed first.

mod admission;
mod committing;
mod framing;
mod message;
mod progress;
mod receiving;

pub use progress::{SyslogProgress, SyslogRefusal};

use crate::config::{SyslogConfig, check_aside};
use crate::feeds::TargetOf;
use crate::tls::ReloadingTls;
use admission::Admission;
use committing::Committer;
use evertally_declare::error::{Context, Result, failure};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use receiving::Receiver;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Parts of messages that may wait for the committer, each of about 64 KiB.
const QUEUE: usize = 64;
/// How long a stop waits until everything that was read is committed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// What listeners need of the service.
#[derive(Clone)]
pub(crate) struct SyslogContext {
    /// Gives streams as targets.
    pub(crate) target_of: TargetOf,
    /// The clock of the service.
    pub(crate) now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The runtime.
    pub(crate) handle: Handle,
    /// The descriptors for all connections.
    pub(crate) descriptors: usize,
}

/// The listeners of a service.
#[derive(Default)]
pub struct SyslogListeners(RwLock<Vec<RunningListener>>);

struct RunningListener {
    config: SyslogConfig,
    progress: Arc<SyslogProgress>,
    stop: watch::Sender<bool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl SyslogListeners {
    /// Starts the listeners of a configuration; those that run already with the same settings continue, and others stop
    /// in the background.
    ///
    /// # Errors
    /// If an address is in use, or a certificate cannot be used.
    pub(crate) fn set(&self, configs: &[SyslogConfig], context: &SyslogContext) -> Result<()> {
        let mut running = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (kept, ended): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *running).into_iter().partition(|own| configs.contains(&own.config));
        *running = kept;
        for own in ended {
            // Its socket is closed at once, so that another listener may have its address.
            let _ = own.stop.send(true);
            own.accepting_ends();
            drop(context.handle.spawn(async move { own.end().await }));
        }
        let most = context.descriptors / configs.len().max(1);
        for config in configs {
            if !running.iter().any(|own| own.config == *config) {
                running.push(RunningListener::start(config, context, most.max(1))?);
            }
        }
        Ok(())
    }

    /// Checks certificates, and files for refused messages.
    ///
    /// # Errors
    /// The first that cannot be used.
    pub(crate) fn check(configs: &[SyslogConfig]) -> Result<()> {
        configs.iter().filter_map(SyslogConfig::tls).try_for_each(|files| files.check())?;
        configs.iter().try_for_each(check_file)
    }

    /// Stops reading, and waits until everything that was read is committed.
    pub(crate) async fn stop(&self) {
        let ended = std::mem::take(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner));
        for own in &ended {
            let _ = own.stop.send(true);
        }
        for own in ended {
            own.end().await;
        }
    }

    /// The files for refused rows of a stream.
    pub(crate) fn asides(&self, stream: &str) -> Vec<PathBuf> {
        let running = self.0.read().unwrap_or_else(PoisonError::into_inner);
        running.iter().filter(|own| own.config.stream == stream).filter_map(|own| own.config.aside.clone()).collect()
    }

    /// How all listeners get on.
    pub fn progress(&self) -> Vec<Arc<SyslogProgress>> {
        let running = self.0.read().unwrap_or_else(PoisonError::into_inner);
        running.iter().map(|own| Arc::clone(&own.progress)).collect()
    }

    /// The problems of listeners, in words.
    pub(crate) fn problems(&self) -> Vec<String> {
        let named = |own: Arc<SyslogProgress>| {
            let shown = |problem| format!("syslog at {}, for stream `{}`: {problem}", own.address, own.stream);
            own.problems().into_iter().map(shown).collect::<Vec<_>>()
        };
        self.progress().into_iter().flat_map(named).collect()
    }
}

/// Checks the file for refused messages.
fn check_file(config: &SyslogConfig) -> Result<()> {
    let checked = config.aside.iter().try_for_each(|path| check_aside(path));
    checked.map_err(|error| error.context(format_args!("[[syslog]] at {}", config.listen)))
}

impl RunningListener {
    fn start(config: &SyslogConfig, context: &SyslogContext, descriptors: usize) -> Result<Self> {
        check_file(config)?;
        let what = || format!("[[syslog]] cannot listen at {}", config.listen);
        let listener = std::net::TcpListener::bind(config.listen).context(what())?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let tls = config.tls().map(ReloadingTls::new).transpose()?;
        let _entered = context.handle.enter();
        let listener = tokio::net::TcpListener::from_std(listener).context(what())?;
        let most = config.connections.min(descriptors);
        let progress = Arc::new(SyslogProgress::new(&config.stream, address, most, tls.clone()));
        let (stop, stopping) = watch::channel(false);
        let (queue, waiting) = mpsc::channel(QUEUE);
        let zone = TimeZone::get(&config.time_zone).map_err(failure)?;
        let receiver = Arc::new(Receiver {
            config: config.clone(),
            admission: Admission::new(most, Arc::clone(&progress)),
            zone,
            now: Arc::clone(&context.now),
            tls,
            progress: Arc::clone(&progress),
            stopping: stopping.clone(),
        });
        let committer =
            Committer::new(config, (context.target_of)(&config.stream), Arc::clone(&progress), stopping.clone());
        let tasks =
            vec![context.handle.spawn(receiver.accept(listener, queue)), context.handle.spawn(committer.run(waiting))];
        Ok(Self { config: config.clone(), progress, stop, tasks: Mutex::new(tasks) })
    }

    /// Waits briefly until the socket is closed; the listener is stopping.
    fn accepting_ends(&self) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..200 {
            if tasks.first().is_none_or(JoinHandle::is_finished) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until everything that was read is committed.
    async fn end(self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let until = tokio::time::Instant::now() + STOP_TIMEOUT;
        for mut task in tasks {
            if tokio::time::timeout_at(until, &mut task).await.is_err() {
                task.abort();
                let (stream, address) = (&self.progress.stream, self.progress.address);
                tracing::error!(stream, %address, "messages of syslog were read that could not be committed in time");
            }
        }
    }
}
