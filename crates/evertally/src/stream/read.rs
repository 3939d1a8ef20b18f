//! The part of the closed steps that is published, exactly: all, a window, one step, or nothing if the noise's cursor
//! makes the release.

use crate::mechanism::Workload;
use crate::{Error, Result};

/// The exact part of a release.
pub(super) enum ExactPart {
    /// The sum of all closed steps.
    All,
    /// The last steps, the oldest at `place`, and their sum.
    Window { steps: Vec<i64>, place: usize, sum: i64 },
    /// The last step.
    Step(i64),
    /// Nothing: the cursor of a decay makes its release.
    InCursor,
}

impl ExactPart {
    pub(super) fn new(workload: Workload) -> Self {
        match workload {
            // fits: windows with their own mechanism are at most 2^16 steps wide, as are horizons of others
            Workload::Window(width) => Self::Window { steps: vec![0; width as usize], place: 0, sum: 0 },
            Workload::Increments => Self::Step(0),
            Workload::Decay(_) => Self::InCursor,
            _ => Self::All,
        }
    }

    /// Closes a step with this total, and empty ones after it: `count` in all, at least one.
    pub(super) fn close(&mut self, total: i64, count: u64) {
        match self {
            Self::All | Self::InCursor => {}
            Self::Step(last) => *last = if count > 1 { 0 } else { total },
            Self::Window { steps, place, sum } => {
                let width = steps.len() as u64;
                let mut push = |total: i64| {
                    // fits: sums of neighbouring steps differ by two running sums, but wrap in between
                    *sum = sum.wrapping_add(total).wrapping_sub(std::mem::replace(&mut steps[*place], total));
                    *place = (*place + 1) % steps.len();
                };
                push(total);
                // fits: more empty steps than a window has make no difference
                (0..(count - 1).min(width)).for_each(|_| push(0));
            }
        }
    }

    /// The published part, given `closed`, the sum of all closed steps.
    pub(super) fn exact(&self, closed: i64) -> i64 {
        match self {
            Self::All => closed,
            Self::Window { sum, .. } => *sum,
            Self::Step(last) => *last,
            Self::InCursor => 0,
        }
    }

    /// The totals of the last steps, the oldest first: this is data.
    pub(super) fn memory(&self) -> Option<Vec<u8>> {
        match self {
            Self::All | Self::InCursor => None,
            Self::Step(last) => Some(last.to_le_bytes().to_vec()),
            Self::Window { steps, place, .. } => {
                let (after, before) = steps.split_at(*place);
                Some(before.iter().chain(after).flat_map(|total| total.to_le_bytes()).collect())
            }
        }
    }

    /// Reads its own part of a memory, and returns the rest, if there is any.
    pub(super) fn recall<'m>(&mut self, memory: &'m [u8]) -> Result<Option<&'m [u8]>> {
        let own = match self {
            Self::All | Self::InCursor => return Ok(Some(memory)),
            Self::Step(_) => 1,
            Self::Window { steps, .. } => steps.len(),
        };
        let Some((bytes, rest)) = memory.split_at_checked(8 * own) else {
            return Err(Error::state("the saved state belongs to another window"));
        };
        let mut totals = bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
        match self {
            Self::Window { steps, place, sum } => {
                (*steps, *place) = (totals.collect(), 0);
                *sum = steps.iter().fold(0i64, |sum, total| sum.wrapping_add(*total));
            }
            Self::Step(last) => *last = totals.next_back().unwrap_or(0),
            Self::All | Self::InCursor => {}
        }
        Ok(Some(rest).filter(|rest| !rest.is_empty()))
    }
}
