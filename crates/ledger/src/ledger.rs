//! The record of everything a key has published, so that one key and stream name never serve two data sets.
//!
//! For each stream the ledger holds the plan's digest and, for each published number of steps, a keyed digest of the
//! closed steps. The same data gives the same digest and the same release. More steps of the same data extend it.
//! Everything else is refused, because the difference of two releases with equal noise is exact. A key is made together
//! with its ledger; a key without one is refused, because it may have published anything.
//!
//! This module decides which steps are recorded and which are refused. A [`LedgerStore`] keeps the bytes: next to the
//! key file ([`FileStore`]) or in memory ([`MemoryStore`]).

mod contents;
mod digest;
mod file;
mod file_store;
mod issued;
mod issuers;
mod parts;
mod public;
mod remedy;
mod store;
mod stream_key;

pub use crate::protects::Protects;
pub use contents::random_identity;
pub use contents::{Pending, Run, SeenFile, TableMark};
pub use digest::StreamDigest;
pub use evertally_declare::follows::{CarriedSum, Follows};
pub use evertally_declare::groups::Joined;
pub use file::{OpenKey, new_key};
pub use file_store::{Absent, FileStore, ledger_path};
pub use issued::Issuer;
pub use issuers::assign_to_service;
pub use public::{PublicLedger, PublishedStream, Spent, spent};
pub use store::{LedgerStore, MemoryStore};
pub use stream_key::recorded;

use crate::source::{Approval, Claim, SourceBudget};
use contents::{Contents, Delegation, Entry, SavedSession, code_key};
use digest::PublishedHistory;
use evertally::noise::{Purpose, SecretKey, StreamName, mac_key};
use evertally::plan::Plan;
use evertally::privacy::Budget;
use evertally_declare::error::{Context, PipelineError, Result, failure, usage};
use evertally_declare::problem::sentence;
use evertally_declare::records::Records;
use evertally_declare::stream::Stream;
use jiff::Timestamp;
use remedy::NAME;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// The ledger of a key.
pub struct Ledger {
    contents: Contents,
    code_key: Zeroizing<[u8; 32]>,
    store: Box<dyn LedgerStore>,
    source: Option<SourceSpending>,
}

/// The budget of the data source from which a ledger's streams are published.
struct SourceSpending {
    budget: SourceBudget,
    approval: Approval,
    /// The claims of the streams that were begun.
    claims: Mutex<BTreeMap<String, Claim>>,
}

/// The records that a continued run leaves for the next run, in addition to the digest of its steps.
#[derive(Default)]
pub struct Left<'a> {
    /// The files that the run has read.
    pub files: Vec<SeenFile>,
    /// Groups that joined with this run.
    pub joined: Option<Joined>,
    /// The stream that this one continues, for its first run.
    pub follows: Option<Follows>,
    /// How the run treated events that do not fit, if it did not refuse them.
    pub policies: BTreeMap<String, String>,
    /// The state of its session.
    pub state: Vec<u8>,
    /// Bytes to write to outputs.
    pub outputs: Vec<OutputBytes<'a>>,
    /// The table after this run.
    pub table: Option<TableMark>,
}

/// Bytes to write to an output once the run is recorded.
#[doc(alias = "Output")]
pub struct OutputBytes<'a> {
    /// The output; `-` is standard output.
    pub target: String,
    /// Append after this many bytes of the output; if `None`, replace the whole output.
    pub behind: Option<u64>,
    /// Whether only the user may read the output.
    pub private: bool,
    /// The bytes; they are read twice from their beginning.
    pub contents: &'a mut dyn Rewind,
}

/// A source that can be read more than once.
pub trait Rewind: Read + Seek {}

impl<T: Read + Seek> Rewind for T {}

impl Ledger {
    /// The ledger of a new key, which has published nothing, in an empty store.
    ///
    /// # Errors
    /// If the store is not empty, or cannot be read or written.
    pub fn create(store: impl LedgerStore + 'static, key: &SecretKey) -> Result<Self> {
        let mut ledger = Self::begin(store, key)?;
        ledger.commit(ledger.contents.clone())?;
        Ok(ledger)
    }

