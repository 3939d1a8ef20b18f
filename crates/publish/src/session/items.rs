//! Counts of very many items, in a sketch.

use super::open_step::OpenStep;
use super::step_finder::leave_out;
use super::{Accumulator, KeptEvent, LabelAssigner};
use evertally::noise::GuardedKey;
use evertally::sketch::{CountSketch, SketchPlan};
use evertally_declare::error::Result;
use evertally_declare::event::{ColumnRole, Event};
use evertally_declare::policy::Refusable;
use evertally_declare::settings::Settings;
use evertally_declare::stream::Stream;
use evertally_declare::tuples::push_encoded;
use evertally_ledger::ledger::StreamDigest;
use std::collections::HashMap;

/// The items of a stream in a count sketch, which is queried after some of its steps.
pub struct ItemCounts {
    sketch: CountSketch,
    /// The steps after which it is queried, in increasing order.
    stops: Vec<u64>,
    /// The sums that the open step adds to each item: the ledger's digest binds the stream to them.
    open: HashMap<Box<[u8]>, i64>,
}

impl ItemCounts {
    /// An empty sketch. Many steps are closed at a time, but never past one after which the sketch is queried.
    ///
    /// # Errors
    /// As for [`CountSketch::new`].
    pub fn new(stream: &Stream, plan: SketchPlan, key: &GuardedKey, mut stops: Vec<u64>) -> Result<Self> {
        stops.sort_unstable();
        let sketch = CountSketch::new(plan, key, stream.name.clone())?;
        Ok(Self { sketch, stops, open: HashMap::new() })
    }
}

/// Assigns items to events.
#[derive(Clone, Default)]
pub struct ItemLabels {
    /// The item of the row, and the text of a cell.
    item: Vec<u8>,
    text: String,
}

impl LabelAssigner for ItemLabels {
    type Label = Box<[u8]>;

    fn label_of(&mut self, stream: &Stream, event: &Event<'_>) -> Result<Option<Box<[u8]>>> {
        self.item.clear();
        let is_whole = push_labels(&mut self.item, &mut self.text, stream, event, "item")?;
        Ok(is_whole.then(|| self.item.as_slice().into()))
    }
}

/// Appends the labels of an event, each preceded by its length. Returns false if a label is missing and the stream
/// skips such events.
pub(super) fn push_labels(
    code: &mut Vec<u8>,
    text: &mut String,
    stream: &Settings,
    event: &Event<'_>,
    what: &str,
) -> Result<bool> {
    for column in 0..event.label_count() {
        let Some(cell) = event.identity(ColumnRole::Label(column), stream.ids, text)? else {
            if stream.missing == Refusable::Skip {
                return Ok(false);
            }
            let problem = format!("the event has no {what}: this part of its name is missing");
            return Err(event.error(ColumnRole::Label(column), problem).remedy(leave_out()).into());
        };
        push_encoded(code, cell);
    }
    Ok(true)
}

impl Accumulator for ItemCounts {
    type Label = Box<[u8]>;
    type Labels = ItemLabels;
    /// The sketch, ready for queries about the last closed step.
    type Closed<'a> = &'a mut CountSketch;

    fn labels(&self) -> ItemLabels {
        ItemLabels::default()
    }

    /// Items share cells, so a bound per item would not bound a cell: declarations have no such bound.
    fn group_of(_: &Box<[u8]>) -> u64 {
        0
    }

    fn push_label(item: &Box<[u8]>, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(item);
    }

    fn read_label(&self, bytes: &[u8]) -> Option<Box<[u8]>> {
        Some(bytes.into())
    }

    fn step(&self) -> u64 {
        self.sketch.step()
    }

    fn add(&mut self, item: &Box<[u8]>, KeptEvent { value, .. }: KeptEvent) -> Result<()> {
        self.sketch.add(&**item, value)?;
        let sum = match self.open.get_mut(item) {
            Some(sum) => sum,
            None => self.open.entry(item.clone()).or_default(),
        };
        *sum = sum.checked_add(value).ok_or_else(|| {
            evertally::Error::overflow("the sum of an item exceeds the range of 64-bit multiples of the grid")
        })?;
        Ok(())
    }

    #[inline(never)]
    fn add_kept(&mut self, open: &mut OpenStep<Self>, step: u64, since: u64) -> Result<()> {
        open.close(step, since, |label, kept| self.add(label, kept))
    }

    fn close<'a>(&'a mut self, _: &'a Stream, through: u64, digest: &mut StreamDigest) -> Result<&'a mut CountSketch> {
        let through = next_stop(&self.stops, self.sketch.step(), through);
        let mut items: Vec<(Box<[u8]>, i64)> = self.open.drain().filter(|(_, sum)| *sum != 0).collect();
        items.sort_unstable();
        digest.close_items(&items, through)?;
        self.sketch.tick_through(through)?;
        Ok(&mut self.sketch)
    }
}

/// The last step that may be closed after `step` without passing one of the stops, which are in increasing order.
pub(super) fn next_stop(stops: &[u64], step: u64, through: u64) -> u64 {
    let stop = stops.get(stops.partition_point(|stop| *stop <= step));
    stop.map_or(through, |stop| through.min(*stop))
}
