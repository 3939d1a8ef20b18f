//! The digest of a stream's closed steps.
//!
//! d₀ is fixed, and dₜ is the keyed hash of dₜ₋₁ and of what step t adds: 32 bytes say all that a later run needs of the
//! steps before it.

use super::contents::Entry;
use super::issuers::recorded;
use evertally::noise::{GuardedKey, SecretKey, StreamName};
use evertally_declare::error::{Result, usage};
use evertally_declare::hex::hex;
use evertally_declare::parameter::Parameter;
use evertally_declare::problem::{Piece, sentence};
use std::collections::BTreeMap;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// The digest of a stream's closed steps, growing with them.
pub struct StreamDigest {
    name: StreamName,
    /// Digest and text of the plan.
    plan: String,
    plan_text: String,
    key: Zeroizing<[u8; 32]>,
    steps: u64,
    chain: [u8; 32],
    past: Past,
    /// Whether steps go in as digests that many processes have added up.
    in_parts: bool,
}

/// What was published before: for numbers of steps, the digest of so many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    chained: BTreeMap<u64, String>,
    /// Whether the digests are of steps that went in as digests.
    in_parts: bool,
}

impl StreamDigest {
    pub(super) fn new(name: StreamName, plan: String, plan_text: String, key: Zeroizing<[u8; 32]>, past: Past) -> Self {
        let chain = *blake3::keyed_hash(&key, b"evertally 1 steps").as_bytes();
        Self { name, plan, plan_text, key, steps: 0, chain, past, in_parts: false }
    }

    /// Of steps that are held against nothing and recorded nowhere.
    pub fn unrecorded() -> Self {
        let name = "unrecorded".parse().expect("a name");
        Self::new(name, String::new(), String::new(), Zeroizing::new([0; 32]), Past::default())
    }

    /// Steps go in as digests that many processes have added up.
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

    /// All that a later run needs of the steps so far.
    pub fn chain(&self) -> [u8; 32] {
        self.chain
    }

    /// Goes on where an earlier run stopped.
    ///
    /// # Errors
    /// If that is not what was published up to that step.
    pub fn resume(&mut self, steps: u64, chain: [u8; 32]) -> Result<()> {
        let resumed = self.past.chained.get(&steps).is_some_and(|published| *published == hex(chain));
        if !resumed || self.past.last() > steps {
            let (name, last) = (&self.name, self.past.last());
            return Err(usage(format!(
                "the state of stream `{name}` is of step {steps}, and not of what was published last, through step {last}"
            )));
        }
        (self.steps, self.chain) = (steps, chain);
        Ok(())
    }

    /// Goes on behind steps that somebody else vouches for: a service, whose store holds what was closed.
    pub fn go_on_behind(&mut self, steps: u64, chain: [u8; 32]) {
        (self.steps, self.chain) = (steps, chain);
    }

    /// Adds a closed step: the sum of its events in every group. Fails as soon as the data differ from what was
    /// published, and then adds nothing.
    pub fn close_step(&mut self, sums: &[i64]) -> Result<()> {
        let mut link = self.link(b'g', sums.len());
        for sum in sums {
            link.update(&sum.to_le_bytes());
        }
        self.advance(self.steps + 1, link)
    }

    /// Adds, in the place of the sums of all groups, the items of the open step and what it adds to each, sorted by
    /// item and without those it adds nothing to; then closes it and the empty steps after it through `step`. Fails as
    /// soon as the data differ from what was published, and then adds nothing.
    ///
    /// A step with items goes in as its number, their number, and for each its length, its bytes and its sum; one
    /// without leaves no trace. No two histories have the same encoding.
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

    /// The hash of the next link: after it, what the step adds, of so many groups or items.
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

    /// Holds the digests after all steps through `step` against what was published.
    fn check_through(&self, step: u64, chain: [u8; 32]) -> Result<()> {
        self.check_form()?;
        if step <= self.steps {
            return Ok(()); // no step is closed
        }
        let mut published = self.past.chained.range(self.steps + 1..=step);
        match published.find(|(_, published)| **published != hex(chain)) {
            None => Ok(()),
            Some((step, _)) => {
                let released = format!(
                    "stream `{}` has already been released up to step {step} from different data; releasing again with the \
                     same noise would reveal the difference exactly. Restore the data, or give another ",
                    self.name
                );
                Err(usage(sentence![released, NAME, " (its budget then adds to what is already spent)"]))
            }
        }
    }

    /// Digests of the sums themselves and of what many processes have added up cannot be compared.
    fn check_form(&self) -> Result<()> {
        if self.past.last() == 0 || self.past.in_parts == self.in_parts {
            return Ok(());
        }
        let (before, now) = match self.in_parts {
            true => ("by one process", "on a cluster"),
            false => ("on a cluster", "by one process"),
        };
        let released = format!(
            "stream `{}` was released {before} up to step {}, and what was recorded of it cannot be held against a release \
             {now}: go on as it began, or give another ",
            self.name,
            self.past.last()
        );
        Err(usage(sentence![released, NAME, " (its budget then adds to what is already spent)"]))
    }

    /// The digest of the steps closed so far.
    pub(super) fn digest(&self) -> String {
        hex(self.chain)
    }

    pub(super) fn plan(&self) -> &str {
        &self.plan
    }

    /// An entry for a stream that has none.
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

    /// Whether it was held against all of this when its steps were closed.
    pub(super) fn has_seen(&self, past: &Past) -> bool {
        self.past == *past
    }

    pub(super) fn is_recorded(&mut self, past: Past) {
        self.past = past;
    }
}

impl Past {
    pub(super) fn of(entry: &Entry) -> Self {
        let chained = entry.runs.iter().map(|run| (run.through, run.digest.clone())).collect();
        let in_parts = entry.runs.last().is_some_and(|run| run.in_parts);
        Self { chained, in_parts }
    }

    fn last(&self) -> u64 {
        self.chained.keys().next_back().copied().unwrap_or(0)
    }

    /// Whether just this was published.
    pub(super) fn agrees(&self, steps: u64, digest: &str) -> bool {
        self.chained.get(&steps).is_some_and(|published| published == digest)
    }

    /// A shorter release can only be held against the past where the past has a digest of that length.
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

/// What another stream needs.
pub(super) const NAME: Piece = Piece::Noun(Parameter::Stream, "name");