    /// Like [`create`](Self::create), but writes to the store only with the first record.
    ///
    /// # Errors
    /// If the store is not empty, or cannot be read.
    pub fn begin(mut store: impl LedgerStore + 'static, key: &SecretKey) -> Result<Self> {
        if store.load()?.is_some() {
            return Err(usage(format!(
                "the ledger {} already exists; it belongs to a key that was here",
                store.name()
            )));
        }
        let mut contents = Contents::new(key);
        contents.identify()?;
        Ok(Self { contents, code_key: code_key(key), store: Box::new(store), source: None })
    }

    /// The ledger of a key that has no file and has published nothing.
    pub fn in_memory(key: &SecretKey) -> Self {
        let store = Box::new(MemoryStore::default());
        Self { contents: Contents::new(key), code_key: code_key(key), store, source: None }
    }

    /// Opens the ledger in a store for a key, or begins one if the store is empty. Use it only for keys that are known
    /// to have published nothing.
    ///
    /// # Errors
    /// Like [`open`](Self::open), except for an empty store.
    pub fn open_or_begin(mut store: impl LedgerStore + 'static, key: &SecretKey) -> Result<Self> {
        match store.load()? {
            Some(_) => Self::open(store, key),
            None => Self::begin(store, key),
        }
    }

    /// Opens the ledger in a store for a key.
    ///
    /// # Errors
    /// If the store is empty or holds something else, such as the ledger of another key; if another program changed the
    /// ledger, or the key belongs to a service.
    pub fn open(mut store: impl LedgerStore + 'static, key: &SecretKey) -> Result<Self> {
        let (bytes, shown) = (store.load()?, store.name());
        let bytes = bytes.ok_or_else(|| {
            usage(format!("the key {} has no ledger {shown}: it may have published anything; make a new key", key.id()))
        })?;
        let contents = Contents::open(&bytes, &shown, key)?;
        contents.check_no_service(&shown)?;
        Ok(Self { contents, code_key: code_key(key), store: Box::new(store), source: None })
    }

    /// The number of streams published with this key; consecutive streams of one declaration count as one.
    pub fn stream_count(&self) -> usize {
        self.contents.streams.values().filter(|entry| entry.follows.is_none()).count()
    }

    /// Every published stream: its name, the budget of its plan, and its number of published steps.
    pub fn spent(&self) -> Result<Vec<(String, Budget, u64)>> {
        #[derive(Deserialize)]
        struct Plan {
            budget: Budget,
        }
        let of = |(name, entry): (&String, &Entry)| {
            let plan: Plan = toml::from_str(&entry.plan_text)
                .map_err(|e| usage(format!("the ledger's plan of stream `{name}` cannot be read: {e}")))?;
            Ok((name.clone(), plan.budget, entry.last_step()))
        };
        self.contents.streams.iter().map(of).collect()
    }

    /// A random identity, drawn when the ledger was made: copies of a ledger share it, and no other ledgers do. Empty
    /// in memory before the first commit.
    pub fn identity(&self) -> &str {
        &self.contents.identity
    }

    /// The number of runs ever recorded.
    pub fn counter(&self) -> u64 {
        self.contents.counter
    }

    /// A public text that identifies the ledger's first `counter` runs: two ledgers with the same text share these
    /// runs.
    pub fn head(&self, counter: u64) -> String {
        self.contents.head(counter)
    }

    /// The report's facts on where a stream's steps through `through` are recorded: the run that first published
    /// exactly these steps, or else the next run.
    pub fn place_of(&self, name: &StreamName, through: u64) -> LedgerFacts {
        let before = self.runs_of(name).iter().find(|run| run.through == through);
        let run = before.map_or(self.counter() + 1, |run| run.counter);
        LedgerFacts { identity: self.identity().to_owned(), run }
    }

