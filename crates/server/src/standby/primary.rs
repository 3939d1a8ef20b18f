//! The threads of a service that ships its database.

use super::shipper::Shipper;
use super::signs::{self, FOLLOWERS, FollowerSign, PrimarySign, primary_file};
use super::target::{Target, target_from};
use crate::config::StandbyConfig;
use crate::store::{Journal, Recorder, random_name};
use crate::witness::Witness;
use evertally_declare::error::{Result, failure, usage};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the witness is read.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
/// The signs of life that are given until those of followers are read again: stores charge more for a list.
const SIGNS_PER_LIST: u64 = 4;
/// How often old segments are removed.
const TIDY_INTERVAL: Duration = Duration::from_secs(600);
/// The pause after a target could not be written.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How long a stop waits for the last changes to be shipped.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of changes that wait while the target is slow or away.
pub(crate) const MAX_WAITING_BYTES: usize = 256 << 20;

/// The database that is shipped, and its witness.
pub(crate) struct Shipped {
    pub(crate) recorder: Recorder,
    pub(crate) journal: Arc<Journal>,
    pub(crate) folder_id: String,
    /// The id of the key.
    pub(crate) key_id: String,
    /// The name of this copy of the folder at the witness.
    pub(crate) primary: String,
    /// For reading the witness; the service itself writes.
    pub(crate) witness: Box<dyn Witness>,
}

/// How far shipping is.
#[derive(Clone, Debug, Default)]
pub struct ShippingState {
    /// Commits (and other syncs of the file) that are not shipped.
    pub lag_syncs: u64,
    /// Bytes that are not shipped.
    pub lag_bytes: u64,
    /// How long the oldest of them has waited.
    pub lag: Duration,
    /// Bytes shipped since the start, compressed.
    pub shipped_bytes: u64,
    /// Whether the target has a whole database.
    pub is_whole: bool,
    /// Segments that the most advanced follower has yet to apply; `None` if no follower has given a sign of life.
    pub follower_lag: Option<u64>,
    /// Why shipping fails, if it does.
    pub problem: Option<String>,
    /// Whether no events are accepted, because another machine may have taken over.
    pub is_paused: bool,
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    problem: Option<String>,
    epoch: Option<String>,
    number: u64,
    is_whole: bool,
    follower_lag: Option<u64>,
    /// Until when no follower can have taken over.
    safe_until: Option<Instant>,
}

