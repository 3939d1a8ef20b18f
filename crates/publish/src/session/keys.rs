//! Counts of whole numbers, in a tree over all possible keys.

use super::items::next_stop;
use super::open_step::OpenStep;
use super::step_finder::leave_out;
use super::{Accumulator, KeptEvent, LabelAssigner};
use evertally::noise::GuardedKey;
use evertally::sketch::{DyadicCounts, KeyTree, SketchPlan};
use evertally_declare::error::Result;
use evertally_declare::event::{ColumnRole, Event};
use evertally_declare::policy::Refusable;
use evertally_declare::problem::sentence;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::StreamDigest;
use std::collections::BTreeMap;

/// The keys of a stream in a tree of counts, which is queried after some of its steps.
pub struct KeyCounts {
    tree: DyadicCounts,
    /// The steps after which it is queried, in increasing order.
    stops: Vec<u64>,
    /// The sums that the open step adds to each key: the ledger's digest binds the stream to them.
    open: BTreeMap<u64, i64>,
}

impl KeyCounts {
    /// An empty tree; its steps are closed like those of [`ItemCounts`](super::ItemCounts).
    ///
    /// # Errors
    /// As for [`DyadicCounts::new`].
    pub fn new(stream: &Stream, plan: SketchPlan, key: &GuardedKey, mut stops: Vec<u64>) -> Result<Self> {
        stops.sort_unstable();
        let tree = DyadicCounts::new(plan, key, stream.name.clone())?;
        Ok(Self { tree, stops, open: BTreeMap::new() })
    }
}

/// Assigns keys to events.
#[derive(Clone)]
pub struct KeyLabels {
    tree: KeyTree,
    text: String,
}

impl LabelAssigner for KeyLabels {
    type Label = u64;

    fn label_of(&mut self, stream: &Stream, event: &Event<'_>) -> Result<Option<u64>> {
        let Some(cell) = event.identity(ColumnRole::Label(0), stream.ids, &mut self.text)? else {
            if stream.missing == Refusable::Skip {
                return Ok(None);
            }
            let problem = "the event has no key: this cell is missing";
            return Err(event.error(ColumnRole::Label(0), problem).remedy(leave_out()).into());
        };
        // Only digits, without leading zeros: another text would be another item elsewhere.
        let key = cell.parse::<u64>().ok().filter(|key| *key >> self.tree.bits() == 0 && key.to_string() == cell);
        let bits = self.tree.bits();
        key.map(Some).ok_or_else(|| {
            event.bad_cell(ColumnRole::Label(0), sentence![format!("is not a whole number below 2^{bits}")]).into()
        })
    }
}

impl Accumulator for KeyCounts {
    type Label = u64;
    type Labels = KeyLabels;
    /// The tree, ready for queries about the last closed step.
    type Closed<'a> = &'a mut DyadicCounts;

    fn labels(&self) -> KeyLabels {
        KeyLabels { tree: self.tree.tree(), text: String::new() }
    }

    /// Keys share blocks, so a bound per key would not bound a block: declarations have no such bound.
    fn group_of(_: &u64) -> u64 {
        0
    }

    fn push_label(key: &u64, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&key.to_be_bytes());
    }

    fn read_label(&self, bytes: &[u8]) -> Option<u64> {
        bytes.try_into().ok().map(u64::from_be_bytes)
    }

    fn step(&self) -> u64 {
        self.tree.step()
    }

    fn add(&mut self, key: &u64, KeptEvent { value, .. }: KeptEvent) -> Result<()> {
        self.tree.add(*key, value)?;
        let sum = self.open.entry(*key).or_default();
        *sum = sum.checked_add(value).ok_or_else(|| {
            evertally::Error::overflow("the sum of a key exceeds the range of 64-bit multiples of the grid")
        })?;
        Ok(())
    }

    #[inline(never)]
    fn add_kept(&mut self, open: &mut OpenStep<Self>, step: u64, since: u64) -> Result<()> {
        open.close(step, since, |label, kept| self.add(label, kept))
    }

    fn close<'a>(&'a mut self, _: &'a Stream, through: u64, digest: &mut StreamDigest) -> Result<&'a mut DyadicCounts> {
        let through = next_stop(&self.stops, self.tree.step(), through);
        let keys = std::mem::take(&mut self.open).into_iter().filter(|(_, sum)| *sum != 0);
        // Big endian, so that bytes sort like numbers.
        let keys: Vec<(Box<[u8]>, i64)> = keys.map(|(key, sum)| (Box::from(key.to_be_bytes()), sum)).collect();
        digest.close_items(&keys, through)?;
        self.tree.tick_through(through)?;
        Ok(&mut self.tree)
    }
}