    /// All runs in the order of their numbers, each with its stream's name.
    pub fn runs(&self) -> Vec<(&str, &Run)> {
        self.contents.runs()
    }

    /// The runs of a stream, in order.
    pub fn runs_of(&self, name: &StreamName) -> &[Run] {
        self.contents.streams.get(name.as_str()).map_or(&[], |entry| &entry.runs)
    }

    /// Whether a stream continues from saved state.
    pub fn has_state(&self, name: &StreamName) -> bool {
        self.kept(name).is_some()
    }

    /// The saved state of a stream's session; `None` if it has none, or if it is lost.
    ///
    /// # Errors
    /// If it cannot be read, or differs from the recorded one.
    pub fn state(&mut self, name: &StreamName) -> Result<Option<Vec<u8>>> {
        match self.kept(name).cloned() {
            Some(kept) => self.part(&kept.part),
            None => Ok(None),
        }
    }

    /// Bytes that outputs of a stream may lack, because a run was interrupted before it had written them.
    pub fn pending(&self, name: &StreamName) -> &[Pending] {
        self.kept(name).map_or(&[], |kept| &kept.pending)
    }

    /// The table to which the stream's rows were last appended.
    pub fn table(&self, name: &StreamName) -> Option<&TableMark> {
        self.kept(name)?.table.as_ref()
    }

    /// The bytes of a pending part; `None` after they were [delivered](Self::delivered).
    ///
    /// # Errors
    /// As for [`state`](Self::state).
    pub fn part(&mut self, part: &str) -> Result<Option<Vec<u8>>> {
        let bytes = self.store.part(part)?;
        match bytes {
            Some(bytes) if part_name(&mut bytes.as_slice())? != part => {
                let shown = self.store.name();
                Err(usage(format!(
                    "part {part} of the ledger {shown} differs from the recorded one; restore it from a copy, or \
                     rebuild the state from the raw data"
                )))
            }
            bytes => Ok(bytes),
        }
    }

    /// All outputs of a stream are written: removes their pending parts, and parts that nothing needs. A failure costs
    /// only disk space, so it is not reported.
    pub fn delivered(&mut self, name: &StreamName) {
        let needed = |(other, entry): (&String, &Entry)| {
            let kept = entry.state.clone();
            let pending = kept.iter().flat_map(|kept| &kept.pending).filter(|_| other != name.as_str());
            let pending: Vec<String> = pending.map(|pending| pending.part.clone()).collect();
            kept.into_iter().map(|kept| kept.part).chain(pending)
        };
        let needed: Vec<String> = self.contents.streams.iter().flat_map(needed).collect();
        self.store.keep_parts(&needed);
    }

    /// From here on, the budget of a data source (or of none) counts everything published. A stream that does not fit
    /// is refused when it is begun; one that fits is reserved there before it is recorded here.
    pub fn spend_from(&mut self, source: Option<(SourceBudget, Approval)>) {
        self.source = source.map(|(budget, approval)| SourceSpending { budget, approval, claims: Mutex::default() });
    }

    /// Begins the digest of a stream's closed steps.
    ///
    /// Fails if the name was used under another plan, or if this run ends at a `last_step` that cannot be compared with
    /// the published steps.
    pub fn stream(&self, key: &SecretKey, name: &StreamName, plan: &Plan, last_step: u64) -> Result<StreamDigest> {
        let text = toml::to_string(plan).map_err(failure)?;
        self.begun(key, name, (plan.digest(), text), last_step, |key_id| Claim::new(name.as_str(), key_id, plan))
    }

    /// Like [`stream`](Self::stream), with all plans under which the stream is released: those of its measures, if it
    /// has any.
    ///
    /// # Errors
    /// As for [`stream`](Self::stream).
    pub fn digest_of(&self, key: &SecretKey, stream: &Stream, last_step: u64) -> Result<StreamDigest> {
        let plan = (stream.plan_digest(), stream.plan_text()?);
        self.begun(key, &stream.name, plan, last_step, |key_id| Claim::from_stream(stream, key_id))
    }

