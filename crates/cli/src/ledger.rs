//! What a key has already published: kept beside the key, so that one key and stream name never serve two data sets.
//!
//! For every stream the ledger holds the plan's digest and, for every number of steps that was ever published, a keyed
//! digest of the closed steps. The same data again gives the same digest and the same release; more steps of the same
//! data extend it; anything else is refused, because the difference of two releases with equal noise is exact.

use crate::failure::usage;
use crate::keyfile::{self, NewKey};
use anyhow::{Context, Result};
use evertally::noise::{Purpose, SecretKey, StreamName, mac_key};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
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
    /// Keyed digest of the first `n` closed steps, for every `n` that was published.
    published: BTreeMap<u64, String>,
}

/// The ledger of a key, locked against other runs with the same key while this value lives.
pub struct Ledger {
    path: PathBuf,
    contents: Contents,
    /// Taken away again, while the lock is still held, unless something is recorded.
    new_key: Option<NewKey>,
    _lock: File,
}

impl Ledger {
    /// Opens the ledger beside a key file; there need not be one yet. A key that this run has made goes with it.
    pub fn open(key_path: &Path, key: &SecretKey, new_key: Option<NewKey>) -> Result<Self> {
        // One key, one ledger: links to the key lead to the same place.
        let key_path =
            std::fs::canonicalize(key_path).with_context(|| format!("cannot find {}", key_path.display()))?;
        let lock = File::open(&key_path).with_context(|| format!("cannot open {}", key_path.display()))?;
        lock.lock().with_context(|| format!("cannot lock {}", key_path.display()))?;
        // While this run waited for the lock, another may have taken its new key away.
        if keyfile::read(&key_path)?.id() != key.id() {
            return Err(usage(format!("the key file {} was replaced; run again", key_path.display())));
        }
        let mut path = key_path.as_os_str().to_owned();
        path.push(".ledger");
        let path = PathBuf::from(path);
        let key_id = key.id().to_string();
        let contents = match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str::<Contents>(&text).map_err(|e| {
                usage(format!("the ledger {} is damaged ({e}); restore it from a copy", path.display()))
            })?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Contents { version: VERSION, key_id: key_id.clone(), streams: BTreeMap::new() }
            }
            Err(e) => return Err(usage(format!("the ledger {} cannot be read: {e}", path.display()))),
        };
        if contents.version != VERSION || contents.key_id != key_id {
            return Err(usage(format!(
                "the ledger {} belongs to another key or another version of this program; it must stay with its key",
                path.display()
            )));
        }
        Ok(Self { path, contents, new_key, _lock: lock })
    }

    /// Begins the digest of a stream's closed steps.
    ///
    /// Fails if the name has been used under another plan, or if `last_step`, where this run ends, cannot be held against
    /// what was published.
    pub fn stream(
        &self,
        key: &SecretKey,
        name: &StreamName,
        plan_digest: [u8; 32],
        last_step: u64,
    ) -> Result<StreamDigest> {
        let plan = blake3::Hash::from_bytes(plan_digest).to_hex().to_string();
        let published = match self.contents.streams.get(name.as_str()) {
            Some(entry) if entry.plan != plan => {
                return Err(usage(format!(
                    "stream `{name}` has been released under another plan; a changed plan is a new stream: \
                     give another --stream name (its budget then adds to what is already spent)"
                )));
            }
            Some(entry) => entry.published.clone(),
            None => BTreeMap::new(),
        };
        check_covers_the_past(name, &published, last_step)?;
        let hasher = blake3::Hasher::new_keyed(&mac_key(key, name, &plan_digest, Purpose::Ledger));
        Ok(StreamDigest { name: name.clone(), plan, hasher, steps: 0, published })
    }

    /// Records what is about to be published, durably. Call this before anyone can see a release.
    ///
    /// The lock is held until the returned value is dropped.
    pub fn record(mut self, stream: &StreamDigest) -> Result<Self> {
        check_covers_the_past(&stream.name, &stream.published, stream.steps)?;
        let digest = stream.digest();
        let entry = Entry { plan: stream.plan.clone(), published: stream.published.clone() };
        let entry = self.contents.streams.entry(stream.name.to_string()).or_insert(entry);
        if entry.published.insert(stream.steps, digest.clone()) == Some(digest) {
            return Ok(self); // nothing new
        }
        self.write().with_context(|| format!("cannot write the ledger {}", self.path.display()))?;
        if let Some(key) = self.new_key.take() {
            key.keep();
        }
        Ok(self)
    }

    fn write(&self) -> Result<()> {
        let folder = self.path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer_pretty(&mut file, &self.contents)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        #[cfg(unix)]
        File::open(folder)?.sync_all()?;
        Ok(())
    }
}

