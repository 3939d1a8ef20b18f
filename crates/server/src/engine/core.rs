//! All streams of a folder, and the one place where their order is decided.

use super::decoding::Decoding;
use super::info::StreamInfo;
use super::live::Live;
use crate::clock::Clock;
use crate::store::{Closing, RedbLedger, STREAMS, Store, StreamRecord, from_bytes, random_name, stored};
use crate::witness::{Seen, Testimony, Witness};
use evertally::noise::SecretKey;
use evertally_declare::error::Result;
use evertally_declare::steps::Instant;
use evertally_ledger::ledger::Ledger;
use redb::ReadableTable;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What a service is started with.
pub struct Setting {
    /// The database of its folder.
    pub store: Store,
    /// Its key.
    pub key: SecretKey,
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
    /// What is told of every publication, if anything is.
    pub witness: Option<Box<dyn Witness>>,
    /// The budgets of data sources, by name: the files that hold them.
    pub sources: BTreeMap<String, PathBuf>,
    /// By how much the clocks of those who send events may be ahead, in microseconds.
    pub ahead: i64,
    /// What batches may take while they are decoded.
    pub decoding: Arc<Decoding>,
    /// How long after a start steps whose time came before are held open, in microseconds: for events that wait elsewhere.
    pub catch_up: i64,
}

/// Something that watchers may know.
#[derive(Clone)]
pub enum Notice {
    /// A publication of a stream is shown.
    Published(Arc<StreamInfo>, u64),
    /// A stream was opened, retired, has ended, or gone wrong.
    Changed(Arc<StreamInfo>),
}

/// The streams that anybody may look up, by name.
#[derive(Clone, Default)]
pub(super) struct Directory(Arc<RwLock<BTreeMap<String, Arc<StreamInfo>>>>);

impl Directory {
    pub(super) fn find(&self, name: &str) -> Option<Arc<StreamInfo>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<StreamInfo>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn put(&self, info: Arc<StreamInfo>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(info.name().to_owned(), info);
    }
}

/// All streams of a folder: batches are taken in, steps closed and shown.
///
/// It has no thread and waits for nothing: what it does follows from what it is given, and from its clock.
pub struct Core {
    pub(super) store: Store,
    pub(super) key: SecretKey,
    pub(super) ledger: Ledger,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) sources: BTreeMap<String, PathBuf>,
    pub(super) ahead: i64,
    pub(super) decoding: Arc<Decoding>,
    /// No step is closed by the clock before.
    pub(super) held_until: Instant,
    pub(super) live: BTreeMap<u32, Live>,
    pub(super) directory: Directory,
    pub(super) witness: Option<Box<dyn Witness>>,
    pub(super) said: Testimony,
    /// What it is being told, where nobody knows yet whether it has heard.
    pub(super) saying: Option<Testimony>,
    /// What it was told, through which step of which streams, where that has not settled yet.
    pub(super) settling: Option<(std::time::Instant, Vec<(String, u64)>)>,
    /// The name under which the witness is told, of this start.
    pub(super) writer: String,
    /// Whether publications were committed of which the witness has not been told.
    pub(super) is_unsaid: bool,
    /// Whether the folder says that it has a witness, so that one that says nothing is one that is lost.
    pub(super) has_witnessed: bool,
    /// Not before is the witness asked again, after it took long to say nothing.
    pub(super) ask_again: Option<std::time::Instant>,
    /// Why the witness could not be told, if it could not.
    pub(super) witness_problem: Option<String>,
    /// Why the store could not be written last, if it could not.
    pub(super) store_problem: Option<String>,
    /// Why nothing may be taken in or published, if that is so: another copy of the folder is about.
    pub(super) read_only: Option<String>,
    pub(super) notify: Arc<dyn Fn(Notice) + Send + Sync>,
    /// A number that grows as it gets on.
    pub(super) beats: Arc<AtomicU64>,
}