    fn begun(
        &self,
        key: &SecretKey,
        name: &StreamName,
        (plan_digest, plan_text): ([u8; 32], String),
        last_step: u64,
        claim: impl FnOnce(&str) -> Claim,
    ) -> Result<StreamDigest> {
        self.contents.check_not_issued(name)?;
        let plan = blake3::Hash::from_bytes(plan_digest).to_hex().to_string();
        let past = match self.contents.streams.get(name.as_str()) {
            Some(Entry { guard: Some(guard), .. }) => return Err(delegated_error(name, guard)),
            Some(entry) if entry.plan != plan => {
                let released = format!(
                    "stream `{name}` has been released under another plan ({}); a changed plan is a new stream: go \
                     back to the old one, or give another ",
                    differences(&entry.plan_text, &plan_text)
                );
                return Err(usage(sentence![released, NAME, " (its budget then adds to the budget already spent)"]));
            }
            Some(entry) => PublishedHistory::new(entry),
            None => PublishedHistory::default(),
        };
        past.check_covers(name, last_step)?;
        if let Some(source) = &self.source {
            source.begin(claim(&self.contents.key_id))?;
        }
        let key = mac_key(key, name, &plan_digest, Purpose::Ledger);
        Ok(StreamDigest::new(name.clone(), plan, plan_text, key, past))
    }

    /// Delegates a stream to another ledger, which records its steps: from here on, only that ledger may publish it.
    /// Returns the last step [seen](Self::note_left) there, and the digest of the steps through it.
    ///
    /// # Errors
    /// If the stream has already been released, is delegated to another ledger, does not fit its budget, or the store
    /// cannot be written.
    pub fn delegate_to(
        &mut self,
        key: &SecretKey,
        stream: &Stream,
        identity: &str,
        place: &str,
    ) -> Result<(u64, String)> {
        let (through, chain) = (0, String::new());
        let guard = Delegation { identity: identity.to_owned(), place: place.to_owned(), through, chain };
        let plan = blake3::Hash::from_bytes(stream.plan_digest()).to_hex().to_string();
        match self.contents.streams.get(stream.name.as_str()) {
            None => {}
            Some(Entry { guard: Some(there), .. }) if there.place != guard.place => {
                return Err(delegated_error(&stream.name, there));
            }
            Some(Entry { guard: Some(there), .. }) if there.identity != guard.identity => {
                return Err(replaced_ledger_error(&stream.name, there));
            }
            // The other ledger knows its plan, and refuses a different one.
            Some(Entry { guard: Some(guard), plan: there, .. }) if *there == plan => {
                return Ok((guard.through, guard.chain.clone()));
            }
            Some(_) => {
                let released = format!(
                    "stream `{}` has already been released, or under another plan; a stream that a cluster publishes \
                     permanently must be separate: give another ",
                    stream.name
                );
                return Err(usage(sentence![released, NAME, " (its budget then adds to the budget already spent)"]));
            }
        }
        let digest = self.digest_of(key, stream, stream.last_step)?;
        let claim = self.source.as_ref().map(|source| source.reserve(&stream.name)).transpose()?;
        let mut contents = self.contents.clone();
        contents.streams.insert(stream.name.to_string(), Entry { guard: Some(guard), ..digest.entry() });
        self.commit(contents)?;
        if let (Some(source), Some(claim)) = (&self.source, claim) {
            let _ = source.budget.settle(&claim); // a reservation counts the same
        }
        Ok((0, String::new()))
    }

    /// Records the last step of the ledger that a stream was [delegated to](Self::delegate_to), so that an older copy
    /// of it is detected.
    ///
    /// # Errors
    /// If the stream was not delegated, or the store cannot be written.
    pub fn note_left(&mut self, name: &StreamName, through: u64, chain: &str) -> Result<()> {
        let mut contents = self.contents.clone();
        let guard = contents.streams.get_mut(name.as_str()).and_then(|entry| entry.guard.as_mut());
        let guard = guard.ok_or_else(|| failure(format!("stream `{name}` was not delegated to another ledger")))?;
        if guard.through >= through {
            return Ok(());
        }
        (guard.through, guard.chain) = (through, chain.to_owned());
        self.commit(contents)
    }

