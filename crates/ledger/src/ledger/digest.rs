//! The digest of a stream's closed steps.
//!
//! d₀ is fixed, and dₜ is the keyed hash of dₜ₋₁ and of the sums that step t adds: 32 bytes hold everything that a
//! later run needs from the steps before it.

use super::contents::Entry;
use super::remedy::NAME;
use super::stream_key::recorded;
use evertally::hex;
use evertally::noise::{GuardedKey, SecretKey, StreamName};
use evertally_declare::error::{Result, usage};
use evertally_declare::problem::sentence;
use std::collections::BTreeMap;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// The digest of a stream's closed steps, extended step by step.
pub struct StreamDigest {
    name: StreamName,
    /// Digest and text of the plan.
    plan: String,
    plan_text: String,
    key: Zeroizing<[u8; 32]>,
    steps: u64,
    chain: [u8; 32],
    past: PublishedHistory,
    /// Whether steps are added as digests that many processes have added up.
    in_parts: bool,
}

/// The published history: for each published number of steps, the digest of these steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PublishedHistory {
    chained: BTreeMap<u64, String>,
    /// Whether steps were added as digests.
    in_parts: bool,
}

impl StreamDigest {
    pub(super) fn new(
        name: StreamName,
        plan: String,
        plan_text: String,
        key: Zeroizing<[u8; 32]>,
        past: PublishedHistory,
    ) -> Self {
        let chain = *blake3::keyed_hash(&key, b"evertally 1 steps").as_bytes();
        Self { name, plan, plan_text, key, steps: 0, chain, past, in_parts: false }
    }

    /// A digest of steps that is neither compared nor recorded.
    pub fn unrecorded() -> Self {
        let name = "unrecorded".parse().expect("a name");
        Self::new(name, String::new(), String::new(), Zeroizing::new([0; 32]), PublishedHistory::default())
    }

    /// Steps are added as digests that many processes have added up.
    pub fn in_parts(mut self) -> Self {
        self.in_parts = true;
        self
    }

    pub(super) fn is_in_parts(&self) -> bool {
        self.in_parts
    }

    /// A key for the noise of this stream, whose steps the ledger records before they are published.
    pub fn guarded(&self, key: &SecretKey) -> Result<GuardedKey> {
        Ok(recorded(&Arc::new(SecretKey::from_bytes(*key.expose_bytes())?), &self.name))
    }

    /// The stream's name.
    pub fn name(&self) -> &StreamName {
        &self.name
    }

    /// The last closed step.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// All that a later run needs from the steps so far.
    pub fn chain(&self) -> [u8; 32] {
        self.chain
    }

    /// Continues where an earlier run stopped.
    ///
    /// # Errors
    /// If that run is not the last published one.
    pub fn resume(&mut self, steps: u64, chain: [u8; 32]) -> Result<()> {
        let resumed = self.past.chained.get(&steps).is_some_and(|published| *published == hex(&chain));
        if !resumed || self.past.last() > steps {
            let (name, last) = (&self.name, self.past.last());
            return Err(usage(format!(
                "the saved state of stream `{name}` is at step {steps}, but step {last} was the last one published"
            )));
        }
        (self.steps, self.chain) = (steps, chain);
        Ok(())
    }

    /// Continues after steps that the caller vouches for: a service, whose store holds the closed steps.
    pub fn resume_after(&mut self, steps: u64, chain: [u8; 32]) {
        (self.steps, self.chain) = (steps, chain);
    }

    /// Adds a closed step: the sum of its events in each group. Fails as soon as the data differ from the published
    /// data, and then adds nothing.
    pub fn close_step(&mut self, sums: &[i64]) -> Result<()> {
        let mut link = self.link(b'g', sums.len());
        for sum in sums {
            link.update(&sum.to_le_bytes());
        }
        self.advance(self.steps + 1, link)
    }

    /// Adds the items of the open step with the sum that the step adds to each, instead of the sums of all groups.
    /// Items are sorted, and those with nothing to add are omitted. Then closes that step and the empty steps after it
    /// through `step`. Fails as soon as the data differ from the published data, and then adds nothing.
    ///
    /// A step with items is encoded as its number, the number of its items, and for each item its length, its bytes and
    /// its sum; a step without items leaves no trace. No two histories have the same encoding.
    pub fn close_items(&mut self, items: &[(Box<[u8]>, i64)], step: u64) -> Result<()> {
        if items.is_empty() {
            return self.check_through(step, self.chain).map(|()| self.steps = step);
        }
        let mut link = self.link(b'i', items.len());
        link.update(&(self.steps + 1).to_le_bytes()).update(&(items.len() as u64).to_le_bytes());
        for (item, sum) in items {
            link.update(&(item.len() as u64).to_le_bytes()).update(item).update(&sum.to_le_bytes());
        }
        self.advance(step, link)
    }

