//! A release computed by many processes, byte-identical to a single-process run.
//!
//! ```text
//! events ──Reader──▶ sums of steps and groups ───────────────────────────────┐
//!      └──Reader──▶ blocks of persons' events ──by shard──▶ Shard ──▶ sums ──┤ added up by the engine
//!                                                                            ▼
//!        rows ◀──BucketRows── Bucket ◀── digest of the bucket ◀── Digests ◀── sums by bucket of groups
//!                                            digests of steps ──▶ ledger
//! ```
//!
//! An engine (Spark, or any other) moves rows between processes and adds up integers; it decides nothing. The events to
//! keep of a person are chosen in one *shard*, which holds all events of that person. Their order depends on the events
//! alone: by time, and within one instant by a keyed hash of group and value. So partitioning, retried tasks and tasks
//! that run twice never change the kept events. Noise is drawn by name, group by group, so each *bucket* of groups is
//! released independently.
//!
//! The engine may recompute sums at any time, from input that may have changed. So a bucket is released only if its
//! sums have the [digest](Digests) that the ledger has recorded: the same noise never meets different sums.
//!
//! The engine may count single events itself; a [`Reader`] then assigns its counts to steps and groups.

#![cfg_attr(not(test), deny(clippy::cast_precision_loss, clippy::float_arithmetic))] // none between data and noise
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod block;
mod bucket;
mod digest;
mod labels;
mod memory;
mod once;
mod order;
mod publisher;
mod reader;
mod row;
mod shard;
mod sums;
mod window;

pub use bucket::{Bucket, BucketRows};
pub use digest::{Digest, Digests, RowHasher};
pub use once::{Once, WriteOnceFolder};
pub use publisher::Publisher;
pub use reader::{Reader, ReaderOutput, ShardBlock};
pub use row::{RowKind, ShuffleRow};
pub use shard::Shard;
pub use window::ShardState;

use evertally::hex;
use evertally::noise::{GuardedKey, Purpose, SecretKey, mac_key};
use evertally::number::Grid;
use evertally::privacy::Unit;
use evertally_declare::error::{Result, usage};
use evertally_declare::groups::GroupTable;
use evertally_declare::parameter::Parameter::{Measure, Publish, Workload};
use evertally_declare::problem::sentence;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::{Ledger, recorded};
use evertally_publish::session::tuple_of;
use std::borrow::Cow;
use std::sync::Arc;
use zeroize::Zeroizing;

/// A release that many processes compute together: the facts that all of them share.
#[doc(alias = "Work")]
#[derive(Clone)]
pub struct ClusterJob {
    stream: Arc<Stream>,
    groups: Option<Arc<GroupTable>>,
    /// The library's names of the groups, by place.
    names: Arc<[Vec<u8>]>,
    /// The number of running sums per group, if several measures are released.
    cells: Option<u32>,
    key: Arc<SecretKey>,
}

impl ClusterJob {
    /// The work on a stream.
    ///
    /// # Errors
    /// If it releases several measures or workloads and publishes only some steps, or has more than 2^32 sums.
    pub fn new(stream: Stream, groups: Option<GroupTable>, key: Arc<SecretKey>) -> Result<Self> {
        let mut cells = None;
        if let Some(bundle) = &stream.measures {
            let parameter = if bundle.contains_workloads() { Workload } else { Measure };
            if !stream.publishes_all() {
                let why = ": a cluster publishes several of them at every step; make steps as long as publications";
                return Err(usage(sentence![parameter, " and ", Publish, why]));
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

    /// The declared groups.
    pub fn groups(&self) -> Option<&GroupTable> {
        self.groups.as_deref()
    }

    /// Whether bounds on persons are enforced, so that all events of a person must meet in one place.
    pub fn has_persons(&self) -> bool {
        self.stream.enforced() != Unit::Event
    }

    /// Whether groups are discovered from the data.
    pub fn discovers(&self) -> bool {
        self.stream.plan.threshold().is_some()
    }

    /// Text that identifies the key, name and plan together.
    pub fn identity(&self) -> String {
        format!("{} {} {}", self.key.id(), self.stream.name, hex(&self.stream.plan_digest()))
    }

    /// By step, a digest in hexadecimal of the kept events of persons; steps without kept events are absent. It is
    /// stored with the sums of a step, so that a recount must count the same persons.
    pub fn evidence(&self, rows: &[ShuffleRow]) -> Vec<(u64, String)> {
        let (mut digests, mut digesting) = (Digests::default(), self.digesting());
        let kept = rows.iter().filter(|row| matches!(ShuffleRow::says(&row.label), Ok(RowKind::Kept(_))));
        kept.for_each(|row| digests.add_step(row.step, digesting.of_row(row)));
        let text = |digest: Digest| hex(&digest.to_bytes());
        digests.steps().map(|(step, digest)| (step, text(digest))).collect()
    }

    /// The names of a [row](ShuffleRow)'s group and the grid of its sums; `None` if the row is not a sum.
    ///
    /// # Errors
    /// If the row's group does not belong to this work.
    pub fn group_of(&self, label: &[u8]) -> Result<Option<(Cow<'_, [String]>, Grid)>> {
        let grid = self.stream.plan.request().grid();
        let found = match (ShuffleRow::says(label)?, self.groups()) {
            (RowKind::Refused(_) | RowKind::Shard(_) | RowKind::Kept(_), _) => return Ok(None),
            (RowKind::Cell(..), _) => None,
            (RowKind::Place(0), None) => Some((Cow::Borrowed(&[][..]), grid)),
            (RowKind::Place(place), Some(table)) => {
                let place = place as usize;
                table.tuples().get(place).map(|names| (Cow::Borrowed(&names[..]), table.grid_of(place, grid)))
            }
            (RowKind::Name(name), None) => Some((Cow::Owned(tuple_of(name)?), grid)),
            _ => None,
        };
        found.map(Some).ok_or_else(|| usage("a row passed between processes belongs to another stream"))
    }

    /// The key for the stream's noise: the driver records the steps before they are published.
    fn noise_key(&self) -> GuardedKey {
        recorded(&self.key, &self.stream.name)
    }

    fn mac_key(&self, purpose: Purpose<'_>) -> Zeroizing<[u8; 32]> {
        mac_key(&self.key, &self.stream.name, &self.stream.plan.digest(), purpose)
    }

    /// Records the sums of all steps, as [digests](Digests), before any of them is released.
    ///
    /// # Errors
    /// If the stream was released from other data or under another plan, or the ledger cannot be written.
    pub fn record(&self, digests: &Digests, ledger: &mut Ledger) -> Result<()> {
        let last = self.stream.last_step;
        let mut digest = ledger.digest_of(&self.key, &self.stream, last)?.in_parts();
        for (step, of_step) in digests.steps() {
            if step == 0 || step > last {
                return Err(usage(format!("there are sums for step {step}, but the release ends with step {last}")));
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
