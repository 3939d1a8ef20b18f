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

use crate::declaration::Parameter::Measure;
use crate::error::{Result, usage};
use crate::groups::GroupTable;
use crate::ledger::{Ledger, hex};
use crate::problem::sentence;
use crate::stream::Stream;
use evertally::noise::{Purpose, SecretKey, mac_key};
use evertally::privacy::Unit;
use std::sync::Arc;
use zeroize::Zeroizing;

/// A release that many processes make together: what all of them know.
#[derive(Clone)]
pub struct Work {
    stream: Arc<Stream>,
    groups: Option<Arc<GroupTable>>,
    /// What the library calls them, by place.
    names: Arc<[Vec<u8>]>,
    key: Arc<SecretKey>,
}

impl Work {
    /// The work on a stream.
    ///
    /// # Errors
    /// If it releases several measures of its groups, which are made by one process.
    pub fn new(stream: Stream, groups: Option<GroupTable>, key: Arc<SecretKey>) -> Result<Self> {
        if stream.measures.is_some() {
            let why = "several measures or workloads of one stream are released by one process; release each by itself";
            return Err(usage(sentence![Measure, format!(": {why}")]));
        }
        let names = groups.as_ref().map_or_else(Vec::new, GroupTable::library_names);
        Ok(Self { stream: Arc::new(stream), groups: groups.map(Arc::new), names: names.into(), key })
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

    /// Whether groups are those that occur.
    pub fn discovers(&self) -> bool {
        self.stream.plan.threshold().is_some()
    }

    /// What stands for key, name and plan together.
    pub fn identity(&self) -> String {
        format!("{} {} {}", self.key.id(), self.stream.name, hex(self.stream.plan_digest()))
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
