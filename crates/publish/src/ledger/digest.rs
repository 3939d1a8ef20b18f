//! The digest of a stream's closed steps.

use crate::declaration::Parameter;
use crate::error::{Result, usage};
use crate::problem::{Piece, sentence};
use evertally::noise::StreamName;
use std::collections::BTreeMap;
use zeroize::Zeroize;

/// The digest of a stream's closed steps, growing with them.
pub struct StreamDigest {
    pub(super) name: StreamName,
    /// Digest and text of the plan.
    pub(super) plan: String,
    pub(super) plan_text: String,
    pub(super) hasher: blake3::Hasher,
    pub(super) steps: u64,
    /// What was published before: for numbers of steps, the digest of so many.
    pub(super) published: BTreeMap<u64, String>,
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

    /// Adds, in the place of the sums of all groups, the items of the open step and what it adds to each, sorted by
    /// item and without those it adds nothing to; then closes it and the empty steps after it through `step`. Fails as
    /// soon as the data differ from what was published.
    ///
    /// A step with items goes in as its number, their number, and for each its length, its bytes and its sum; one
    /// without leaves no trace. No two histories have the same encoding.
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

    /// The digest of the steps closed so far.
    pub(super) fn digest(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
}

impl Drop for StreamDigest {
    fn drop(&mut self) {
        self.hasher.zeroize(); // it holds a key
    }
}

/// What another stream needs.
pub(super) const NAME: Piece = Piece::Noun(Parameter::Stream, "name");

/// A shorter release can only be held against the past where the past has a digest of that length.
pub(super) fn check_covers_the_past(name: &StreamName, published: &BTreeMap<u64, String>, steps: u64) -> Result<()> {
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
