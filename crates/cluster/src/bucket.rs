//! Releases some of the groups, from all of their sums.

use super::digest::{Digest, RowHasher};
use super::{ClusterJob, RowKind, ShuffleRow};
use evertally_declare::error::{Result, usage};
use evertally_ledger::ledger::StreamDigest;
use evertally_publish::rows::ReleaseRow;
use evertally_publish::session::{Accumulator, GroupRef, RunningSums};
use std::collections::BTreeMap;

/// Gathers the sums of the groups of a bucket. A declared group belongs to the bucket whose number is its place modulo
/// the number of buckets; discovered groups are accepted in any bucket.
pub struct Bucket {
    work: ClusterJob,
    number: u32,
    of: u32,
    sums: BTreeMap<u64, Vec<(Box<[u8]>, i64)>>,
    digest: Digest,
    digesting: RowHasher,
}

impl ClusterJob {
    /// The bucket with this number, out of `of` buckets.
    ///
    /// # Errors
    /// If `number` is not below `of`.
    pub fn bucket(&self, number: u32, of: u32) -> Result<Bucket> {
        if number >= of {
            return Err(usage(format!("there is no bucket {number} of {of}")));
        }
        let digesting = self.digesting();
        Ok(Bucket { work: self.clone(), number, of, sums: BTreeMap::new(), digest: Digest::default(), digesting })
    }
}

impl Bucket {
    /// Adds the sum of a group in a step. Rows of one step and group must be added up before.
    ///
    /// # Errors
    /// If the row is not a sum, its step is not released, or its group belongs to another bucket.
    pub fn add(&mut self, step: u64, label: &[u8], sum: i64) -> Result<()> {
        let is_ours = match ShuffleRow::says(label)? {
            RowKind::Place(place) | RowKind::Cell(place, _) => place % self.of == self.number,
            RowKind::Name(_) => true,
            RowKind::Refused(_) | RowKind::Shard(_) | RowKind::Kept(_) => false,
        };
        if !is_ours || step == 0 || step > self.work.stream.last_step {
            return Err(usage(format!(
                "a sum of step {step} came to bucket {}, where it does not belong",
                self.number
            )));
        }
        self.digest.add(self.digesting.of(step, label, sum));
        self.sums.entry(step).or_default().push((label.into(), sum));
        Ok(())
    }

    /// The digest of all sums added so far.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The releases, if the sums are those that were recorded.
    ///
    /// # Errors
    /// If they differ.
    pub fn release(self, recorded: Digest) -> Result<BucketRows> {
        if self.digest != recorded {
            return Err(usage(
                "the events have changed since the release was recorded; releasing them too with the same \
                 noise would reveal the difference exactly. Read from files that do not change, and release again",
            ));
        }
        let (work, of) = (self.work, self.of);
        let groups = work.groups.as_deref().map(|table| {
            let places = (self.number as usize..table.tuples().len()).step_by(of as usize);
            table.chosen(places)
        });
        let is_empty = groups.as_ref().is_some_and(|table| table.tuples().is_empty())
            || (groups.is_none() && !work.discovers() && self.number > 0);
        let tally = match is_empty {
            true => None,
            false => Some(RunningSums::new(&work.stream, groups, &work.noise_key())?),
        };
        Ok(BucketRows { work, of, sums: self.sums, tally, digest: StreamDigest::unrecorded() })
    }
}

/// The releases of a bucket, step by step.
pub struct BucketRows {
    work: ClusterJob,
    of: u32,
    sums: BTreeMap<u64, Vec<(Box<[u8]>, i64)>>,
    /// `None` if the bucket has no groups.
    tally: Option<RunningSums>,
    digest: StreamDigest,
}

impl BucketRows {
    /// Visits the rows of the next step; returns false after the last.
    ///
    /// # Errors
    /// If a running sum exceeds 64 bits, or `visit` fails.
    pub fn next_step(&mut self, mut visit: impl FnMut(&ReleaseRow<'_>) -> Result<()>) -> Result<bool> {
        let stream = &self.work.stream;
        let Some(tally) = &mut self.tally else { return Ok(false) };
        let step = tally.step() + 1;
        if step > stream.last_step {
            return Ok(false);
        }
        for (label, sum) in self.sums.remove(&step).into_iter().flatten() {
            let label = match ShuffleRow::says(&label)? {
                RowKind::Place(place) => GroupRef::Place((place / self.of) as usize),
                RowKind::Name(name) => tally.label_of(name),
                RowKind::Cell(place, cell) => {
                    tally.add_to_cell((place / self.of) as usize, cell as usize, sum)?;
                    continue;
                }
                RowKind::Refused(_) | RowKind::Shard(_) | RowKind::Kept(_) => {
                    return Err(usage("a bucket row is not a sum"));
                }
            };
            tally.add_sum(&label, sum)?;
        }
        tally.close(stream, step, &mut self.digest)?.for_each_row(|_, row| visit(row))?;
        Ok(true)
    }
}
