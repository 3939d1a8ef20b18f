//! All streams of a folder, and the one place that decides their order.

use super::decoding::Decoding;
use super::info::StreamInfo;
use super::live::RunningStream;
use crate::clock::Clock;
use crate::config::RetentionConfig;
use crate::store::{CLOSED, ClosedBy, ClosedRecord, SHOWN, Store, from_bytes, stored};
use crate::witness::{LastClosed, Witness, WitnessRecord};
use evertally::noise::SecretKey;
use evertally_declare::error::Result;
use evertally_declare::steps::Instant;
use evertally_ledger::ledger::Ledger;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The settings with which a service is started.
pub struct Setting {
    /// The database of its folder.
    pub store: Store,
    /// Its key.
    pub key: SecretKey,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The witness of every publication, if there is one.
    pub witness: Option<Box<dyn Witness>>,
    /// The budget files of data sources, by name.
    pub sources: BTreeMap<String, PathBuf>,
    /// By how much the clocks of event senders may be ahead, in microseconds.
    pub ahead: i64,
    /// Memory limits for decoding batches.
    pub decoding: Arc<Decoding>,
    /// How long after a start past steps are held open, in microseconds: for events queued elsewhere.
    pub catch_up: i64,
    /// How long records are kept.
    pub retention: RetentionConfig,
}

/// A change that watchers may know.
#[derive(Clone)]
pub enum Notice {
    /// A publication of a stream is shown.
    Published(Arc<StreamInfo>, u64),
    /// A stream was opened or retired, has ended or has failed.
    Changed(Arc<StreamInfo>),
}

/// The streams that any thread may look up, by name.
#[derive(Clone, Default)]
pub(super) struct Directory(Arc<RwLock<BTreeMap<String, Arc<StreamInfo>>>>);

impl Directory {
    pub(super) fn find(&self, name: &str) -> Option<Arc<StreamInfo>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<StreamInfo>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(super) fn put(&self, info: Arc<StreamInfo>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(info.name().to_owned(), info);
    }
}

/// All streams of a folder: accepts batches, closes and shows steps.
///
/// It has no thread and waits for nothing: its actions follow from its input and its clock alone.
pub struct Core {
    pub(super) store: Store,
    pub(super) key: SecretKey,
    pub(super) ledger: Ledger,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) sources: BTreeMap<String, PathBuf>,
    pub(super) ahead: i64,
    pub(super) decoding: Arc<Decoding>,
    /// The clock closes no step before this time.
    pub(super) held_until: Instant,
    /// How long after a start, or after the correction of a slow clock, the clock closes no step.
    pub(super) catch_up: i64,
    /// Whether the clock has been slow since the start.
    pub(super) was_slow: bool,
    /// How long records are kept.
    pub(super) retention: RetentionConfig,
    pub(super) looked_for_old: Option<std::time::Instant>,
    pub(super) live: BTreeMap<u32, RunningStream>,
    pub(super) directory: Directory,
    pub(super) witness: Option<Box<dyn Witness>>,
    pub(super) witnessed: WitnessRecord,
    /// The steps recorded at the witness that have not settled yet, by stream.
    pub(super) settling: Option<(std::time::Instant, Vec<(String, u64)>)>,
    /// The name of this start, under which it writes to the witness.
    pub(super) writer: String,
    /// Whether publications were committed that the witness does not know yet.
    pub(super) is_unrecorded: bool,
    /// What must be shipped before the next update of the witness, and since when it waits.
    pub(super) held: Option<(u64, std::time::Instant)>,
    /// Whether the folder records that it has a witness: then an empty witness is a lost one.
    pub(super) has_witnessed: bool,
    /// When to ask the witness again, after it was slow to fail.
    pub(super) ask_again: Option<std::time::Instant>,
    /// Why the witness could not be updated, if it could not.
    pub(super) witness_problem: Option<String>,
    /// Why the last write to the store failed, if it did.
    pub(super) store_problem: Option<String>,
    /// Why nothing may be accepted or published, if so: another copy of the folder is running.
    pub(super) read_only: Option<String>,
    pub(super) notify: Arc<dyn Fn(Notice) + Send + Sync>,
    /// A counter that grows while work makes progress.
    pub(super) beats: Arc<AtomicU64>,
}

