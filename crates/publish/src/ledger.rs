//! What a key has already published: kept beside the key, so that one key and stream name never serve two data sets.
//!
//! For every stream the ledger holds the plan's digest and, for every number of steps that was ever published, a keyed
//! digest of the closed steps. The same data again gives the same digest and the same release; more steps of the same
//! data extend it; anything else is refused, because the difference of two releases with equal noise is exact. A key is
//! made together with its ledger, and a key without one is refused: it may have published anything.

use crate::declaration::Parameter;
use crate::error::{Cancelled, usage};
use crate::keyfile;
use crate::problem::{Piece, sentence};
use anyhow::{Context, Result};
use evertally::noise::{Purpose, SecretKey, StreamName, mac_key};
use evertally::plan::Plan;
use evertally::privacy::Budget;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use zeroize::Zeroize;

const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
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

/// Makes a key file and its empty ledger.
pub fn new_key(path: &Path) -> Result<SecretKey> {
    let key = SecretKey::generate()?;
    Ledger::in_memory(&key).save(path, &key)?;
    Ok(key)
}

/// Writes a key to a new file, and what it has published beside it.
fn save(path: &Path, key: &SecretKey, contents: &Contents) -> Result<()> {
    let ledger = ledger_path(path);
    if ledger.exists() {
        return Err(usage(format!(
            "{} exists already; it belongs to a key that was here: restore that key, or give another name",
            ledger.display()
        )));
    }
    keyfile::write(path, key)?;
    if let Err(error) = write(&ledger, contents) {
        let _ = std::fs::remove_file(path); // a key without its ledger is of no use
        return Err(error.context(format!("cannot write the ledger {}", ledger.display())));
    }
    Ok(())
}

/// A key that a run has made, and takes away again unless it publishes something.
#[must_use]
pub struct NewKey(Option<PathBuf>);

impl NewKey {
    /// The key has been used: it stays.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewKey {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
            let _ = std::fs::remove_file(ledger_path(path));
        }
    }
}

/// Makes a key where there is none, if `wanted`.
pub fn new_key_if_absent(path: &Path, wanted: bool) -> Result<Option<NewKey>> {
    if !wanted || path.exists() {
        return Ok(None);
    }
    new_key(path)?;
    Ok(Some(NewKey(Some(path.to_owned()))))
}

/// Where the ledger of a key is.
pub fn ledger_path(key_path: &Path) -> PathBuf {
    let mut path = key_path.as_os_str().to_owned();
    path.push(".ledger");
    path.into()
}

/// The ledger of a key.
pub struct Ledger {
    contents: Contents,
    place: Place,
}

/// Where a ledger is kept.
enum Place {
    /// Nowhere else: that of a key that has no file.
    Memory,
    /// Beside the key's file, which is locked against other runs while this value lives.
    Beside {
        ledger: PathBuf,
        /// Taken away again, while the lock is still held, unless something is recorded.
        new_key: Option<NewKey>,
        _lock: File,
    },
}

impl Ledger {
    /// The ledger of a key that has no file and has published nothing.
    pub fn in_memory(key: &SecretKey) -> Self {
        let contents = Contents { version: VERSION, key_id: key.id().to_string(), streams: BTreeMap::new() };
        Self { contents, place: Place::Memory }
    }

    /// Writes a key to a new file, and this ledger beside it. An existing file is never replaced.
    pub fn save(&self, path: &Path, key: &SecretKey) -> Result<()> {
        save(path, key, &self.contents)
    }

