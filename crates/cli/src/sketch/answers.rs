//! The answers of a run, given as the steps close at which something is asked.

use super::questions::{Asked, Questions};
use anyhow::Result;
use evertally::sketch::{CountSketch, Estimate, Item};
use evertally_publish::error::refuse_if;
use evertally_publish::session::{ItemCounts, Session};
use std::sync::atomic::AtomicBool;

/// The largest table whose cells are all read to estimate collisions: a second or two.
const LARGEST_READ: u64 = 1 << 21;
/// Answers between two looks at the cancellation flag.
const ANSWERS_PER_CHECK: usize = 1024;

/// What was answered so far.
pub(super) struct Answers<'a> {
    questions: &'a Questions,
    cancelled: &'a AtomicBool,
    pub(super) given: Vec<Answer>,
    /// What standard error collisions add at the last step that is asked for, at most (with 95 % confidence or more),
    /// where the table is small enough.
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

impl<'a> Answers<'a> {
    pub(super) fn new(questions: &'a Questions, cancelled: &'a AtomicBool) -> Self {
        Self { questions, cancelled, given: Vec::new(), collisions: None }
    }

    /// Answers what is asked at the steps that are due.
    pub(super) fn take_due(&mut self, session: &mut Session<ItemCounts>) -> Result<()> {
        while let Some(sketch) = session.next_step()? {
            refuse_if(self.cancelled)?;
            self.answer(sketch)?;
        }
        Ok(())
    }

    /// Answers what is asked at the step just closed.
    fn answer(&mut self, sketch: &mut CountSketch) -> Result<()> {
        let step = sketch.step();
        let asked = self.questions.items_at(step);
        match &self.questions.asked {
            Asked::Each => {
                for (count, item) in asked.into_iter().enumerate() {
                    if count.is_multiple_of(ANSWERS_PER_CHECK) {
                        refuse_if(self.cancelled)?;
                    }
                    let estimate = sketch.estimate(&*self.questions.items[item])?;
                    self.given.push(Answer { item, estimate });
                }
            }
            Asked::Heaviest { top, threshold } => {
                let candidates = asked.iter().map(|&place| Candidate { place, item: &self.questions.items[place] });
                let found = sketch.heavy_hitters(candidates, threshold.unwrap_or(f64::NEG_INFINITY))?;
                let found = found.into_iter().take(top.unwrap_or(usize::MAX));
                self.given.extend(found.map(|hit| Answer { item: hit.key.place, estimate: hit.estimate }));
            }
        }
        if step == self.questions.last_step() && sketch.table().cells() <= LARGEST_READ {
            // Two standard errors above the estimate: one that came out too small is no bound.
            let second_moment = sketch.second_moment()?;
            let likely = second_moment.value.max(0.0) + 2.0 * second_moment.noise_std_error;
            self.collisions = Some(sketch.collision_std_error(likely));
        }
        Ok(())
    }
}
