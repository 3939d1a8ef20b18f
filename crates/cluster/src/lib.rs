//! One release made by many processes: what each of them does, so that together they publish what one would have.
//!
//! ```text
//! events ──Reader──▶ sums of steps and groups ───────────────────────────────┐
//!      └──Reader──▶ blocks of persons' events ──by shard──▶ Shard ──▶ sums ──┤ added up by the engine
//!                                                                            ▼
//!        rows ◀──BucketRows── Bucket ◀── digest of the bucket ◀── Digests ◀── sums by bucket of groups
//!                                            digests of steps ──▶ ledger
//! ```
//!
//! An engine (Spark, or any other) moves rows between processes and adds up integers; it decides nothing. What is kept of
//! a person is decided where all events of that person are, in a *shard*, in an order that depends on the events alone:
//! by time, and of one instant by a keyed hash of what is counted. So no partitioning, no task that is tried again or
//! done twice changes what is kept. Noise is drawn by name, group by group, so that a *bucket* of groups is released by
//! itself.
//!
//! The engine may compute sums again at any time, from input that may have changed. Hence nothing is released of a
//! bucket before its sums have the [digest](Digests) that the ledger has recorded: the same noise never meets other
//! sums.
//!
//! Single events may be counted by the engine itself; then a [`Reader`] places what it has counted.

mod block;
mod bucket;
mod digest;
mod labels;
mod once;
mod order;
mod publisher;
mod reader;
mod shard;
mod sums;
mod window;

pub use bucket::{Bucket, BucketRows};
pub use digest::{Digest, Digesting, Digests};
pub use once::{Once, OnceFolder};
pub use publisher::Publisher;
pub use reader::{ForShard, Reader, Taken};
pub use shard::Shard;
pub use sums::{Row, Rows};
pub use window::ShardLeft;

use evertally::noise::{GuardedKey, Purpose, SecretKey, mac_key};
use evertally::number::Grid;
use evertally::privacy::Unit;
use evertally_declare::error::{Result, usage};
use evertally_declare::groups::GroupTable;
use evertally_declare::hex::hex;
use evertally_declare::parameter::Parameter::{Measure, Publish, Workload};
use evertally_declare::problem::sentence;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::{Ledger, recorded};
use evertally_publish::session::tuple_of;
use std::borrow::Cow;
use std::sync::Arc;
use zeroize::Zeroizing;

/// A release that many processes make together: what all of them know.
#[derive(Clone)]
pub struct Work {
    stream: Arc<Stream>,
    groups: Option<Arc<GroupTable>>,
    /// What the library calls them, by place.
    names: Arc<[Vec<u8>]>,
    /// How many running sums a group has, where several measures are released.
    cells: Option<u32>,
    key: Arc<SecretKey>,
}

