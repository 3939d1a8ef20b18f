//! The part that every stream shares: one running sum and its noise.

use super::Release;
use super::read::ExactPart;
use super::sum_noise::SumNoise;
use crate::mechanism::Cursor;
use crate::noise::{KeyedNoise, NodeDrawCache, Purpose, SecretKey, StreamName};
use crate::plan::Plan;
use crate::{Error, ErrorKind, Result};

/// One running sum in multiples of the grid, with the cursor of its noise.
pub(super) struct SumSeries {
    noise: SumNoise,
    /// Values of the next nodes, only if there is a single series: they take more memory than the rest.
    ahead: Option<Box<NodeDrawCache>>,
    cursor: Box<dyn Cursor>,
    /// Sum of the closed steps.
    closed: i64,
    /// Sum of the open step.
    open: i64,
    /// The published part of the closed steps.
    read: ExactPart,
    last: i128,
}

impl SumSeries {
    pub(super) fn new(plan: &Plan, key: &SecretKey, name: &StreamName, purpose: Purpose<'_>) -> Self {
        let own = KeyedNoise::unrecorded(key, name, &plan.digest(), purpose);
        Self::with_noise(plan, SumNoise::new(plan, own, key, name))
    }

    /// With the noise of one sum of a plan without correlated groups.
    pub(super) fn from_noise(plan: &Plan, noise: KeyedNoise) -> Self {
        Self::with_noise(plan, SumNoise::independent(plan, noise))
    }

    fn with_noise(plan: &Plan, noise: SumNoise) -> Self {
        let read = ExactPart::new(plan.mechanism().workload());
        Self { noise, ahead: None, cursor: plan.mechanism().cursor(), closed: 0, open: 0, read, last: 0 }
    }

    /// The same in less time, with a few kilobytes of memory, for a plan without correlated groups.
    pub(super) fn with_foresight(mut self, plan: &Plan) -> Self {
        self.ahead = Some(Box::new(NodeDrawCache::new(*plan.law())));
        self
    }

    /// Adds to the open step; the total including the open step must fit 64 bits, so that closing it cannot fail.
    pub(super) fn add(&mut self, value: i64) -> Result<()> {
        let open = self.open.checked_add(value);
        let open = open.filter(|open| self.closed.checked_add(*open).is_some()).ok_or_else(overflow)?;
        self.open = open;
        Ok(())
    }

    /// Closes the open step and the empty ones after it through `step`, and returns the release of the last: at once if
    /// the mechanism has random access or leaps (its noise is then independent of the data), else step by step. The
    /// caller has checked the horizon and the direction.
    pub(super) fn close_through(&mut self, plan: &Plan, step: u64) -> Release {
        let noise = &self.noise;
        let last = self.cursor.step();
        self.closed += self.open; // fits: checked by every `add`
        let mut total = std::mem::take(&mut self.open);
        self.read.close(total, step - last); // fits: the caller has checked the direction
        if step > last + 1 && (has_random_access(plan) || self.cursor.can_seek_forward(step)) {
            self.last = self.cursor.seek(step, &mut |node| noise.draw(node));
        }
        for _ in self.cursor.step()..step {
            let total = std::mem::take(&mut total);
            self.last = match &mut self.ahead {
                Some(ahead) => {
                    if ahead.is_exhausted() {
                        ahead.fill(|nodes| self.cursor.foretell(nodes));
                    }
                    self.cursor.advance_with(total, self.closed, &mut |node| ahead.draw(noise.own(), node))
                }
                None => self.cursor.advance_with(total, self.closed, &mut |node| noise.draw(node)),
            };
        }
        self.release(plan)
    }

    /// Closes the open step, as [`close_through`](Self::close_through), unless it is closed through `step` already.
    pub(super) fn catch_up(&mut self, plan: &Plan, step: u64) {
        if self.cursor.step() < step {
            self.close_through(plan, step);
        }
    }

    /// The release of the last closed step.
    pub(super) fn release(&self, plan: &Plan) -> Release {
        Release::new(plan, self.cursor.step(), self.read.exact(self.closed), self.last)
    }

    /// Checks that this sum can be added.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(super) fn check_room(&self, value: i64) -> Result<()> {
        let open = self.open.checked_add(value);
        open.and_then(|open| self.closed.checked_add(open)).map(|_| ()).ok_or_else(overflow)
    }

    /// Sums of the closed steps and of the open one.
    pub(super) fn sums(&self) -> (i64, i64) {
        (self.closed, self.open)
    }

    /// The published part of single steps, then the memory of the cursor if noise depends on the data.
    pub(super) fn memory(&self) -> Option<Vec<u8>> {
        match (self.read.memory(), self.cursor.memory()) {
            (None, memory) => memory,
            (Some(steps), memory) => Some([steps, memory.unwrap_or_default()].concat()),
        }
    }

    /// Restores saved sums, and the cursor with its memory, if it has one, at `step`.
    pub(super) fn restore(&mut self, step: u64, sums: (i64, i64), memory: Option<&[u8]>) -> Result<()> {
        let (closed, open) = sums;
        if closed.checked_add(open).is_none() {
            return Err(Error::state("the saved sums overflow"));
        }
        (self.closed, self.open) = (closed, open);
        let noise = &self.noise;
        let memory = match memory {
            Some(bytes) => self.read.recall(bytes)?,
            None if self.read.memory().is_some() => return Err(Error::state("the saved state lacks its last steps")),
            None => None,
        };
        self.last = match memory {
            Some(memory) => self.cursor.recall(step, memory)?,
            None if self.cursor.memory().is_some() => {
                return Err(Error::state("the saved state lacks the memory of its mechanism"));
            }
            None => self.cursor.seek(step, &mut |node| noise.draw(node)),
        };
        Ok(())
    }
}

fn has_random_access(plan: &Plan) -> bool {
    plan.mechanism().name().family().abilities.random_access
}

fn overflow() -> Error {
    Error::overflow("the running sum leaves the range of 64-bit multiples of the grid; use a coarser grid")
}

/// Refuses a value that the plan does not allow for one event.
pub(super) fn check_value(plan: &Plan, value: i64) -> Result<()> {
    let (lower, upper) = plan.request().values().bounds();
    if (lower..=upper).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "an event of {value} is outside the declared bounds {lower} to {upper} (in multiples of the grid)"
    )))
}

/// Refuses a sum that no number of allowed events has: one of the wrong sign. (Sums of the right sign are not checked
/// for reachability: events between 2 and 3 never add up to 1.)
pub(super) fn check_sum(plan: &Plan, sum: i64) -> Result<()> {
    let values = plan.request().values();
    if values.allows_sum(sum) {
        return Ok(());
    }
    let (lower, upper) = values.bounds();
    Err(Error::invalid(format!("events between {lower} and {upper} cannot add up to {sum} (in multiples of the grid)")))
}

/// Refuses a step outside the horizon.
pub(super) fn check_past_step(plan: &Plan, step: u64) -> Result<()> {
    let horizon = plan.horizon();
    if (1..=horizon).contains(&step) {
        return Ok(());
    }
    Err(Error::invalid(format!("there is no step {step}: steps are numbered 1 to {horizon}")))
}

/// Refuses to go beyond the last step.
pub(super) fn check_step(plan: &Plan, step: u64) -> Result<()> {
    if step < plan.horizon() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::HorizonExhausted,
        format!("the horizon of {} steps is used up; a longer stream needs a new plan", plan.horizon()),
    ))
}