    /// The hash of the next link; the caller adds the sums of the step, for this many groups or items.
    fn link(&self, kind: u8, count: usize) -> blake3::Hasher {
        let mut link = blake3::Hasher::new_keyed(&self.key);
        link.update(&[kind]).update(&self.chain).update(&(count as u64).to_le_bytes());
        link
    }

    fn advance(&mut self, step: u64, mut link: blake3::Hasher) -> Result<()> {
        let chain = *link.finalize().as_bytes();
        link.zeroize();
        self.check_through(step, chain)?;
        (self.steps, self.chain) = (step, chain);
        Ok(())
    }

    /// Compares the digests after all steps through `step` with the published ones.
    fn check_through(&self, step: u64, chain: [u8; 32]) -> Result<()> {
        self.check_form()?;
        if step <= self.steps {
            return Ok(()); // no step is closed
        }
        let mut published = self.past.chained.range(self.steps + 1..=step);
        match published.find(|(_, published)| **published != hex(&chain)) {
            None => Ok(()),
            Some((step, _)) => {
                let released = format!(
                    "stream `{}` has already been released up to step {step} from different data; releasing again with \
                     the same noise would reveal the difference exactly. Restore the data, or give another ",
                    self.name
                );
                Err(usage(sentence![released, NAME, " (its budget then adds to the budget already spent)"]))
            }
        }
    }

    /// Digests of the sums themselves cannot be compared with digests that many processes have added up.
    fn check_form(&self) -> Result<()> {
        if self.past.last() == 0 || self.past.in_parts == self.in_parts {
            return Ok(());
        }
        let (before, now) = match self.in_parts {
            true => ("by one process", "on a cluster"),
            false => ("on a cluster", "by one process"),
        };
        let released = format!(
            "stream `{}` was released {before} up to step {}, and its record cannot be compared with a release {now}: \
             continue it the way it was started, or give another ",
            self.name,
            self.past.last()
        );
        Err(usage(sentence![released, NAME, " (its budget then adds to the budget already spent)"]))
    }

    /// The digest of the steps closed so far.
    pub(super) fn digest(&self) -> String {
        hex(&self.chain)
    }

    pub(super) fn plan(&self) -> &str {
        &self.plan
    }

    /// A new entry for this stream.
    pub(super) fn entry(&self) -> Entry {
        Entry {
            plan: self.plan.clone(),
            plan_text: self.plan_text.clone(),
            runs: Vec::new(),
            joined: Vec::new(),
            follows: None,
            guard: None,
            state: None,
        }
    }

    /// Whether the steps were compared with exactly this history when they were closed.
    pub(super) fn has_seen(&self, past: &PublishedHistory) -> bool {
        self.past == *past
    }

    pub(super) fn is_recorded(&mut self, past: PublishedHistory) {
        self.past = past;
    }
}

impl PublishedHistory {
    pub(super) fn new(entry: &Entry) -> Self {
        let chained = entry.runs.iter().map(|run| (run.through, run.digest.clone())).collect();
        let in_parts = entry.runs.last().is_some_and(|run| run.in_parts);
        Self { chained, in_parts }
    }

    fn last(&self) -> u64 {
        self.chained.keys().next_back().copied().unwrap_or(0)
    }

    /// Whether exactly these steps were published, with this digest.
    pub(super) fn agrees(&self, steps: u64, digest: &str) -> bool {
        self.chained.get(&steps).is_some_and(|published| published == digest)
    }

    /// A shorter release can be compared only if the history has a digest of that length.
    pub(super) fn check_covers(&self, name: &StreamName, steps: u64) -> Result<()> {
        let last = self.last();
        if last <= steps || self.chained.contains_key(&steps) {
            return Ok(());
        }
        let released = format!(
            "stream `{name}` has already been released up to step {last}; this run ends at step {steps}, where nothing \
             can be compared. Release at least {last} steps, or give another "
        );
        Err(usage(sentence![released, NAME]))
    }
}
