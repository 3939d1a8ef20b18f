//! Workers: threads that a configuration starts, and that end when it no longer names them, such as those of feeds,
//! sinks and webhooks.

use evertally_declare::error::Result;
use evertally_feeds::CancellationToken;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long a change of the configuration waits for workers that it ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The settings of a worker.
pub(crate) trait WorkerConfig: Clone + PartialEq {
    /// What messages and threads call such a worker.
    const NAME: &str;

    /// Whether two workers do the same work, and must not do it at the same time.
    fn is_same_work(&self, other: &Self) -> bool;
}

/// What a worker does until it is cancelled.
pub(crate) type WorkerTask = Box<dyn FnOnce(&CancellationToken) + Send>;

/// All workers of one kind, with settings `C` and progress `P`.
pub(crate) struct Workers<C, P>(RwLock<Vec<RunningWorker<C, P>>>);

struct RunningWorker<C, P> {
    config: C,
    progress: Arc<P>,
    cancelled: CancellationToken,
    /// Cancelled by the end of its thread.
    ended: CancellationToken,
}

impl<C, P> Default for Workers<C, P> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<C: WorkerConfig, P> Workers<C, P> {
    /// Runs the workers of a configuration: those with the same settings as before continue, others end, and new ones
    /// start as `plan` says. A new one waits until an earlier one has ended that does the same work.
    ///
    /// # Errors
    /// Of `plan`: then nothing has changed. Or if the system gives no thread.
    pub(crate) fn set(&self, configs: &[C], plan: impl Fn(&C) -> Result<(Arc<P>, WorkerTask)>) -> Result<()> {
        let mut running = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = |config: &&C| !running.iter().any(|own| own.config == **config);
        let planned = configs.iter().filter(is_new).map(|config| Ok((config, plan(config)?)));
        let planned = planned.collect::<Result<Vec<_>>>()?;
        let (kept, ended): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *running).into_iter().partition(|own| configs.contains(&own.config));
        *running = kept;
        end(&ended, STOP_TIMEOUT);
        for (config, (progress, work)) in planned {
            let earlier = ended.iter().filter(|own| own.config.is_same_work(config)).map(|own| own.ended.clone());
            running.push(RunningWorker::start(config, progress, work, earlier.collect())?);
        }
        Ok(())
    }

    /// Ends all workers, and waits for them, but not longer than `most`.
    pub(crate) fn stop(&self, most: Duration) {
        end(&self.0.read().unwrap_or_else(PoisonError::into_inner), most);
    }

    /// The settings of all workers.
    pub(crate) fn configs(&self) -> Vec<C> {
        let running = self.0.read().unwrap_or_else(PoisonError::into_inner);
        running.iter().map(|own| own.config.clone()).collect()
    }

    /// The progress of all workers, in the order of their start.
    pub(crate) fn progress(&self) -> Vec<Arc<P>> {
        let running = self.0.read().unwrap_or_else(PoisonError::into_inner);
        running.iter().map(|own| Arc::clone(&own.progress)).collect()
    }
}

/// Cancels workers, and waits for the end of their threads.
fn end<C, P>(workers: &[RunningWorker<C, P>], most: Duration) {
    workers.iter().for_each(|own| own.cancelled.cancel());
    let until = Instant::now() + most;
    while workers.iter().any(|own| !own.ended.is_cancelled()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl<C: WorkerConfig, P> RunningWorker<C, P> {
    fn start(config: &C, progress: Arc<P>, work: WorkerTask, earlier: Vec<CancellationToken>) -> Result<Self> {
        let (cancelled, ended) = (CancellationToken::new(), CancellationToken::new());
        let (own, guard) = (cancelled.clone(), ended.clone().drop_guard()); // also if the work panics
        std::thread::Builder::new().name(C::NAME.to_owned()).spawn(move || {
            let _guard = guard;
            while !own.is_cancelled() && earlier.iter().any(|earlier| !earlier.is_cancelled()) {
                std::thread::sleep(Duration::from_millis(20));
            }
            if !own.is_cancelled() {
                work(&own);
            }
        })?;
        Ok(Self { config: config.clone(), progress, cancelled, ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally_declare::error::usage;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The work, and one more setting.
    type Settings = (&'static str, u8);

    impl WorkerConfig for Settings {
        const NAME: &str = "test";

        fn is_same_work(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    /// WorkerTask that takes 100 ms to end.
    fn slow(at_once: &Arc<AtomicUsize>, most: &Arc<Mutex<usize>>) -> WorkerTask {
        let (at_once, most) = (Arc::clone(at_once), Arc::clone(most));
        Box::new(move |cancelled| {
            let now = at_once.fetch_add(1, Ordering::SeqCst) + 1;
            let mut seen = most.lock().unwrap();
            *seen = now.max(*seen);
            drop(seen);
            while !cancelled.is_cancelled() {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(100));
            at_once.fetch_sub(1, Ordering::SeqCst);
        })
    }

    #[test]
    fn unchanged_workers_continue_and_work_is_never_done_twice() {
        let (at_once, most) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<usize>>::default());
        let workers = Workers::<Settings, Settings>::default();
        let plan = |config: &Settings| Ok((Arc::new(*config), slow(&at_once, &most)));
        workers.set(&[("a", 0)], plan).unwrap();
        let first = workers.progress();
        workers.set(&[("a", 0)], plan).unwrap();
        assert!(Arc::ptr_eq(&first[0], &workers.progress()[0]), "the same settings");
        let wait_until_it_runs = || {
            while at_once.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        for setting in 1..4 {
            wait_until_it_runs();
            workers.set(&[("a", setting)], plan).unwrap();
        }
        wait_until_it_runs();
        assert_eq!(*workers.progress()[0], ("a", 3));
        workers.stop(Duration::from_secs(10));
        assert_eq!((*most.lock().unwrap(), at_once.load(Ordering::SeqCst)), (1, 0));
    }

    #[test]
    fn invalid_settings_change_nothing() {
        let workers = Workers::<Settings, Settings>::default();
        let idle =
            |config: &Settings| -> Result<(Arc<Settings>, WorkerTask)> { Ok((Arc::new(*config), Box::new(|_| ()))) };
        workers.set(&[("a", 0), ("b", 0)], idle).unwrap();
        let refused = workers.set(&[("c", 0), ("d", 0)], |config| match config.0 {
            "d" => Err(usage("no")),
            _ => idle(config),
        });
        assert!(refused.is_err());
        assert_eq!(workers.progress().iter().map(|own| own.0).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_worker_that_panics_has_ended() {
        let workers = Workers::<Settings, ()>::default();
        workers.set(&[("a", 0)], |_| Ok((Arc::new(()), Box::new(|_| panic!("on purpose"))))).unwrap();
        let before = Instant::now();
        workers.stop(Duration::from_secs(10));
        assert!(before.elapsed() < Duration::from_secs(5));
    }
}
