//! The sketch of a run: events in, answers out.

use super::questions::{Asked, Questions};
use super::setup::Setup;
use anyhow::Result;
use evertally::noise::SecretKey;
use evertally::sketch::{CountSketch, Estimate, Item};
use evertally_publish::error::refuse_if;
use evertally_publish::event::{Event, Role};
use evertally_publish::intake::{Steps, leave_out};
use evertally_publish::ledger::StreamDigest;
use evertally_publish::stream::Refusable;
use evertally_publish::tuples::push_encoded;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

/// The largest table whose cells are all read to estimate collisions: a second or two.
const LARGEST_READ: u64 = 1 << 21;
/// Answers between two looks at the cancellation flag.
const ANSWERS_PER_CHECK: usize = 1024;

/// Counts items, hands closed steps to the ledger's digest, and answers questions as their steps close.
pub(super) struct Counting<'a> {
    setup: &'a Setup,
    questions: &'a Questions,
    cancelled: &'a AtomicBool,
    sketch: CountSketch,
    /// What the open step adds to each item: what the ledger's digest binds the stream to.
    open: HashMap<Box<[u8]>, i64>,
    /// The item of the row, and the text of a cell.
    item: Vec<u8>,
    text: String,
    pub(super) digest: StreamDigest,
    pub(super) answers: Vec<Answer>,
    /// What standard error collisions add at the last step that is asked for, at most (with 95 % confidence or more), where the
    /// table is small enough.
    pub(super) collisions: Option<f64>,
}

/// An answer to the question of an item, by its place in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) item: usize,
    pub(super) estimate: Estimate,
}

/// A candidate with its place in the file.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    place: usize,
    item: &'a [u8],
}

impl<'a> From<Candidate<'a>> for Item<'a> {
    fn from(candidate: Candidate<'a>) -> Self {
        candidate.item.into()
    }
}

impl<'a> Counting<'a> {
    pub(super) fn new(
        setup: &'a Setup,
        questions: &'a Questions,
        key: &SecretKey,
        digest: StreamDigest,
        cancelled: &'a AtomicBool,
    ) -> Result<Self> {
        let sketch = CountSketch::new(setup.plan.clone(), key, setup.stream.name.clone())?;
        let (open, item, text, answers) = (HashMap::new(), Vec::new(), String::new(), Vec::new());
        Ok(Self { setup, questions, cancelled, sketch, open, item, text, digest, answers, collisions: None })
    }

    /// Answers what is asked at the step just closed.
    fn answer(&mut self) -> Result<()> {
        let step = self.sketch.step();
        let asked = self.questions.items_at(step);
        match &self.questions.asked {
            Asked::Each => {
                for (count, item) in asked.into_iter().enumerate() {
                    if count.is_multiple_of(ANSWERS_PER_CHECK) {
                        refuse_if(self.cancelled)?;
                    }
                    let estimate = self.sketch.estimate(&*self.questions.items[item])?;
                    self.answers.push(Answer { item, estimate });
                }
            }
            Asked::Heaviest { top, threshold } => {
                let candidates = asked.iter().map(|&place| Candidate { place, item: &self.questions.items[place] });
                let found = self.sketch.heavy_hitters(candidates, threshold.unwrap_or(f64::NEG_INFINITY))?;
                let found = found.into_iter().take(top.unwrap_or(usize::MAX));
                self.answers.extend(found.map(|hit| Answer { item: hit.key.place, estimate: hit.estimate }));
            }
        }
        if step == self.questions.last_step() && self.sketch.table().cells() <= LARGEST_READ {
            // Two standard errors above the estimate: one that came out too small is no bound.
            let second_moment = self.sketch.second_moment()?;
            let likely = second_moment.value.max(0.0) + 2.0 * second_moment.noise_std_error;
            self.collisions = Some(self.sketch.collision_std_error(likely));
        }
        Ok(())
    }
}

impl Steps for Counting<'_> {
    type Key = Box<[u8]>;

    fn key_of(&mut self, event: &Event<'_>) -> Result<Option<Box<[u8]>>> {
        self.item.clear();
        for (column, field) in event.labels().enumerate() {
            let Some(cell) = field.text(&mut self.text) else {
                if self.setup.stream.missing == Refusable::Skip {
                    return Ok(None);
                }
                let problem = "the event has no item: this part of its name is missing";
                return Err(event.error(Role::Label(column), problem).remedy(leave_out()).into());
            };
            push_encoded(&mut self.item, cell);
        }
        Ok(Some(self.item.as_slice().into()))
    }

    fn closed(&self) -> u64 {
        self.sketch.step()
    }

    fn add(&mut self, item: Box<[u8]>, value: i64) -> Result<()> {
        self.sketch.add(&*item, value)?;
        let sum = self.open.entry(item).or_default();
        *sum = sum.checked_add(value).ok_or_else(|| {
            evertally::Error::overflow("the sum of an item leaves the range of 64-bit multiples of the grid")
        })?;
        Ok(())
    }

    fn close_through(&mut self, step: u64) -> Result<()> {
        while self.sketch.step() < step {
            refuse_if(self.cancelled)?;
            let next = self.questions.next_after(self.sketch.step()).map_or(step, |asked| asked.min(step));
            let mut items: Vec<(Box<[u8]>, i64)> = self.open.drain().filter(|(_, sum)| *sum != 0).collect();
            items.sort_unstable();
            self.digest.close_items(&items, next)?;
            self.sketch.tick_through(next)?;
            self.answer()?;
        }
        Ok(())
    }
}