impl Work {
    /// The work on a stream.
    ///
    /// # Errors
    /// If it releases several measures or workloads and publishes some steps alone, or has more than 2^32 sums.
    pub fn new(stream: Stream, groups: Option<GroupTable>, key: Arc<SecretKey>) -> Result<Self> {
        let mut cells = None;
        if let Some(bundle) = &stream.measures {
            let said = if bundle.is_of_workloads() { Workload } else { Measure };
            if !stream.publishes_all() {
                let why =
                    ": on a cluster several of them are published step by step; make steps as long as publications";
                return Err(usage(sentence![said, " and ", Publish, why]));
            }
            let count = groups.as_ref().map_or(1, |table| table.tuples().len());
            let all = bundle.cells().checked_mul(count).and_then(|all| u32::try_from(all).ok());
            all.ok_or_else(|| usage("groups and measures together have more than 2^32 sums; release them one by one"))?;
            cells = Some(bundle.cells() as u32); // fits: all of them do
        }
        let names = groups.as_ref().map_or_else(Vec::new, GroupTable::library_names);
        Ok(Self { stream: Arc::new(stream), groups: groups.map(Arc::new), names: names.into(), cells, key })
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Its declared groups.
    pub fn groups(&self) -> Option<&GroupTable> {
        self.groups.as_deref()
    }

    /// Whether persons are protected, so that their events have to meet in one place.
    pub fn has_persons(&self) -> bool {
        self.stream.plan.request().unit() != Unit::Event
    }

    /// Refuses to close steps one by one where people are remembered from one to the next by one process alone.
    fn check_closes(&self) -> Result<()> {
        match &self.stream.measures {
            None => Ok(()),
            Some(bundle) => {
                let said = if bundle.is_of_workloads() { Workload } else { Measure };
                Err(usage(sentence![said, ": a stream on a cluster has one; make a stream for each of them"]))
            }
        }
    }

    /// Whether groups are those that occur.
    pub fn discovers(&self) -> bool {
        self.stream.plan.threshold().is_some()
    }

    /// What stands for key, name and plan together.
    pub fn identity(&self) -> String {
        format!("{} {} {}", self.key.id(), self.stream.name, hex(self.stream.plan_digest()))
    }

    /// What stands for whose events were kept, by step, in hexadecimal; nothing of steps in which nobody's were. It is kept with
    /// the sums of a step, wherever those are taken: who counts again must count the same persons.
    pub fn evidence(&self, rows: &[Row]) -> Vec<(u64, String)> {
        let (mut digests, mut digesting) = (Digests::default(), self.digesting());
        let kept = rows.iter().filter(|row| matches!(Row::says(&row.label), Ok(Rows::Kept(_))));
        kept.for_each(|row| digests.add_step(row.step, digesting.of_row(row)));
        let text = |digest: Digest| digest.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        digests.steps().map(|(step, digest)| (step, text(digest))).collect()
    }

    /// The names of the group of a [row](Row) and the grid of its sums; `None` of a row that is no sum.
    ///
    /// # Errors
    /// If the row is of no group of this work.
    pub fn group_of(&self, label: &[u8]) -> Result<Option<(Cow<'_, [String]>, Grid)>> {
        let grid = self.stream.plan.request().grid();
        let found = match (Row::says(label)?, self.groups()) {
            (Rows::Refused(_) | Rows::Shard(_) | Rows::Kept(_), _) => return Ok(None),
            (Rows::Cell(..), _) => None,
            (Rows::Place(0), None) => Some((Cow::Borrowed(&[][..]), grid)),
            (Rows::Place(place), Some(table)) => {
                let place = place as usize;
                table.tuples().get(place).map(|names| (Cow::Borrowed(&names[..]), table.grid_of(place, grid)))
            }
            (Rows::Name(name), None) => Some((Cow::Owned(tuple_of(name)?), grid)),
            _ => None,
        };
        found.map(Some).ok_or_else(|| usage("a row between processes is of another stream"))
    }

    /// The key for the stream's noise: the driver records its steps before they are published.
    fn noise_key(&self) -> GuardedKey {
        recorded(&self.key, &self.stream.name)
    }

    fn mac_key(&self, purpose: Purpose<'_>) -> Zeroizing<[u8; 32]> {
        mac_key(&self.key, &self.stream.name, &self.stream.plan.digest(), purpose)
    }

    /// Records the sums of all steps, as their [digests](Digests), before anything of them is released.
    ///
    /// # Errors
    /// If the stream was released from other data or under another plan, or the ledger cannot be written.
    pub fn record(&self, digests: &Digests, ledger: &mut Ledger) -> Result<()> {
        let last = self.stream.last_step;
        let mut digest = ledger.digest_of(&self.key, &self.stream, last)?.in_parts();
        for (step, of_step) in digests.steps() {
            if step == 0 || step > last {
                return Err(usage(format!("there are sums of step {step}, and the release ends with step {last}")));
            }
            digest.close_items(&[], step - 1)?;
            digest.close_items(&[(Box::from(&of_step.to_bytes()[..]), of_step.count())], step)?;
        }
        digest.close_items(&[], last)?;
        ledger.record(&mut digest)
    }
}

#[cfg(test)]
mod tests;