    /// Opens the ledger beside a key file, waiting for other runs with the key until `cancelled`. A key that this run has
    /// made goes with it.
    pub fn open(key_path: &Path, key: &SecretKey, new_key: Option<NewKey>, cancelled: &AtomicBool) -> Result<Self> {
        // One key, one ledger: links to the key lead to the same place.
        let key_path =
            std::fs::canonicalize(key_path).with_context(|| format!("cannot find {}", key_path.display()))?;
        let lock = lock(&key_path, cancelled)?;
        // While this run waited for the lock, another may have taken its new key away.
        if keyfile::read(&key_path)?.id() != key.id() {
            return Err(usage(format!("the key file {} was replaced; run again", key_path.display())));
        }
        let path = ledger_path(&key_path);
        let shown = path.display();
        let text = std::fs::read_to_string(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => usage(format!(
                "the key {} has no ledger {shown} beside it, which says what was published with it; put it back. If it is \
                 lost, make a new key: the old one could repeat its noise over other data",
                key_path.display()
            )),
            _ => usage(format!("the ledger {shown} cannot be read: {e}")),
        })?;
        let contents = serde_json::from_str::<Contents>(&text)
            .map_err(|e| usage(format!("the ledger {shown} is damaged ({e}); restore it from a copy")))?;
        if contents.version != VERSION || contents.key_id != key.id().to_string() {
            return Err(usage(format!(
                "the ledger {shown} belongs to another key or another version of this program; it must stay with its key"
            )));
        }
        Ok(Self { contents, place: Place::Beside { ledger: path, new_key, _lock: lock } })
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
    /// Fails if the name has been used under another plan, or if `last_step`, where this run ends, cannot be held against
    /// what was published.
    pub fn stream(&self, key: &SecretKey, name: &StreamName, plan: &Plan, last_step: u64) -> Result<StreamDigest> {
        let plan_digest = plan.digest();
        let plan_text = toml::to_string(plan)?;
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

    /// Records what is about to be published, durably where the key has a file. Call this before anyone can see a release.
    pub fn record(&mut self, stream: &StreamDigest) -> Result<()> {
        check_covers_the_past(&stream.name, &stream.published, stream.steps)?;
        let digest = stream.digest();
        let (plan, plan_text) = (stream.plan.clone(), stream.plan_text.clone());
        let entry = Entry { plan, plan_text, published: stream.published.clone() };
        let entry = self.contents.streams.entry(stream.name.to_string()).or_insert(entry);
        if entry.published.insert(stream.steps, digest.clone()) == Some(digest) {
            return Ok(()); // nothing new
        }
        let Place::Beside { ledger, new_key, .. } = &mut self.place else { return Ok(()) };
        write(ledger, &self.contents)
            .with_context(|| format!("cannot write the ledger {}; nothing was published", ledger.display()))?;
        if let Some(key) = new_key.take() {
            key.keep();
        }
        Ok(())
    }
}

/// Locks the key file; says so if that takes a while.
fn lock(key_path: &Path, cancelled: &AtomicBool) -> Result<File> {
    let shown = key_path.display();
    let file = File::open(key_path).with_context(|| format!("cannot open {shown}"))?;
    let mut waiting = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(anyhow::Error::new(e).context(format!("cannot lock {shown}"))),
        }
        if !std::mem::replace(&mut waiting, true) {
            eprintln!("waiting for another run with {shown} …");
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(Cancelled.into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Replaces the ledger, durably.
fn write(path: &Path, contents: &Contents) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, contents)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
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

/// The digest of a stream's closed steps, growing with them.
pub struct StreamDigest {
    name: StreamName,
    plan: String,
    plan_text: String,
    hasher: blake3::Hasher,
    steps: u64,
    published: BTreeMap<u64, String>,
}

impl StreamDigest {
    /// Adds a closed step: the sum of its events in every group. Fails as soon as the data differ from what was
    /// published.
    pub fn close_step(&mut self, sums: &[i64]) -> Result<()> {
        for sum in sums {
            self.hasher.update(&sum.to_le_bytes());
        }
        self.steps += 1;
        self.check(self.steps)
    }

    /// Adds, in the place of the sums of all groups, the items of the open step and what it adds to each, sorted by item and
    /// without those it adds nothing to; then closes it and the empty steps after it through `step`. Fails as soon as the data
    /// differ from what was published.
    ///
    /// A step with items goes in as its number, their number, and for each its length, its bytes and its sum; one without
    /// leaves no trace. No two histories have the same encoding.
    pub fn close_items(&mut self, items: &[(Box<[u8]>, i64)], step: u64) -> Result<()> {
        if !items.is_empty() {
            self.hasher.update(&(self.steps + 1).to_le_bytes()).update(&(items.len() as u64).to_le_bytes());
        }
        for (item, sum) in items {
            self.hasher.update(&(item.len() as u64).to_le_bytes()).update(item).update(&sum.to_le_bytes());
        }
        let published: Vec<u64> = self.published.range(self.steps + 1..=step).map(|(step, _)| *step).collect();
        self.steps = step;
        published.into_iter().try_for_each(|step| self.check(step))
    }

    /// Holds the digest of the closed steps against what was published up to a step.
    fn check(&self, step: u64) -> Result<()> {
        match self.published.get(&step) {
            Some(published) if *published != self.digest() => {
                let released = format!(
                    "stream `{}` has already been released up to step {step} from different data; releasing again with the \
                     same noise would reveal the difference exactly. Restore the data, or give another ",
                    self.name
                );
                Err(usage(sentence![released, NAME, " (its budget then adds to what is already spent)"]))
            }
            _ => Ok(()),
        }
    }

    fn digest(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
}

impl Drop for StreamDigest {
    fn drop(&mut self) {
        self.hasher.zeroize(); // it holds a key
    }
}

/// What another stream needs.
const NAME: Piece = Piece::Noun(Parameter::Stream, "name");

/// A shorter release can only be held against the past where the past has a digest of that length.
fn check_covers_the_past(name: &StreamName, published: &BTreeMap<u64, String>, steps: u64) -> Result<()> {
    match published.keys().next_back() {
        Some(&last) if last > steps && !published.contains_key(&steps) => {
            let released = format!(
                "stream `{name}` has already been released up to step {last}; this run ends at step {steps}, where nothing \
                 can be compared. Release at least {last} steps, or give another "
            );
            Err(usage(sentence![released, NAME]))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