/// The digest of a stream's closed steps, growing with them.
pub struct StreamDigest {
    name: StreamName,
    plan: String,
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
        match self.published.get(&self.steps) {
            Some(published) if *published != self.digest() => Err(usage(format!(
                "stream `{}` has already been released up to step {} from different data; releasing again with the same \
                 noise would reveal the difference exactly. Restore the data, or give another --stream name (its \
                 budget then adds to what is already spent)",
                self.name, self.steps
            ))),
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

/// A shorter release can only be held against the past where the past has a digest of that length.
fn check_covers_the_past(name: &StreamName, published: &BTreeMap<u64, String>, steps: u64) -> Result<()> {
    match published.keys().next_back() {
        Some(&last) if last > steps && !published.contains_key(&steps) => Err(usage(format!(
            "stream `{name}` has already been released up to step {last}; this run ends at step {steps}, where nothing can \
             be compared. Release at least {last} steps, or give another --stream name"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(key_path: &Path, name: &str, plan: u8, steps: &[i64]) -> Result<()> {
        let key = crate::keyfile::read(key_path)?;
        let ledger = Ledger::open(key_path, &key, None)?;
        let mut stream = ledger.stream(&key, &name.parse()?, [plan; 32], steps.len() as u64)?;
        steps.iter().try_for_each(|sum| stream.close_step(&[*sum]))?;
        ledger.record(&stream).map(drop)
    }

    #[test]
    fn the_same_data_may_be_repeated_and_extended_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("k.key");
        crate::keyfile::create(&key).unwrap();
        let refused = |name, plan, steps: &[i64]| run(&key, name, plan, steps).unwrap_err().to_string();
        run(&key, "s", 1, &[1, 2, 3]).unwrap();
        run(&key, "s", 1, &[1, 2, 3]).unwrap();
        run(&key, "s", 1, &[1, 2, 3, 4, 5]).unwrap();
        run(&key, "s", 1, &[1, 2, 3]).unwrap();
        assert!(refused("s", 1, &[1, 2, 4]).contains("different data"));
        assert!(refused("s", 1, &[1, 2, 3, 4, 6]).contains("up to step 5 from different data"));
        assert!(refused("s", 1, &[0, 2, 3, 4, 5, 6]).contains("step 3"));
        assert!(refused("s", 1, &[1, 2, 3, 4]).contains("nothing can be compared"));
        assert!(refused("s", 2, &[1, 2, 3]).contains("another plan"));
        run(&key, "t", 2, &[7]).unwrap();
        // The refused runs have changed nothing.
        run(&key, "s", 1, &[1, 2, 3, 4, 5, 6]).unwrap();
    }

    /// A symbolic link to the key leads to the same ledger; a second name of the same file is refused.
    #[cfg(unix)]
    #[test]
    fn links_to_a_key_do_not_get_around_its_ledger() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        crate::keyfile::create(&path("k.key")).unwrap();
        run(&path("k.key"), "s", 1, &[1, 2]).unwrap();
        std::os::unix::fs::symlink(path("k.key"), path("link.key")).unwrap();
        assert!(run(&path("link.key"), "s", 1, &[1, 3]).unwrap_err().to_string().contains("different data"));
        std::fs::hard_link(path("k.key"), path("hard.key")).unwrap();
        assert!(run(&path("hard.key"), "s", 1, &[1, 3]).unwrap_err().to_string().contains("several names"));
    }

    #[test]
    fn damaged_and_foreign_ledgers_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a.key"), folder.path().join("b.key"));
        crate::keyfile::create(&a).unwrap();
        crate::keyfile::create(&b).unwrap();
        run(&a, "s", 1, &[1]).unwrap();
        std::fs::copy(folder.path().join("a.key.ledger"), folder.path().join("b.key.ledger")).unwrap();
        assert!(run(&b, "s", 1, &[1]).unwrap_err().to_string().contains("another key"));
        std::fs::write(folder.path().join("a.key.ledger"), "{").unwrap();
        assert!(run(&a, "s", 1, &[1]).unwrap_err().to_string().contains("damaged"));
    }
}