/// The shipping of a service.
pub struct Shipping {
    journal: Arc<Journal>,
    shared: Arc<Mutex<Shared>>,
    bytes: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Halts the service for a reason; returns whether it has halted, or does not exist any more.
pub(crate) type Halt = Box<dyn Fn(String) -> bool + Send>;

impl Shipping {
    /// Begins to ship.
    ///
    /// # Errors
    /// If the target is invalid, or holds segments of another service, or a thread cannot be started.
    pub(crate) fn start(config: &StandbyConfig, folder: &Path, shipped: Shipped, halt: Halt) -> Result<Arc<Self>> {
        let Shipped { recorder, journal, folder_id, key_id, primary, mut witness } = shipped;
        let target = || target_from(&config.folder);
        check_target(&*target()?, &folder_id)?;
        let takeover = config.takeover().duration();
        let shared = Arc::new(Mutex::new(Shared { safe_until: Some(Instant::now() + takeover), ..Shared::default() }));
        let (bytes, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let mut shipper = Shipper::new(&recorder, &journal, target()?, &folder_id, Some(folder)).with_primary(&primary);
        let mut signs = PrimarySigns {
            target: target()?,
            file: primary_file(&primary),
            sign: PrimarySign {
                folder: folder_id,
                key_id,
                start: random_name()?,
                counter: 0,
                epoch: None,
                is_stopped: false,
            },
            primary,
            takeover,
            interval: config.sign_interval(),
            followers: BTreeMap::new(),
        };
        let (own, ends, tidied, kept) = (Arc::clone(&shared), Arc::clone(&is_over), target()?, config.keep.0);
        let tidying = move || tidy_until(&*tidied, kept, &own, &ends);
        let (own, counted, config) = (Arc::clone(&shared), Arc::clone(&bytes), config.clone());
        let shipping = move || ship(&mut shipper, &config, &own, &counted);
        let (own, ends) = (Arc::clone(&shared), Arc::clone(&is_over));
        // Apart from each other: a folder that hangs does not keep anybody from reading the witness.
        let watched = signs.primary.clone();
        let signing = move || signs.run(&own, &ends);
        let (own, ends) = (Arc::clone(&shared), Arc::clone(&is_over));
        let shipped = Arc::clone(&journal);
        let watching = move || {
            watch(&own, &watched, &mut *witness, &halt, &ends);
            shipped.end(); // nobody restores the changes of a machine that was replaced
        };
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let threads =
            vec![spawn("shipping").spawn(shipping)?, spawn("signs").spawn(signing)?, spawn("witness").spawn(watching)?];
        let threads = Mutex::new(threads);
        // Nobody waits for its end: a store may take minutes to remove a chain.
        drop(spawn("tidying").spawn(tidying)?);
        Ok(Arc::new(Self { journal, shared, bytes, is_over, threads }))
    }

    /// Why no events may be accepted: for longer than a follower waits, neither the standby folder nor the witness was
    /// reached, so that another machine may have taken over.
    pub fn pause(&self) -> Option<String> {
        let is_safe = locked(&self.shared).safe_until.is_some_and(|until| Instant::now() < until);
        (!is_safe).then(|| {
            "neither the standby folder nor the witness can be reached, and the other machine may have taken over: no \
             events are accepted until one of them answers"
                .to_owned()
        })
    }

    /// How far shipping is.
    pub fn state(&self) -> ShippingState {
        let (lag_syncs, lag_bytes, lag) = self.journal.lag();
        let is_paused = self.pause().is_some();
        let shared = locked(&self.shared);
        ShippingState {
            lag_syncs,
            lag_bytes,
            lag,
            shipped_bytes: self.bytes.load(Ordering::Relaxed),
            is_whole: shared.is_whole && !self.journal.is_full(),
            follower_lag: shared.follower_lag,
            problem: shared.problem.clone(),
            is_paused,
        }
    }

    /// Current problems, in words for an operator.
    pub fn problems(&self) -> Vec<String> {
        let problem = locked(&self.shared).problem.clone();
        problem.map(|problem| format!("changes are not shipped: {problem}")).into_iter().chain(self.pause()).collect()
    }

    /// Ships the rest, and stops.
    pub(crate) fn stop(&self) {
        self.journal.end();
        let end = Instant::now() + STOP_TIMEOUT + RETRY_INTERVAL;
        let threads: Vec<_> = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // The first thread ends when all is shipped; then the second gives the last sign. The last owner of a
            // service may be one of the threads, and a folder that hangs does not keep the service from its end.
            let is_own = thread.thread().id() == std::thread::current().id();
            while !is_own && !thread.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}

/// Checks that a target belongs to this service.
fn check_target(target: &dyn Target, folder_id: &str) -> Result<()> {
    let names = match target.list("primaries") {
        Ok(names) => names,
        Err(error) => {
            // The service works without it, and ships everything when it is back.
            tracing::error!(%error, "the standby folder cannot be reached");
            return Ok(());
        }
    };
    for name in names {
        let sign: Option<PrimarySign> = signs::get(target, &format!("primaries/{name}"))?;
        if sign.is_some_and(|sign| sign.folder != folder_id) {
            return Err(usage(format!(
                "the standby folder {} belongs to another service; configure a separate folder for this one",
                target.place()
            )));
        }
    }
    Ok(())
}

fn micros() -> i64 {
    Timestamp::now().as_microsecond()
}

/// Ships until the journal ends.
fn ship(shipper: &mut Shipper, config: &StandbyConfig, shared: &Mutex<Shared>, bytes: &AtomicU64) {
    let (interval, journal) = (config.every.duration(), shipper.journal());
    let mut ends: Option<Instant> = None;
    loop {
        journal.wait(interval);
        if journal.is_over() {
            ends.get_or_insert_with(|| Instant::now() + STOP_TIMEOUT);
        }
        let is_old = shipper.began().is_some_and(|began| micros() - began > config.whole_every.0);
        if is_old && shipper.is_whole() && ends.is_none() {
            shipper.restart();
        }
        let shipped = loop {
            let shipped = shipper.ship(micros());
            let mut shared = locked(shared);
            (shared.epoch, shared.number) = match shipper.position() {
                Some((epoch, number)) => (Some(epoch.to_owned()), number),
                None => (None, 0),
            };
            shared.is_whole = shipper.is_whole();
            bytes.store(shipper.bytes, Ordering::Relaxed);
            match shipped {
                Ok(true) if ends.is_none_or(|ends| Instant::now() < ends) => {}
                other => break other,
            }
        };
        let problem = shipped.err().map(|error| error.to_string());
        let is_failing = problem.is_some();
        if let (Some(problem), None) = (&problem, &locked(shared).problem) {
            tracing::error!(%problem, "changes of the database are not shipped to the standby folder");
        }
        locked(shared).problem = problem;
        if ends.is_some_and(|ends| !is_failing || Instant::now() >= ends) {
            return;
        }
        if is_failing {
            std::thread::sleep(RETRY_INTERVAL);
        }
    }
}

/// Removes old segments until the service ends.
fn tidy_until(target: &dyn Target, kept: i64, shared: &Mutex<Shared>, is_over: &AtomicBool) {
    let mut tidied: Option<Instant> = None;
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(RETRY_INTERVAL);
        let own = {
            let shared = locked(shared);
            shared.epoch.clone().filter(|_| shared.is_whole)
        };
        let Some(own) = own.filter(|_| tidied.is_none_or(|tidied| tidied.elapsed() > TIDY_INTERVAL)) else { continue };
        tidied = Some(Instant::now());
        if let Err(error) = tidy(target, kept, &own) {
            tracing::warn!(%error, "cannot remove old segments");
        }
    }
}

/// Removes chains that end before the retention begins: the newest chain that is older than it is still needed for
/// times at its beginning.
fn tidy(target: &dyn Target, kept: i64, own: &str) -> Result<()> {
    let oldest = Timestamp::from_microsecond(micros() - kept).map_err(failure)?;
    let oldest = super::shipper::time_of(oldest);
    let epochs = super::restore::epochs(target)?;
    let before = epochs.iter().filter(|epoch| epoch.as_str() < oldest.as_str()).count();
    let old = epochs.iter().take(before.saturating_sub(1)).filter(|epoch| *epoch != own);
    old.into_iter().try_for_each(|epoch| target.remove(epoch))
}

/// Reads the witness until it names another machine: then the service halts.
fn watch(shared: &Mutex<Shared>, primary: &str, witness: &mut dyn Witness, halt: &Halt, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        match witness.peek() {
            Ok(record) if record.as_ref().is_none_or(|record| record.primary == primary) => {
                extend(shared, began + 4 * WATCH_INTERVAL);
            }
            Ok(_) => {
                if halt(taken_over(&witness.place())) {
                    return;
                }
            }
            Err(_) => {} // the service itself reports that
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// Gives signs of life, and reads those of followers.
struct PrimarySigns {
    target: Box<dyn Target>,
    file: String,
    sign: PrimarySign,
    primary: String,
    takeover: Duration,
    interval: Duration,
    /// The last counters of followers, and when they changed.
    followers: BTreeMap<String, (u64, Instant)>,
}

impl PrimarySigns {
    fn run(&mut self, shared: &Mutex<Shared>, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            self.give(shared, false);
            if self.sign.counter % SIGNS_PER_LIST == 1 {
                self.look_at_followers(shared);
            }
            std::thread::sleep(self.interval);
        }
        self.give(shared, true);
    }

    fn give(&mut self, shared: &Mutex<Shared>, is_stopped: bool) {
        self.sign.counter += 1;
        self.sign.epoch.clone_from(&locked(shared).epoch);
        self.sign.is_stopped = is_stopped;
        let began = Instant::now();
        if signs::put(&*self.target, &self.file, &self.sign).is_ok() {
            // A follower that reads this sign waits for all of `takeover`.
            extend(shared, began + self.takeover * 2 / 3);
        }
    }

    fn look_at_followers(&mut self, shared: &Mutex<Shared>) {
        let Ok(names) = self.target.list(FOLLOWERS) else { return };
        let (epoch, number) = {
            let shared = locked(shared);
            (shared.epoch.clone(), shared.number)
        };
        let mut least = None;
        for name in names {
            let sign: FollowerSign = match signs::get(&*self.target, &format!("{FOLLOWERS}/{name}")) {
                Ok(Some(sign)) => sign,
                _ => continue,
            };
            let seen = self.followers.entry(name).or_insert((sign.counter, Instant::now()));
            if seen.0 != sign.counter {
                *seen = (sign.counter, Instant::now());
            }
            let lag = if Some(&sign.epoch) == epoch.as_ref() { number.saturating_sub(sign.number) } else { number };
            if seen.1.elapsed() < 2 * self.takeover {
                least = Some(least.map_or(lag, |least: u64| least.min(lag)));
            }
        }
        locked(shared).follower_lag = least;
    }
}

fn extend(shared: &Mutex<Shared>, until: Instant) {
    let mut shared = locked(shared);
    shared.safe_until = shared.safe_until.max(Some(until));
}

/// The message of a primary that another machine has replaced.
pub(crate) fn taken_over(place: &str) -> String {
    format!(
        "another machine has taken over: the witness {place} names its copy of the folder. Nothing is accepted or \
         published here; to make this machine its follower, start the service with --follow. If that machine is lost, \
         this one then takes over with everything in the standby folder"
    )
}
