//! What a key has already published, so that one key and stream name never serve two data sets.
//!
//! For every stream the ledger holds the plan's digest and, for every number of steps that was ever published, a keyed
//! digest of the closed steps. The same data again gives the same digest and the same release; more steps of the same
//! data extend it; anything else is refused, because the difference of two releases with equal noise is exact. A key is
//! made together with its ledger, and a key without one is refused: it may have published anything.
//!
//! What is recorded, and what is refused, is decided here; where it is kept is a [`Store`]: beside the key's file
//! ([`FileStore`]) or in memory ([`MemoryStore`]).

mod digest;
mod file;
mod store;

pub use digest::StreamDigest;
pub use file::{Absent, FileStore, OpenKey, ledger_path, new_key};
pub use store::{MemoryStore, Store};

use crate::disk::RealDisk;
use crate::error::{Context, Result, failure, usage};
use crate::problem::sentence;
use digest::{NAME, check_covers_the_past};
use evertally::noise::{Purpose, SecretKey, StreamName, mac_key};
use evertally::plan::Plan;
use evertally::privacy::Budget;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    key_id: String,
    streams: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    plan: String,
    /// The plan itself, so that a later run can say what differs.
    #[serde(default)]
    plan_text: String,
    /// Keyed digest of the first `n` closed steps, for every `n` that was published.
    published: BTreeMap<u64, String>,
}

impl Contents {
    fn new(key: &SecretKey) -> Self {
        Self { version: VERSION, key_id: key.id().to_string(), streams: BTreeMap::new() }
    }

    /// JSON text, as a file holds it.
    fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(std::io::Error::from)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// The ledger of a key.
pub struct Ledger {
    contents: Contents,
    store: Box<dyn Store>,
}

impl Ledger {
    /// The ledger of a new key, which has published nothing, in a store that holds none yet.
    ///
    /// # Errors
    /// If the store holds something, or cannot be read or written.
    pub fn create(store: impl Store + 'static, key: &SecretKey) -> Result<Self> {
        let mut ledger = Self::begin(store, key)?;
        ledger.store.commit(&ledger.contents.to_bytes()?)?;
        Ok(ledger)
    }

    /// As [`create`](Self::create), but the store holds something only from the first record on.
    ///
    /// # Errors
    /// If the store holds something, or cannot be read.
    pub fn begin(mut store: impl Store + 'static, key: &SecretKey) -> Result<Self> {
        if store.load()?.is_some() {
            return Err(usage(format!(
                "there is a ledger {} already; it belongs to a key that was here",
                store.name()
            )));
        }
        Ok(Self { contents: Contents::new(key), store: Box::new(store) })
    }

    /// The ledger of a key that has no file and has published nothing.
    pub fn in_memory(key: &SecretKey) -> Self {
        Self { contents: Contents::new(key), store: Box::new(MemoryStore::default()) }
    }

    /// Opens what a store holds for a key.
    ///
    /// # Errors
    /// If it holds nothing, or the ledger of another key, or something else.
    pub fn open(mut store: impl Store + 'static, key: &SecretKey) -> Result<Self> {
        let (bytes, shown) = (store.load()?, store.name());
        let bytes = bytes.ok_or_else(|| {
            usage(format!("the key {} has no ledger {shown}: it may have published anything; make a new key", key.id()))
        })?;
        let contents = serde_json::from_slice::<Contents>(&bytes)
            .map_err(|e| usage(format!("the ledger {shown} is damaged ({e}); restore it from a copy")))?;
        if contents.version != VERSION || contents.key_id != key.id().to_string() {
            return Err(usage(format!(
                "the ledger {shown} belongs to another key or another version of this program; it must stay with its key"
            )));
        }
        Ok(Self { contents, store: Box::new(store) })
    }

    /// Writes a key to a new file, and this ledger beside it. An existing file is never replaced.
    ///
    /// # Errors
    /// If there is such a file, or it cannot be written.
    pub fn save(&self, path: &Path, key: &SecretKey) -> Result<()> {
        let mut store = FileStore::create(Arc::new(RealDisk), path, key)?;
        store.load()?;
        store.commit(&self.contents.to_bytes()?)
    }