    /// Records what is about to be published, as durably as the store allows. Call this before anyone can see a
    /// release.
    ///
    /// # Errors
    /// If the stream was published differently since its digest was begun, or the store cannot be written.
    pub fn record(&mut self, stream: &mut StreamDigest) -> Result<()> {
        self.record_run(stream, None)
    }

    /// Records what is about to be published and the data for the next run, all or nothing.
    ///
    /// # Errors
    /// As for [`record`](Self::record).
    pub fn record_continued(&mut self, stream: &mut StreamDigest, left: Left<'_>) -> Result<()> {
        self.record_run(stream, Some(left))
    }

    fn record_run(&mut self, stream: &mut StreamDigest, left: Option<Left<'_>>) -> Result<()> {
        let Some(source) = &self.source else { return self.record_here(stream, left) };
        // First the source, then the ledger: an interruption in between counts too much, never too little.
        let claim = source.reserve(stream.name())?;
        self.record_here(stream, left)?;
        if let Some(source) = &self.source {
            let _ = source.budget.settle(&claim); // a reservation counts the same
        }
        Ok(())
    }

    fn record_here(&mut self, stream: &mut StreamDigest, left: Option<Left<'_>>) -> Result<()> {
        let name = stream.name().clone();
        self.contents.check_not_issued(&name)?;
        let mut contents = self.contents.clone();
        let entry = contents.streams.entry(name.to_string()).or_insert_with(|| stream.entry());
        let past = PublishedHistory::new(entry);
        past.check_covers(&name, stream.steps())?;
        if left.is_none() && entry.plan == stream.plan() && past.agrees(stream.steps(), &stream.digest()) {
            return Ok(()); // nothing new
        }
        if entry.plan != stream.plan() || !stream.has_seen(&past) {
            return Err(usage(format!(
                "stream `{name}` has been released differently in the meantime; start this run again"
            )));
        }
        if left.is_none() && entry.state.is_some() {
            return Err(usage(format!(
                "stream `{name}` continues from saved state, which this run would not write; continue it the way it \
                 was started"
            )));
        }
        let (mut files, mut policies) = (Vec::new(), BTreeMap::new());
        if let Some(left) = left {
            (files, policies) = (left.files, left.policies);
            entry.follows = entry.follows.take().or(left.follows);
            entry.joined.extend(left.joined.map(|joined| Joined { run: contents.counter + 1, ..joined }));
            entry.state = Some(keep(&mut *self.store, &left.state, left.outputs, left.table)?);
        }
        contents.counter += 1;
        let (counter, at, through) = (contents.counter, Timestamp::now(), stream.steps());
        let in_parts = stream.is_in_parts();
        entry.runs.push(Run { counter, at, through, digest: stream.digest(), in_parts, policies, files });
        self.commit(contents)?;
        stream.is_recorded(PublishedHistory::new(&self.contents.streams[name.as_str()]));
        Ok(())
    }

    fn kept(&self, name: &StreamName) -> Option<&SavedSession> {
        self.contents.streams.get(name.as_str())?.state.as_ref()
    }

    fn commit(&mut self, mut contents: Contents) -> Result<()> {
        let bytes = contents.sealed(&self.code_key)?;
        let shown = self.store.name();
        self.store.commit(&bytes).context(format_args!("cannot write the ledger {shown}; nothing was published"))?;
        self.contents = contents;
        Ok(())
    }
}

/// Where a release is recorded. Neither value depends on the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerFacts {
    /// The ledger's identity: copies of a ledger share it, and no other ledgers do.
    pub identity: String,
    /// The number of the run in the ledger, from 1.
    pub run: u64,
}