impl Core {
    /// Shows that it gets on.
    pub(super) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Opens a folder: all of its streams are as they were when it was last written.
    ///
    /// # Errors
    /// If the folder is of another key, or damaged, or its witness is of another folder.
    pub fn open(setting: Setting, notify: Arc<dyn Fn(Notice) + Send + Sync>) -> Result<Self> {
        let Setting { store, key, clock, witness, sources, ahead, decoding, catch_up } = setting;
        let ledger = Ledger::open_or_begin(RedbLedger::new(&store), &key)?;
        let identity = store.identity()?;
        let held_until = Instant::from_micros(clock.now().micros().saturating_add(catch_up));
        let mut core = Self {
            store,
            key,
            ledger,
            clock,
            sources,
            ahead,
            decoding,
            held_until,
            live: BTreeMap::new(),
            directory: Directory::default(),
            witness,
            said: Testimony::new(&identity),
            saying: None,
            settling: None,
            writer: random_name()?,
            is_unsaid: false,
            has_witnessed: false,
            ask_again: None,
            witness_problem: None,
            store_problem: None,
            read_only: None,
            notify,
            beats: Arc::default(),
        };
        for (number, record) in core.records()? {
            let live = core.load(number, record)?;
            core.put(live);
        }
        core.hear_witness()?;
        Ok(core)
    }

    /// What the store says of every stream.
    fn records(&self) -> Result<Vec<(u32, StreamRecord)>> {
        let table = self.store.look()?.open_table(STREAMS).map_err(stored)?;
        let record = |entry: std::result::Result<(redb::AccessGuard<'_, u32>, redb::AccessGuard<'_, &[u8]>), _>| {
            let (number, bytes) = entry.map_err(|e: redb::StorageError| stored(e))?;
            Ok((number.value(), from_bytes(bytes.value(), "what a stream is")?))
        };
        table.iter().map_err(stored)?.map(record).collect()
    }

    pub(super) fn put(&mut self, live: Live) {
        self.directory.put(Arc::clone(&live.info));
        self.live.insert(live.info.number, live);
    }

    /// The stream of a name.
    pub fn find(&self, name: &str) -> Option<Arc<StreamInfo>> {
        self.directory.find(name)
    }

    /// The name of the key, and of the folder.
    pub fn identities(&self) -> (String, String) {
        (self.key.id().to_string(), self.said.folder.clone())
    }

    /// What is wrong, in words for an operator; nothing where all is well.
    pub fn problems(&self) -> Vec<String> {
        let failed = |live: &Live| {
            let why = live.failed.clone().or_else(|| {
                let behind = live.ahead.as_ref().filter(|_| !live.is_retired);
                behind.map(|seen| is_behind(live.closing, live.closed(), seen.closed))
            })?;
            Some(format!("stream `{}`: {why}", live.info.name()))
        };
        let missing = |(name, seen): (&String, &Seen)| {
            let step = seen.closed;
            let remedy =
                "open it as it was, with the same declaration, and it recovers; or leave it: it publishes nothing more";
            self.find(name).is_none().then(|| {
                format!("stream `{name}`, of which the witness has seen step {step}, is not in this folder, which is older: {remedy}")
            })
        };
        let own = [&self.read_only, &self.store_problem, &self.witness_problem].map(Clone::clone);
        let own = own.into_iter().chain([self.clock.doubt()]);
        own.flatten()
            .chain(self.live.values().filter_map(failed))
            .chain(self.said.streams.iter().filter_map(missing))
            .collect()
    }

    /// Puts by what sessions remember, so that the next start has less to count again.
    pub fn rest(&mut self) {
        let numbers: Vec<u32> = self.live.keys().copied().collect();
        for number in numbers {
            let put_by = self.put_by(number);
            drop(put_by); // what is not put by is counted again
        }
        let remembered = self.remember_told();
        drop(remembered); // then the last step is shown once the witness was asked
    }
}

/// What is wrong with a stream whose witness has seen more.
pub(crate) fn is_behind(closing: Closing, closed: u64, seen: u64) -> String {
    let what = match closing {
        Closing::Sums => format!("the sums of steps {} through {seen} again, as they were", closed + 1),
        _ => format!("the events of the steps between again, then close it through step {seen}"),
    };
    format!("it is at step {closed}, and the witness has seen step {seen}: send {what}")
}