    /// How many streams have been published with this key.
    pub fn stream_count(&self) -> usize {
        self.contents.streams.len()
    }

    /// Every published stream: its name, the budget of its plan, and for how many steps it was published.
    pub fn spent(&self) -> Result<Vec<(String, Budget, u64)>> {
        #[derive(Deserialize)]
        struct Plan {
            budget: Budget,
        }
        let of = |(name, entry): (&String, &Entry)| {
            let plan: Plan = toml::from_str(&entry.plan_text)
                .map_err(|e| usage(format!("the ledger's plan of stream `{name}` cannot be read: {e}")))?;
            Ok((name.clone(), plan.budget, entry.published.keys().last().copied().unwrap_or(0)))
        };
        self.contents.streams.iter().map(of).collect()
    }

    /// The last step up to which a stream was published; 0 before the first.
    pub fn last_published(&self, name: &StreamName) -> u64 {
        let entry = self.contents.streams.get(name.as_str());
        entry.and_then(|entry| entry.published.keys().next_back().copied()).unwrap_or(0)
    }

    /// Begins the digest of a stream's closed steps.
    ///
    /// Fails if the name has been used under another plan, or if `last_step`, where this run ends, cannot be held
    /// against what was published.
    pub fn stream(&self, key: &SecretKey, name: &StreamName, plan: &Plan, last_step: u64) -> Result<StreamDigest> {
        let plan_digest = plan.digest();
        let plan_text = toml::to_string(plan).map_err(failure)?;
        let plan = blake3::Hash::from_bytes(plan_digest).to_hex().to_string();
        let published = match self.contents.streams.get(name.as_str()) {
            Some(entry) if entry.plan != plan => {
                let released = format!(
                    "stream `{name}` has been released under another plan ({}); a changed plan is a new stream: go back to \
                     the old one, or give another ",
                    differences(&entry.plan_text, &plan_text)
                );
                return Err(usage(sentence![released, NAME, " (its budget then adds to what is already spent)"]));
            }
            Some(entry) => entry.published.clone(),
            None => BTreeMap::new(),
        };
        check_covers_the_past(name, &published, last_step)?;
        let hasher = blake3::Hasher::new_keyed(&mac_key(key, name, &plan_digest, Purpose::Ledger));
        Ok(StreamDigest { name: name.clone(), plan, plan_text, hasher, steps: 0, published })
    }

    /// Records what is about to be published, as durably as the store is. Call this before anyone can see a release.
    pub fn record(&mut self, stream: &mut StreamDigest) -> Result<()> {
        let (name, digest) = (&stream.name, stream.digest());
        let mut contents = self.contents.clone();
        let entry = contents.streams.entry(name.to_string()).or_insert_with(|| Entry {
            plan: stream.plan.clone(),
            plan_text: stream.plan_text.clone(),
            published: BTreeMap::new(),
        });
        check_covers_the_past(name, &entry.published, stream.steps)?;
        match entry.published.get(&stream.steps) {
            Some(published) if entry.plan == stream.plan && *published == digest => return Ok(()), // nothing new
            // The digest was held against all that was published when it began, and against nothing else.
            None if entry.plan == stream.plan && entry.published == stream.published => {
                entry.published.insert(stream.steps, digest.clone());
            }
            _ => {
                return Err(usage(format!(
                    "stream `{name}` has meanwhile been released otherwise; begin this run again"
                )));
            }
        };
        let shown = self.store.name();
        self.store
            .commit(&contents.to_bytes()?)
            .context(format_args!("cannot write the ledger {shown}; nothing was published"))?;
        self.contents = contents;
        stream.published.insert(stream.steps, digest);
        Ok(())
    }
}

/// What two plans differ in, line by line of their text: `grid = "1"`, now `grid = "0.01"`; …
fn differences(before: &str, now: &str) -> String {
    let only = |a: &str, b: &str| -> Vec<String> {
        let entry = |line: &&str| !line.is_empty() && !line.starts_with('[') && !b.lines().any(|other| other == *line);
        a.lines().filter(entry).map(str::to_owned).collect()
    };
    let (old, new) = (only(before, now), only(now, before));
    format!("it had {}; this run has {}", old.join(", "), new.join(", "))
}

#[cfg(test)]
mod tests;