impl SourceSpending {
    /// Checks a new stream: if it does not fit, it is refused now, not after hours.
    fn begin(&self, claim: Claim) -> Result<()> {
        self.budget.check(&claim)?;
        self.claims().insert(claim.stream.clone(), claim);
        Ok(())
    }

    fn reserve(&self, name: &StreamName) -> Result<Claim> {
        let claim = self.claims().get(name.as_str()).cloned();
        let claim = claim.ok_or_else(|| failure(format!("stream `{name}` was not begun under this budget")))?;
        self.budget.reserve(&claim, &self.approval)?;
        Ok(claim)
    }

    fn claims(&self) -> MutexGuard<'_, BTreeMap<String, Claim>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn delegated_error(name: &StreamName, guard: &Delegation) -> PipelineError {
    let elsewhere = format!(
        "stream `{name}` is published by a cluster, whose ledger is {}: continue there, or give another ",
        guard.place
    );
    usage(sentence![elsewhere, NAME, ", checkpoint and sink (its budget then adds to the budget already spent)"])
}

/// The error for a ledger that was replaced by another one in the same place.
fn replaced_ledger_error(name: &StreamName, guard: &Delegation) -> PipelineError {
    let gone = format!(
        "the ledger {} is not the one that stream `{name}` is published under: it was deleted, or another has taken \
         its place. Restore all of it, or give another ",
        guard.place
    );
    usage(sentence![gone, NAME, ", checkpoint and sink (its budget then adds to the budget already spent)"])
}

/// Writes the records of a run into parts of a store.
fn keep(
    store: &mut dyn LedgerStore,
    mut state: &[u8],
    outputs: Vec<OutputBytes<'_>>,
    table: Option<TableMark>,
) -> Result<SavedSession> {
    let part = part_name(&mut &*state)?;
    store.put_part(&part, &mut state)?;
    let pending = |OutputBytes { target, behind, private, contents }: OutputBytes<'_>| {
        contents.rewind()?;
        let part = part_name(contents)?;
        contents.rewind()?;
        store.put_part(&part, contents)?;
        Ok(Pending { part, target, behind, private })
    };
    let pending = outputs.into_iter().map(pending).collect::<Result<_>>()?;
    Ok(SavedSession { part, pending, table })
}

/// The name of a part: a digest of its content, so that a ledger that names it also authenticates it.
fn part_name(contents: &mut (impl Read + ?Sized)) -> Result<String> {
    let mut hasher = blake3::Hasher::new_derive_key("evertally 1 part");
    std::io::copy(contents, &mut hasher)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The differences between two plans, line by line of their text: `grid = "1"`, now `grid = "0.01"`; …
fn differences(before: &str, now: &str) -> String {
    let only = |a: &str, b: &str| -> Vec<String> {
        let entry = |line: &&str| !line.is_empty() && !line.starts_with('[') && !b.lines().any(|other| other == *line);
        a.lines().filter(entry).map(str::to_owned).collect()
    };
    let (old, new) = (only(before, now), only(now, before));
    let listed = |entries: Vec<String>| if entries.is_empty() { "none".to_owned() } else { entries.join(", ") };
    format!("it had {}; this run has {}", listed(old), listed(new))
}

impl Records for Ledger {
    fn plan_text(&self, name: &StreamName) -> Option<&str> {
        self.contents.streams.get(name.as_str()).map(|entry| entry.plan_text.as_str())
    }

    fn joined(&self, name: &StreamName) -> &[Joined] {
        self.contents.streams.get(name.as_str()).map_or(&[], |entry| &entry.joined)
    }

    fn follows(&self, name: &StreamName) -> Option<&Follows> {
        self.contents.streams.get(name.as_str())?.follows.as_ref()
    }

    fn last_published(&self, name: &StreamName) -> u64 {
        self.contents.streams.get(name.as_str()).map_or(0, Entry::last_step)
    }
}

#[cfg(test)]
mod tests;