impl Core {
    /// Signals progress.
    pub(super) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn put(&mut self, live: RunningStream) {
        self.directory.put(Arc::clone(&live.info));
        self.live.insert(live.info.number, live);
    }

    /// Separates shown rows from those still to be shown, by the clock and by the steps recorded at the witness.
    pub(super) fn load_unpublished(&self, live: &mut RunningStream) -> Result<()> {
        let looking = self.store.look()?;
        let closed = looking.open_table(CLOSED).map_err(stored)?;
        let (now, number) = (self.clock.now().micros(), live.info.number);
        // Whatever was shown once stays shown, even if the clock is slow now.
        let was_shown = looking.open_table(SHOWN).map_err(stored)?.get(number).map_err(stored)?;
        let was_shown = was_shown.map_or(0, |step| step.value());
        let mut shown = None;
        for entry in closed.range((number, 0)..=(number, u64::MAX)).map_err(stored)?.rev() {
            let (key, bytes) = entry.map_err(stored)?;
            let record: ClosedRecord = from_bytes(bytes.value(), "a closed step")?;
            let step = key.value().1;
            let is_due = record.shown_at <= now && step <= live.showable(self.witness.is_some());
            if is_due || step <= was_shown {
                shown = Some(record);
                break;
            }
            live.unseen.push_front((step, record));
        }
        live.update_progress(shown.as_ref());
        Ok(())
    }

    /// The stream with this name.
    pub fn find(&self, name: &str) -> Option<Arc<StreamInfo>> {
        self.directory.find(name)
    }

    /// The public name of the key, and the identity of the folder.
    pub fn identities(&self) -> (String, String) {
        (self.key.id().to_string(), self.witnessed.folder.clone())
    }

    /// Accepts and publishes nothing from now on, until the next start.
    pub(crate) fn halt(&mut self, why: String) {
        self.read_only.get_or_insert(why);
    }

    /// Why the clock is wrong, if it is earlier than a step that it has closed.
    pub(super) fn slow_clock(&self) -> Option<String> {
        let now = self.clock.now();
        self.live.values().find_map(|live| live.info.slow_clock(now))
    }

    /// Current problems, in words for an operator; empty if there are none.
    pub fn problems(&self) -> Vec<String> {
        let failed = |live: &RunningStream| {
            let why = live.failed.clone().or_else(|| {
                let behind = live.ahead.as_ref().filter(|_| !live.is_retired);
                behind.map(|seen| is_behind(live.closing, live.closed(), seen.closed))
            })?;
            Some(format!("stream `{}`: {why}", live.info.name()))
        };
        let missing = |(name, seen): (&String, &LastClosed)| {
            let step = seen.closed;
            let remedy = "open it with the same declaration, and it recovers; or leave it closed: then it publishes \
                          nothing more";
            self.find(name).is_none().then(|| {
                format!(
                    "stream `{name}`, of which the witness has seen step {step}, is missing from this folder, which is \
                     older: {remedy}"
                )
            })
        };
        let own = [&self.read_only, &self.store_problem, &self.witness_problem].map(Clone::clone);
        let own = own.into_iter().chain([self.clock.doubt(), self.slow_clock()]);
        own.flatten()
            .chain(self.live.values().filter_map(failed))
            .chain(self.witnessed.streams.iter().filter_map(missing))
            .collect()
    }
}

/// Describes a stream whose witness has seen later steps.
pub(crate) fn is_behind(closing: ClosedBy, closed: u64, seen: u64) -> String {
    let what = match closing {
        ClosedBy::Sums => format!("the sums of steps {} through {seen} again, unchanged", closed + 1),
        _ => format!("the missing events again, then close it through step {seen}"),
    };
    format!("it is at step {closed}, but the witness has seen step {seen}: send {what}")
}
