//! Some of the groups with all of their sums: their releases.

use super::digest::{Digest, Digesting};
use super::{Row, Rows, Work};
use evertally_declare::error::{Result, usage};
use evertally_ledger::ledger::StreamDigest;
use evertally_publish::rows::ReleaseRow;
use evertally_publish::session::{GroupLabel, RunningSums, Tally};
use std::collections::BTreeMap;

/// Gathers the sums of the groups of a bucket: of declared ones those whose place leaves the bucket's number when it is
/// divided by the number of buckets, of others whichever come.
pub struct Bucket {
    work: Work,
    number: u32,
    of: u32,
    sums: BTreeMap<u64, Vec<(Box<[u8]>, i64)>>,
    digest: Digest,
    digesting: Digesting,
}

impl Work {
    /// The bucket of this number, of so many.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn bucket(&self, number: u32, of: u32) -> Result<Bucket> {
        if number >= of {
            return Err(usage(format!("there is no bucket {number} of {of}")));
        }
        let digesting = self.digesting();
        Ok(Bucket { work: self.clone(), number, of, sums: BTreeMap::new(), digest: Digest::default(), digesting })
    }
}

impl Bucket {
    /// Takes in the sum of a group in a step; rows of one step and group add up before they come here.
    ///
    /// # Errors
    /// If it is no sum, of a step that is not released, or of a group of another bucket.
    pub fn add(&mut self, step: u64, label: &[u8], sum: i64) -> Result<()> {
        let is_ours = match Row::says(label)? {
            Rows::Place(place) | Rows::Cell(place, _) => place % self.of == self.number,
            Rows::Name(_) => true,
            Rows::Refused(_) | Rows::Shard(_) | Rows::Kept(_) => false,
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

    /// The digest of all sums that came.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The releases, unless the sums are others than those that were recorded.
    ///
    /// # Errors
    /// If they are.
    pub fn release(self, recorded: Digest) -> Result<BucketRows> {
        if self.digest != recorded {
            return Err(usage(
                "the events are not those that were there when the release was recorded; releasing these too with the same \
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

/// The releases of a bucket, step after step.
pub struct BucketRows {
    work: Work,
    of: u32,
    sums: BTreeMap<u64, Vec<(Box<[u8]>, i64)>>,
    /// `None` without groups.
    tally: Option<RunningSums>,
    digest: StreamDigest,
}

impl BucketRows {
    /// Visits the rows of the next step; false once there are no more.
    ///
    /// # Errors
    /// If a running sum leaves 64 bits, and whatever `visit` returns.
    pub fn next_step(&mut self, mut visit: impl FnMut(&ReleaseRow<'_>) -> Result<()>) -> Result<bool> {
        let stream = &self.work.stream;
        let Some(tally) = &mut self.tally else { return Ok(false) };
        let step = tally.step() + 1;
        if step > stream.last_step {
            return Ok(false);
        }
        for (label, sum) in self.sums.remove(&step).into_iter().flatten() {
            let label = match Row::says(&label)? {
                Rows::Place(place) => GroupLabel::Place((place / self.of) as usize),
                Rows::Name(name) => tally.label_of(name),
                Rows::Cell(place, cell) => {
                    tally.add_to_cell((place / self.of) as usize, cell as usize, sum)?;
                    continue;
                }
                Rows::Refused(_) | Rows::Shard(_) | Rows::Kept(_) => return Err(usage("no sum came to a bucket")),
            };
            tally.add_sum(&label, sum)?;
        }
        tally.close(stream, step, &mut self.digest)?.for_each_row(|_, row| visit(row))?;
        Ok(true)
    }
}
